"""What differs between a baseline server and another one, the drafter and all the rest."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

from runner.analysis.measured import MeasuredRun
from runner.analysis.settings import (
    ABSENT,
    SPECULATION,
    Settings,
    settings_in_logs,
    told_settings,
)
from runner.models.layout import RunLayout
from runner.models.plan import ServerPlan

BY_PLAN = "set by the job or the plan"

_LAYOUT = RunLayout(PurePosixPath())
_LONGEST_VALUE = 120
_NAMED = 3
# what a job sets on a baseline to make it equal to a drafter that vLLM treats so by itself
_MATCHING = frozenset({"environment VLLM_USE_V2_MODEL_RUNNER"})
_NO_ASYNC = "--no-async-scheduling"
_MEMORY = "memory left for the KV cache; a drafter takes some of it"
_GRAPHS = "vLLM fits its graphs to k + 1 tokens for each request"
WHY: Mapping[str, str] = {
    SPECULATION: "the drafter itself",
    "observability_config.per_request_spec_decode_metrics": "asked for by the plan: a server that "
    "speculates reports acceptance for each request",
    "scheduler_config.max_num_scheduled_tokens": "vLLM sets it when it speculates; where it is "
    "null, max_num_batched_tokens holds",
    "scheduler_config.async_scheduling": "vLLM switches it off for some methods",
    "parallel_config.disable_nccl_for_dp_synchronization": "follows the request for async "
    "scheduling; matters to data parallelism only",
    "cache_config.num_gpu_blocks": _MEMORY,
    "cache_config.kv_cache_size_tokens": _MEMORY,
    "cache_config.kv_cache_max_concurrency": _MEMORY,
    "compilation_config.cudagraph_mode": _GRAPHS,
    "compilation_config.cudagraph_capture_sizes": _GRAPHS,
    "compilation_config.max_cudagraph_capture_size": _GRAPHS,
    "model runner": "vLLM chooses it by method",
    "attention backend of the drafter": "the drafter has layers of its own",
}
"""What vLLM or the plan changes when a server speculates. Any other difference has no reason."""


@dataclass(frozen=True)
class Difference:
    """One setting with both values. `why` is None where speculation does not explain it."""

    setting: str
    baseline: str
    other: str
    why: str | None


@dataclass(frozen=True)
class ServerDifferences:
    """One configuration against its baseline.

    `not_compared` names the configurations whose effective configuration was not kept: what they
    chose by themselves is then unknown. `paths` are the folders of both sides' servers, where kept.
    """

    configuration: str
    baseline: str
    differences: tuple[Difference, ...]
    not_compared: tuple[str, ...]
    paths: tuple[str, ...]
    server: str = ""
    baseline_server: str = ""

    @property
    def not_comparable(self) -> str | None:
        """What keeps the two from being compared, in words; None where nothing does.

        Whatever differs and is neither the drafter nor explained by it does, the user's own
        arguments and environment included.
        """
        found = [one for one in self.differences if one.why is None or _by_hand(one)]
        if not found:
            return None
        shown = [f"{one.setting} is {one.other} against {one.baseline}" for one in found[:_NAMED]]
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        return f"not comparable: {'; '.join(shown)}{more}"


def planned_settings(server: ServerPlan, baseline: ServerPlan) -> tuple[Settings, Settings]:
    """Environment and own arguments of a server and of its baseline."""
    ours, theirs = _arguments(server), _arguments(baseline)
    common = 0
    while common < min(len(ours), len(theirs)) and ours[common] == theirs[common]:
        common += 1
    first, second = (
        {
            **{f"environment {name}": value for name, value in one.container.environment.items()},
            **({"arguments": shlex.join(own[common:])} if own[common:] else {}),
        }
        for one, own in ((server, ours), (baseline, theirs))
    )
    return first, second


def differences(baseline: Settings, other: Settings) -> tuple[Difference, ...]:
    """Settings whose values differ: the drafter first, then what nothing explains."""
    found = [
        Difference(key, _cut(baseline.get(key, ABSENT)), _cut(other.get(key, ABSENT)), _why(key))
        for key in sorted(baseline.keys() | other.keys())
        if baseline.get(key, ABSENT) != other.get(key, ABSENT)
    ]
    return tuple(sorted(found, key=lambda one: (one.setting != SPECULATION, one.why is not None)))


@lru_cache(maxsize=1)
def server_differences(run: MeasuredRun) -> tuple[ServerDifferences, ...]:
    """Each configuration in the figures against its baseline, where that is in the figures too."""
    attempts: dict[str, set[int]] = {}
    for attempt in run.included:
        if attempt.server_attempt is not None:
            attempts.setdefault(attempt.server.id, set()).add(attempt.server_attempt)
    pairs = [
        (server, run.plan.server(baseline))
        for server in run.plan.servers
        if (baseline := run.baseline_of(server)) is not None
        and baseline in attempts
        and server.id in attempts
    ]
    return tuple(
        _compare(run.root, *pair, *(sorted(attempts[server.id]) for server in pair))
        for pair in pairs
    )


def _compare(
    root: Path,
    server: ServerPlan,
    baseline: ServerPlan,
    numbers: Sequence[int],
    baseline_numbers: Sequence[int],
) -> ServerDifferences:
    ours = [_LAYOUT.server(server.id, number) for number in numbers]
    theirs = [_LAYOUT.server(baseline.id, number) for number in baseline_numbers]
    told, told_baseline = told_settings(root, ours), told_settings(root, theirs)
    logged, logged_baseline = settings_in_logs(root, ours), settings_in_logs(root, theirs)
    planned, planned_baseline = planned_settings(server, baseline)
    mine, base = dict(planned), dict(planned_baseline)
    # what one side alone tells is no difference
    if told is not None and told_baseline is not None:
        mine, base = {**mine, **told}, {**base, **told_baseline}
    if logged is not None and logged_baseline is not None:
        mine, base = {**mine, **logged}, {**base, **logged_baseline}
    return ServerDifferences(
        configuration=server.configuration,
        baseline=baseline.configuration,
        differences=differences(base, mine),
        not_compared=tuple(
            one.configuration
            for one, found in ((server, told), (baseline, told_baseline))
            if found is None
        ),
        paths=tuple(str(one.root) for one in (*theirs, *ours) if (root / one.root).is_dir()),
        server=server.id,
        baseline_server=baseline.id,
    )


def _arguments(server: ServerPlan) -> tuple[str, ...]:
    """The command without what names the server and what makes it speculate."""
    kept, skip = [], False
    for argument in server.container.command:
        if skip:
            skip = False
        elif argument in _SPECULATIVE_FLAGS:
            skip = True
        else:
            kept.append(argument)
    return tuple(kept)


_SPECULATIVE_FLAGS = frozenset(
    {"--served-model-name", "--speculative-config", "--per-request-spec-decode-metrics"}
)


def _by_hand(one: Difference) -> bool:
    """Set by the job on one side alone, and not to match what the other side has anyway."""
    if one.why != BY_PLAN or one.setting in _MATCHING:
        return False
    return one.setting != "arguments" or {one.baseline, one.other} != {ABSENT, _NO_ASYNC}


def _why(setting: str) -> str | None:
    if setting == "arguments" or setting.startswith("environment "):
        return BY_PLAN
    return WHY.get(setting)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
