"""A staged run for every test that asks, with poll intervals that suit a fake engine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.supervisor import cell, server
from tests.unit.supervisor.stage import Stage, staged


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here takes time, so nothing needs to be waited for; no power is cut, so no fsync."""
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
    monkeypatch.setattr(cell, "_POLL_S", 0.01)
    monkeypatch.setattr(cell, "_SETTLE_S", 0.001)
    monkeypatch.setattr(server, "_POLL_S", 0.01)
    monkeypatch.setattr(server, "_DEATH_NOTICE_S", 0.3)


@pytest.fixture
def stage(tmp_path: Path, quick: None) -> Iterator[Stage]:
    """Two cells on `baseline`, then one on `twin`, which drafts perfectly with k = 3."""
    with staged(tmp_path, {"baseline": (1, 2), "twin": (1,)}) as ready:
        yield ready
