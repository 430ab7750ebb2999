"""Long context: what happens as prompts grow."""

from __future__ import annotations

from collections.abc import Iterable

from runner.analysis.conclusions import Conclusions
from runner.analysis.long_context import BinFigures, LongContext
from runner.report.document import (
    Block,
    Cell,
    Paragraph,
    Plot,
    Section,
    Table,
    also,
    cell,
    columns,
    linked,
    numeric,
    plain,
)
from runner.report.figures import NOTHING, number, percent, shown, within


def long_context_section(found: Conclusions, plots: frozenset[str]) -> Section:
    """MRCR by rendered prompt length."""
    blocks: list[Block] = []
    if not found.long_context:
        blocks.append(Paragraph(plain("No MRCR prompts were part of this run.")))
        return Section("Long context", "long-context", tuple(blocks))
    if "long_context" in plots:
        blocks.append(Plot("long_context", "Acceptance length by prompt length"))
    blocks += [bin_table(found.long_context), longest_table(found.long_context)]
    return Section("Long context", "long-context", tuple(blocks))


def bin_table(found: Iterable[LongContext]) -> Table:
    """Acceptance, net speed-up, score and failures of each bin of prompt lengths."""
    rows = tuple(_row(one, figures) for one in found for figures in one.bins)
    notes = dict.fromkeys(
        f"{one.prompts}, {one.configuration}: net speed-up unavailable: "
        f"{figures.speedup.unavailable}."
        for one in found
        for figures in one.bins
        if figures.speedup.unavailable
    )
    heads = columns(
        "prompts",
        "configuration",
        numeric("concurrency"),
        "prompt tokens",
        numeric("good"),
        numeric("failed"),
        numeric("beyond the context limit"),
        numeric("acceptance length", "acceptance-length"),
        numeric("net speed-up", "net-speed-up"),
        numeric("MRCR score", "mrcr-score"),
    )
    return Table(heads, rows, tuple(map(plain, notes)))


def longest_table(found: Iterable[LongContext]) -> Table:
    """The longest prompt that got an answer."""
    rows = tuple(
        (
            cell(one.prompts),
            cell(one.configuration),
            cell(str(one.concurrency), one.concurrency),
            cell(NOTHING if one.longest is None else f"{one.longest:,}", one.longest),
            cell(one.no_score or "scored"),
        )
        for one in found
    )
    heads = columns(
        "prompts",
        "configuration",
        numeric("concurrency"),
        numeric("longest answered prompt (tokens)"),
        "answers",
    )
    return Table(heads, rows)


def _row(one: LongContext, figures: BinFigures) -> tuple[Cell, ...]:
    length = figures.acceptance.length if figures.acceptance else None
    words = shown(length, number)
    if figures.interval is not None:
        words += f" {within(figures.interval.low, figures.interval.high, number)}"
    ratio = figures.speedup
    net = shown(ratio.value, number)
    if ratio.interval is not None:
        net += f" {within(ratio.interval.low, ratio.interval.high, number)}"
    score = shown(figures.score, percent)
    return (
        cell(one.prompts),
        cell(one.configuration),
        cell(str(one.concurrency), one.concurrency),
        cell(figures.bin),
        cell(str(figures.good), figures.good),
        cell(str(figures.failed), figures.failed),
        cell(str(figures.context_limit), figures.context_limit),
        linked(words, figures.paths, length),
        also(net, figures.paths, ratio.value, strong=(ratio.value or 1) < 1),
        cell(f"{score} of {figures.scored}" if figures.scored else NOTHING, figures.score),
    )
