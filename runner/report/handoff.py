"""The hand-off: a run in short, with the keys that machines which read results expect.

Every word comes from what really ran: commands with their exit codes, checks with what they
found, what was left undone, and what went wrong.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from runner.analysis.conclusions import Conclusions
from runner.analysis.measured import MeasuredAttempt, MeasuredRun
from runner.analysis.speedup import Comparison, Judgement
from runner.models.result import Verdict
from runner.report.contents import verdict_line
from runner.report.figures import Json, number, percent, throughput


def build_handoff(found: Conclusions) -> Json:
    """The run as hand-off data: `salientSummary`, `whatWasImplemented`, `whatWasLeftUndone`,
    `verification` (`commandsRun`, `interactiveChecks`), `tests.added`, `discoveredIssues`."""
    run = found.run
    return {
        "salientSummary": _summary(found),
        "whatWasImplemented": _done(run),
        "whatWasLeftUndone": _undone(run),
        "verification": {
            "commandsRun": [_command(attempt) for attempt in run.attempts if attempt.number],
            "interactiveChecks": list(_checks(found)),
        },
        "tests": {"added": []},
        "discoveredIssues": list(_issues(found)),
    }


def _summary(found: Conclusions) -> str:
    parts = [verdict_line(found)]
    for pooled in found.acceptance:
        length, rate = pooled.acceptance.length, pooled.acceptance.rate
        if length is not None and rate is not None:
            parts.append(
                f"{pooled.configuration} on {pooled.prompts}: acceptance length "
                f"{number(length)}, draft acceptance rate {percent(rate)}."
            )
    parts += [sentence for one in found.comparisons for sentence in _ratios(one)]
    return " ".join(parts)


def _ratios(comparison: Comparison) -> Iterator[str]:
    for load in comparison.loads:
        ratio = load.throughput
        if ratio.value is not None:
            yield (
                f"{comparison.name} on {comparison.prompts} at {load.concurrency}: throughput "
                f"{number(ratio.value)} times that of {comparison.baseline.configuration} "
                f"({ratio.judgement})."
            )


def _done(run: MeasuredRun) -> str:
    plan = run.plan
    servers = ", ".join(dict.fromkeys(server.configuration for server in plan.servers))
    prompts = ", ".join(item.name for item in plan.prompts)
    ran = sum(1 for attempt in run.attempts if attempt.number)
    return (
        f"Job {plan.job} on {plan.host.name}: {ran} cell attempts ran of {len(plan.cells)} planned "
        f"cells (configurations {servers}; prompts {prompts})."
    )


def _undone(run: MeasuredRun) -> str:
    parts = [f"{item.condition}: unavailable: {item.reason}" for item in run.plan.unavailable]
    parts += [f"{one.cell.id}: {one.message}" for one in run.unavailable]
    parts += [
        f"{one.cell.id}: {one.status}: {one.message}" for one in run.left_out if not one.number
    ]
    return "; ".join(dict.fromkeys(parts))


def _command(attempt: MeasuredAttempt) -> Json:
    container = attempt.cell.container
    return {
        "command": shlex.join([*(container.entrypoint or ()), *container.command]),
        "exitCode": attempt.exit_code,
        "observation": _observation(attempt),
    }


def _observation(attempt: MeasuredAttempt) -> str:
    words = f"{attempt.cell.id}, attempt {attempt.number}: {attempt.status}"
    if not attempt.included:
        return f"{words}, in no figure: {attempt.message}"
    made, length = attempt.figure("output_token_throughput"), attempt.figure("acceptance_length")
    if made is not None and made.value is not None:
        words += f"; {throughput(made.value)} output tokens/s"
    if length is not None and length.value is not None:
        words += f"; acceptance length {number(length.value)}"
    return words


def _checks(found: Conclusions) -> Iterator[Json]:
    for one in found.lossless:
        yield {
            "action": f"Compared the answers of {one.configuration} with those of {one.baseline} "
            f"on {one.prompts} at concurrency {one.concurrency}",
            "observed": one.message,
        }
    for attempt in found.run.included:
        for check in attempt.checks:
            if check.name in ("drafter_ran", "counters", "rows"):
                yield {
                    "action": f"Checked {check.name} of {attempt.cell.id}",
                    "observed": check.message,
                }


def _issues(found: Conclusions) -> Iterator[str]:
    yield from _failures(found.run.left_out)
    for attempt in found.run.included:
        for check in attempt.warnings:
            yield f"{attempt.cell.id}: {check.name}: {check.message}"
    for one in found.lossless:
        if one.verdict is Verdict.REFUSE:
            yield f"{one.configuration} on {one.prompts} at {one.concurrency}: {one.message}"
    for comparison in found.comparisons:
        for load in comparison.loads:
            if load.throughput.judgement is Judgement.BELOW and load.throughput.value is not None:
                yield (
                    f"{comparison.name} on {comparison.prompts} at {load.concurrency}: throughput "
                    f"only {number(load.throughput.value)} times the baseline's"
                )


def _failures(attempts: Iterable[MeasuredAttempt]) -> Iterator[str]:
    for attempt in attempts:
        if attempt.number:
            name = f"{attempt.cell.id}, attempt {attempt.number}"
            yield f"{name}: {attempt.reason}: {attempt.message}"
