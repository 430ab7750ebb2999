"""Validity rules applied to a cell of a stored run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath

from runner.analysis.acceptance import AcceptancePool
from runner.analysis.prometheus import (
    ACCEPTED_PER_POSITION,
    ACCEPTED_TOKENS,
    DRAFT_TOKENS,
    DRAFTS,
    GENERATION_TOKENS,
    PREFIX_CACHE_HITS,
    PREFIX_CACHE_QUERIES,
    Delta,
    counter_delta,
    parse_metrics,
)
from runner.analysis.requests import RequestColumns
from runner.analysis.settings import Settings, told_settings
from runner.analysis.validity.evidence import (
    PREEMPTIONS,
    CellEvidence,
    Telemetry,
    parse_telemetry,
    read_gauges,
)
from runner.analysis.validity.judge import judge_cell
from runner.errors import ArtifactError
from runner.models.layout import AttemptLayout, RunLayout
from runner.models.plan import CellPlan, ServerPlan
from runner.models.result import Check, Verdict

TELEMETRY = "gpu_telemetry.csv"
"""Samples of `nvidia-smi` beside a server's log, where something took them."""

_LAYOUT = RunLayout(PurePosixPath())
_COUNTERS = (
    *(DRAFTS, DRAFT_TOKENS, ACCEPTED_TOKENS, ACCEPTED_PER_POSITION, GENERATION_TOKENS),
    *(PREFIX_CACHE_QUERIES, PREFIX_CACHE_HITS, PREEMPTIONS),
)


def judge(
    root: Path,
    cell: CellPlan,
    server: ServerPlan,
    layout: AttemptLayout,
    server_attempt: int | None,
    requests: RequestColumns,
    acceptance: AcceptancePool,
) -> tuple[Check, ...]:
    """What every rule says about one measured cell of the run in `root`."""
    evidence = CellEvidence(
        cell=cell,
        server=server,
        requests=requests,
        acceptance=acceptance,
        deltas=_deltas(root / layout.metrics_before, root / layout.metrics_after),
        gauges=read_gauges(root / layout.exports),
        settings=_settings(root, server.id, server_attempt),
        telemetry=_telemetry(root, server.id, server_attempt),
    )
    return judge_cell(evidence)


def refusal(checks: Iterable[Check]) -> Check | None:
    """The first refusal among these checks."""
    return next((check for check in checks if check.verdict is Verdict.REFUSE), None)


def _deltas(before: Path, after: Path) -> Mapping[str, Delta]:
    try:
        old = parse_metrics(before.read_text(encoding="utf-8"))
        new = parse_metrics(after.read_text(encoding="utf-8"))
    except (OSError, ArtifactError):
        return {}
    return {name: counter_delta(old, new, name) for name in _COUNTERS}


@lru_cache(maxsize=32)
def _settings(root: Path, server: str, attempt: int | None) -> Settings:
    if attempt is None:
        return {}
    return told_settings(root, [_LAYOUT.server(server, attempt)]) or {}


@lru_cache(maxsize=4)
def _telemetry(root: Path, server: str, attempt: int | None) -> tuple[Telemetry, ...]:
    if attempt is None:
        return ()
    path = root / _LAYOUT.server(server, attempt).root / TELEMETRY
    try:
        with path.open(encoding="utf-8") as lines:
            return parse_telemetry(lines)
    except OSError:
        return ()
