"""The recipes of a project (`images/<name>/image.yaml`), and which one a host uses for what."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runner import __version__
from runner.errors import SpecError, UsageError
from runner.models.host import Host, Role, Vendor
from runner.models.image import ImageRecipe
from runner.specfile import load_spec

RECIPE_FILE = "image.yaml"
REPOSITORY = "runner"

_SERVER_BY_VENDOR = {
    Vendor.CPU: "vllm-cpu",
    Vendor.AMD: "vllm-rocm",
    Vendor.NVIDIA: "vllm-cuda",
}
_FIXED = {Role.LOAD: "aiperf", Role.SUPERVISOR: "supervisor"}


@dataclass(frozen=True)
class Catalogue:
    """Recipes by name; `root` is the folder that holds one folder for each."""

    root: Path
    recipes: Mapping[str, ImageRecipe]

    def recipe(self, name: str) -> ImageRecipe:
        """The recipe of this name.

        Raises:
            UsageError: there is none; names the nearest.
        """
        if name not in self.recipes:
            near = difflib.get_close_matches(name, self.recipes, n=1)
            hint = f"did you mean '{near[0]}'? " if near else ""
            raise UsageError(
                f"there is no image '{name}'; {hint}known: {', '.join(sorted(self.recipes))}",
                where=str(self.root),
                next_step="name one of them, or none to build all that the host uses",
            )
        return self.recipes[name]

    def folder(self, recipe: ImageRecipe) -> Path:
        """Where its Dockerfile lies."""
        return self.root / recipe.name

    def source(self, recipe: ImageRecipe) -> Path | None:
        """The project folder that is sent with the build; None when the recipe needs none."""
        return self.root.parent if recipe.source else None


@dataclass(frozen=True)
class ImageChoice:
    """Which image a host uses for a role; `recipe` is None when the inventory names a reference."""

    role: Role
    reference: str
    recipe: ImageRecipe | None

    @property
    def name(self) -> str:
        """Key in the lock: the recipe's name, or the reference itself."""
        return self.recipe.name if self.recipe else self.reference


def load_catalogue(root: Path) -> Catalogue:
    """Every recipe below `root`.

    Raises:
        SpecError: `root` holds no recipe, or a file is wrong (every problem with its position).
    """
    files = sorted(root.glob(f"*/{RECIPE_FILE}"))
    if not files:
        raise SpecError(
            f"holds no recipe (<name>/{RECIPE_FILE})",
            where=str(root),
            next_step="run from a clone of runner, or name its images/ folder",
        )
    recipes = {}
    for file in files:
        name = file.parent.name
        recipe = load_spec(file, ImageRecipe)
        if recipe.name not in ("", name):
            raise SpecError(f"name is '{recipe.name}', its folder is '{name}'", where=str(file))
        if not recipe.versions and not recipe.source:
            raise SpecError(
                "has no versions; the first one becomes the image's tag", where=str(file)
            )
        recipes[name] = recipe.model_copy(update={"name": name})
    return Catalogue(root, recipes)


def build_arguments(recipe: ImageRecipe, overrides: Mapping[str, str]) -> dict[str, str]:
    """Build arguments: `<NAME>_VERSION` for each version, the recipe's own, then `overrides`."""
    versions = {_argument(name): value for name, value in recipe.versions.items()}
    own = {"RUNNER_VERSION": __version__} if recipe.source else {}
    return {**own, **versions, **recipe.arguments, **overrides}


def effective_versions(recipe: ImageRecipe, overrides: Mapping[str, str]) -> dict[str, str]:
    """What an image built with these overrides holds, its own version first."""
    arguments = build_arguments(recipe, overrides)
    names = [*(["runner"] if recipe.source else []), *recipe.versions]
    return {name: arguments[_argument(name)] for name in names}


def image_reference(recipe: ImageRecipe, overrides: Mapping[str, str] | None = None) -> str:
    """`runner/<name>:<version>`; the version is the first of the image's versions."""
    version = next(iter(effective_versions(recipe, overrides or {}).values()))
    return f"{REPOSITORY}/{recipe.name}:{version.replace('+', '-')}"


def recipe_for(host: Host, role: Role, catalogue: Catalogue) -> ImageChoice:
    """The image that a host uses for a role: what its inventory entry says, else by vendor.

    Raises:
        SpecError: the entry names neither a recipe for that role nor a full reference, or there is
            no recipe for the host's accelerator yet.
    """
    chosen = host.images.get(role)
    if chosen is None:
        chosen = _FIXED.get(role) or _SERVER_BY_VENDOR[host.accelerator.vendor]
        if chosen not in catalogue.recipes:
            raise SpecError(
                f"there is no image '{chosen}' for a {role} on {host.accelerator.vendor}",
                where=f"host '{host.name}'",
                next_step=f"in hosts.yaml, set 'images: {{{role}: REFERENCE}}' for this host",
            )
    recipe = catalogue.recipes.get(chosen)
    if recipe is None:
        if not set(chosen) & set("/:@"):
            known = sorted(name for name, it in catalogue.recipes.items() if role in it.roles)
            raise SpecError(
                f"images.{role} is '{chosen}', which is neither a recipe ({', '.join(known)}) "
                "nor a full reference such as registry/name:tag",
                where=f"host '{host.name}'",
            )
        return ImageChoice(role, chosen, None)
    if role not in recipe.roles:
        raise SpecError(
            f"images.{role} is '{chosen}', which is an image for: {', '.join(recipe.roles)}",
            where=f"host '{host.name}'",
        )
    return ImageChoice(role, image_reference(recipe), recipe)


def _argument(name: str) -> str:
    return f"{name.upper().replace('-', '_')}_VERSION"
