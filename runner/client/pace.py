"""How fast earlier runs went, from the store: the only ground for an estimate of hours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path, PurePosixPath
from statistics import median
from typing import Any

from pydantic import ValidationError

from runner.artifacts.store import Store, StoredRun
from runner.errors import RunnerError
from runner.models.layout import RunLayout
from runner.models.plan import Plan
from runner.models.result import CellResult, ServerResult
from runner.models.status import Status
from runner.plan.estimate import Pace

_NEWEST = 5
_TOKENS = "output_tokens_recorded"
_LAYOUT = RunLayout(PurePosixPath())
"""Paths relative to the run."""


def pace_of(store: Path, host: str, model: str) -> Pace | None:
    """The pace of the newest collected runs of a model on a host; None when there are none.

    Medians over servers (seconds until ready) and, for each concurrency, over cells (output tokens
    a second of a cell's whole time, its warm-up and the load generator's own start included).
    Runs that can't be read are passed over: an estimate is no reason to fail.
    """
    if not store.is_dir():
        return None
    ready: list[float] = []
    rates: dict[int, list[float]] = {}
    used = 0
    for run, plan in _runs(store, host, model):
        cells = dict(_cell_rates(run.tree, plan))
        if not cells:
            continue
        used += 1
        ready += _ready_times(run.tree)
        for cell, rate in cells.items():
            rates.setdefault(plan.cell(cell).concurrency, []).append(rate)
        if used == _NEWEST:
            break
    if not used or not ready:
        return None
    runs = "1 earlier run" if used == 1 else f"{used} earlier runs"
    return Pace(
        source=f"{runs} of {model} on {host} in the store",
        server_ready_s=median(ready),
        cell_overhead_s=0.0,
        tokens_per_s={concurrency: median(found) for concurrency, found in rates.items()},
    )


def _runs(store: Path, host: str, model: str) -> Iterator[tuple[StoredRun, Plan]]:
    """Runs of the model on the host, the newest first."""
    try:
        runs = Store(store).runs()
    except RunnerError:
        return
    for run in reversed(runs):
        try:
            plan = Plan.model_validate_json((run.tree / _LAYOUT.plan).read_bytes())
        except (OSError, ValidationError):
            continue
        if plan.host.name == host and any(server.model == model for server in plan.servers):
            yield run, plan


def _cell_rates(root: Path, plan: Plan) -> Iterator[tuple[str, float]]:
    for cell in plan.cells:
        for file in sorted((root / _LAYOUT.cells / cell.id).glob("attempt-*/result.json")):
            result = _read(file, CellResult)
            if not isinstance(result, CellResult) or result.status is not Status.SUCCEEDED:
                continue
            tokens = next(
                (check.figures[_TOKENS] for check in result.checks if _TOKENS in check.figures),
                None,
            )
            seconds = _seconds(result.started_at, result.ended_at)
            if isinstance(tokens, int | float) and tokens > 0 and seconds > 0:
                yield cell.id, tokens / seconds


def _ready_times(root: Path) -> list[float]:
    results = (_read(file, ServerResult) for file in root.glob("servers/*/attempt-*/result.json"))
    return [
        result.ready_after_s
        for result in results
        if isinstance(result, ServerResult) and result.ready_after_s is not None
    ]


def _read(file: Path, model: type[CellResult] | type[ServerResult]) -> Any:
    try:
        return model.model_validate(json.loads(file.read_bytes()))
    except (OSError, ValueError):
        return None


def _seconds(start: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
