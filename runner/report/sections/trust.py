"""How far the figures can be trusted: lossless check, differences, rules and warnings."""

from __future__ import annotations

from collections.abc import Iterable

from runner.analysis.conclusions import Conclusions
from runner.analysis.differences import ServerDifferences
from runner.analysis.lossless import SHOWN, LosslessCheck
from runner.analysis.measured import MeasuredAttempt
from runner.analysis.validity.judge import RULES
from runner.models.result import Check, Verdict
from runner.report.document import (
    Block,
    Bullets,
    Cell,
    Heading,
    Paragraph,
    Section,
    Table,
    Text,
    cell,
    code,
    columns,
    linked,
    numeric,
    plain,
    text,
    to_run,
)
from runner.report.figures import NOTHING, percent, shown


def lossless_section(found: Iterable[LosslessCheck]) -> Section:
    """Whether the drafter changed the answers."""
    checks = tuple(found)
    blocks: list[Block] = []
    if not checks:
        blocks.append(Paragraph(plain("No pair of cells is in the figures.")))
    else:
        blocks.append(lossless_table(checks))
        blocks.append(
            Paragraph(
                plain(
                    "Greedy answers of both sides, compared as text. Near-ties between tokens are "
                    "decided by the last bits of a number, which depend on batch sizes: some "
                    "different answers are expected on GPUs."
                )
            )
        )
    return Section("Same answers as without speculation", "lossless", tuple(blocks))


def lossless_table(checks: Iterable[LosslessCheck]) -> Table:
    """Equal answers of each pair, in all and by category, and where the first ones part."""
    rows, notes = [], []
    for one in checks:
        share = one.overall.share if one.overall else None
        by_category = ", ".join(
            f"{name} {agreement.equal}/{agreement.compared}"
            for name, agreement in (one.categories or {}).items()
        )
        rows.append(
            (
                cell(one.prompts),
                cell(one.configuration),
                cell(one.baseline),
                cell(str(one.concurrency), one.concurrency),
                linked(shown(share, percent), one.paths, share),
                cell(one.message),
                cell(by_category or NOTHING),
                cell(shown(one.first, percent), one.first),
                cell(one.verdict),
            )
        )
        if one.divergences:
            first = ", ".join(
                f"{item.row} turn {item.turn + 1} after {item.at} of {item.length} characters"
                for item in one.divergences[:SHOWN]
            )
            more = len(one.divergences) - SHOWN
            tail = f" and {more} more" if more > 0 else ""
            notes.append(
                plain(f"{one.configuration} on {one.prompts} at {one.concurrency}: {first}{tail}.")
            )
    heads = columns(
        "prompts",
        "configuration",
        "baseline",
        numeric("concurrency"),
        numeric("equal answers", "equal-answers"),
        "found",
        "by category (equal / compared)",
        numeric("text before they part (median)"),
        "verdict",
    )
    return Table(heads, tuple(rows), tuple(notes))


def limits_section(found: Conclusions) -> Section:
    """What differs besides the drafter, and what the checks remarked."""
    run = found.run
    blocks: list[Block] = []
    order = list(dict.fromkeys(server.configuration for server in run.plan.servers))
    if len(order) > 1:
        blocks.append(
            Paragraph(
                plain(
                    f"Configurations ran one after the other, in the order {', '.join(order)}: a "
                    "host that got slower or faster meanwhile shows as a difference between them."
                )
            )
        )
    blocks.append(Heading("Differences from the baseline", "differences-from-the-baseline"))
    for item in found.differences:
        blocks += _differences(item)
    if not found.differences:
        says = "No configuration is in the figures together with its baseline."
        blocks.append(Paragraph(plain(says)))
    blocks.append(Heading("Warnings", "warnings"))
    lines = warnings(found)
    blocks.append(Bullets(lines) if lines else Paragraph(plain("None.")))
    blocks += [Heading("Rules", "rules"), rules_table()]
    return Section("Limits", "limits", tuple(blocks))


def rules_table() -> Table:
    """Every validity rule with its threshold and reason; a refused cell is in no figure."""
    rows = tuple(
        (
            cell(rule.name),
            cell(rule.scope),
            cell(rule.does),
            cell(rule.threshold),
            cell(rule.reason),
        )
        for rule in RULES
    )
    return Table(columns("rule", "looks at", "does", "when", "why"), rows)


def warnings(found: Conclusions) -> tuple[Text, ...]:
    """Remarks of the checks on cells in the figures, on groups of them, and of the plan."""
    run = found.run
    lines = [_grouped(name, cells) for name, cells in _by_rule(run.included).items()]
    for one in found.groups:
        links = [part for path in one.paths for part in (" ", to_run("cell", path))]
        lines.append(text(f"{one.subject}, {one.check.name}: {one.check.message};", *links))
    lines += [
        text(to_run(f"{load.ours[0].cell.id} and its baseline", load.ours[0].path),
             f", {load.lengths.name}: {load.lengths.message}")
        for comparison in found.comparisons
        for load in comparison.loads
        if load.lengths is not None and load.lengths.verdict is not Verdict.OK
    ]  # fmt: skip
    lines += [
        plain(f"{finding.subject}: {finding.message}")
        for finding in run.plan.findings
        if finding.level != "note"
    ]
    return tuple(lines)


def _by_rule(
    attempts: Iterable[MeasuredAttempt],
) -> dict[tuple[str, str], list[tuple[MeasuredAttempt, Check]]]:
    """Remarks by configuration and rule."""
    found: dict[tuple[str, str], list[tuple[MeasuredAttempt, Check]]] = {}
    for attempt in attempts:
        for check in attempt.warnings:
            key = attempt.server.configuration, check.name
            found.setdefault(key, []).append((attempt, check))
    return found


def _grouped(key: tuple[str, str], remarks: list[tuple[MeasuredAttempt, Check]]) -> Text:
    """One remark with its cell, or the first of several with a link to each cell."""
    (first, check), *others = remarks
    if not others:
        return text(to_run(first.cell.id, first.path), f", {check.name}: {check.message}")
    configuration, name = key
    links = [part for number, (one, _) in enumerate(remarks, 1)
             for part in (" ", to_run(str(number), one.path))]  # fmt: skip
    return text(
        f"{configuration}, {name}, {len(remarks)} cells: for example {check.message};", *links
    )


def _differences(item: ServerDifferences) -> list[Block]:
    title = f"{item.configuration} and {item.baseline}"
    notes: list[Text] = [
        text(
            "Effective settings were not compared: ",
            code(name),
            " kept no answer of ",
            code("/server_info"),
            ".",
        )
        for name in item.not_compared
    ]
    if item.paths:
        told = [part for path in item.paths for part in (", ", to_run(path, path))][1:]
        notes.append(text("From ", *told, " and the plan."))
    if not item.differences:
        says = Paragraph(plain(f"{title}: no setting that was compared differs."))
        return [says, *map(Paragraph, notes)]
    rows = tuple(
        (
            cell(one.setting),
            cell(one.baseline),
            cell(one.other),
            _why(one.why),
        )
        for one in item.differences
    )
    heads = columns("setting", item.baseline, item.configuration, "why")
    return [Table(heads, rows, tuple(notes))]


def _why(why: str | None) -> Cell:
    return cell(why) if why else cell("not explained by speculation", strong=True)
