"""A report as one self-contained HTML page: its tables sort, its plots tell their values."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from runner.report.document import Block, Cell, Document, Into, Link, Plot
from runner.report.drawn import DrawnPoint
from runner.report.markdown import target

TEMPLATE = "page.html.j2"
STYLE = "page.css"
SCRIPT = "page.js"

_PX_PER_PT = 4 / 3
_URL = re.compile(r"url\((['\"]?)#([^)'\"]+)\1\)")


@dataclass(frozen=True)
class _Figure:
    """A plot as it stands in the page: the drawing, and what its points say as JSON."""

    drawing: Markup
    data: Markup


def render_page(
    document: Document,
    *,
    prefix: str | Mapping[str, str],
    svgs: Mapping[str, str],
    points: Mapping[str, Sequence[DrawnPoint]],
) -> str:
    """The document as an HTML page that needs no other file and no network.

    A plot without an SVG is replaced by its alternative.

    Args:
        prefix: relative path from the page to the run's folder; by `Link.run` where it has
            several. Points lead to the run named "", and nowhere where there is none.
        svgs: SVG text of each plot, by name, as matplotlib writes it.
        points: what the points of each plot stand for, by name of the plot.
    """
    prefixes = {"": prefix} if isinstance(prefix, str) else prefix
    environment = Environment(
        loader=PackageLoader("runner.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )

    def address(link: Link) -> str:
        return target(link, prefixes)

    def asset(name: str) -> Markup:
        text, _, _ = environment.loader.get_source(environment, name)  # type: ignore[union-attr]
        return Markup("\n" + text)  # noqa: S704

    script = asset(SCRIPT)
    figures = _Figures(svgs, points, address if "" in prefixes else None)
    environment.globals |= {"address": address, "kind": _kind, "sort_value": sort_value}
    return environment.get_template(TEMPLATE).render(
        document=document,
        figure=figures.draw,
        style=asset(STYLE),
        script=script,
        policy=_policy(script),
    )


def sort_value(cell: Cell) -> str:
    """What a numeric column sorts the cell by, as JavaScript reads it; empty comes last."""
    if cell.value is None or math.isnan(cell.value):
        return ""
    if math.isinf(cell.value):
        return "Infinity" if cell.value > 0 else "-Infinity"
    return repr(float(cell.value))


def _kind(block: Block) -> str:
    return type(block).__name__


def _policy(script: str) -> str:
    """The browser is told to load nothing and to run this script alone."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    )


class _Figures:
    """Makes the plots of one page. Ids get the number of the plot in the page, so that two plots,
    and one that is shown twice, stay apart."""

    def __init__(
        self,
        svgs: Mapping[str, str],
        points: Mapping[str, Sequence[DrawnPoint]],
        address: Callable[[Link], str] | None,
    ):
        self._svgs = svgs
        self._points = points
        self._address = address
        self._drawn = 0

    def draw(self, plot: Plot) -> _Figure | None:
        """The next plot of the page; None where it has no SVG."""
        if plot.name not in self._svgs:
            return None
        self._drawn += 1
        start = f"plot{self._drawn}-"
        root = ElementTree.fromstring(self._svgs[plot.name])  # noqa: S314  # matplotlib's own
        _drop_namespaces(root)
        groups = {element.get("id"): element for element in root.iter()}
        data = {
            start + point.gid: self._mark(groups[point.gid], point)
            for point in self._points.get(plot.name, ())
            if point.gid in groups
        }
        _set_apart(root, start)
        _fit(root, plot.alternative)
        drawing = ElementTree.tostring(root, encoding="unicode")
        return _Figure(Markup(drawing), _json(data))  # noqa: S704

    def _mark(self, group: ElementTree.Element, point: DrawnPoint) -> Mapping[str, object]:
        """The group can be focused and, where there is a raw cell, followed; returns its data."""
        group.set("class", "point")
        group.set("aria-label", ", ".join([point.label, *map(" ".join, point.values)]))
        opens = bool(point.path) and self._address is not None
        if self._address is not None and opens:
            group.tag = "a"
            group.set("href", self._address(Link(Into.RUN, point.path)))
        else:
            group.set("role", "img")
        group.set("tabindex", "0")
        return {"label": point.label, "values": [list(pair) for pair in point.values]}


def _drop_namespaces(root: ElementTree.Element) -> None:
    """SVG inside HTML needs none; metadata, which is nothing but links, goes with them."""
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        for name in [name for name in element.attrib if "}" in name]:
            element.set(name.rpartition("}")[2], element.attrib.pop(name))
        for child in list(element):
            if child.tag.rpartition("}")[2] == "metadata":
                element.remove(child)


def _set_apart(root: ElementTree.Element, start: str) -> None:
    """Every id, and every reference to one, begins with `start`."""
    for element in root.iter():
        for name, value in element.attrib.items():
            if name == "id":
                element.set(name, start + value)
            elif name == "href" and value.startswith("#"):
                element.set(name, f"#{start}{value[1:]}")
            elif "url(" in value and name != "aria-label":
                element.set(name, _URL.sub(rf"url(#{start}\2)", value))


def _fit(root: ElementTree.Element, alternative: str) -> None:
    """Sized by its place and its natural width, and named."""
    width_pt = float(root.get("viewBox", "0 0 460 345").split()[2])
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.set("class", "drawing")
    root.set("style", f"--natural:{width_pt * _PX_PER_PT:.0f}px")
    root.set("role", "img")
    root.set("aria-label", alternative)


def _json(data: object) -> Markup:
    """JSON that can't end the element it stands in."""
    return Markup(json.dumps(data, ensure_ascii=False).replace("<", "\\u003c"))  # noqa: S704
