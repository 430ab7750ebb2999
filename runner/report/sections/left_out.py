"""What is in no figure: conditions that did not run, and attempts that failed or were refused."""

from __future__ import annotations

from runner.analysis.measured import MeasuredRun
from runner.report.document import (
    Block,
    Cell,
    Heading,
    Paragraph,
    Section,
    Table,
    cell,
    columns,
    linked,
    numeric,
    plain,
)
from runner.report.figures import NOTHING

_TOLD_BY = {"server_refused": "the server itself", "not_needed": "the plan"}


def left_out_section(run: MeasuredRun) -> Section:
    """Everything that was planned, or could have been, and is in no figure."""
    blocks: list[Block] = []
    table = left_out_table(run)
    if table.rows:
        blocks += [table, Paragraph(plain("None of these is in any figure."))]
    else:
        blocks.append(Paragraph(plain("Nothing: every planned cell is in the figures.")))
    unavailable = unavailable_table(run)
    if unavailable.rows:
        head = Heading("Conditions that did not run", "conditions-that-did-not-run")
        blocks += [head, unavailable]
    return Section("Left out", "left-out", tuple(blocks))


def left_out_table(run: MeasuredRun) -> Table:
    """Every attempt that is in no figure, with its reason."""
    rows = []
    for attempt in run.left_out:
        counts = attempt.counts
        good = counts.good if counts else None
        rows.append(
            (
                linked(attempt.cell.id, [attempt.path]),
                cell(str(attempt.number) if attempt.number else NOTHING, attempt.number),
                cell(str(attempt.status)),
                cell(str(attempt.reason) if attempt.reason else NOTHING),
                cell(attempt.message),
                cell(f"{good} of {counts.planned}" if counts else NOTHING, good),
            )
        )
    heads = columns(
        "cell",
        numeric("attempt"),
        "status",
        "reason",
        "what was found",
        numeric("good requests"),
    )
    return Table(heads, tuple(rows))


def unavailable_table(run: MeasuredRun) -> Table:
    """Conditions that can't be had here, with the reason: of the plan, then of the run."""
    rows = [
        (cell(item.condition), cell("the plan"), cell(item.reason)) for item in run.plan.unavailable
    ]
    seen: dict[str, tuple[Cell, ...]] = {}
    for attempt in run.unavailable:
        reason = str(attempt.reason)
        words = attempt.message.removeprefix("unavailable: ")
        row = (
            cell(attempt.server.configuration),
            cell(_TOLD_BY.get(reason, reason)),
            cell(words),
        )
        seen.setdefault(attempt.server.id, row)
    return Table(columns("condition", "told by", "reason"), (*rows, *seen.values()))
