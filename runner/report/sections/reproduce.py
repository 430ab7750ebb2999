"""How to do it again: images by digest, revisions, commands; and what lies beside the report."""

from __future__ import annotations

import shlex

from runner.analysis.measured import MeasuredRun
from runner.models.container import ContainerSpec
from runner.report.document import (
    Block,
    Bullets,
    Cell,
    Code,
    Into,
    Link,
    Paragraph,
    Section,
    Span,
    Table,
    cell,
    code,
    columns,
    numeric,
    text,
    to_run,
)


def reproduce_section(run: MeasuredRun) -> Section:
    """Images, prompt sets and commands."""
    plan = run.plan
    settings = [part for item in plan.overrides for part in (", ", code(f"--set {item}"))][1:]
    blocks: list[Block] = [
        Paragraph(
            text(
                to_run("plan.json", "plan.json"),
                " holds every option of every container. Job ",
                code(plan.job),
                " on host ",
                code(plan.host.name),
                *((", with ", *settings) if settings else ()),
                ":",
            )
        ),
        Table(
            columns("image", "reference", "digest"),
            tuple(
                (cell(role), cell(image.reference), _typed(image.digest))
                for role, image in plan.images.items()
            ),
        ),
        Table(
            columns("prompts", numeric("rows"), "revision", "SHA-256 of what was sent"),
            tuple(
                (
                    cell(item.name),
                    cell(str(item.rows), item.rows),
                    cell(item.revision or "of this file alone"),
                    _typed(item.sha256),
                )
                for item in plan.prompts
            ),
        ),
    ]
    for server in plan.servers:
        blocks += [
            Paragraph(text("Server ", code(server.configuration), ":")),
            Code(_command(server.container)),
        ]
    if plan.cells:
        first = plan.cells[0]
        says = " (the others differ in prompts and concurrency):"
        blocks += [
            Paragraph(text("Load of cell ", code(first.id), says)),
            Code(_command(first.container)),
        ]
    return Section("How to reproduce", "how-to-reproduce", tuple(blocks))


def files_section(run: MeasuredRun, names: tuple[str, ...]) -> Section:
    """What lies beside the report, and where the raw files are."""
    says = {
        "summary.json": "every figure with unit, statistic, interval and cell",
        "page.html": "this report as one page: tables that sort, plots that tell their values",
        "handoff.json": "the run in short, for machines that read results",
        "speed_bench.csv": "the SPEED-Bench matrix as `aiperf speed-bench-report` writes it",
    }
    items = [
        text(Span(name, Link(Into.REPORT, name)), f": {says.get(name, 'the same as a table')}")
        for name in names
    ]
    blocks: tuple[Block, ...] = (
        Bullets(tuple(items)),
        Paragraph(
            text(
                "AIPerf's own exports lie untouched in ",
                code("load/aiperf/"),
                " of each cell; the sizes and hashes of all raw files are in ",
                to_run("manifest.json", "manifest.json" if _whole(run) else ""),
                ".",
            )
        ),
    )
    return Section("Files", "files", blocks)


def _whole(run: MeasuredRun) -> bool:
    return (run.root / "manifest.json").exists()


def _command(container: ContainerSpec) -> str:
    return shlex.join([*(container.entrypoint or ()), *container.command])


def _typed(words: str) -> Cell:
    return Cell((code(words),)) if words else cell("")
