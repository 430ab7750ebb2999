"""The verdict on a cell: AIPerf's exit code is never believed alone.

Needs neither pandas nor a network: the supervisor runs it on the host, before `record`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from runner.analysis import checks
from runner.analysis.checks import Evidence
from runner.analysis.export import read_marker, read_summary
from runner.analysis.prometheus import (
    ACCEPTED_PER_POSITION,
    ACCEPTED_TOKENS,
    DRAFT_TOKENS,
    DRAFTS,
    GENERATION_TOKENS,
    PREFIX_CACHE_HITS,
    PREFIX_CACHE_QUERIES,
    Delta,
    Known,
    counter_delta,
    parse_metrics,
)
from runner.analysis.tally import tally_exports
from runner.errors import ArtifactError
from runner.models.plan import CellPlan, ServerPlan
from runner.models.result import Check, RequestCounts, Verdict
from runner.models.status import Reason, Status

CHECKS: tuple[Callable[[Evidence], Check], ...] = (
    checks.model,
    checks.errors,
    checks.complete,
    checks.exit_code,
    checks.ready_marker,
    checks.torn_lines,
    checks.rows,
    checks.empty,
    checks.output_cap,
    checks.in_flight,
    checks.drafter_ran,
    checks.per_request_metrics,
    checks.counters,
    checks.prefix_cache,
)
"""In the order in which a refusal explains a cell best: the first one becomes its reason.

A foreign server makes everything else meaningless; failed requests explain a bad exit code and
missing rows; an interruption explains missing files and rows; figures come last.
"""

_COUNTERS = (
    DRAFTS,
    DRAFT_TOKENS,
    ACCEPTED_TOKENS,
    ACCEPTED_PER_POSITION,
    GENERATION_TOKENS,
    PREFIX_CACHE_QUERIES,
    PREFIX_CACHE_HITS,
)


def verify_cell(
    cell: CellPlan,
    server: ServerPlan,
    exports: Path,
    metrics_before: str | None,
    metrics_after: str | None,
    exit_code: int | None,
) -> tuple[RequestCounts, tuple[Check, ...]]:
    """Counts and checks of one attempt, every check in the order of `CHECKS`.

    Args:
        cell: what was planned.
        server: the server it was measured on.
        exports: AIPerf's folder; files that are missing are findings, not errors.
        metrics_before: `/metrics` after the warm-up; None when it could not be read.
        metrics_after: `/metrics` after the last request; None when it could not be read.
        exit_code: of AIPerf; None when it is not known.

    Raises:
        ArtifactError: the request records exist and can't be read.
    """
    summary = read_summary(exports)
    version = summary.aiperf_version if summary is not None else None
    tally = tally_exports(exports, cell.output_tokens, version)
    evidence = Evidence(
        cell=cell,
        server=server,
        tally=tally,
        summary=summary,
        marker=read_marker(exports),
        deltas=_deltas(metrics_before, metrics_after),
        exit_code=exit_code,
    )
    return tally.counts(cell.requests), tuple(check(evidence) for check in CHECKS)


def verdict(results: Iterable[Check]) -> tuple[Status, Reason, str]:
    """Status, reason and message of a cell with these checks: the first refusal decides."""
    warnings = []
    for check in results:
        if check.verdict is Verdict.REFUSE:
            return Status.FAILED, check.reason or Reason.INTERNAL_ERROR, check.message
        if check.verdict is Verdict.WARN:
            warnings.append(check.message)
    message = "; ".join(warnings) if warnings else "every check passed"
    return Status.SUCCEEDED, Reason.COMPLETED, message


def _deltas(before: str | None, after: str | None) -> dict[str, Delta]:
    if before is None or after is None:
        return {}
    try:
        old, new = parse_metrics(before), parse_metrics(after)
    except ArtifactError as error:
        return {name: Delta(Known.UNKNOWN, note=error.what) for name in _COUNTERS}
    return {name: counter_delta(old, new, name) for name in _COUNTERS}
