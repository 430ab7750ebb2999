"""Speed-up from matched points: at equal concurrency, interactivity and throughput."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from runner.analysis.conclusions import Conclusions
from runner.analysis.kv_cache import KvCache
from runner.analysis.loads import BestLength
from runner.analysis.measured import MeasuredAttempt
from runner.analysis.speedup import (
    THROUGHPUT,
    Comparison,
    Judgement,
    LoadPair,
    Ratio,
    counted,
)
from runner.analysis.tradeoff import Held, Tradeoff
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
    Text,
    cell,
    columns,
    linked,
    numeric,
    plain,
    text,
    to_anchor,
)
from runner.report.figures import NOTHING, number, shown, throughput, within


def speed_section(found: Conclusions, plots: frozenset[str]) -> Section:
    """Every condition against its baseline."""
    blocks: list[Block] = []
    if not found.comparisons:
        blocks.append(Paragraph(plain("No configuration of a sweep has a baseline.")))
        return Section("Speed-up", "speed-up", tuple(blocks))
    blocks.append(Paragraph(plain(count_sentence(found.comparisons))))
    for name, says in (
        ("tradeoff", "Output token throughput against interactivity"),
        ("speedup", "Throughput ratio against concurrency"),
    ):
        if name in plots:
            blocks.append(Plot(name, says))
    blocks.append(Heading("At equal concurrency", "equal-concurrency"))
    blocks.append(equal_concurrency_table(found.comparisons))
    blocks.append(Heading("At equal interactivity and at equal throughput", "equal-interactivity"))
    blocks += _equal(found.tradeoffs)
    blocks.append(Heading("Break-even", "break-even"))
    blocks.append(break_even_table(found))
    if found.best_lengths:
        blocks.append(Heading("Best draft length", "best-draft-length"))
        blocks.append(best_length_table(found.best_lengths))
    blocks.append(Heading("KV cache", "kv-cache"))
    blocks += _kv_caches(found)
    return Section("Speed-up", "speed-up", tuple(blocks))


def count_sentence(comparisons: Iterable[Comparison]) -> str:
    """How many throughput ratios there are and what they say; those below 1 always with them."""
    counts = counted(comparisons)
    known = sum(counts.values()) - counts[Judgement.UNAVAILABLE]
    parts = [
        f"{counts[one]} {one}"
        for one in (Judgement.ABOVE, Judgement.BELOW, Judgement.NO_DIFFERENCE)
    ]
    parts += [
        f"{counts[one]} {one}"
        for one in (Judgement.NOT_KNOWN, Judgement.UNAVAILABLE)
        if counts[one]
    ]
    noun = "throughput ratio" if known == 1 else "throughput ratios"
    return f"{known} {noun} at equal concurrency: {', '.join(parts)}."


def equal_concurrency_table(comparisons: Iterable[Comparison]) -> Table:
    """Ratios of throughput, interactivity and time to first token at each load."""
    rows, notes = [], dict[str, None]()
    for comparison in comparisons:
        for load in comparison.loads:
            rows.append(_load_row(comparison, load))
            for ratio in (load.throughput, load.interactivity):
                if ratio.unavailable:
                    place = f"{comparison.prompts}, {comparison.name}, {load.concurrency}"
                    notes.setdefault(f"{place}: unavailable: {ratio.unavailable}.")
    heads = columns(
        "prompts",
        "configuration",
        "baseline",
        numeric("concurrency"),
        numeric("baseline (tokens/s)", "throughput"),
        numeric("configuration (tokens/s)", "throughput"),
        numeric("throughput ratio", "throughput-ratio"),
        "says",
        numeric("interactivity ratio", "interactivity-per-user"),
        numeric("time to first token ratio", "time-to-first-token"),
    )
    return Table(heads, tuple(rows), tuple(plain(note) for note in notes))


def _load_row(comparison: Comparison, load: LoadPair) -> tuple[Cell, ...]:
    ours, theirs = _mean(load.ours), _mean(load.theirs)
    below = load.throughput.value is not None and load.throughput.value < 1
    return (
        cell(comparison.prompts),
        cell(comparison.name),
        cell(comparison.baseline.configuration),
        cell(str(load.concurrency), load.concurrency),
        linked(shown(theirs, throughput), [one.path for one in load.theirs], theirs),
        linked(shown(ours, throughput), [one.path for one in load.ours], ours),
        _ratio(load.throughput, strong=below),
        cell(load.throughput.judgement),
        _ratio(load.interactivity),
        _ratio(load.ttft),
    )


def _mean(attempts: Sequence[MeasuredAttempt]) -> float | None:
    """Mean over repeats."""
    values = [figure.value for one in attempts if (figure := one.figure(THROUGHPUT)) is not None]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _ratio(ratio: Ratio, *, strong: bool = False) -> Cell:
    if ratio.value is None:
        return cell("unavailable" if ratio.unavailable else NOTHING)
    words = number(ratio.value)
    if ratio.interval is not None:
        words += f" {within(ratio.interval.low, ratio.interval.high, number)}"
    return cell(words, ratio.value, strong=strong)


def _equal(tradeoffs: Iterable[Tradeoff]) -> list[Block]:
    rows, notes = [], list[Text]()
    for one in tradeoffs:
        comparison = one.comparison
        if one.unavailable:
            why = f"{comparison.prompts}, {comparison.name}: unavailable: {one.unavailable}."
            notes.append(plain(why))
        for point in one.equal:
            seen = point.held is Held.INTERACTIVITY
            unit = "tokens/s per user" if seen else "tokens/s"
            rows.append(
                (
                    cell(comparison.prompts),
                    cell(comparison.name),
                    cell(point.held),
                    cell(f"{throughput(point.at)} {unit}", point.at),
                    cell(throughput(point.theirs), point.theirs),
                    cell(throughput(point.ours), point.ours),
                    _ratio(point.ratio, strong=point.ratio.value is not None
                           and point.ratio.value < 1),
                    cell(point.ratio.judgement),
                )
            )  # fmt: skip
    heads = columns(
        "prompts",
        "configuration",
        "equal",
        numeric("at"),
        numeric("baseline, the other figure"),
        numeric("configuration, the other figure"),
        numeric("ratio", "equal-points"),
        "says",
    )
    table = Table(heads, tuple(rows), tuple(notes))
    explained = text(
        "Interpolated between measured points, never beyond them: ",
        to_anchor("how", "equal-points"),
        ". At equal interactivity the ratio is that of throughputs, at equal throughput that of "
        "interactivities.",
    )
    return [table, Paragraph(explained)] if rows else [Paragraph(note) for note in notes]


def break_even_table(found: Conclusions) -> Table:
    """Where the throughput ratio crosses 1."""
    rows = tuple(
        (
            cell(comparison.prompts),
            cell(comparison.name),
            cell(one.text, one.concurrency),
        )
        for comparison, one in zip(found.comparisons, found.break_evens, strict=True)
    )
    return Table(columns("prompts", "configuration", "throughput ratio"), rows)


def best_length_table(found: Iterable[BestLength]) -> Table:
    """The k with the highest throughput at each load, and those that can't be told from it."""
    rows = []
    for one in found:
        rivals = ", ".join(f"k = {k}: no significant difference" for k in one.rivals)
        unknown = ", ".join(f"k = {k}: interval not known" for k in one.unknown)
        rows.append(
            (
                cell(one.prompts),
                cell(one.method),
                cell(str(one.concurrency), one.concurrency),
                linked(f"{one.k}", one.paths, one.k),
                cell(throughput(one.throughput), one.throughput),
                cell(", ".join(filter(None, (rivals, unknown))) or "better than every other"),
            )
        )
    heads = columns(
        "prompts",
        "drafter",
        numeric("concurrency"),
        numeric("best k"),
        numeric("tokens/s", "throughput"),
        "against other lengths",
    )
    return Table(heads, tuple(rows))


def _kv_caches(found: Conclusions) -> list[Block]:
    rows = []
    pairs = dict.fromkeys((one.server.id, one.baseline.id) for one in found.comparisons)
    for ours_id, theirs_id in pairs:
        ours, theirs = found.kv_caches.get(ours_id), found.kv_caches.get(theirs_id)
        plan = found.run.plan
        share = ours.tokens / theirs.tokens if ours and theirs and theirs.tokens else None
        rows.append(
            (
                cell(plan.server(ours_id).configuration),
                cell(plan.server(theirs_id).configuration),
                _tokens(theirs),
                _tokens(ours),
                cell(shown(share, number), share),
            )
        )
    heads = columns(
        "configuration",
        "baseline",
        numeric("baseline (tokens)"),
        numeric("configuration (tokens)"),
        numeric("share left"),
    )
    says = "Tokens that fit in each server's KV cache: a drafter's weights and cache take room."
    return [Table(heads, tuple(rows)), Paragraph(plain(says))]


def _tokens(one: KvCache | None) -> Cell:
    if one is None:
        return cell("not told")
    # the folder: a bundle to share may be without the file
    folder = str(PurePosixPath(one.source).parent)
    return Cell((Span(f"{one.tokens:,}", Link(Into.RUN, folder)),), one.tokens)
