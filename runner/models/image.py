"""Image recipes (`images/<name>/image.yaml`) and the lock that ties names to digests."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from runner.models.base import SCHEMA_VERSION, Record, Spec
from runner.models.host import Role, Vendor


class ImageRecipe(Spec):
    """How one image is built and what it can do. `name` is its folder under `images/`."""

    name: str = ""
    description: str
    roles: tuple[Role, ...]
    vendors: tuple[Vendor, ...] = (Vendor.CPU, Vendor.AMD, Vendor.NVIDIA)
    architectures: tuple[str, ...] = ()
    base: str = Field(description="default base image, overridden by --base or --bootstrap-base")
    arguments: Mapping[str, str] = Field(default_factory=dict)
    source: bool = Field(default=False, description="send the runner package with the context")
    entrypoint: tuple[str, ...] = ()
    environment: Mapping[str, str] = Field(default_factory=dict)
    versions: Mapping[str, str] = Field(default_factory=dict)


class LockedImage(Record):
    """One image as it was built or found on one host."""

    name: str
    reference: str
    digest: str
    built_at: str
    base: str | None = None
    base_digest: str | None = None
    recipe_sha256: str | None = None
    arguments: Mapping[str, str] = Field(default_factory=dict)
    size_bytes: int | None = None
    entrypoint: tuple[str, ...] = ()
    environment: Mapping[str, str] = Field(default_factory=dict)
    versions: Mapping[str, str] = Field(default_factory=dict)


class ImageLock(Record):
    """`images/lock.yaml`: host name -> image name -> what a plan uses there."""

    schema_version: int = SCHEMA_VERSION
    hosts: Mapping[str, Mapping[str, LockedImage]] = Field(default_factory=dict)
