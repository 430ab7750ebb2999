"""A file as people wrote it: values, each with the place where it stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from runner.errors import SpecError

Path = tuple[str, ...]
"""Keys and list indexes from the root down to a value."""


@dataclass(frozen=True)
class Place:
    """Where something was written: a position in a file, or an override (`rank` > 0).

    Lines and columns count from 1; an override has neither.
    """

    source: str
    line: int = 0
    column: int = 0
    rank: int = 0

    @property
    def order(self) -> tuple[int, int, int]:
        """Sorts by position in the file, then by overrides in the order given."""
        return (self.rank, self.line, self.column)

    @property
    def origin(self) -> str:
        """`file:line`, or `--set key`."""
        return self.source if self.rank else f"{self.source}:{self.line}"

    def __str__(self) -> str:
        return f"{self.source}=…" if self.rank else f"{self.source}:{self.line}:{self.column}"


@dataclass
class Scalar:
    """One value. `written` is the text as it stands; `broken` marks a value already reported."""

    value: bool | int | float | str | None
    place: Place
    written: str = ""
    broken: bool = False


@dataclass
class Listing:
    """A YAML sequence."""

    items: list[Node]
    place: Place


@dataclass
class Table:
    """A YAML mapping, with its keys in the order written."""

    entries: dict[str, Entry]
    place: Place


@dataclass
class Entry:
    """A key's place and its value."""

    place: Place
    node: Node


Node = Scalar | Listing | Table


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, and where."""

    place: Place
    path: Path
    message: str

    def __str__(self) -> str:
        dotted = ".".join(self.path)
        if not dotted or (
            self.place.rank and self.place.source in (f"--set {dotted}", _option(dotted))
        ):
            return f"{self.place}: {self.message}"
        return f"{self.place}: {dotted}: {self.message}"


@dataclass
class Document:
    """A file with its overrides applied, and what is wrong with it so far."""

    name: str
    root: Table
    problems: list[Problem] = field(default_factory=list)

    def scalar(self, key: str) -> bool | int | float | str | None:
        """The value of a top-level key; None when it is absent or not a single value."""
        entry = self.root.entries.get(key)
        return entry.node.value if entry and isinstance(entry.node, Scalar) else None

    def origins(self) -> dict[str, str]:
        """Dotted key -> `file:line` or `--set key`, for every value and every list given.

        A list has an entry of its own beside one for each item (`matrix.concurrency.0`).
        A key that is absent was left to its default.
        """
        return dict(_origins(self.root, ()))


def plain(node: Node) -> object:
    """Fresh dicts, lists and scalars: no two values share an object."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Listing):
        return [plain(item) for item in node.items]
    return {key: plain(entry.node) for key, entry in node.entries.items()}


def report(name: str, problems: Iterable[Problem]) -> SpecError:
    """One error with every problem, sorted by position, none twice."""
    lines = dict.fromkeys(str(item) for item in sorted(problems, key=lambda item: item.place.order))
    count = "1 problem" if len(lines) == 1 else f"{len(lines)} problems"
    options = all(line.startswith("--") for line in lines)
    return SpecError(
        f"{count} found",
        where=name,
        next_step=f"correct {'the options' if options else name} and repeat the command",
        problems=tuple(lines),
    )


def _option(dotted: str) -> str:
    """The option that sets a key of its own name, such as `--draft-length`."""
    return f"--{dotted.replace('_', '-')}"


def _origins(node: Node, path: Path) -> Iterator[tuple[str, str]]:
    if isinstance(node, Scalar):
        return
    children: list[tuple[str, Place, Node]]
    if isinstance(node, Listing):
        children = [(str(index), item.place, item) for index, item in enumerate(node.items)]
    else:
        children = [(key, entry.place, entry.node) for key, entry in node.entries.items()]
    for key, place, child in children:
        below = (*path, key)
        if not isinstance(child, Table) or not child.entries:
            yield ".".join(below), place.origin
        yield from _origins(child, below)
