"""What the server image of a host can do, from what is known or by asking it."""

from __future__ import annotations

from collections.abc import Callable

from runner.client.fleet import Fleet
from runner.client.images import ImageFiles, host_with_images, locked_images
from runner.errors import ImageMissing
from runner.images.capabilities import probe_image, read_capabilities, record_capabilities
from runner.images.lock import read_lock
from runner.models.capability import ImageCapabilities
from runner.models.host import Host, Role
from runner.models.image import LockedImage

Progress = Callable[[str], None]


def capabilities_of(
    fleet: Fleet,
    host: Host,
    image: LockedImage,
    files: ImageFiles,
    *,
    probe: bool,
    progress: Progress,
) -> ImageCapabilities | None:
    """Capabilities of an image by its digest; None when it was never asked.

    Args:
        probe: ask it in a container where nothing is known yet, and keep the answer.

    Raises:
        EngineError, HostError: the image can't be asked.
    """
    known = read_capabilities(files.lock.parent).get(image.digest)
    if known is not None or not probe:
        return known
    return probe_now(fleet, host, image, files, progress)


def probe_now(
    fleet: Fleet, host: Host, image: LockedImage, files: ImageFiles, progress: Progress
) -> ImageCapabilities:
    """Ask an image, whatever is known of it, and keep the answer.

    Raises:
        EngineError, HostError: the image can't be asked.
        SpecError: the answer can't be kept.
    """
    found = probe_image(fleet.connect(host.name), host, image, progress)
    record_capabilities(files.lock.parent, found)
    return found


def probe_host(
    fleet: Fleet, host_name: str, files: ImageFiles, *, again: bool, progress: Progress
) -> tuple[LockedImage, ImageCapabilities]:
    """The server image of a host and what it can do.

    Raises:
        UsageError: there is no such host.
        ImageMissing: no server image is locked for it.
        EngineError, HostError: the image can't be asked.
    """
    host = host_with_images(fleet.host(host_name), files)
    image = locked_images(host, read_lock(files.lock)).get(Role.SERVER)
    if image is None:
        named = host.images.get(Role.SERVER)
        raise ImageMissing(
            f"no server image is locked{f' ({named})' if named else ''}",
            where=host.name,
            next_step=f"runner images build --host {host.name}",
        )
    known = None if again else read_capabilities(files.lock.parent).get(image.digest)
    return image, known or probe_now(fleet, host, image, files, progress)
