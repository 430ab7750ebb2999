"""Images and the tiny model on a host, by what its inventory entry says and the lock holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runner.client.fleet import Fleet
from runner.errors import SpecError
from runner.images.build import BuildOptions, build_image, find_image, is_current
from runner.images.catalogue import Catalogue, ImageChoice, load_catalogue, recipe_for
from runner.images.command import inspect
from runner.images.lock import locked, read_lock, record
from runner.images.tiny import Recipe, make_checkpoint
from runner.models.host import Host, Inventory, Role
from runner.models.image import ImageLock, LockedImage

_MODEL_IMAGE = "vllm-cpu"

Progress = Callable[[str], None]


@dataclass(frozen=True)
class ImageFiles:
    """Where images are described: the folder of recipes, and the lock with what was built."""

    recipes: Path
    lock: Path


@dataclass(frozen=True)
class ImageState:
    """The image of one role on one host.

    `state` is one of: ready, outdated (built from other sources), not locked, absent.
    """

    role: Role
    reference: str
    state: str
    locked: LockedImage | None


def host_with_images(host: Host, files: ImageFiles) -> Host:
    """The host with the name of an image for every role: what its entry says, else by vendor.

    A role for which there is no image stays without one.

    Raises:
        SpecError: the entry names what is no image for that role.
    """
    choices = _choices(host, load_catalogue(files.recipes))
    names = {role: choice.name for role, choice in choices.items()}
    return host.model_copy(update={"images": {**host.images, **names}})


def with_images(inventory: Inventory, files: ImageFiles) -> Inventory:
    """The inventory with an image name for every role of every host; see `host_with_images`."""
    hosts = {name: host_with_images(host, files) for name, host in inventory.hosts.items()}
    return inventory.model_copy(update={"hosts": hosts})


def locked_images(host: Host, lock: ImageLock) -> dict[Role, LockedImage]:
    """What the lock has for the roles of a host that `host_with_images` returned."""
    entries = lock.hosts.get(host.name, {})
    return {role: entries[name] for role, name in host.images.items() if name in entries}


def outdated_images(images: Mapping[Role, LockedImage], files: ImageFiles) -> frozenset[Role]:
    """Roles whose locked image was built from other sources than those at hand.

    An image without a recipe, or whose sources are not all here, is not counted.

    Raises:
        SpecError: the catalogue is wrong.
    """
    catalogue = load_catalogue(files.recipes)
    return frozenset(
        role for role, image in images.items() if is_current(catalogue, image) is False
    )


def build_images(
    fleet: Fleet,
    host_name: str,
    names: Sequence[str],
    files: ImageFiles,
    options: BuildOptions,
    progress: Progress,
) -> Iterator[LockedImage]:
    """Build images on a host one by one; each is in the lock when it is handed out.

    Args:
        names: recipes; all that the host uses when empty. An image that its entry names by a full
            reference is not built: it must be there and is noted in the lock.

    Raises:
        UsageError: there is no such recipe or host.
        SpecError: the catalogue, the lock or something to send is wrong.
        EngineError: a build failed.
    """
    host = fleet.host(host_name)
    catalogue = load_catalogue(files.recipes)
    recipes = [catalogue.recipe(name) for name in dict.fromkeys(names)]
    found: list[ImageChoice] = []
    if not names:
        choices = list(_choices(host, catalogue).values())
        chosen = {choice.recipe.name: choice.recipe for choice in choices if choice.recipe}
        recipes = list(chosen.values())
        found = [choice for choice in choices if choice.recipe is None]
    connection = fleet.connect(host_name)
    for recipe in recipes:
        image = build_image(connection, host, catalogue, recipe, options, progress)
        record(files.lock, host.name, image)
        yield image
    for choice in found:
        image = find_image(connection, host, choice)
        record(files.lock, host.name, image)
        yield image


def images_of_host(fleet: Fleet, host_name: str, files: ImageFiles) -> tuple[ImageState, ...]:
    """The image of each role: what the lock holds and whether the host still has it.

    Raises:
        UsageError, SpecError: as `build_images`.
        EngineError: the engine can't be asked.
    """
    host = fleet.host(host_name)
    catalogue = load_catalogue(files.recipes)
    choices = _choices(host, catalogue)
    entries = read_lock(files.lock).hosts.get(host.name, {})
    connection = fleet.connect(host_name)
    states = []
    for role, choice in choices.items():
        entry = entries.get(choice.name)
        there = inspect(connection, host, entry.digest if entry else choice.reference)
        if entry is None:
            state = "absent" if there is None else "not locked"
        elif there is None:
            state = "absent"
        else:
            state = "outdated" if is_current(catalogue, entry) is False else "ready"
        states.append(ImageState(role, choice.reference, state, entry))
    return tuple(states)


def make_model(
    fleet: Fleet,
    host_name: str,
    files: ImageFiles,
    target: str,
    recipe: Recipe,
    progress: Progress,
) -> bool:
    """Make a small checkpoint on a host; False when a whole one is there.

    Raises:
        ImageMissing: the image that makes it is not built on that host.
        EngineError, UsageError: see `make_checkpoint`.
    """
    host = fleet.host(host_name)
    image = locked(read_lock(files.lock), host.name, _MODEL_IMAGE)
    connection = fleet.connect(host_name)
    return make_checkpoint(connection, host, image.reference, target, recipe, progress)


def _choices(host: Host, catalogue: Catalogue) -> dict[Role, ImageChoice]:
    choices = {}
    for role in Role:
        try:
            choices[role] = recipe_for(host, role, catalogue)
        except SpecError:
            if role in host.images:
                raise
    return choices
