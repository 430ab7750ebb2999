"""Throughput, interactivity and latency of single cells: the figures that ratios are made of."""

from __future__ import annotations

from collections.abc import Iterable

from runner.analysis.conclusions import Conclusions
from runner.analysis.measured import MeasuredAttempt, MeasuredRun
from runner.analysis.measurements import Measurement
from runner.analysis.speed import IN_LUMPS
from runner.report.document import (
    Block,
    Cell,
    Heading,
    Into,
    Link,
    Paragraph,
    Plot,
    Section,
    Span,
    Table,
    cell,
    columns,
    linked,
    numeric,
    plain,
    text,
    to_anchor,
)
from runner.report.figures import NOTHING, by_metric, number, shown, throughput

LENGTH_TOLERANCE = 0.01
"""Answers of a pair that differ more in their summed length are told."""
_MEDIAN = "median over requests"
_P99 = "99th percentile over requests"


def throughput_section(found: Conclusions, plots: frozenset[str]) -> Section:
    """Output token throughput of every cell of a sweep."""
    blocks: list[Block] = []
    if "throughput" in plots:
        blocks.append(Plot("throughput", "Output token throughput against concurrency"))
    names = _prompts(found.run)
    for name in names:
        blocks += [Heading(name, f"prompts-{name}"), throughput_table(found, name)]
    if not names:
        blocks.append(Paragraph(plain("No sweep was planned.")))
    blocks.append(
        Paragraph(
            text(
                to_anchor("Throughput", "throughput"),
                " and ",
                to_anchor("ratio", "throughput-ratio"),
                " are defined below. A ratio below 1 is bold.",
            )
        )
    )
    if max((one.repeat for one in found.run.plan.cells), default=1) == 1:
        says = "Every cell was measured once: how far two equal cells lie apart is not known here."
        blocks.append(Paragraph(plain(says)))
    return Section("Output token throughput", "output-token-throughput", tuple(blocks))


def throughput_table(found: Conclusions, prompts: str) -> Table:
    """Throughput by concurrency and repeat, the baseline first, with the ratio of each pair."""
    run = found.run
    attempts = _by_place(run, prompts)
    configurations = _configurations(run, prompts)
    repeats = max((repeat for _, repeat, _ in attempts), default=1)
    names = {server.id: server.configuration for server in run.plan.servers}
    heads = [numeric("concurrency"), *([numeric("repeat")] if repeats > 1 else [])]
    for name, compared in configurations.items():
        heads += [numeric(f"{name} (tokens/s)")]
        heads += [numeric("× baseline")] if compared else []  # noqa: RUF001
    rows, notes = [], list[str]()
    for concurrency, repeat in dict.fromkeys((c, r) for c, r, _ in attempts):
        row = [cell(str(concurrency), concurrency)]
        row += [cell(str(repeat), repeat)] if repeats > 1 else []
        for name, compared in configurations.items():
            attempt = attempts.get((concurrency, repeat, name))
            ratio = found.ratios.get(attempt.cell.id) if attempt else None
            row.append(_throughput_cell(attempt))
            if compared:
                row.append(_ratio_cell(attempt, ratio))
            if attempt and attempt.included and ratio and ratio.value is None:
                notes.append(f"No ratio for {attempt.cell.id}: {ratio.unavailable}.")
            if attempt and (baseline := run.baseline_of(attempt.server)):
                other = attempts.get((concurrency, repeat, names[baseline]))
                notes += _length_note(attempt, other)
        rows.append(tuple(row))
    notes += _busy_note(attempts.values())
    return Table(tuple(heads), tuple(rows), tuple(map(plain, notes)))


def latency_section(run: MeasuredRun, plots: frozenset[str]) -> Section:
    """Interactivity, time to first token and latency of each included cell."""
    blocks: list[Block] = []
    if "interactivity" in plots:
        blocks.append(Plot("interactivity", "Interactivity against concurrency"))
    table, refused = latency_table(run)
    blocks.append(table if table.rows else Paragraph(plain("No cell is in the figures.")))
    if refused:
        says = "Refused, since a stream that arrives in lumps says nothing about single tokens:"
        blocks += [Paragraph(plain(says)), Table(columns("cell", "why"), refused)]
    return Section("Interactivity and latency", "interactivity-and-latency", tuple(blocks))


def latency_table(run: MeasuredRun) -> tuple[Table, tuple[tuple[Cell, ...], ...]]:
    """The table, and a row for each cell whose stream was refused."""
    rows, refused = [], []
    ordered = sorted(run.included, key=lambda one: (one.cell.prompts, one.cell.concurrency))
    for attempt in ordered:
        figures = by_metric(attempt.speed)
        seen = figures["interactivity"]
        latency = {f.statistic: f for f in attempt.speed if f.metric == "request_latency"}
        first = {f.statistic: f for f in attempt.speed if f.metric == "time_to_first_token"}
        good = attempt.counts.good if attempt.counts else None
        rows.append(
            (
                cell(attempt.cell.prompts),
                cell(str(attempt.cell.concurrency), attempt.cell.concurrency),
                cell(attempt.server.configuration),
                cell(NOTHING if good is None else str(good), good),
                _figure(seen, attempt, "refused"),
                _figure(figures["inter_token_latency"], attempt, "refused"),
                _figure(first.get(_MEDIAN), attempt, "refused"),
                _figure(latency.get(_MEDIAN), attempt),
                _figure(latency.get(_P99), attempt),
            )
        )
        if seen.value is None:
            refused.append((linked(attempt.cell.id, [attempt.path]), cell(f"{seen.unavailable}.")))
    heads = columns(
        "prompts",
        numeric("concurrency"),
        "configuration",
        numeric("requests"),
        numeric("interactivity (tokens/s per user)", "interactivity-per-user"),
        numeric("mean time between tokens (ms)"),
        numeric("median time to first token (ms)", "time-to-first-token"),
        numeric("median latency (ms)"),
        numeric("99th percentile latency (ms)"),
    )
    return Table(heads, tuple(rows)), tuple(refused)


def _figure(figure: Measurement | None, attempt: MeasuredAttempt, missing: str = NOTHING) -> Cell:
    value = None if figure is None else figure.value
    return linked(shown(value, number, missing), [attempt.path], value)


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


def _prompts(run: MeasuredRun) -> tuple[str, ...]:
    """Prompt sets that a sweep ran on; acceptance cells of an evaluation are compared with
    nothing."""
    cells = (one for one in run.plan.cells if one.mode != "acceptance")
    return tuple(dict.fromkeys(one.prompts for one in cells))


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
        one = attempt.cell
        place = one.concurrency, one.repeat, attempt.server.configuration
        if one.prompts == prompts and not (place in places and places[place].included):
            places[place] = attempt
    return dict(sorted(places.items()))


def _throughput_cell(attempt: MeasuredAttempt | None) -> Cell:
    if attempt is None:
        return cell(NOTHING)
    if not attempt.included:
        return Cell((Span("left out", Link(Into.ANCHOR, "left-out")),))
    figure = attempt.figure("output_token_throughput")
    value = None if figure is None else figure.value
    return linked(shown(value, throughput), [attempt.path], value)


def _ratio_cell(attempt: MeasuredAttempt | None, ratio: Measurement | None) -> Cell:
    if attempt is None or ratio is None or ratio.value is None:
        return cell(NOTHING)
    return linked(number(ratio.value), [attempt.path], ratio.value, strong=ratio.value < 1)
