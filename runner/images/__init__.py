"""Images: the catalogue of recipes, building them on a host, and the lock that ties a plan to them.

Images are built and looked up with the engine's command on the host, over a `Connection`.
"""

from runner.images.bootstrap import base_reference, bootstrap_base
from runner.images.build import BuildOptions, build_image, find_image
from runner.images.catalogue import (
    Catalogue,
    ImageChoice,
    image_reference,
    load_catalogue,
    recipe_for,
)
from runner.images.lock import locked, read_lock, record
from runner.images.tiny import TinySize, make_checkpoint, tiny_recipe

__all__ = [
    "BuildOptions",
    "Catalogue",
    "ImageChoice",
    "TinySize",
    "base_reference",
    "bootstrap_base",
    "build_image",
    "find_image",
    "image_reference",
    "load_catalogue",
    "locked",
    "make_checkpoint",
    "read_lock",
    "recipe_for",
    "record",
    "tiny_recipe",
]
