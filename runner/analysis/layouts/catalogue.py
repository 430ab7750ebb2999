"""The record layouts that are known, and which one an AIPerf version wrote."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources

import msgspec

from runner.errors import ArtifactError

SUFFIX = ".json"
_RELEASE = re.compile(r"v?(\d+(?:\.\d+)*)")


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names of one value, best first; the first that a record has counts.

    `unit` is that of a time as written: ns, us, ms or s.
    """

    names: tuple[str, ...]
    unit: str | None = None


class Parts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names of the objects that a line consists of, and of the number inside a metric."""

    metadata: str
    metrics: str
    metric_value: str
    error: str
    spec: str | None = None


class Layout(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the values of a record are found, for AIPerf from `first` to below `before`.

    `metadata` and `metrics` go from fields of a record to places, `spec` and `error` from fields
    to names. A field that is not listed was not written by these versions. `evidence` tells
    where the layout is known from.
    """

    first: str
    before: str | None
    evidence: str
    measured_phase: str
    parts: Parts
    metadata: Mapping[str, Place]
    metrics: Mapping[str, Place]
    error: Mapping[str, str]
    spec: Mapping[str, str] = {}

    @property
    def versions(self) -> str:
        """The range in words."""
        return f"{self.first} to below {self.before}" if self.before else f"{self.first} and newer"


@cache
def layouts() -> tuple[Layout, ...]:
    """Every layout that the package holds, oldest first."""
    decode = msgspec.json.Decoder(Layout).decode
    found = [
        decode(entry.read_bytes())
        for entry in resources.files(__package__).iterdir()
        if entry.name.endswith(SUFFIX)
    ]
    return tuple(sorted(found, key=lambda layout: release(layout.first) or ()))


def release(version: str) -> tuple[int, ...] | None:
    """Leading numbers of a version, so that 0.13.0.dev2 counts as 0.13; None without any."""
    found = _RELEASE.match(version)
    if found is None:
        return None
    numbers = [int(number) for number in found[1].split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def layout_for(aiperf_version: str | None) -> Layout:
    """The layout that this version writes; the newest where the version tells nothing or is new.

    Raises:
        ArtifactError: the version is older than every layout.
    """
    known = layouts()
    wanted = None if aiperf_version is None else release(aiperf_version)
    if wanted is None:
        return known[-1]
    for layout in reversed(known):
        if wanted >= (release(layout.first) or ()):
            return layout
    raise ArtifactError(
        f"AIPerf {aiperf_version} writes records that can't be read; known are "
        + ", ".join(layout.versions for layout in known),
        next_step="run the job again with a newer image of AIPerf, or add the layout of this "
        "version to runner/analysis/layouts",
    )
