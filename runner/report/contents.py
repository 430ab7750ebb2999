"""A report's document: what is said, in the order in which a drafter's model card wants it."""

from __future__ import annotations

from runner.analysis.conclusions import Conclusions
from runner.analysis.speedup import Judgement, counted
from runner.report.document import Block, Document, Paragraph, plain, text, to_anchor
from runner.report.sections.acceptance import acceptance_section
from runner.report.sections.context import long_context_section
from runner.report.sections.definitions import definitions_section
from runner.report.sections.left_out import left_out_section
from runner.report.sections.measured import measured_section
from runner.report.sections.reproduce import files_section, reproduce_section
from runner.report.sections.speed import speed_section
from runner.report.sections.throughput import latency_section, throughput_section
from runner.report.sections.trust import limits_section, lossless_section


def build_document(
    found: Conclusions, *, plots: frozenset[str], files: tuple[str, ...]
) -> Document:
    """The whole report as data.

    Args:
        plots: names of the plots that lie beside the report.
        files: names of its other files.
    """
    run = found.run
    introduction: list[Block] = []
    if run.plan.description:
        introduction.append(Paragraph(plain(run.plan.description)))
    if run.left_out:
        words = text("What was left out and why stands ", to_anchor("below", "left-out"), ".")
        introduction.append(Paragraph(words))
    return Document(
        title=f"{run.plan.job}: speculative decoding on {run.plan.host.name}",
        verdict=verdict_line(found),
        introduction=tuple(introduction),
        sections=(
            measured_section(run),
            acceptance_section(found, plots),
            long_context_section(found, plots),
            speed_section(found, plots),
            throughput_section(found, plots),
            latency_section(run, plots),
            lossless_section(found.lossless),
            reproduce_section(run),
            limits_section(found),
            left_out_section(run),
            definitions_section(),
            files_section(run, files),
        ),
    )


def verdict_line(found: Conclusions) -> str:
    """How much of the plan is in the figures, and how many ratios are below 1."""
    run = found.run
    planned, included = len(run.plan.cells), len(run.included)
    words = f"{included} of {planned} cells succeeded and are in the figures"
    unavailable = len(run.unavailable)
    missing = planned - included - unavailable
    words += f"; {unavailable} unavailable" if unavailable else ""
    words += f"; {missing} left out" if missing else ""
    ratios = [ratio.value for ratio in found.ratios.values() if ratio.value]
    if ratios:
        below = sum(1 for ratio in ratios if ratio < 1)
        words += f". {below} of {len(ratios)} throughput ratios are below 1"
        same = counted(found.comparisons)[Judgement.NO_DIFFERENCE]
        words += f"; {same} show no significant difference" if same else ""
    return f"{words}."
