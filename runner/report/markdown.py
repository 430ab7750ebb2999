"""A report as Markdown: the README that a model card takes over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import quote

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
    Span,
    Table,
    Text,
)


def render_markdown(document: Document, prefix: str | Mapping[str, str]) -> str:
    """The document as GitHub-flavoured Markdown.

    Args:
        prefix: relative path from the report to the run's folder; by run where it has several.
    """
    writer = _Writer({"": prefix} if isinstance(prefix, str) else prefix)
    parts = [f"# {escape(document.title)}", f"**{escape(document.verdict)}**"]
    parts += writer.blocks(document.introduction)
    for section in document.sections:
        parts += [f'<a id="{section.anchor}"></a>\n## {escape(section.title)}']
        parts += writer.blocks(section.blocks)
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """Plain text that Markdown shows as it is, also in a table's cell."""
    for char in ("\\", "|", "<", "[", "]", "`", "*", "_"):
        text = text.replace(char, "\\" + char)
    return " ".join(text.split())


def target(link: Link, prefixes: Mapping[str, str]) -> str:
    """The relative address that a link leads to; a folder ends in a slash."""
    if link.into is Into.ANCHOR:
        return f"#{link.path}"
    if link.into is Into.REPORT:
        return quote(link.path)
    name = link.path.rpartition("/")[2]
    return quote(f"{prefixes[link.run]}/{link.path}") + ("" if "." in name else "/")


class _Writer:
    """Renders blocks of one document."""

    def __init__(self, prefixes: Mapping[str, str]):
        self._prefixes = prefixes

    def blocks(self, blocks: Iterable[Block]) -> list[str]:
        return [text for block in blocks if (text := self._block(block))]

    def _block(self, block: Block) -> str:
        match block:
            case Paragraph():
                anchor = f'<a id="{block.anchor}"></a>\n' if block.anchor else ""
                return anchor + self._text(block.text)
            case Bullets():
                return "\n".join(f"- {self._text(item)}" for item in block.items)
            case Code():
                return f"```{block.language}\n{block.text}\n```"
            case Heading():
                anchor = f'<a id="{block.anchor}"></a>\n' if block.anchor else ""
                return f"{anchor}### {escape(block.text)}"
            case Plot():
                return f"![{escape(block.alternative)}]({quote(block.name)}.png)"
            case Table():
                return self._table(block)

    def _table(self, table: Table) -> str:
        lines = [" | ".join(map(self._column, table.columns))]
        lines += [" | ".join("--:" if column.numeric else "---" for column in table.columns)]
        lines += [" | ".join(self._text(cell.spans) for cell in row) for row in table.rows]
        text = "\n".join(f"| {line} |" for line in lines)
        return "\n\n".join([text, *(f"> {self._text(note)}" for note in table.notes)])

    def _column(self, column: Column) -> str:
        label = escape(column.label)
        return f"[{label}](#{column.anchor})" if column.anchor else label

    def _text(self, text: Text) -> str:
        return "".join(map(self._span, text))

    def _span(self, span: Span) -> str:
        lead = " " if span.text.startswith(" ") else ""
        tail = " " if span.text.endswith(" ") and span.text.strip() else ""
        words = f"`{span.text.strip()}`" if span.code else escape(span.text)
        if span.strong and words:
            words = f"**{words}**"
        if span.link is not None:
            words = f"[{words}]({target(span.link, self._prefixes)})"
        return f"{lead}{words}{tail}"
