"""The page in a real browser: it sorts, tells values, fits a phone, and asks for nothing else."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from runner.report.document import (
    Block,
    Bullets,
    Code,
    Column,
    Document,
    Heading,
    Into,
    Link,
    Paragraph,
    Plot,
    Section,
    Span,
    Table,
    cell,
    code,
    columns,
    linked,
    numeric,
    plain,
    text,
    to_anchor,
    to_run,
)
from runner.report.drawn import DrawnPoint
from runner.report.page import render_page, sort_value
from tests.fixtures.browser import Browser

EVIL = "</script><script>document.title = 'taken over'</script>"
LONG = "a-name-of-a-model/that-nobody-would-break-and-that-a-phone-can-not-hold-" + "x" * 60
RATES = (("k=10", 10.0), ("k=9", 9.5), ("k=2", None), ("k=100", 100.25))


def drawn_svg(gids: Sequence[str]) -> str:
    """A plot as the report draws it: clip paths, markers, and a group for each point."""
    figure = Figure(figsize=(7, 3.5), layout="constrained")
    axes = figure.subplots()
    axes.plot(range(len(gids)), range(len(gids)), marker="o", clip_on=True)
    axes.set(title='url(#x) <b> & id="y"', xlabel="concurrency", ylabel="tokens per second")
    for place, gid in enumerate(gids):
        axes.plot([place], [place], marker="s", linestyle="none", gid=gid)
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg")
    return buffer.getvalue()


def points(name: str) -> tuple[DrawnPoint, ...]:
    return (
        DrawnPoint(f"{name}-0", "baseline", (("throughput", "120 tok/s"), ("k", "0")), ""),
        DrawnPoint(
            f"{name}-1", "ngram, code", (("throughput", "201 tok/s"), ("k", "4")), "cells/a b-c1"
        ),
        DrawnPoint(f"{name}-2", EVIL, (("<i>", EVIL),), "cells/c"),
        DrawnPoint("not-there", "nothing", ()),
    )


def rates() -> Table:
    heads = columns("configuration", numeric("tokens per second", "rate"), "seen")
    rows = tuple(
        (
            linked(name, ["cells/one"]),
            cell("none" if value is None else f"{value:g}", value),
            cell("yes"),
        )
        for name, value in RATES
    )
    return Table(heads, rows, (text("A note with ", code("words"), "."),))


def wide() -> Table:
    heads = (Column("model"), *(numeric(f"a rather long heading {n}") for n in range(12)))
    row = (cell(LONG), *(cell(f"{n * 1234.5:,.1f}", n * 1234.5) for n in range(12)))
    return Table(heads, (row, row))


def whole() -> Document:
    """Every kind of block, and the same plot twice beside one that shares its matplotlib ids."""
    facts = Table(columns("", ""), ((cell("model"), cell(LONG)), (cell("hosts"), cell("2"))))
    introduction: tuple[Block, ...] = (
        facts,
        Paragraph(
            text("See ", to_anchor("the plots", "plots"), " and ", Span("this", strong=True))
        ),
    )
    plots = Section(
        "Plots",
        "plots",
        (Plot("one", f'says "{EVIL}"'), Plot("two", "the second"), Plot("one", "again")),
    )
    tables = Section("Tables", "tables", (Heading("Rates", "rates"), rates(), wide()))
    more = Section(
        "Reproduce",
        "reproduce",
        (
            Code(f"runner run --model {LONG} \\\n  --k 4"),
            Bullets((text("to ", to_run("the cell", "cells/a b")), plain(LONG))),
            Paragraph(plain("Rate: tokens of all requests by the window."), "rate"),
            Plot("absent", "what was not drawn"),
        ),
    )
    verdict = "12 of 12 cells measured; none was left out."
    return Document(f"Speculative decoding of {LONG}", verdict, introduction, (plots, tables, more))


def rendered(document: Document, folder: Path) -> Path:
    names = ("one", "two")
    svgs = {name: drawn_svg([f"{name}-{n}" for n in range(3)]) for name in names}
    page = folder / "page.html"
    told = {name: points(name) for name in names}
    page.write_text(render_page(document, prefix="..", svgs=svgs, points=told), encoding="utf-8")
    return page


def small(*blocks: Block, prefix: object = "..") -> str:
    document = Document(EVIL, EVIL, (Paragraph(plain(EVIL)),), (Section(EVIL, "only", blocks),))
    return render_page(document, prefix=prefix, svgs={}, points={})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "report"
    folder.mkdir()
    return rendered(whole(), folder)


def texts(browser: Browser, selector: str) -> list[str]:
    script = "return Array.from(document.querySelectorAll(arguments[0]), (one) => one.textContent)"
    found = browser.run(script, selector)
    assert isinstance(found, list)
    return found


def find(browser: Browser, selector: str) -> WebElement:
    return browser.driver.find_element(By.CSS_SELECTOR, selector)


def tip(browser: Browser) -> str | None:
    shown = find(browser, "#tip")
    return shown.text if shown.is_displayed() else None


@pytest.mark.parametrize("width_px", [1280, 390])
def test_no_error_no_request_no_sideways_scroll(
    page: Path, browser: Browser, width_px: int
) -> None:
    browser.open(page, width_px)
    assert browser.problems() == []
    remote = [url for url in browser.requests() if not url.startswith("data:")]
    assert remote == [page.resolve().as_uri()]
    size = browser.run("return document.documentElement.scrollWidth")
    assert isinstance(size, int)
    assert size <= width_px
    assert find(browser, "nav details").get_attribute("open") == (
        "true" if width_px > 1099 else None
    )


def test_all_text_is_shown(page: Path, browser: Browser) -> None:
    browser.open(page)
    assert find(browser, ".verdict").text == "12 of 12 cells measured; none was left out."
    assert texts(browser, "nav li") == ["Plots", "Tables", "Reproduce"]
    assert texts(browser, "h3") == ["Rates"]
    assert "A note with words." in texts(browser, ".note")
    assert "Not drawn: what was not drawn" in texts(browser, ".note")
    assert texts(browser, "pre code") == [f"runner run --model {LONG} \\\n  --k 4"]
    assert texts(browser, ".facts td")[:2] == ["model", LONG]
    assert browser.run("return document.querySelector('.facts thead')") is None
    mark = find(browser, "th .what")
    assert mark.get_attribute("href") == f"{page.resolve().as_uri()}#rate"
    assert find(browser, "#rate").text.startswith("Rate:")


def test_a_head_sorts_numbers_as_numbers(page: Path, browser: Browser) -> None:
    browser.open(page)
    heads = browser.driver.find_elements(By.CSS_SELECTOR, "#rates + .table th")
    buttons = browser.driver.find_elements(By.CSS_SELECTOR, "#rates + .table th button")
    names = "#rates + .table tbody td:first-child"
    assert texts(browser, names) == ["k=10", "k=9", "k=2", "k=100"]
    buttons[1].click()
    assert texts(browser, names) == ["k=9", "k=10", "k=100", "k=2"]
    assert heads[1].get_attribute("aria-sort") == "ascending"
    buttons[1].send_keys(Keys.ENTER)
    assert texts(browser, names) == ["k=100", "k=10", "k=9", "k=2"]
    assert heads[1].get_attribute("aria-sort") == "descending"
    buttons[0].send_keys(Keys.SPACE)
    assert texts(browser, names) == ["k=2", "k=9", "k=10", "k=100"]
    assert heads[1].get_attribute("aria-sort") is None
    buttons[2].click()  # all alike: nothing moves
    assert texts(browser, names) == ["k=2", "k=9", "k=10", "k=100"]


def test_hover_shows_the_values_of_a_point(page: Path, browser: Browser) -> None:
    browser.open(page)
    assert tip(browser) is None
    point = find(browser, "#plot2-two-1")
    ActionChains(browser.driver).move_to_element(point).perform()
    told = tip(browser)
    assert told is not None
    assert told.split() == [
        *("ngram,", "code", "throughput", "201", "tok/s", "k", "4"),
        *("Click", "to", "open", "its", "raw", "cell"),
    ]
    ActionChains(browser.driver).move_to_element(find(browser, "h1")).perform()
    assert tip(browser) is None


def test_near_a_point_is_enough(page: Path, browser: Browser) -> None:
    browser.open(page)
    point = find(browser, "#plot1-one-0")
    ActionChains(browser.driver).move_to_element_with_offset(point, 8, -8).perform()
    told = tip(browser)
    assert told is not None
    assert told.startswith("baseline")
    assert "raw cell" not in told


def test_the_keyboard_reaches_points_and_opens_a_cell(page: Path, browser: Browser) -> None:
    browser.open(page)
    first, second = find(browser, "#plot1-one-0"), find(browser, "#plot1-one-1")
    browser.run("arguments[0].focus()", first)
    assert (tip(browser) or "").startswith("baseline")
    ActionChains(browser.driver).send_keys(Keys.TAB).perform()
    assert (tip(browser) or "").startswith("ngram, code")
    assert second.get_attribute("aria-label") == "ngram, code, throughput 201 tok/s, k 4"
    ActionChains(browser.driver).send_keys(Keys.ESCAPE).perform()
    assert tip(browser) is None
    cell_folder = page.parent.parent / "cells" / "a b-c1"
    cell_folder.mkdir(parents=True)
    ActionChains(browser.driver).send_keys(Keys.ENTER).perform()
    assert browser.driver.current_url == f"{cell_folder.resolve().as_uri()}/"


def test_the_first_tap_tells_and_the_second_opens(page: Path, browser: Browser) -> None:
    browser.open(page, 390)
    point = find(browser, "#plot1-one-2")
    tap = (
        "arguments[0].dispatchEvent(new PointerEvent('pointerdown',"
        "  {pointerType: 'touch', bubbles: true}));"
        "const event = new PointerEvent('click',"
        "  {pointerType: 'touch', bubbles: true, cancelable: true});"
        "arguments[0].addEventListener('click', (e) => {"
        "  window.opened = !e.defaultPrevented; e.preventDefault(); }, {once: true});"
        "arguments[0].dispatchEvent(event); return window.opened"
    )
    assert browser.run(tap, point) is False
    assert "Tap again to open its raw cell" in (tip(browser) or "")
    assert browser.run(tap, point) is True


def test_ids_stay_apart_and_references_lead_somewhere(page: Path, browser: Browser) -> None:
    browser.open(page)
    identities = browser.run("return Array.from(document.querySelectorAll('[id]'), (o) => o.id)")
    assert isinstance(identities, list)
    assert len(identities) == len(set(identities))
    source = page.read_text(encoding="utf-8")
    used = re.findall(r'url\(#([^)]+)\)|<use href="#([^"]+)"', source)
    found = {one or other for one, other in used}
    assert len(found) > 5
    assert found <= set(identities)
    assert browser.run("return document.querySelectorAll('svg .point').length") == 9
    assert browser.run("return document.querySelectorAll('svg .point .hit').length") == 9
    shape = "const s = document.querySelector('svg'); return [s.getAttribute('viewBox'), s.role]"
    assert browser.run(shape) == ["0 0 504 252", "img"]
    assert "<metadata" not in source
    assert "<?xml" not in source


def test_a_script_in_the_text_does_nothing(page: Path, browser: Browser, tmp_path: Path) -> None:
    browser.open(page)
    assert browser.driver.title.startswith("Speculative decoding")
    label = browser.run("return document.querySelector('svg').getAttribute('aria-label')")
    assert label == f'says "{EVIL}"'
    evil = Table((Column(EVIL, "only", numeric=True),), ((cell(EVIL),),), (plain(EVIL),))
    hostile = tmp_path / "hostile.html"
    blocks = (evil, Bullets((plain(EVIL),)), Code(EVIL, EVIL), Heading(EVIL), Plot("absent", EVIL))
    hostile.write_text(small(*blocks), encoding="utf-8")
    browser.open(hostile)
    assert browser.problems() == []
    assert browser.driver.title == EVIL
    assert texts(browser, "tbody td") == [EVIL]
    assert browser.run("return document.scripts.length") == 1


def test_data_is_json_that_can_not_end_its_element(page: Path) -> None:
    source = page.read_text(encoding="utf-8")
    blocks = re.findall(r'<script type="application/json">(.*?)</script>', source, re.S)
    assert len(blocks) == 3
    data = json.loads(blocks[0])
    assert list(data) == ["plot1-one-0", "plot1-one-1", "plot1-one-2"]
    assert data["plot1-one-2"] == {"label": EVIL, "values": [["<i>", EVIL]]}


def test_a_script_that_is_not_the_page_s_own_is_refused(tmp_path: Path, browser: Browser) -> None:
    forged = tmp_path / "forged.html"
    added = f"<script>document.title = 'taken over'</script><img src='{tmp_path.as_uri()}/a.png'>"
    forged.write_text(small().replace("</main>", added + "</main>"), encoding="utf-8")
    browser.open(forged)
    assert browser.driver.title == EVIL
    problems = "\n".join(browser.problems())
    assert "script-src" in problems
    assert "img-src" in problems


def test_copy_copies_or_selects(page: Path, browser: Browser) -> None:
    browser.open(page)
    refuse = (
        "Object.defineProperty(navigator, 'clipboard',"
        " {value: {writeText: () => Promise.reject(new Error('not allowed'))}})"
    )
    browser.run(refuse)
    find(browser, ".copy").click()
    words = "return document.querySelector('pre code').textContent"
    assert browser.run("return String(window.getSelection())") == browser.run(words)
    assert browser.problems() == []


def test_links_by_kind() -> None:
    spans = (
        to_run("folder", "cells/a b"),
        to_run("file", "cells/a/run.json"),
        Span("other", Link(Into.RUN, "cells/x", "second")),
        Span("beside", Link(Into.REPORT, "per cell.csv")),
        to_anchor("place", "only"),
    )
    source = small(Paragraph(spans), prefix={"": "..", "second": "../../b"})
    links = re.findall(r'<p><a href="(.*)</p>', source)[0]
    assert re.findall(r'(?:^|href=")([^"]+)"', links) == [
        *("../cells/a%20b/", "../cells/a/run.json", "../../b/cells/x/"),
        *("per%20cell.csv", "#only"),
    ]


def test_points_lead_nowhere_where_no_run_is_the_report_s() -> None:
    document = Document("t", "v", (Plot("one", "a"),), ())
    svgs = {"one": drawn_svg(["one-1"])}
    source = render_page(document, prefix={"b": "../b"}, svgs=svgs, points={"one": points("one")})
    assert 'id="plot1-one-1"' in source
    assert "../b" not in source


def test_sort_values_are_numbers_of_javascript() -> None:
    values = (1, 0.1, -2.5, math.inf, -math.inf, math.nan, None)
    told = [sort_value(cell("x", value)) for value in values]
    assert told == ["1.0", "0.1", "-2.5", "Infinity", "-Infinity", "", ""]
