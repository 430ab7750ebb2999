"""`--set a.b.c=value`: changes to a document on its way in; the file is not touched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runner.errors import UsageError
from runner.specfile.reading import read_value
from runner.specfile.tree import Document, Entry, Listing, Node, Path, Place, Problem, Scalar, Table


@dataclass(frozen=True)
class Override:
    """A value from the command line: `text` is YAML, `option` is how it was given (`--drafter`)."""

    key: str
    text: str
    option: str


def apply_overrides(document: Document, overrides: Sequence[str | Override]) -> None:
    """Puts each value into the document, in order; a later one wins. A text is `--set key=value`.

    Keys are joined by dots; a number picks an entry of a list. Where a key holds dots itself, the
    longest one that exists is meant. Values are YAML. What does not fit goes to the document's
    problems, at `--set key=…` or the option's own name.

    Raises:
        UsageError: an override has no `=` or no key.
    """
    for rank, given in enumerate(overrides, start=1):
        override = _setting(given) if isinstance(given, str) else given
        place = Place(override.option, rank=rank)
        value, problems = read_value(override.text, place)
        path = tuple(override.key.split("."))
        document.problems.extend(Problem(place, path, problem.message) for problem in problems)
        message = _put(document.root, path, value, place)
        if message:
            document.problems.append(Problem(place, path, message))


def _setting(text: str) -> Override:
    key, equals, value = text.partition("=")
    if not equals or not all(key.split(".")):
        raise UsageError(
            f"--set {key}: expected a dotted key and a value",
            next_step="write it like --set matrix.concurrency=[1,4]",
        )
    return Override(key, value, f"--set {key}")


def _put(root: Table, path: Path, value: Node, place: Place) -> str | None:
    """Sets one value; returns what hinders it."""
    node: Node = root
    done: Path = ()
    while True:
        rest = path[len(done) :]
        key, used = _longest_key(node, rest)
        last = used == len(rest)
        if isinstance(node, Table):
            entry = node.entries.get(key)
            if last:
                node.entries[key] = Entry(place, value)
                return None
            if entry is None or _is_nothing(entry.node):
                entry = node.entries[key] = Entry(place, Table({}, place))
            node = entry.node
        elif isinstance(node, Listing):
            index = _index(key, len(node.items))
            if index is None:
                return _no_such_index(done, key, len(node.items))
            if last:
                node.items[index] = value
                return None
            node = node.items[index]
        else:
            return f"'{'.'.join(done)}' is a single value and has nothing below it"
        done += path[len(done) : len(done) + used]


def _longest_key(node: Node, rest: Path) -> tuple[str, int]:
    if isinstance(node, Table):
        for used in range(len(rest), 1, -1):
            joined = ".".join(rest[:used])
            if joined in node.entries:
                return joined, used
    return rest[0], 1


def _is_nothing(node: Node) -> bool:
    return isinstance(node, Scalar) and node.value is None


def _index(key: str, length: int) -> int | None:
    return int(key) if key.isascii() and key.isdigit() and int(key) < length else None


def _no_such_index(path: Path, key: str, length: int) -> str:
    dotted = ".".join(path)
    if length == 0:
        return f"'{dotted}' is an empty list; set it whole, like {dotted}=[1,2]"
    expected = "0" if length == 1 else f"0 to {length - 1}"
    return f"'{dotted}' is a list; expected an index ({expected}), found '{key}'"
