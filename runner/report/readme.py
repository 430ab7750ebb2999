"""`report/README.md`: the page that people read, rendered from a template."""

from __future__ import annotations

import shlex

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from runner.analysis.differences import server_differences
from runner.analysis.measured import MeasuredRun
from runner.analysis.pairing import throughput_ratios
from runner.analysis.pooling import pool_acceptance
from runner.models.plan import PromptFile, ServerPlan
from runner.report.figures import percent
from runner.report.tables import (
    Links,
    Table,
    acceptance_table,
    difference_tables,
    escape,
    latency_table,
    left_out_table,
    position_table,
    throughput_tables,
    unavailable_table,
)

TEMPLATE = "README.md.j2"


def render_readme(run: MeasuredRun, *, prefix: str, plots: frozenset[str]) -> str:
    """The report as Markdown.

    Args:
        run: what was measured.
        prefix: relative path from the report to the run's folder.
        plots: names of the PNG files that exist beside it.
    """
    environment = Environment(
        loader=PackageLoader("runner.report"),
        autoescape=select_autoescape(default=False),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["md"] = escape
    environment.filters["percent"] = percent
    environment.globals["table"] = _markdown
    links = Links(prefix)
    pools = pool_acceptance(run.attempts)
    return environment.get_template(TEMPLATE).render(
        run=run,
        plan=run.plan,
        state=run.state,
        prefix=prefix,
        plots=plots,
        verdict=verdict_line(run),
        facts=_facts(run),
        acceptance=acceptance_table(pools, links),
        positions=position_table(pools, links),
        throughput=throughput_tables(run, links),
        latency=latency_table(run, links),
        differences=difference_tables(server_differences(run), links),
        order=[server.configuration for server in run.plan.servers],
        once=max((cell.repeat for cell in run.plan.cells), default=1) == 1,
        left_out=left_out_table(run, links),
        unavailable=unavailable_table(run),
        warnings=_warnings(run, links),
        servers=_commands(run),
        load=_load_command(run),
    )


def verdict_line(run: MeasuredRun) -> str:
    """How much of the plan is in the figures, and how many pairs are slower than the baseline."""
    planned, included = len(run.plan.cells), len(run.included)
    text = f"{included} of {planned} cells succeeded and are in the figures"
    unavailable = len(run.unavailable)
    missing = planned - included - unavailable
    text += f"; {unavailable} unavailable" if unavailable else ""
    text += f"; {missing} left out" if missing else ""
    ratios = [ratio for ratio in throughput_ratios(run).values() if ratio.value]
    below = sum(1 for ratio in ratios if ratio.value is not None and ratio.value < 1)
    if ratios:
        text += f". {below} of {len(ratios)} throughput ratios are below 1"
    return text + "."


def _markdown(table: Table) -> str:
    lines = [" | ".join(table.header), " | ".join("---" for _ in table.header)]
    lines += [" | ".join(row) for row in table.rows]
    return "\n".join(f"| {line} |" for line in lines)


def _facts(run: MeasuredRun) -> Table:
    plan = run.plan
    device = plan.host.accelerator
    count = f"{device.count} × " if device.count else ""  # noqa: RUF001
    hardware = f"{count}{device.model or 'no accelerator named'} ({device.vendor})"
    sampling = plan.sampling
    pairs = [
        ("run", f"{plan.run_id}, {run.state.status}"),
        ("job", plan.job),
        ("host", f"{plan.host.name}: {hardware}"),
        ("model", ", ".join(dict.fromkeys(server.model for server in plan.servers))),
        *(
            (role, f"{item.name} at {item.revision or 'no revision'} ({item.revision_source})")
            for role, item in plan.checkpoints.items()
        ),
        *(
            (f"image {role}", f"{image.reference}, {image.digest}")
            for role, image in plan.images.items()
        ),
        *(("configuration", _configuration(server)) for server in plan.servers),
        *(("prompts", _prompts(item)) for item in plan.prompts),
        ("concurrency", ", ".join(map(str, sorted({cell.concurrency for cell in plan.cells})))),
        ("repeats", str(max((cell.repeat for cell in plan.cells), default=1))),
        ("output cap", _caps(run)),
        (
            "sampling",
            f"temperature {sampling.temperature:g}, top_p {sampling.top_p:g}, "
            f"seed {'none' if sampling.seed is None else sampling.seed}, "
            f"{'answers go on after their end' if sampling.ignore_eos else 'answers may end'}",
        ),
        ("planned", f"{plan.created_at} with runner {plan.runner_version}"),
    ]
    return Table("", ("", ""), tuple((name, escape(value)) for name, value in pairs))


def _configuration(server: ServerPlan) -> str:
    speculative = server.speculative
    if speculative is None:
        return f"{server.configuration}: no speculation"
    drafter = f", drafter {speculative.model}" if speculative.model else ""
    return (
        f"{server.configuration}: {speculative.method}, "
        f"k = {speculative.num_speculative_tokens}{drafter}"
    )


def _prompts(item: PromptFile) -> str:
    """One prompt set: rows, source, and what pins a dataset."""
    chosen = item.selection or f"{item.rows} rows"
    revision = f" at {item.revision}" if item.revision else ""
    restricted = ", restricted: prompts must not be passed on" if item.restricted else ""
    return f"{item.name}: {chosen} of {item.source}{revision}, {_licence(item.licence)}{restricted}"


def _licence(licence: str | None) -> str:
    return f"licence {licence}" if licence else "licence not stated"


def _caps(run: MeasuredRun) -> str:
    caps = {cell.prompts: cell.output_tokens for cell in run.plan.cells}
    return ", ".join(f"{name} {cap} tokens" for name, cap in caps.items())


def _warnings(run: MeasuredRun, links: Links) -> list[str]:
    lines = [
        f"{links.to(attempt.cell.id, attempt.path)}, {escape(check.name)}: {escape(check.message)}"
        for attempt in run.included
        for check in attempt.warnings
    ]
    lines += [
        f"{escape(finding.subject)}: {escape(finding.message)}"
        for finding in run.plan.findings
        if finding.level != "note"
    ]
    return lines


def _commands(run: MeasuredRun) -> list[tuple[str, str]]:
    return [
        (
            server.configuration,
            shlex.join([*(server.container.entrypoint or ()), *server.container.command]),
        )
        for server in run.plan.servers
    ]


def _load_command(run: MeasuredRun) -> tuple[str, str] | None:
    if not run.plan.cells:
        return None
    cell = run.plan.cells[0]
    return cell.id, shlex.join([*(cell.container.entrypoint or ()), *cell.container.command])
