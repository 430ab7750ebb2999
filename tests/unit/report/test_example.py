"""The example report in the documents: its links lead somewhere, its page works."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from runner.jobs.loading import load_job
from runner.report.summary import SCHEMA_VERSION
from tests.fixtures.browser import Browser

EXAMPLE = Path(__file__).parents[3] / "docs" / "example"
REPORT = EXAMPLE / "report"


@pytest.mark.parametrize("name", ["README.md", "page.html"])
def test_every_link_resolves(name: str) -> None:
    text = (REPORT / name).read_text()
    pattern = r"\]\(([^)#]+)\)" if name.endswith(".md") else r'href="([^"#:]+)"'
    targets = set(re.findall(pattern, text)) - {"data"}
    assert len(targets) > 20
    for target in targets:
        assert (REPORT / unquote(target)).exists(), target


@pytest.mark.parametrize("width_px", [1280, 390])
def test_the_page_works(browser: Browser, width_px: int) -> None:
    browser.open(REPORT / "page.html", width_px)
    assert browser.problems() == []
    assert browser.run("return document.documentElement.scrollWidth") == width_px


def test_it_is_of_this_version_and_of_this_job() -> None:
    summary = json.loads((REPORT / "summary.json").read_text())
    assert summary["schema_version"] == SCHEMA_VERSION
    job = load_job(EXAMPLE / "job.yaml", ()).job
    assert summary["run"]["job"] == job.name
    run = summary["run"]
    assert run["cells_included"] + len(summary["left_out"]) == run["cells_planned"] == 60
    assert run["cells_included"] == len(summary["cells"])


def test_nothing_of_the_machine_is_in_it() -> None:
    for path in REPORT.rglob("*"):
        if path.suffix in (".md", ".html", ".json", ".csv", ".jsonl"):
            assert "/tmp/" not in path.read_text(), path
