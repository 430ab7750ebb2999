"""Tables of the report: rows of Markdown, every number a link to its raw cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from runner.analysis.differences import ServerDifferences
from runner.analysis.measured import MeasuredAttempt, MeasuredRun
from runner.analysis.measurements import Measurement
from runner.analysis.pairing import throughput_ratios
from runner.analysis.pooling import PooledAcceptance
from runner.analysis.speed import IN_LUMPS
from runner.report.figures import by_metric, number, percent, throughput

NOTHING = "–"  # noqa: RUF001 (an en dash is what a table shows for no value)

LENGTH_TOLERANCE = 0.01
"""Answers of a pair that differ more in their summed length are told."""

Formatter = Callable[[float], str]


@dataclass(frozen=True)
class Table:
    """A Markdown table. `notes` stand below it."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


class Links:
    """Markdown links from the report to the folders of a run."""

    def __init__(self, prefix: str):
        self._prefix = prefix

    def to(self, text: str, path: str) -> str:
        """`text`, linked to a folder of the run; plain where there is none."""
        return f"[{text}]({self._prefix}/{path}/)" if path else text

    def cells(self, text: str, paths: Sequence[str]) -> str:
        """`text`, linked to its cell; with several, followed by a numbered link to each."""
        if len(paths) == 1:
            return self.to(text, paths[0])
        return " ".join([text, *(self.to(str(i), path) for i, path in enumerate(paths, 1))])


def escape(text: str) -> str:
    """Text that can't break out of a table's cell."""
    for char in ("\\", "|", "<", "[", "]", "`", "*", "_"):
        text = text.replace(char, "\\" + char)
    return " ".join(text.split())


def acceptance_table(pools: Iterable[PooledAcceptance], links: Links) -> Table:
    """Pooled acceptance of each configuration on each prompt set."""
    rows, notes = [], []
    for pooled in pools:
        figures, paths = by_metric(pooled.measurements), pooled.paths
        speculative = pooled.server.speculative
        k = speculative.num_speculative_tokens if speculative else 0
        counts = pooled.acceptance
        coverage = figures["drafting_coverage"]
        rows.append(
            (
                pooled.prompts,
                pooled.configuration,
                links.cells(_text(figures["acceptance_length"], number), paths),
                str(k + 1),
                links.cells(_text(figures["draft_acceptance_rate"], percent), paths),
                links.cells(_ranged(coverage, percent), paths),
                links.cells(_ranged(figures["tokens_per_step"], number), paths),
                f"{counts.requests} / {counts.errors} / {counts.missing}",
            )
        )
        if pooled.from_counters:
            notes.append(
                f"`{pooled.configuration}` on `{pooled.prompts}`: from the server's counters, as "
                "its image reports no acceptance for each request. Whatever the server answered "
                "between the two scrapes is in it."
            )
        if coverage.value is not None and coverage.value < 1:
            notes.append(_coverage_note(pooled, coverage, figures["tokens_per_step"]))
    header = (
        "prompts",
        "configuration",
        "[acceptance length](#acceptance-length)",
        "k + 1",
        "[draft acceptance rate](#acceptance-rate)",
        "[coverage](#drafting-coverage)",
        "[tokens per step](#tokens-per-step)",
        "requests good / failed / without figures",
    )
    return Table("", header, tuple(rows), tuple(notes))


def _coverage_note(pooled: PooledAcceptance, coverage: Measurement, steps: Measurement) -> str:
    return (
        f"`{pooled.configuration}` on `{pooled.prompts}` drafted in only "
        f"{_text(coverage, percent)} of its decode steps: its acceptance length speaks of those "
        f"alone. Over all decode steps it made {_text(steps, number)} tokens per step."
    )


def position_table(pools: Sequence[PooledAcceptance], links: Links) -> Table:
    """Share of drafted steps that accepted each position, and the same given the one before."""
    longest = max((len(pooled.acceptance.positions) for pooled in pools), default=0)
    rows = []
    for pooled in pools:
        acceptance = pooled.acceptance
        for name, values in (
            ("of drafted steps", acceptance.positions),
            ("given the one before", acceptance.conditional),
        ):
            shown = [NOTHING if value is None else percent(value) for value in values]
            shown += [NOTHING] * (longest - len(shown))
            label = links.cells(pooled.configuration, pooled.paths)
            rows.append((pooled.prompts, label, name, *shown))
    header = ("prompts", "configuration", "share", *(str(i) for i in range(1, longest + 1)))
    return Table("", header, tuple(rows) if longest else ())


def throughput_tables(run: MeasuredRun, links: Links) -> tuple[Table, ...]:
    """For each prompt set: throughput by concurrency and repeat, the baseline first, and ratios."""
    ratios = throughput_ratios(run)
    return tuple(_throughput_table(run, prompts, ratios, links) for prompts in _prompts(run))


def _throughput_table(
    run: MeasuredRun, prompts: str, ratios: dict[str, Measurement], links: Links
) -> Table:
    attempts = _by_place(run, prompts)
    configurations = _configurations(run, prompts)
    repeats = max((repeat for _, repeat, _ in attempts), default=1)
    baselines = {server.id: server.configuration for server in run.plan.servers}
    header = ["concurrency", *(["repeat"] if repeats > 1 else [])]
    for name, compared in configurations.items():
        header += [f"{name} (tokens/s)", *(["× baseline"] if compared else [])]  # noqa: RUF001
    rows, notes = [], []
    for concurrency, repeat in dict.fromkeys((c, r) for c, r, _ in attempts):
        row = [str(concurrency), *([str(repeat)] if repeats > 1 else [])]
        for name, compared in configurations.items():
            attempt = attempts.get((concurrency, repeat, name))
            ratio = ratios.get(attempt.cell.id) if attempt else None
            row.append(_figure_cell(attempt, "output_token_throughput", throughput, links))
            if compared:
                row.append(_ratio_cell(attempt, ratio, links))
            if attempt and attempt.included and ratio and ratio.value is None:
                notes.append(f"No ratio for {attempt.cell.id}: {ratio.unavailable}.")
            if attempt and (baseline := run.baseline_of(attempt.server)):
                other = attempts.get((concurrency, repeat, baselines[baseline]))
                notes += _length_note(attempt, other)
        rows.append(tuple(row))
    notes += _busy_note(attempts.values())
    return Table(prompts, tuple(header), tuple(rows), tuple(map(escape, notes)))


def _busy_note(attempts: Iterable[MeasuredAttempt]) -> list[str]:
    lumps = [
        attempt.cell.id
        for attempt in attempts
        if attempt.included
        and (seen := attempt.figure("interactivity")) is not None
        and (seen.unavailable or "").startswith(IN_LUMPS)
    ]
    if not lumps:
        return []
    return [
        f"The streams of {', '.join(lumps)} arrived in lumps. A busy machine is the usual cause, "
        "and that slows the whole cell: this throughput, and ratios with it, may be off."
    ]


def _length_note(attempt: MeasuredAttempt, baseline: MeasuredAttempt | None) -> list[str]:
    """Answers of a pair may differ in length: batch sizes change numerics, and those the text."""
    if baseline is None or not (attempt.included and baseline.included):
        return []
    ours, theirs = attempt.figure("output_tokens"), baseline.figure("output_tokens")
    if ours is None or theirs is None or not ours.value or not theirs.value:
        return []
    if abs(ours.value - theirs.value) <= LENGTH_TOLERANCE * theirs.value:
        return []
    return [
        f"Answers of {attempt.cell.id} have {ours.value} tokens in all, those of "
        f"{baseline.cell.id} {theirs.value}."
    ]


def difference_tables(found: Iterable[ServerDifferences], links: Links) -> tuple[Table, ...]:
    """For each configuration: what differs from its baseline, and what is known to explain it."""
    return tuple(_difference_table(item, links) for item in found)


def _difference_table(item: ServerDifferences, links: Links) -> Table:
    rows = tuple(
        (
            escape(one.setting),
            escape(one.baseline),
            escape(one.other),
            escape(one.why) if one.why else "**not explained by speculation**",
        )
        for one in item.differences
    )
    header = ("setting", item.baseline, item.configuration, "why")
    notes = [
        f"Effective settings were not compared: `{name}` kept no answer of `/server_info`."
        for name in item.not_compared
    ]
    told = [links.to(path, path) for path in item.paths]
    notes += [f"From {', '.join(told)} and the plan."] if told else []
    return Table(f"{item.configuration} and {item.baseline}", header, rows, tuple(notes))


def latency_table(run: MeasuredRun, links: Links) -> Table:
    """Interactivity, time to first token and latency of each included cell."""
    rows, notes = [], []
    ordered = sorted(run.included, key=lambda one: (one.cell.prompts, one.cell.concurrency))
    for attempt in ordered:
        figures = by_metric(attempt.speed)
        seen = figures["interactivity"]
        latency = {f.statistic: f for f in attempt.speed if f.metric == "request_latency"}
        first = {f.statistic: f for f in attempt.speed if f.metric == "time_to_first_token"}
        rows.append(
            (
                attempt.cell.prompts,
                str(attempt.cell.concurrency),
                attempt.server.configuration,
                str(attempt.counts.good) if attempt.counts else NOTHING,
                links.to(_text(seen, number, "refused"), attempt.path),
                links.to(_text(figures["inter_token_latency"], number, "refused"), attempt.path),
                links.to(_text(first.get(_MEDIAN), number, "refused"), attempt.path),
                links.to(_text(latency.get(_MEDIAN), number), attempt.path),
                links.to(_text(latency.get(_P99), number), attempt.path),
            )
        )
        if seen.value is None:
            notes.append(escape(f"{attempt.cell.id}: {seen.unavailable}."))
    header = (
        "prompts",
        "concurrency",
        "configuration",
        "requests",
        "[interactivity](#interactivity-per-user) (tokens/s per user)",
        "mean time between tokens (ms)",
        "median time to first token (ms)",
        "median latency (ms)",
        "99th percentile latency (ms)",
    )
    return Table("", header, tuple(rows), tuple(notes))


def unavailable_table(run: MeasuredRun) -> Table:
    """Conditions that can't be had here, with the reason: of the plan, then of the run."""
    rows = [(item.condition, "the plan", escape(item.reason)) for item in run.plan.unavailable]
    told = {"server_refused": "the server itself", "not_needed": "the plan"}
    seen: dict[str, tuple[str, str, str]] = {}
    for attempt in run.unavailable:
        words = escape(attempt.message.removeprefix("unavailable: "))
        reason = str(attempt.reason)
        row = (attempt.server.configuration, told.get(reason, reason), words)
        seen.setdefault(attempt.server.id, row)
    header = ("condition", "told by", "reason")
    return Table("", header, (*rows, *seen.values()))


def left_out_table(run: MeasuredRun, links: Links) -> Table:
    """Every attempt that is in no figure, with its reason."""
    rows = []
    for attempt in run.left_out:
        counts = attempt.counts
        rows.append(
            (
                links.to(attempt.cell.id, attempt.path),
                str(attempt.number) if attempt.number else NOTHING,
                str(attempt.status),
                escape(str(attempt.reason)) if attempt.reason else NOTHING,
                escape(attempt.message),
                f"{counts.good} of {counts.planned}" if counts else NOTHING,
            )
        )
    header = ("cell", "attempt", "status", "reason", "what was found", "good requests")
    return Table("", header, tuple(rows))


_MEDIAN = "median over requests"
_P99 = "99th percentile over requests"


def _prompts(run: MeasuredRun) -> tuple[str, ...]:
    """Prompt sets that a sweep ran on; acceptance cells of an evaluation are compared with
    nothing."""
    cells = (cell for cell in run.plan.cells if cell.mode != "acceptance")
    return tuple(dict.fromkeys(cell.prompts for cell in cells))


def _configurations(run: MeasuredRun, prompts: str) -> dict[str, bool]:
    """Configurations of a prompt set, baselines first; True where there is one to compare with."""
    found = {
        attempt.server.configuration: attempt.server.baseline is not None
        for attempt in run.attempts
        if attempt.cell.prompts == prompts
    }
    return dict(sorted(found.items(), key=lambda item: item[1]))


def _by_place(run: MeasuredRun, prompts: str) -> dict[tuple[int, int, str], MeasuredAttempt]:
    """Attempts by concurrency, repeat and configuration: the included one, else the newest."""
    places: dict[tuple[int, int, str], MeasuredAttempt] = {}
    for attempt in run.attempts:
        cell = attempt.cell
        place = cell.concurrency, cell.repeat, attempt.server.configuration
        if cell.prompts == prompts and not (place in places and places[place].included):
            places[place] = attempt
    return dict(sorted(places.items()))


def _figure_cell(
    attempt: MeasuredAttempt | None, metric: str, show: Formatter, links: Links
) -> str:
    if attempt is None:
        return NOTHING
    if not attempt.included:
        return "[left out](#left-out)"
    return links.to(_text(attempt.figure(metric), show), attempt.path)


def _ratio_cell(attempt: MeasuredAttempt | None, ratio: Measurement | None, links: Links) -> str:
    if attempt is None or ratio is None or ratio.value is None:
        return NOTHING
    text = number(ratio.value)
    return links.to(f"**{text}**" if ratio.value < 1 else text, attempt.path)


def _text(figure: Measurement | None, show: Formatter, missing: str = NOTHING) -> str:
    return missing if figure is None or figure.value is None else show(figure.value)


def _ranged(figure: Measurement, show: Formatter) -> str:
    text = _text(figure, show)
    if figure.low is None or figure.high is None or figure.low == figure.high:
        return text
    return f"{text} ({show(figure.low)} to {show(figure.high)})"
