"""What a cell must show before its numbers count: one small function per check."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from runner.analysis.checked import Figure, ok, percent, refuse, warn
from runner.analysis.export import ExportSummary, ReadyMarker
from runner.analysis.prometheus import (
    ACCEPTED_PER_POSITION,
    ACCEPTED_TOKENS,
    DRAFTS,
    GENERATION_TOKENS,
    PREFIX_CACHE_HITS,
    PREFIX_CACHE_QUERIES,
    Delta,
    Known,
)
from runner.analysis.records import Outcome
from runner.analysis.tally import RecordTally, RowKey
from runner.models.plan import CellPlan, ServerPlan
from runner.models.result import Check, Verdict
from runner.models.status import Reason

COUNTER_TOLERANCE = 0.02
PREFIX_CACHE_LIMIT = 0.01
IN_FLIGHT_TOLERANCE = 0.05
PER_REQUEST_FLAG = "--per-request-spec-decode-metrics"
SHOWN = 3


@dataclass(frozen=True)
class Evidence:
    """Everything that is known about a cell when its load has ended."""

    cell: CellPlan
    server: ServerPlan
    tally: RecordTally
    summary: ExportSummary | None
    marker: ReadyMarker | None
    deltas: dict[str, Delta]
    exit_code: int | None

    def delta(self, counter: str) -> Delta:
        """Growth of a counter; unknown where no scrape has it."""
        return self.deltas.get(counter, Delta(Known.UNKNOWN, note="no scrape of /metrics"))


def exit_code(evidence: Evidence) -> Check:
    """AIPerf ended with 0. That alone proves nothing; anything else proves a failure."""
    code = evidence.exit_code
    if code == 0:
        return ok("exit_code", "AIPerf ended with 0", exit_code=code)
    if code is None:
        return warn("exit_code", "the exit code of AIPerf is not known")
    message = f"AIPerf ended with {code}, expected 0; {evidence.tally.recorded} requests recorded"
    return refuse("exit_code", Reason.LOAD_FAILED, message, exit_code=code)


def complete(evidence: Evidence) -> Check:
    """Neither the run, as AIPerf's summary says, nor any request of it was cancelled."""
    summary, tally = evidence.summary, evidence.tally
    done = f"{tally.recorded} of {evidence.cell.requests} requests recorded"
    if summary is None:
        return refuse("complete", Reason.INCOMPLETE, f"AIPerf left no whole summary; {done}")
    if summary.was_cancelled or not summary.is_complete:
        state = "cancelled" if summary.was_cancelled else "incomplete"
        why = f" ({summary.incomplete_reason})" if summary.incomplete_reason else ""
        return refuse("complete", Reason.INCOMPLETE, f"{state}: {done}{why}")
    cancelled = tally.outcomes[Outcome.CANCELLED]
    if cancelled:
        message = f"{cancelled} of {tally.recorded} recorded requests were cancelled, limit 0"
        return refuse("complete", Reason.INCOMPLETE, message, cancelled=cancelled)
    return ok("complete", f"not cancelled, complete; {done}")


def ready_marker(evidence: Evidence) -> Check:
    """AIPerf wrote its ready marker, and the marker says neither cancelled nor partial."""
    marker = evidence.marker
    if marker is None:
        return refuse("ready_marker", Reason.INCOMPLETE, "AIPerf left no ready marker")
    if not marker.ready or marker.was_cancelled or marker.partial:
        return refuse(
            "ready_marker",
            Reason.INCOMPLETE,
            f"ready marker says ready={marker.ready}, was_cancelled={marker.was_cancelled}, "
            f"partial={marker.partial}; expected True, False, False",
        )
    return ok("ready_marker", "exports are whole")


def torn_lines(evidence: Evidence) -> Check:
    """Every line of the records is a whole record."""
    torn = evidence.tally.torn_lines
    if torn:
        message = f"{torn} torn lines in the request records, limit 0"
        return refuse("torn_lines", Reason.INCOMPLETE, message, torn_lines=torn)
    return ok("torn_lines", "every record is whole", torn_lines=0)


def rows(evidence: Evidence) -> Check:
    """The planned rows and turns were recorded, each exactly once."""
    planned = {(row.id, turn) for row in evidence.cell.rows for turn in range(row.turns)}
    seen = evidence.tally.seen
    if evidence.cell.duration_s is not None:
        return _rows_in_time(evidence, planned)
    missing, foreign = planned - seen.keys(), seen.keys() - planned
    repeated = sum(1 for count in seen.values() if count > 1)
    recorded = len(planned) - len(missing)
    figures = {
        "planned": len(planned),
        "missing": len(missing),
        "not_planned": len(foreign),
        "repeated": repeated,
    }
    if not (missing or foreign or repeated):
        return ok("rows", f"{recorded} of {len(planned)} planned rows, each once", **figures)
    examples = [f"{row}#{turn}" for row, turn in sorted(missing or foreign)[:SHOWN]]
    message = (
        f"{recorded} of {len(planned)} planned rows recorded: {len(missing)} missing, "
        f"{len(foreign)} not planned, {repeated} more than once"
    )
    if examples:
        message += f" (for example {', '.join(examples)})"
    return refuse("rows", Reason.INCOMPLETE, message, **figures)


def _rows_in_time(evidence: Evidence, planned: set[RowKey]) -> Check:
    """A cell that ends by the clock measures what it gets to: planned rows, each at most once."""
    seen, cell = evidence.tally.seen, evidence.cell
    foreign = seen.keys() - planned
    repeated = sum(1 for count in seen.values() if count > 1)
    recorded = len(seen.keys() & planned)
    figures = {"planned": len(planned), "recorded": recorded, "repeated": repeated}
    message = f"{recorded} of {len(planned)} planned rows within {cell.duration_s:g} s"
    if foreign or repeated or recorded < cell.concurrency:
        message += (
            f": {len(foreign)} not planned, {repeated} more than once; at least "
            f"{cell.concurrency} are needed, one for each request in flight"
        )
        return refuse("rows", Reason.INCOMPLETE, message, **figures)
    return ok("rows", message, **figures)


def errors(evidence: Evidence) -> Check:
    """The share of failed requests is within the cell's limit."""
    tally, limit = evidence.tally, evidence.cell.error_limit
    failed = tally.outcomes[Outcome.ERROR]
    timed = evidence.cell.duration_s is not None
    of = tally.recorded if timed else max(evidence.cell.requests, tally.recorded)
    share = failed / of if of else 0.0
    if not failed:
        return ok("errors", f"0 of {of} failed", failed=0, share=0.0, limit=limit)
    message = f"{failed} of {of} failed: {_kinds(tally.error_kinds)}"
    if share > limit:
        message += f" (limit {percent(limit)})"
        return refuse(
            "errors", Reason.REQUEST_ERRORS, message, failed=failed, share=share, limit=limit
        )
    return warn("errors", message, failed=failed, share=share, limit=limit)


def _kinds(kinds: Counter[str]) -> str:
    if len(kinds) == 1:
        return next(iter(kinds))
    ordered = sorted(kinds.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{kind} ({count})" for kind, count in ordered)


def empty(evidence: Evidence) -> Check:
    """Every answered request has output tokens."""
    count = evidence.tally.outcomes[Outcome.EMPTY]
    if count:
        message = f"{count} of {evidence.tally.recorded} requests have 0 output tokens, limit 0"
        return refuse("empty", Reason.REQUEST_ERRORS, message, empty=count)
    return ok("empty", "every answer has output tokens", empty=0)


def output_cap(evidence: Evidence) -> Check:
    """No answer is longer than the plan allows; at a fixed length none is shorter either."""
    tally, cap = evidence.tally, evidence.cell.output_tokens
    figures = {"longest": tally.longest_output_tokens, "cap": cap, "above": tally.above_cap}
    if tally.above_cap:
        message = (
            f"{tally.above_cap} requests have more than {cap} output tokens, "
            f"the longest {tally.longest_output_tokens}"
        )
        return refuse("output_cap", Reason.CONFIGURATION_DIFFERS, message, **figures)
    if evidence.cell.ignore_eos and tally.below_cap:
        message = (
            f"{tally.below_cap} answers are shorter than {cap} tokens, though every answer was to "
            "go on to the cap"
        )
        return refuse("output_cap", Reason.CONFIGURATION_DIFFERS, message, **figures)
    message = f"longest answer {tally.longest_output_tokens} tokens, cap {cap}"
    return ok("output_cap", message, **figures)


def in_flight(evidence: Evidence) -> Check:
    """No more requests were under way on average than the concurrency: the window is as long.

    A clock that is set back during a cell shortens the window and so raises the throughput.
    """
    concurrency, mean = evidence.cell.concurrency, evidence.tally.mean_in_flight
    if mean is None:
        return ok("in_flight", "not worked out: no request tells its times")
    message = f"{mean:.2f} requests under way on average, concurrency {concurrency}"
    figures = {"mean": mean, "concurrency": concurrency}
    if mean > concurrency * (1 + IN_FLIGHT_TOLERANCE):
        message += "; the clock was set back, or the load was another one than planned"
        return refuse("in_flight", Reason.CONFIGURATION_DIFFERS, message, **figures)
    return ok("in_flight", message, **figures)


def model(evidence: Evidence) -> Check:
    """The load was sent to the server of this cell and no other."""
    expected = evidence.server.served_name
    if evidence.summary is None or not evidence.summary.models:
        return warn("model", f"AIPerf's summary names no model, expected '{expected}'")
    found = evidence.summary.models
    if found != (expected,):
        message = f"the load was sent to {', '.join(found)}, expected '{expected}'"
        return refuse("model", Reason.FOREIGN_SERVER, message)
    return ok("model", f"served as '{expected}'")


def drafter_ran(evidence: Evidence) -> Check:
    """A speculative server drafted, with the planned k; a baseline did not draft at all."""
    speculative, pool = evidence.server.speculative, evidence.tally.acceptance
    counted = evidence.delta(DRAFTS)
    figures: dict[str, Figure] = {"drafts_counted": counted.value, "steps_recorded": pool.steps}
    drafted = bool(counted.value) or pool.steps > 0
    if speculative is None:
        if drafted or pool.requests:
            message = "a server without speculation reports speculative figures"
            return refuse("drafter_ran", Reason.CONFIGURATION_DIFFERS, message, **figures)
        return ok("drafter_ran", "no speculation, as planned", **figures)
    if not drafted:
        message = (
            f"{speculative.method} drafted nothing: drafts counted "
            f"{'unknown' if counted.value is None else f'{counted.value:.0f}'}, "
            f"drafted steps recorded {pool.steps}; expected more than 0"
        )
        return refuse("drafter_ran", Reason.DRAFTER_DID_NOT_RUN, message, **figures)
    k, found = speculative.num_speculative_tokens, _ks(evidence)
    if not found:
        message = f"{speculative.method} drafted, its k is not known; the plan says {k}"
        return warn("drafter_ran", message, **figures)
    if found - {k}:
        message = f"k is {', '.join(map(str, sorted(found)))}, the plan says {k}"
        return refuse("drafter_ran", Reason.CONFIGURATION_DIFFERS, message, **figures)
    return ok("drafter_ran", f"{speculative.method} drafted, k = {k}", **figures)


def _ks(evidence: Evidence) -> set[int]:
    recorded = set(evidence.tally.acceptance.ks)
    if recorded:
        return recorded
    positions = evidence.delta(ACCEPTED_PER_POSITION).by("position")
    return {len(positions)} if positions else set()


def per_request_metrics(evidence: Evidence) -> Check:
    """Every good request of a speculative server carries its own acceptance figures."""
    pool = evidence.tally.acceptance
    if evidence.server.speculative is None:
        return ok("per_request_metrics", "not asked for: no speculation")
    good = pool.requests + pool.missing
    message = f"{pool.requests} of {good} good requests carry acceptance figures"
    if not evidence.server.per_request_metrics and not pool.requests:
        if evidence.delta(DRAFTS).value is None:
            message = f"{message}, and the server's counters are not known"
            return refuse("per_request_metrics", Reason.METRICS_MISSING, message)
        message = "this image reports none: acceptance comes from the server's counters"
        return warn("per_request_metrics", message, missing=pool.missing)
    if not pool.missing:
        return ok("per_request_metrics", message, missing=0)
    if PER_REQUEST_FLAG not in evidence.server.container.command:
        message += "; the server was not asked for them"
        return warn("per_request_metrics", message, missing=pool.missing)
    return refuse("per_request_metrics", Reason.METRICS_MISSING, message, missing=pool.missing)


def counters(evidence: Evidence) -> Check:
    """The server did not restart, and its counters agree with the records within 2 %."""
    restarted = [delta for delta in evidence.deltas.values() if delta.state is Known.RESTARTED]
    if restarted:
        message = f"server restarted: {restarted[0].note}"
        return refuse("counters", Reason.SERVER_DIED, message)
    wanted = _countable(evidence)
    known = {name: pair for name, pair in wanted.items() if pair[1].value is not None}
    if not known:
        notes = [delta.note for _, delta in wanted.values() if delta.note]
        why = notes[0] if notes else "no counter matches what the records hold"
        return warn("counters", f"not compared with the records: {why}")
    found = _agreement(known)
    if found.verdict is Verdict.OK and len(known) < len(wanted):
        absent = ", ".join(name for name in wanted if name not in known)
        message = f"{found.message}; not counted by the server: {absent}"
        return found.model_copy(update={"verdict": Verdict.WARN, "message": message})
    return found


def _countable(evidence: Evidence) -> dict[str, tuple[int, Delta]]:
    """What both the records and the server count, as (recorded, counted)."""
    tally, pairs = evidence.tally, {}
    if evidence.server.speculative is not None and tally.acceptance.requests:
        pairs["drafts"] = (tally.acceptance.steps, evidence.delta(DRAFTS))
        pairs["accepted"] = (tally.acceptance.accepted, evidence.delta(ACCEPTED_TOKENS))
    # a server also counts the tokens of requests that failed later; their records hold none
    if tally.recorded == tally.outcomes[Outcome.GOOD]:
        pairs["output tokens"] = (tally.output_tokens, evidence.delta(GENERATION_TOKENS))
    return pairs


def _agreement(pairs: dict[str, tuple[int, Delta]]) -> Check:
    figures: dict[str, Figure] = {}
    parts, worst = [], 0.0
    for name, (recorded, delta) in pairs.items():
        counted = delta.value or 0.0
        key = name.replace(" ", "_")
        figures[f"{key}_recorded"], figures[f"{key}_counted"] = recorded, counted
        worst = max(worst, abs(recorded - counted) / max(recorded, counted, 1))
        parts.append(f"{name} {recorded} in records, {counted:.0f} counted")
    notes = sorted({delta.note for _, delta in pairs.values() if delta.note})
    message = "; ".join(
        [*parts, f"{percent(worst)} apart, limit {percent(COUNTER_TOLERANCE)}", *notes]
    )
    if worst > COUNTER_TOLERANCE:
        return refuse("counters", Reason.COUNTERS_DISAGREE, message, apart=worst, **figures)
    return ok("counters", message, apart=worst, **figures)


def prefix_cache(evidence: Evidence) -> Check:
    """The prefix cache helped no more than the plan says."""
    asked, found = evidence.delta(PREFIX_CACHE_QUERIES), evidence.delta(PREFIX_CACHE_HITS)
    queries, hits = asked.value, found.value
    if queries is None or hits is None:
        message = f"prefix cache not checked: {asked.note or found.note}"
        judge = warn if evidence.server.prefix_caching else ok
        return judge("prefix_cache", message)
    share = hits / queries if queries else 0.0
    message = f"prefix cache {percent(share)} of prompt tokens, limit {percent(PREFIX_CACHE_LIMIT)}"
    if share <= PREFIX_CACHE_LIMIT:
        return ok("prefix_cache", message, share=share)
    if evidence.server.prefix_caching:
        return warn("prefix_cache", f"{message}; it is on in the plan", share=share)
    return refuse("prefix_cache", Reason.CONFIGURATION_DIFFERS, message, share=share)
