"""Acceptance: pooled, by position, by category, and the SPEED-Bench matrix apart from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from runner.analysis.conclusions import Conclusions
from runner.analysis.interval import Interval
from runner.analysis.measurements import Measurement
from runner.analysis.pooling import PooledAcceptance
from runner.analysis.speed_bench import CATEGORIES, STATISTIC, MatrixRow
from runner.report.document import (
    Block,
    Cell,
    Heading,
    Paragraph,
    Plot,
    Section,
    Table,
    Text,
    also,
    cell,
    code,
    columns,
    linked,
    numeric,
    plain,
    text,
    to_anchor,
)
from runner.report.figures import NOTHING, Formatter, by_metric, number, percent, shown, within


def acceptance_section(found: Conclusions, plots: frozenset[str]) -> Section:
    """Acceptance of every configuration that speculated."""
    blocks: list[Block] = []
    if not found.acceptance:
        blocks.append(Paragraph(plain("No cell with speculation is in the figures.")))
        return Section("Acceptance", "acceptance", tuple(blocks))
    if "acceptance" in plots:
        blocks.append(Plot("acceptance", "Acceptance length per configuration and prompt set"))
    blocks += [
        acceptance_table(found.acceptance),
        Paragraph(
            plain(
                "Pooled over the concurrencies and repeats of each configuration and prompt set. "
                "Brackets hold the 95 % interval over rows."
            )
        ),
    ]
    positions = position_table(found.acceptance)
    if positions.rows:
        blocks.append(Heading("By draft position", "by-draft-position"))
        if "positions" in plots:
            blocks.append(Plot("positions", "Acceptance by draft position"))
        blocks += [positions, _definition("acceptance-by-position")]
    blocks.append(Heading("Over requests", "acceptance-over-requests"))
    blocks.append(spread_table(found.acceptance))
    if found.categories:
        blocks.append(Heading("By category", "by-category"))
        if "categories" in plots:
            blocks.append(Plot("categories", "Acceptance length by category"))
        blocks.append(category_table(found.categories))
    if found.matrix:
        blocks += _matrix(found.matrix)
    return Section("Acceptance", "acceptance", tuple(blocks))


def acceptance_table(pools: Iterable[PooledAcceptance]) -> Table:
    """Pooled acceptance of each configuration on each prompt set."""
    rows, notes = [], list[Text]()
    for pooled in pools:
        figures, paths = by_metric(pooled.measurements), pooled.paths
        speculative = pooled.server.speculative
        k = speculative.num_speculative_tokens if speculative else 0
        counts, coverage = pooled.acceptance, figures["drafting_coverage"]
        rows.append(
            (
                cell(pooled.prompts),
                cell(pooled.configuration),
                _cell(figures["acceptance_length"], number, paths),
                cell(str(k + 1), k + 1),
                _cell(figures["draft_acceptance_rate"], percent, paths, again=True),
                _bounded(coverage, percent, paths),
                _bounded(figures["tokens_per_step"], number, paths),
                cell(f"{counts.requests} / {counts.errors} / {counts.missing}", counts.requests),
            )
        )
        if pooled.from_counters:
            notes.append(_from_counters(pooled))
        if coverage.value is not None and coverage.value < 1:
            notes.append(_coverage_note(pooled, coverage, figures["tokens_per_step"]))
    heads = columns(
        "prompts",
        "configuration",
        numeric("acceptance length", "acceptance-length"),
        numeric("k + 1"),
        numeric("draft acceptance rate", "acceptance-rate"),
        numeric("coverage", "drafting-coverage"),
        numeric("tokens per step", "tokens-per-step"),
        numeric("requests good / failed / without figures"),
    )
    return Table(heads, tuple(rows), tuple(notes))


def position_table(pools: Sequence[PooledAcceptance]) -> Table:
    """Share of drafted steps that accepted each position, and the same given the one before."""
    longest = max((len(pooled.acceptance.positions) for pooled in pools), default=0)
    rows = []
    for pooled in pools:
        acceptance = pooled.acceptance
        for name, values in (
            ("of drafted steps", acceptance.positions),
            ("given the one before", acceptance.conditional),
        ):
            cells = [cell(shown(value, percent), value) for value in values]
            cells += [cell(NOTHING)] * (longest - len(cells))
            first = cell(pooled.prompts), linked(pooled.configuration, pooled.paths), cell(name)
            rows.append((*first, *cells))
    places = [numeric(str(position)) for position in range(1, longest + 1)]
    heads = columns("prompts", "configuration", "share", *places)
    return Table(heads, tuple(rows) if longest else ())


def spread_table(pools: Iterable[PooledAcceptance]) -> Table:
    """Acceptance length of single requests: how they are spread, beside the pooled figure."""
    rows = []
    for pooled in pools:
        spread = pooled.spread
        if spread is None:
            continue
        values = (spread.mean, spread.p10, spread.p50, spread.p90)
        rows.append(
            (
                cell(pooled.prompts),
                linked(pooled.configuration, pooled.paths),
                _length(pooled.acceptance.length),
                *map(_length, values),
                cell(str(spread.requests), spread.requests),
            )
        )
    heads = columns(
        "prompts",
        "configuration",
        numeric("pooled", "acceptance-length"),
        numeric("mean over requests", "acceptance-of-requests"),
        numeric("10th percentile"),
        numeric("median"),
        numeric("90th percentile"),
        numeric("requests that drafted"),
    )
    return Table(heads, tuple(rows))


def category_table(pools: Iterable[PooledAcceptance]) -> Table:
    """Pooled acceptance of the rows of each category, from requests."""
    rows = []
    for pooled in pools:
        figures = by_metric(pooled.measurements)
        rows.append(
            (
                cell(pooled.prompts),
                cell(pooled.category or ""),
                cell(pooled.configuration),
                _cell(figures["acceptance_length"], number, pooled.paths),
                _cell(figures["draft_acceptance_rate"], percent, pooled.paths, again=True),
                _bounded(figures["drafting_coverage"], percent, pooled.paths),
                _bounded(figures["tokens_per_step"], number, pooled.paths),
                cell(str(pooled.acceptance.requests), pooled.acceptance.requests),
            )
        )
    heads = columns(
        "prompts",
        "category",
        "configuration",
        numeric("acceptance length", "acceptance-length"),
        numeric("draft acceptance rate", "acceptance-rate"),
        numeric("coverage", "drafting-coverage"),
        numeric("tokens per step", "tokens-per-step"),
        numeric("requests"),
    )
    return Table(heads, tuple(rows))


def _matrix(rows: Sequence[MatrixRow]) -> list[Block]:
    names = [name for name in CATEGORIES if any(name in row.entries for row in rows)]
    table = tuple(
        (
            cell(row.configuration),
            *(_entry(row, name) for name in names),
            _length(row.overall_length),
        )
        for row in rows
    )
    return [
        Heading("SPEED-Bench matrix (server metric)", "speed-bench-matrix"),
        Table(columns("configuration", *map(numeric, names), numeric("Overall")), table),
        Paragraph(
            text(
                f"Acceptance length from {STATISTIC}. Its overall is not the ",
                to_anchor("pooled acceptance length", "acceptance-length"),
                " above and is never mixed with it. The same matrix, in the layout of ",
                code("aiperf speed-bench-report"),
                ", is in ",
                code("speed_bench.csv"),
                ".",
            )
        ),
    ]


def _entry(row: MatrixRow, name: str) -> Cell:
    entry = row.entries.get(name)
    if entry is None:
        return cell(NOTHING)
    return linked(shown(entry.length, number), entry.paths, entry.length)


def _from_counters(pooled: PooledAcceptance) -> Text:
    return text(
        code(pooled.configuration),
        " on ",
        code(pooled.prompts),
        ": from the server's counters, as its image reports no acceptance for each request. "
        "Whatever the server answered between the two scrapes is in it.",
    )


def _coverage_note(pooled: PooledAcceptance, coverage: Measurement, steps: Measurement) -> Text:
    return text(
        code(pooled.configuration),
        " on ",
        code(pooled.prompts),
        f" drafted in only {shown(coverage.value, percent)} of its decode steps: its acceptance "
        f"length speaks of those alone. Over all decode steps it made "
        f"{shown(steps.value, number)} tokens per step.",
    )


def _definition(anchor: str) -> Paragraph:
    return Paragraph(text(to_anchor("Defined below", anchor), "."))


def _length(value: float | None) -> Cell:
    return cell(shown(value, number), value)


def _cell(
    figure: Measurement, show: Formatter, paths: Sequence[str], *, again: bool = False
) -> Cell:
    words = shown(figure.value, show) + _brackets(figure.interval, show)
    return (also if again else linked)(words, paths, figure.value)


def _brackets(interval: Interval | None, show: Formatter) -> str:
    return "" if interval is None else f" {within(interval.low, interval.high, show)}"


def _bounded(figure: Measurement, show: Formatter, paths: Sequence[str]) -> Cell:
    words = shown(figure.value, show)
    if figure.low is not None and figure.high is not None and figure.low != figure.high:
        words += f" ({show(figure.low)} to {show(figure.high)})"
    return also(words, paths, figure.value)
