"""A report as data: sections of text, tables and plots, before it is Markdown or HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from runner.report.figures import NOTHING


class Into(StrEnum):
    """What a link leads to."""

    RUN = "run"
    """A folder or file of a run; the path is relative to the run's folder."""
    REPORT = "report"
    """A file that lies beside the report."""
    ANCHOR = "anchor"
    """A place in the report itself."""


@dataclass(frozen=True)
class Link:
    """Where a piece of text leads. `run` tells runs apart where a report has several."""

    into: Into
    path: str
    run: str = ""


@dataclass(frozen=True)
class Span:
    """A piece of plain text. It is escaped when it is rendered, never before."""

    text: str
    link: Link | None = None
    strong: bool = False
    code: bool = False


Text = tuple[Span, ...]


def plain(text: str) -> Text:
    """Text without any mark."""
    return (Span(text),)


@dataclass(frozen=True)
class Cell:
    """One cell of a table. `value` is what it is sorted by; None sorts by the text."""

    spans: Text
    value: float | None = None

    @property
    def text(self) -> str:
        """What is read, without marks."""
        return "".join(span.text for span in self.spans)


@dataclass(frozen=True)
class Column:
    """Head of a column. `anchor` names the definition of what stands in it."""

    label: str
    anchor: str = ""
    numeric: bool = False


@dataclass(frozen=True)
class Table:
    """A table; every row has as many cells as there are columns. `notes` stand below it."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[Text, ...] = ()


@dataclass(frozen=True)
class Paragraph:
    """Running text; with `anchor` it is a definition that others link to."""

    text: Text
    anchor: str = ""


@dataclass(frozen=True)
class Bullets:
    """A list of short lines."""

    items: tuple[Text, ...]


@dataclass(frozen=True)
class Code:
    """Words that are copied as they are: a command, a file."""

    text: str
    language: str = "sh"


@dataclass(frozen=True)
class Heading:
    """A heading below that of its section."""

    text: str
    anchor: str = ""


@dataclass(frozen=True)
class Plot:
    """A plot beside the report: `name`.png and `name`.svg. `alternative` says what it shows."""

    name: str
    alternative: str


Block = Paragraph | Bullets | Code | Heading | Plot | Table


@dataclass(frozen=True)
class Section:
    """A part of the report with its heading."""

    title: str
    anchor: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Document:
    """A whole report. `verdict` says how much of what was planned is in its figures."""

    title: str
    verdict: str
    introduction: tuple[Block, ...]
    sections: tuple[Section, ...]


def text(*parts: str | Span) -> Text:
    """Running text from plain words and marked pieces."""
    return tuple(Span(part) if isinstance(part, str) else part for part in parts)


def code(words: str) -> Span:
    """Words as they are typed."""
    return Span(words, code=True)


def to_anchor(words: str, anchor: str) -> Span:
    """Words that lead to a place in the report."""
    return Span(words, Link(Into.ANCHOR, anchor))


def to_run(words: str, path: str) -> Span:
    """Words that lead to a folder or file of the run; plain where there is none."""
    return Span(words, Link(Into.RUN, path) if path else None)


def cell(text: str, value: float | None = None, *, strong: bool = False) -> Cell:
    """A cell without a link."""
    return Cell((Span(text, strong=strong),), value)


def linked(
    text: str, paths: Sequence[str], value: float | None = None, *, strong: bool = False
) -> Cell:
    """A cell that leads to the raw cells of its number: the text itself does when there is one,
    else a numbered link to each follows it."""
    known = [path for path in paths if path]
    if not known or text == NOTHING:
        return cell(text, value, strong=strong)
    if len(known) == 1:
        return Cell((Span(text, Link(Into.RUN, known[0]), strong=strong),), value)
    spans = [Span(text, strong=strong)]
    for number, path in enumerate(known, 1):
        spans += [Span(" "), Span(str(number), Link(Into.RUN, path))]
    return Cell(tuple(spans), value)


def also(
    text: str, paths: Sequence[str], value: float | None = None, *, strong: bool = False
) -> Cell:
    """A cell beside one that has the links already: it leads to its raw cell where there is one
    alone, and repeats no list of them."""
    return linked(text, paths if len(paths) == 1 else (), value, strong=strong)


def columns(*labels: str | Column) -> tuple[Column, ...]:
    """Columns of text where only a label is given."""
    return tuple(Column(label) if isinstance(label, str) else label for label in labels)


def numeric(label: str, anchor: str = "") -> Column:
    """A column of numbers."""
    return Column(label, anchor, numeric=True)
