"""`runner report`: a report from a stored run; nothing is launched and no host is asked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runner.report.write import ReportPaths


def report_run(run_root: Path, out: Path | None = None) -> ReportPaths:
    """Write the report of the run in this folder and say where its files are.

    Raises:
        ArtifactError: the folder holds no run that can be read, or can't be written.
    """
    # pandas and matplotlib take a second to load: only when a report is really made
    from runner.report.write import write_report

    return write_report(run_root, out)
