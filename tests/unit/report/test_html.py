"""The page in a real browser: it sorts, tells values, fits a phone, and asks for nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from runner.client.report import report_run
from runner.report.document import (
    Bullets,
    Code,
    Document,
    Into,
    Link,
    Paragraph,
    Plot,
    Section,
    Span,
    Table,
    cell,
    columns,
    numeric,
    plain,
)
from runner.report.drawn import DrawnPoint
from runner.report.html import inline_svg, render_page
from runner.report.write import ReportPaths
from tests.fixtures.browser import Browser
from tests.fixtures.run_folder import build_demo_run

EVIL = "<script>document.title = 'taken over'</script>"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> ReportPaths:
    return report_run(build_demo_run(tmp_path_factory.mktemp("run")))


def texts(browser: Browser, selector: str) -> list[str]:
    script = "return Array.from(document.querySelectorAll(arguments[0]), (one) => one.textContent)"
    found = browser.run(script, selector)
    assert isinstance(found, list)
    return found


def written(tmp_path: Path, *blocks: object) -> Path:
    section = Section("Only one", "only-one", tuple(blocks))  # type: ignore[arg-type]
    document = Document(EVIL, EVIL, (Paragraph(plain(EVIL)),), (section,))
    page = tmp_path / "page.html"
    page.write_text(render_page(document, prefix="..", svgs={}, points={}))
    return page


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
    found = browser.run("return Array.from(document.links, (one) => one.getAttribute('href'))")
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


def test_a_click_sorts_numbers_as_numbers(tmp_path: Path, browser: Browser) -> None:
    rows = [("a", 10.0), ("b", 9.0), ("c", None), ("d", 100.0)]
    table = Table(
        columns("name", numeric("value")),
        tuple((cell(name), cell("–" if v is None else f"{v:g}", v)) for name, v in rows),  # noqa: RUF001
    )
    browser.open(written(tmp_path, table))
    press = "document.querySelectorAll('th button')[arguments[0]].click()"
    names = "tbody td:first-child"
    assert texts(browser, names) == ["a", "b", "c", "d"]
    browser.run(press, 1)
    assert texts(browser, names) == ["b", "a", "d", "c"]
    assert browser.run("return document.querySelectorAll('th')[1].ariaSort") == "ascending"
    browser.run(press, 1)
    assert texts(browser, names) == ["d", "a", "b", "c"]
    assert browser.run("return document.querySelectorAll('th')[1].ariaSort") == "descending"
    browser.run(press, 0)
    assert texts(browser, names) == ["a", "b", "c", "d"]
    assert browser.run("return document.querySelectorAll('th')[1].ariaSort") is None


def test_a_point_tells_its_values_and_leads_to_its_cell(
    report: ReportPaths, browser: Browser
) -> None:
    browser.open(report.page)
    point = "#acceptance-1"
    hover = (
        "document.querySelector(arguments[0])"
        ".dispatchEvent(new PointerEvent('pointerenter', {pointerType: 'mouse'}))"
    )
    assert browser.run("return document.getElementById('tip').hidden") is True
    browser.run(hover, point)
    assert browser.run("return document.getElementById('tip').hidden") is False
    assert texts(browser, "#tip *")[:2] == ["twin, code", "acceptance length: 4.00 of 4"]
    browser.run("document.querySelector(arguments[0]).focus()", point)
    label = browser.run("return document.querySelector(arguments[0]).ariaLabel", point)
    assert str(label).startswith("twin, code: acceptance length 4.00 of 4")
    click = "document.querySelector(arguments[0]).dispatchEvent(new PointerEvent('click'))"
    browser.run(click, point)
    assert browser.driver.current_url.endswith("/cells/twin-code-c4-r1/attempt-1/")


def test_every_drawn_point_is_on_the_page(report: ReportPaths, browser: Browser) -> None:
    browser.open(report.page)
    known = browser.run("return JSON.parse(document.getElementById('points').textContent)")
    assert isinstance(known, dict)
    assert len(known) > 15
    assert browser.run("return document.querySelectorAll('svg .point').length") == len(known)


def test_text_stays_text(tmp_path: Path, browser: Browser) -> None:
    blocks = (
        Table(columns(EVIL), ((cell(EVIL),),), (plain(EVIL),)),
        Bullets((plain(EVIL),)),
        Code(EVIL),
        Plot("absent", EVIL),
        Paragraph((Span("to a cell", Link(Into.RUN, 'cells/"><script>')),)),
    )
    browser.open(written(tmp_path, *blocks))
    assert browser.problems() == []
    assert browser.run("return document.title") == EVIL
    assert texts(browser, "tbody td") == [EVIL]
    assert browser.run("return document.scripts.length") == 2


def test_ids_of_two_plots_stay_apart() -> None:
    svg = (
        '<?xml version="1.0"?><!DOCTYPE svg><svg viewBox="0 0 72 36" width="1in">'
        '<metadata><a/></metadata><defs><path id="m1"/></defs><g id="p-0" clip-path="url(#c1)">'
        '<use xlink:href="#m1"/></g></svg>'
    )
    one = inline_svg(svg, "p", 'say "hi" <b>')
    assert one.startswith('<svg class="drawing" style="max-width:96px"')
    assert 'aria-label="say &#34;hi&#34; &lt;b&gt;"' in one
    assert re.findall(r'id="([^"]+)"', one) == ["p-m1", "p-0"]
    assert "url(#p-c1)" in one and 'xlink:href="#p-m1"' in one
    assert "metadata" not in one and "DOCTYPE" not in one


def test_data_can_not_end_its_element() -> None:
    document = Document("t", "v", (), ())
    point = DrawnPoint("p-0", "</script><script>alert(1)", (("a", "<b>"),))
    page = render_page(document, prefix="..", svgs={}, points={"p": [point]})
    assert page.count("</script>") == 2
