"""A report as one self-contained page: tables that sort, plots that tell their values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from runner.report.document import Block, Document, Link
from runner.report.drawn import DrawnPoint
from runner.report.markdown import target

TEMPLATE = "report.html.j2"

_PROLOG = re.compile(r"^.*?(?=<svg\b)", re.S)
_OPENING = re.compile(r"<svg\b[^>]*>")
_VIEW_BOX = re.compile(r'viewBox="([^"]*)"')
_METADATA = re.compile(r"<metadata>.*?</metadata>", re.S)
_PX_PER_PT = 4 / 3
_ID = re.compile(r'\bid="([^"]+)"')
_REFERENCE = re.compile(r'(url\(#|xlink:href="#|\bhref="#)([^")]+)')


def render_page(
    document: Document,
    *,
    prefix: str | Mapping[str, str],
    svgs: Mapping[str, str],
    points: Mapping[str, Sequence[DrawnPoint]],
) -> str:
    """The document as an HTML page that needs no other file and no network.

    Args:
        prefix: relative path from the page to the run's folder; by run where it has several.
        svgs: SVG text of each plot, by name, as matplotlib writes it.
        points: what the points of each plot stand for; their groups in the SVG bear their `gid`.
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

    def kind(block: Block) -> str:
        return type(block).__name__

    def plot(name: str, alternative: str) -> Markup:
        return Markup(inline_svg(svgs[name], name, alternative))  # noqa: S704

    def asset(name: str) -> Markup:
        text, _, _ = environment.loader.get_source(environment, name)  # type: ignore[union-attr]
        return Markup(text)  # noqa: S704

    environment.globals |= {"address": address, "kind": kind, "plot": plot, "asset": asset}
    return environment.get_template(TEMPLATE).render(
        document=document, plots=frozenset(svgs), data=_data(points, prefixes)
    )


def inline_svg(svg: str, name: str, alternative: str) -> str:
    """SVG text as a part of a page: as wide as its place, named, its ids apart from other plots'.

    Ids of points stay as they are, since their names hold the plot's already.
    """
    body = _METADATA.sub("", _PROLOG.sub("", svg, count=1))
    view = _VIEW_BOX.search(body)
    box = view[1] if view else "0 0 100 100"
    natural_px = float(box.split()[2]) * _PX_PER_PT
    opening = (
        f'<svg class="drawing" style="max-width:{natural_px:.0f}px" '
        'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'viewBox="{box}" role="img" aria-label="{Markup.escape(alternative)}">'
    )
    body = _OPENING.sub(lambda _: opening, body, count=1)
    start = f"{name}-"
    body = _ID.sub(lambda found: f'id="{_apart(found[1], start)}"', body)
    return _REFERENCE.sub(lambda found: f"{found[1]}{_apart(found[2], start)}", body)


def _apart(identity: str, start: str) -> str:
    return identity if identity.startswith(start) else start + identity


def _data(points: Mapping[str, Sequence[DrawnPoint]], prefixes: Mapping[str, str]) -> Markup:
    """What the page's script reads, as JSON that can't end its element."""
    known = {
        point.gid: {
            "label": point.label,
            "values": [list(pair) for pair in point.values],
            "href": f"{prefixes['']}/{point.path}/" if point.path and "" in prefixes else "",
        }
        for group in points.values()
        for point in group
    }
    text = json.dumps(known, ensure_ascii=False).replace("<", "\\u003c").replace(">", "\\u003e")
    return Markup(text)  # noqa: S704
