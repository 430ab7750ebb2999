"""The page on metrics names every rule and every layout that there is, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from runner.analysis.layouts.catalogue import layouts, release
from runner.analysis.validity.judge import RULES
from runner.report.summary import SCHEMA_VERSION

PAGE = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text()


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]


def test_every_rule_is_told() -> None:
    told = re.findall(r"^\| (\w+) \|", section("Validity rules"), flags=re.M)
    told.remove("rule")
    assert sorted(told) == sorted({rule.name for rule in RULES})


def test_the_versions_of_aiperf_that_are_read() -> None:
    ordered = sorted((layout.first for layout in layouts()), key=release)
    assert f"{ordered[0]} to {ordered[-1]}" in section("AIPerf's versions")


def test_the_version_of_the_summary() -> None:
    assert f"`schema_version` {SCHEMA_VERSION}" in section("`report/summary.json`")
