"""MRCR by rendered prompt length: acceptance, net speed-up, failures and scores of each bin.

Prompts are binned by the tokens that the server's own tokenizer rendered them to, as the plan
counted them; where it could not, by what the server counted. Failures are counted over every
attempt, whether it is in the figures or not; acceptance, speed and scores over those that are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path, PurePosixPath

import numpy as np

from runner.analysis.acceptance import Acceptance, AcceptancePool
from runner.analysis.differences import server_differences
from runner.analysis.export import written_by
from runner.analysis.interval import Interval
from runner.analysis.measured import MeasuredAttempt, MeasuredRun
from runner.analysis.outputs import read_outputs
from runner.analysis.records import FILE_NAME, Outcome, read_records
from runner.analysis.resampling import middle, ratio_interval, resampled
from runner.analysis.speedup import Ratio
from runner.analysis.validity.group_rules import output_lengths
from runner.datasets.mrcr import BINS, bin_label, bin_of, grade, prefix_of
from runner.errors import ArtifactError
from runner.models.layout import RunLayout
from runner.models.result import Verdict

PREFIX = "mrcr"
_CONTEXT_LIMIT = re.compile(
    r"maximum context length|max_model_len|context window|longer than the maximum|too long", re.I
)
_LAYOUT = RunLayout(PurePosixPath())
UNKNOWN = "length not known"
_ORDER = ("0-1k", *(bin_label(low, high) for low, high in BINS))


@dataclass(frozen=True)
class BinFigures:
    """One configuration in one bin of prompt lengths.

    `good`, `failed` and `context_limit` (failed because the prompt was too long for the server)
    count requests; `score` is the mean MRCR score of `scored` answers, from 0 to 1. `speedup` is
    the latency of the baseline over that of the configuration, each summed over the rows that are
    good on both sides (the mean of a row's repeats): net, as it holds the prefill too.
    """

    bin: str
    good: int
    failed: int
    context_limit: int
    longest: int | None
    acceptance: Acceptance | None
    interval: Interval | None
    speedup: Ratio
    score: float | None
    scored: int
    paths: tuple[str, ...]


@dataclass(frozen=True)
class LongContext:
    """One configuration on one prompt set; bins by rising length.

    `longest` is the prompt with most tokens that got an answer. `no_score` says why answers are
    not scored.
    """

    prompts: str
    dataset: str
    configuration: str
    concurrency: int
    bins: tuple[BinFigures, ...]
    longest: int | None
    no_score: str | None


def long_context(run: MeasuredRun) -> tuple[LongContext, ...]:
    """Every configuration on every MRCR set, at each concurrency."""
    groups: dict[tuple[str, str, int], list[MeasuredAttempt]] = {}
    for attempt in run.attempts:
        if (attempt.cell.dataset or attempt.cell.prompts).startswith(PREFIX):
            key = attempt.cell.prompts, attempt.server.id, attempt.cell.concurrency
            groups.setdefault(key, []).append(attempt)
    baselines = {server.id: run.baseline_of(server) for server in run.plan.servers}
    refused = {
        (item.server, item.baseline_server): item.not_comparable for item in server_differences(run)
    }
    texts = {name: _expected(run.root, name) for name in {key[0] for key in groups}}
    return tuple(
        _of_group(
            run,
            attempts,
            groups.get((prompts, baselines[server] or "", concurrency)),
            texts[prompts],
            "no baseline"
            if baselines[server] is None
            else refused.get((server, str(baselines[server]))),
        )
        for (prompts, server, concurrency), attempts in groups.items()
    )


def _interval(one: _Bin) -> Interval | None:
    """Of the acceptance length; rows in the order of their ids, whatever that of the file."""
    return ratio_interval(np.array([one.rows[row] for row in sorted(one.rows)]).reshape(-1, 2))


@dataclass
class _Bin:
    """Running sums of one bin."""

    good: int = 0
    failed: int = 0
    context_limit: int = 0
    longest: int | None = None
    pool: AcceptancePool = field(default_factory=AcceptancePool)
    rows: dict[str, list[float]] = field(default_factory=dict)
    latency_ms: dict[str, list[float]] = field(default_factory=dict)
    tokens: dict[str, list[int]] = field(default_factory=dict)
    scores: list[float] = field(default_factory=list)


def _of_group(
    run: MeasuredRun,
    attempts: Sequence[MeasuredAttempt],
    baseline: Sequence[MeasuredAttempt] | None,
    expected: Mapping[str, tuple[str, str]],
    no_ratio: str | None,
) -> LongContext:
    bins = _collected(run.root, attempts, expected)
    theirs = _collected(run.root, baseline, {}) if baseline else {}
    cell = attempts[0].cell
    paths = tuple(one.path for one in attempts if one.included)
    speculative = attempts[0].server.speculative is not None
    absent = "the baseline has no cell on these prompts at this concurrency"
    why = no_ratio or (None if baseline else absent)
    figures = tuple(
        BinFigures(
            bin=name,
            good=one.good,
            failed=one.failed,
            context_limit=one.context_limit,
            longest=one.longest,
            acceptance=one.pool.acceptance() if speculative and one.pool.requests else None,
            interval=_interval(one),
            speedup=_speedup(one, theirs.get(name), why),
            score=sum(one.scores) / len(one.scores) if one.scores else None,
            scored=len(one.scores),
            paths=paths,
        )
        for name, one in sorted(bins.items(), key=lambda item: _place(item[0]))
    )
    scored = sum(one.scored for one in figures)
    return LongContext(
        cell.prompts,
        cell.dataset or cell.prompts,
        attempts[0].server.configuration,
        cell.concurrency,
        figures,
        max((one.longest for one in figures if one.longest is not None), default=None),
        None if scored else _why_no_score(expected, paths),
    )


def _why_no_score(expected: Mapping[str, tuple[str, str]], paths: Sequence[str]) -> str:
    if not paths:
        return "no cell is in the figures"
    if not expected:
        return "the run has no expected answers beside its prompts"
    return "no cell in the figures kept the texts of its answers"


def _collected(
    root: Path, attempts: Iterable[MeasuredAttempt], expected: Mapping[str, tuple[str, str]]
) -> dict[str, _Bin]:
    bins: dict[str, _Bin] = {}
    for attempt in attempts:
        if not attempt.path:
            continue
        exports = root / attempt.path / "load" / "aiperf"
        planned = {row.id: row.prompt_tokens for row in attempt.cell.rows}
        answers = read_outputs(exports) if attempt.included else None
        if not (exports / FILE_NAME).exists():
            continue
        for record in read_records(exports / FILE_NAME, written_by(exports)):
            good = record.outcome is Outcome.GOOD
            if record.outcome is Outcome.CANCELLED or (good and not attempt.included):
                continue
            tokens = planned.get(record.id) or record.input_tokens or 0
            one = bins.setdefault(bin_of(tokens) if tokens else UNKNOWN, _Bin())
            if not good:
                one.failed += 1
                message = record.error.message if record.error else None
                one.context_limit += bool(_CONTEXT_LIMIT.search(message or ""))
                continue
            one.good += 1
            one.longest = max(one.longest or 0, tokens) or None
            one.tokens.setdefault(record.id, []).append(record.output_tokens or 0)
            one.pool.add(record)
            if record.spec is not None:
                sums = one.rows.setdefault(record.id, [0.0, 0.0])
                # columns as `ratio_interval` wants them: what is divided, then by what
                sums[0] += record.spec.steps + record.spec.accepted
                sums[1] += record.spec.steps
            if record.latency_ms is not None and not isnan(record.latency_ms):
                one.latency_ms.setdefault(record.id, []).append(record.latency_ms)
            text = (answers or {}).get((record.id, record.turn))
            if text is not None and record.id in expected:
                one.scores.append(grade(text, *expected[record.id]))
    return bins


def _speedup(ours: _Bin, theirs: _Bin | None, why: str | None) -> Ratio:
    """Summed latency of the baseline over ours, on rows that are good on both sides."""
    if why is not None:
        return Ratio(None, unavailable=why)
    rows = sorted(ours.latency_ms.keys() & theirs.latency_ms.keys()) if theirs else []
    if theirs is None or not rows:
        return Ratio(None, unavailable="no row is good on both sides")
    lengths = output_lengths(
        *(round(sum(np.mean(side.tokens[row]) for row in rows)) for side in (ours, theirs))
    )
    if lengths.verdict is Verdict.REFUSE:
        return Ratio(None, unavailable=lengths.message)
    sums = np.array(
        [[np.mean(theirs.latency_ms[row]), np.mean(ours.latency_ms[row])] for row in rows]
    )
    totals = sums.sum(axis=0)
    drawn = resampled(sums)
    method = f"bootstrap over {len(rows)} rows"
    interval = None if drawn is None else middle(drawn[:, 0] / drawn[:, 1], method)
    return Ratio(float(totals[0] / totals[1]), interval)


def _expected(root: Path, prompts: str) -> Mapping[str, tuple[str, str]]:
    """Expected answer and its prefix by row id; empty where the run has none."""
    try:
        with (root / _LAYOUT.answers(prompts)).open(encoding="utf-8") as lines:
            answers = {one["session_id"]: str(one["answer"]) for one in map(json.loads, lines)}
        found = {}
        for row in _rows(root / _LAYOUT.prompts(prompts)):
            answer = answers.get(str(row["session_id"]))
            if answer is not None and isinstance(row.get("messages"), list):
                found[str(row["session_id"])] = (
                    answer,
                    prefix_of({"messages": row["messages"], "answer": answer}),
                )
        return found
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArtifactError(
            f"the expected answers can't be read: {error}",
            where=str(root / _LAYOUT.answers(prompts)),
            next_step="runner artifacts verify RUN",
        ) from error


def _rows(path: Path) -> Iterator[dict[str, object]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _place(label: str) -> int:
    return _ORDER.index(label) if label in _ORDER else len(_ORDER)
