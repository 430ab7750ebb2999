"""The page of a whole report in a real browser: links, points and ids of a run."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

import pytest

from runner.client.report import report_run
from runner.report.write import ReportPaths
from tests.fixtures.browser import Browser
from tests.fixtures.run_folder import build_demo_run


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> ReportPaths:
    return report_run(build_demo_run(tmp_path_factory.mktemp("run")))


@pytest.mark.parametrize("width_px", [1280, 390])
def test_no_error_and_no_sideways_scroll(
    report: ReportPaths, browser: Browser, width_px: int
) -> None:
    browser.open(report.page, width_px)
    assert browser.problems() == []
    assert browser.run("return document.documentElement.scrollWidth") == width_px
    assert browser.run("return performance.getEntriesByType('resource').length") == 0


def test_every_link_of_the_page_resolves(report: ReportPaths, browser: Browser) -> None:
    browser.open(report.page)
    script = "return Array.from(document.querySelectorAll('a'), (one) => one.getAttribute('href'))"
    found = browser.run(script)
    assert isinstance(found, list)
    assert len(found) > 50
    for href in set(found):
        parts = urlsplit(href)
        assert not parts.scheme and not parts.netloc, href
        if parts.path:
            assert (report.folder / unquote(parts.path)).exists(), href
        else:
            named = "return document.getElementById(arguments[0]) !== null"
            assert browser.run(named, unquote(parts.fragment)), href
    identities = browser.run("return Array.from(document.querySelectorAll('[id]'), (o) => o.id)")
    assert isinstance(identities, list)
    doubled = {one for one in identities if identities.count(one) > 1}
    assert not doubled


def test_every_drawn_point_is_on_the_page_with_its_values(
    report: ReportPaths, browser: Browser
) -> None:
    browser.open(report.page)
    count = browser.run(
        "return Array.from(document.querySelectorAll('figure > script'))"
        ".reduce((sum, one) => sum + Object.keys(JSON.parse(one.textContent)).length, 0)"
    )
    assert count == browser.run("return document.querySelectorAll('svg .point').length")
    assert isinstance(count, int) and count > 15
    labels = browser.run(
        "return Array.from(document.querySelectorAll('svg .point'), (one) => one.ariaLabel)"
    )
    assert isinstance(labels, list)
    assert "twin, code, acceptance length 4.00 of 4, coverage 100.0 %" in labels
