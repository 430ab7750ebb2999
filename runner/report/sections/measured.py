"""What was measured, in one table."""

from __future__ import annotations

from runner.analysis.measured import MeasuredRun
from runner.models.plan import PromptFile, ServerPlan
from runner.report.document import Block, Paragraph, Section, Table, cell, columns, plain


def measured_section(run: MeasuredRun) -> Section:
    """Run, host, checkpoints, images, configurations, prompts, budgets and sampling."""
    rows = tuple((cell(name), cell(value)) for name, value in _facts(run))
    blocks: list[Block] = [Table(columns("", ""), rows)]
    blocks.append(
        Paragraph(
            plain(
                "Each figure below links to the folder of the cell that it comes from, or stands "
                "in a row that does."
            )
        )
    )
    return Section("What was measured", "what-was-measured", tuple(blocks))


def _facts(run: MeasuredRun) -> list[tuple[str, str]]:
    plan = run.plan
    device = plan.host.accelerator
    count = f"{device.count} × " if device.count else ""  # noqa: RUF001
    hardware = f"{count}{device.model or 'no accelerator named'} ({device.vendor})"
    sampling = plan.sampling
    return [
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
        ("concurrency", ", ".join(map(str, sorted({one.concurrency for one in plan.cells})))),
        ("repeats", str(max((one.repeat for one in plan.cells), default=1))),
        ("output cap", _caps(run)),
        (
            "sampling",
            f"temperature {sampling.temperature:g}, top_p {sampling.top_p:g}, "
            f"seed {'none' if sampling.seed is None else sampling.seed}, "
            f"{'answers go on after their end' if sampling.ignore_eos else 'answers may end'}",
        ),
        ("planned", f"{plan.created_at} with runner {plan.runner_version}"),
    ]


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
    licence = f"licence {item.licence}" if item.licence else "licence not stated"
    return f"{item.name}: {chosen} of {item.source}{revision}, {licence}{restricted}"


def _caps(run: MeasuredRun) -> str:
    caps = {one.prompts: one.output_tokens for one in run.plan.cells}
    return ", ".join(f"{name} {cap} tokens" for name, cap in caps.items())
