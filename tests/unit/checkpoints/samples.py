"""Configurations of known drafters and models, shortened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from runner.models.checkpoint import Checkpoint

DATA = Path(__file__).parents[2] / "data" / "checkpoints"


def config_of(sample: str) -> dict[str, Any]:
    return dict(json.loads((DATA / f"{sample}.json").read_text()))


def checkpoint(config: dict[str, Any], name: str = "some/model") -> Checkpoint:
    return Checkpoint(name=name, local=False, revision="0" * 40, revision_source="", config=config)


def sample(name: str, **changes: Any) -> Checkpoint:
    return checkpoint({**config_of(name), **changes})
