"""All rules: applied to a cell, and told in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from runner.analysis.checked import percent
from runner.analysis.speed import COALESCED_LIMIT
from runner.analysis.validity import acceptance_rules as acceptance
from runner.analysis.validity import group_rules as group
from runner.analysis.validity import load_rules as load
from runner.analysis.validity import server_rules as server
from runner.analysis.validity.evidence import CellEvidence
from runner.models.result import Check, Verdict

CELL_RULES: tuple[Callable[[CellEvidence], Check], ...] = (
    server.synthetic_acceptance,
    acceptance.marginals,
    acceptance.client_steps,
    load.clock_steps,
    load.steady_state,
    load.lockstep,
    load.rows_exhausted,
    load.client_saturation,
    load.coalesced,
    server.server_queue,
    server.preemptions,
    server.prefix_cache_share,
    server.gpu_throttle,
    acceptance.truncated,
    acceptance.natural_end,
)
"""Those that can refuse a cell come first: the first refusal becomes its reason."""


def judge_cell(evidence: CellEvidence) -> tuple[Check, ...]:
    """What every rule says about a cell, in the order of the rules."""
    return tuple(rule(evidence) for rule in CELL_RULES)


class Scope(StrEnum):
    """What a rule looks at."""

    CELL = "cell"
    GROUP = "group"


@dataclass(frozen=True)
class RuleText:
    """One effect of a rule in words; a rule that can both warn and refuse has two."""

    name: str
    does: Verdict
    threshold: str
    reason: str
    scope: Scope = Scope.CELL


_WARN, _REFUSE = Verdict.WARN, Verdict.REFUSE
_CLOCK = (
    f"span by the time of day and latency more than {load.CLOCK_FLOOR_MS:.0f} ms or "
    f"{percent(load.CLOCK_SHARE)} of the latency apart"
)

RULES: tuple[RuleText, ...] = (
    RuleText(
        "synthetic_acceptance",
        _REFUSE,
        "settings or command name synthetic acceptance",
        "drafts are accepted at a chosen rate: the text is not the model's",
    ),
    RuleText(
        "marginals",
        _REFUSE,
        f"|length - (1 + Σ positions)| > {acceptance.IDENTITY_TOLERANCE:g}, a later position is "
        "accepted more often, or the histogram has another number of steps",
        "the figures contradict each other",
    ),
    RuleText(
        "client_steps",
        _REFUSE,
        f"streamed pieces > {percent(acceptance.STEPS_TOLERANCE)} above the most decode steps",
        "records and stream are not of the same requests",
    ),
    RuleText(
        "client_steps",
        _WARN,
        f"streamed pieces > {percent(acceptance.STEPS_TOLERANCE)} below the least decode steps",
        "vLLM merges pieces for a slow client: gaps between them are not decode steps",
    ),
    RuleText(
        "clock_steps",
        _REFUSE,
        f"more than {percent(load.CLOCK_REQUESTS)} of the requests have {_CLOCK}",
        "the clock was set, so the window and the throughput mean nothing",
    ),
    RuleText(
        "clock_steps",
        _WARN,
        f"any request has {_CLOCK}, or was sent that much before it was to be",
        "the clock was set during the cell",
    ),
    RuleText(
        "steady_state",
        _WARN,
        f"all requests under way < {percent(load.FULL_LOAD_SHARE)} of the time; tokens for each "
        f"request completed then > {percent(load.STEADY_TOLERANCE)} off the mean answer; "
        f"requests < {load.ROUNDS} x concurrency",
        "ramp-up and drain are a large part of the window",
    ),
    RuleText(
        "lockstep",
        _WARN,
        f"gaps between starts vary by > {load.LOCKSTEP_LIMIT:g} of their mean at "
        f">= {load.LOCKSTEP_RATE:g} request/s and concurrency > 1",
        "requests come in waves: prefill and decode take turns",
    ),
    RuleText(
        "rows_exhausted",
        _WARN,
        f"window < {percent(load.DURATION_SHARE)} of the planned time with every row recorded",
        "the load ended early, and its drain weighs more",
    ),
    RuleText(
        "client_saturation",
        _WARN,
        f"requests sent late: median > {percent(load.LATE_MEDIAN)}, or 95th percentile > "
        f"{percent(load.LATE_P95)}, of the median latency",
        "the load generator held requests up, not the server",
    ),
    RuleText(
        "coalesced",
        _WARN,
        f"streams in lumps > {percent(COALESCED_LIMIT)} of the requests",
        "times between tokens are those of the network: interactivity is refused",
    ),
    RuleText(
        "server_queue",
        _WARN,
        f"waiting requests > {server.WAITING_MEAN:g} on average or > "
        f"{percent(server.WAITING_PEAK)} of the concurrency at once; concurrency > max_num_seqs",
        "the server does not work on as many requests as the concurrency says",
    ),
    RuleText("preemptions", _WARN, "any preemption", "prefills were computed twice"),
    RuleText(
        "prefix_cache_share",
        _WARN,
        f"prompt tokens from the prefix cache > {percent(server.CACHED_SHARE)}",
        "prefill costs less than it would with prompts of their own",
    ),
    RuleText(
        "gpu_throttle",
        _WARN,
        "any GPU sample in the window with thermal or power throttling",
        "a slowed cell is compared with one that was not",
    ),
    RuleText(
        "truncated",
        _WARN,
        f"answers at the cap > {percent(acceptance.TRUNCATED_SHARE)} where they may end before",
        "the cap decides the length of the answers",
    ),
    RuleText(
        "natural_end",
        _WARN,
        "acceptance cell with ignore_eos",
        "text after its natural end is not what a drafter is for",
    ),
    RuleText(
        "repeat_spread",
        _WARN,
        f"(max - min) / mean over repeats > {percent(group.SPREAD_LIMIT)}",
        "differences of that size are within repeats",
        Scope.GROUP,
    ),
    RuleText(
        "queueing",
        _WARN,
        f"median time to first token > {group.TTFT_FLOOR_MS:.0f} ms and > "
        f"{group.TTFT_FACTOR:g} x the lowest over concurrencies",
        "requests wait for the server before their first token",
        Scope.GROUP,
    ),
    RuleText(
        "output_lengths",
        _WARN,
        f"summed output tokens of a pair > {percent(group.LENGTHS_WARN)} apart",
        "the sides did other work: texts differ with batch sizes",
        Scope.GROUP,
    ),
    RuleText(
        "output_lengths",
        _REFUSE,
        f"summed output tokens of a pair > {percent(group.LENGTHS_REFUSE)} apart",
        "too far for numerics: the pair has no ratio",
        Scope.GROUP,
    ),
)
"""Every rule with its threshold, its reason and what it does, for the docs and the report."""
