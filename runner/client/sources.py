"""Where planning looks on this machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from runner.client.images import ImageFiles


@dataclass(frozen=True)
class PlanSources:
    """Folders and files of this machine.

    Args:
        images: recipes and lock.
        datasets: where fetched datasets lie.
        store: collected runs, from which the time of a plan is estimated.
        cache: what may be deleted at any time, such as hashes of checkpoints.
    """

    images: ImageFiles
    datasets: Path
    store: Path
    cache: Path


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/runner`, or `~/.cache/runner`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "runner"
