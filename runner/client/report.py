"""`runner report` and `runner compare`: from stored runs; nothing is launched, no host is asked."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from runner.errors import ArtifactError

if TYPE_CHECKING:
    from runner.analysis.comparison import RunComparison
    from runner.report.bundle import LeftOut
    from runner.report.write import ReportPaths


def report_run(run_root: Path, out: Path | None = None) -> ReportPaths:
    """Write the report of the run in this folder and say where its files are.

    Raises:
        ArtifactError: the folder holds no run that can be read, or can't be written.
    """
    # pandas and matplotlib take a second to load: only when a report is really made
    from runner.report.write import write_report

    return write_report(run_root, out)


def share_run(run_root: Path, out: Path) -> tuple[ReportPaths, tuple[LeftOut, ...]]:
    """Write a folder to pass on: the report with raw files, without restricted prompts and exports.

    Raises:
        ArtifactError: the run can't be read, or `out` can't be written or holds another bundle.
    """
    from runner.report.write import write_bundle

    return write_bundle(run_root, out)


def compare_stored(
    before: Path, after: Path, *, limit: float, allowed: Collection[str] = ()
) -> RunComparison:
    """What changed from one run to another.

    Args:
        limit: a figure that fell by more than this share is a regression.
        allowed: differences besides the drafter that don't matter here.

    Raises:
        ArtifactError: a run can't be read, the runs are unlike, or have nothing in common.
    """
    from runner.analysis.comparison import compare_runs, unlike
    from runner.analysis.measured import measure_run

    first, second = measure_run(before), measure_run(after)
    found = unlike(first, second)
    if unknown := set(allowed) - {one.key for one in found}:
        raise ArtifactError(
            f"nothing differs in {', '.join(sorted(unknown))}",
            next_step=f"what differs: {', '.join(one.key for one in found) or 'nothing'}",
        )
    refused = [one for one in found if one.key not in allowed]
    if refused:
        listed = "\n".join(f"  {one.key}: {one.before} against {one.after}" for one in refused)
        raise ArtifactError(
            f"{first.plan.run_id} and {second.plan.run_id} differ in more than the drafter:\n"
            f"{listed}",
            next_step=f"if that is meant: {' '.join(f'--allow {one.key}' for one in refused)}",
        )
    comparison = compare_runs(first, second, limit=limit, allowed=allowed)
    if not comparison.changes:
        raise ArtifactError(
            f"{first.plan.run_id} and {second.plan.run_id} have no figure in common",
            next_step="compare runs of the same job",
        )
    return comparison
