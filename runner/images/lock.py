"""`images/lock.yaml`: which image, by digest, a plan uses on which host.

Written by `runner images`, as JSON, which is YAML too; read as YAML, so that an edit by hand works.
"""

from __future__ import annotations

import json
from pathlib import Path

from runner.errors import ImageMissing
from runner.images.files import one_writer, replace_whole
from runner.models.image import ImageLock, LockedImage
from runner.specfile import load_spec

LOCK_FILE = "lock.yaml"
_HEADER = "# written by 'runner images build'; one entry per host and image\n"


def read_lock(path: Path) -> ImageLock:
    """What is locked; an empty lock when the file does not exist.

    Raises:
        SpecError: the file can't be read or is wrong.
    """
    return load_spec(path, ImageLock) if path.exists() else ImageLock()


def write_lock(path: Path, lock: ImageLock) -> None:
    """Replace the file whole.

    Raises:
        SpecError: it can't be written.
    """
    text = _HEADER + json.dumps(lock.model_dump(mode="json"), indent=2, sort_keys=True) + "\n"
    replace_whole(path, text)


def record(path: Path, host: str, image: LockedImage) -> ImageLock:
    """Put one image into the file, and return the new lock. Builds at the same time lose nothing.

    Raises:
        SpecError: the file is wrong or can't be written.
    """
    with one_writer(path.parent):
        lock = with_image(read_lock(path), host, image)
        write_lock(path, lock)
    return lock


def with_image(lock: ImageLock, host: str, image: LockedImage) -> ImageLock:
    """The same lock with this image on this host."""
    images = {**lock.hosts.get(host, {}), image.name: image}
    return lock.model_copy(update={"hosts": {**lock.hosts, host: images}})


def locked(lock: ImageLock, host: str, name: str) -> LockedImage:
    """The image that a plan uses under this name on this host.

    Raises:
        ImageMissing: nothing is locked there under this name.
    """
    image = lock.hosts.get(host, {}).get(name)
    if image is None:
        raise ImageMissing(
            f"no image '{name}' is locked for this host",
            where=host,
            next_step=f"runner images build {name} --host {host}",
        )
    return image
