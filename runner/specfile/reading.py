"""YAML text -> a tree with places. Stricter than PyYAML where PyYAML loses what people wrote.

Repeated keys, unknown tags, a second document and values that contain themselves are problems.
Merge keys and aliases work: an explicit key beats a merged one, the earlier of two merged mappings
beats the later, and every use of an alias is data of its own. Dates, sexagesimal numbers and
numbers with a leading zero stay text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import yaml

from runner.specfile.tree import (
    Document,
    Entry,
    Listing,
    Node,
    Path,
    Place,
    Problem,
    Scalar,
    Table,
    report,
)

MAX_CHARACTERS = 1 << 20
MAX_VALUES = 50_000
MAX_DEPTH = 64

_TAG = "tag:yaml.org,2002:"
_MERGE = f"{_TAG}merge"
_TRUE = frozenset({"yes", "true", "on"})
_FALSE = frozenset({"no", "false", "off"})


class _Loader(yaml.SafeLoader):
    """Composes nodes only, down to a bounded depth."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012
    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            here = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            message = f"nested deeper than {MAX_DEPTH} levels"
            raise yaml.composer.ComposerError(None, None, message, here)
        try:
            node: yaml.Node | None = super().compose_node(parent, index)
            return node
        finally:
            self.depth -= 1


_FIRST_OF_NUMBER = list("-+0123456789.")
for _name, _pattern, _first in (
    ("bool", r"^(?:yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE)$", list("yYnNtTfF")),
    ("bool", r"^(?:on|On|ON|off|Off|OFF)$", list("oO")),
    ("int", r"^[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F]+)$", _FIRST_OF_NUMBER),
    ("float", r"^[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$", _FIRST_OF_NUMBER),
    ("float", r"^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$", _FIRST_OF_NUMBER),
    ("merge", r"^<<$", ["<"]),
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
):
    _Loader.add_implicit_resolver(f"{_TAG}{_name}", re.compile(_pattern), _first)


def read_yaml(text: str, name: str) -> Document:
    """The tree of a file's text; what is wrong inside it is in the result's `problems`.

    Args:
        text: the whole file.
        name: how messages call the file.

    Raises:
        SpecError: the text is not one YAML mapping, so that nothing else can be said about it.
    """

    def place(mark: yaml.Mark) -> Place:
        return Place(name, mark.line + 1, mark.column + 1)

    start = Place(name, 1, 1)
    node, problems = _tree(text, place, start)
    if isinstance(node, Table):
        return Document(name, node, problems)
    if node is not None:
        found = "a list" if isinstance(node, Listing) else "a single value"
        message = f"expected a mapping of keys to values, found {found}"
        problems.append(Problem(node.place, (), message))
    elif not problems:
        message = "the file is empty; expected a mapping of keys to values"
        problems.append(Problem(start, (), message))
    raise report(name, problems)


def read_value(text: str, place: Place) -> tuple[Node, list[Problem]]:
    """The tree of one override's value; everything in it stands at `place`."""
    node, problems = _tree(text, lambda _mark: place, place)
    return node or Scalar(None, place, broken=bool(problems)), problems


def _tree(
    text: str, place: Callable[[yaml.Mark], Place], start: Place
) -> tuple[Node | None, list[Problem]]:
    """The tree and its problems; no tree when the text is empty or not YAML at all."""
    if len(text) > MAX_CHARACTERS:
        size = f"{len(text)} characters; expected {MAX_CHARACTERS} at most"
        return None, [Problem(start, (), size)]
    try:
        root = _compose(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return None, [Problem(place(mark) if mark else start, (), _syntax_message(error))]
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        column = error.position - (before.rfind("\n") + 1)
        mark = yaml.Mark("", error.position, before.count("\n"), column, None, 0)
        code = error.character if isinstance(error.character, int) else ord(error.character[:1])
        return None, [Problem(place(mark), (), f"character U+{code:04X} is not allowed in YAML")]
    if root is None:
        return None, []
    builder = _Builder(place)
    try:
        return builder.build(root, ()), builder.problems
    except _TooManyValues:
        message = f"aliases expand to more than {MAX_VALUES} values"
        return None, [*builder.problems, Problem(place(root.start_mark), (), message)]


def _compose(text: str) -> yaml.Node | None:
    loader = _Loader(text)
    try:
        node: yaml.Node | None = loader.get_single_node()
        return node
    finally:
        loader.dispose()


def _syntax_message(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or "not valid YAML"
    if "'\\t'" in problem:
        return "a tab stands where YAML wants spaces; indent with spaces"
    if error.context == "expected a single document in the stream":
        return "a second document starts here; expected one document in the file"
    if error.context and error.context_mark:
        line = error.context_mark.line + 1
        return f"not valid YAML: {problem} ({error.context}, line {line})"
    return f"not valid YAML: {problem}"


class _TooManyValues(Exception):
    """Aliases make the data larger than any file that people write."""


class _Builder:
    """Turns composed nodes into a tree and collects what is wrong."""

    def __init__(self, place: Callable[[yaml.Mark], Place]):
        self._place = place
        self._open: set[int] = set()
        self._count = 0
        self.problems: list[Problem] = []

    def build(self, node: yaml.Node, path: Path) -> Node:
        """The tree below one node, fresh for every use of an alias."""
        self._count += 1
        if self._count > MAX_VALUES:
            raise _TooManyValues
        place = self._place(node.start_mark)
        if id(node) in self._open:
            return self._broken(place, path, "the value contains itself through an alias")
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
                return Table(self._entries(node, path), place)
            if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
                items = enumerate(node.value)
                return Listing([self.build(item, (*path, str(i))) for i, item in items], place)
            return self._scalar(node, place, path)
        finally:
            self._open.discard(id(node))

    def _report(self, place: Place, path: Path, message: str) -> None:
        # what stands in an anchor is wrong once, however often it is used
        if not any((known.place, known.message) == (place, message) for known in self.problems):
            self.problems.append(Problem(place, path, message))

    def _broken(self, place: Place, path: Path, message: str) -> Scalar:
        self._report(place, path, message)
        return Scalar(None, place, broken=True)

    def _scalar(self, node: yaml.Node, place: Place, path: Path) -> Scalar:
        tag = node.tag.removeprefix(_TAG)
        if not isinstance(node, yaml.ScalarNode) or tag not in _CONSTRUCTORS:
            shown = node.tag.replace(_TAG, "!!")
            return self._broken(place, path, f"unknown tag '{shown}'; write plain YAML without it")
        try:
            return Scalar(_CONSTRUCTORS[tag](node.value), place, node.value)
        except ValueError as error:
            return self._broken(
                place, path, f"'{node.value[:60]}' can't be read as !!{tag}: {error}"
            )

    def _entries(self, node: yaml.MappingNode, path: Path) -> dict[str, Entry]:
        explicit: dict[str, Entry] = {}
        merged: dict[str, Entry] = {}
        merge_line = 0
        for key_node, value_node in node.value:
            place = self._place(key_node.start_mark)
            if key_node.tag == _MERGE:
                if merge_line:
                    self._twice("<<", place, merge_line, path)
                merge_line = merge_line or place.line
                for key, entry in self._merged(value_node, path).items():
                    merged.setdefault(key, entry)
                continue
            key_text = self._key(key_node, place, path)
            if key_text is None:
                continue
            value = self.build(value_node, (*path, key_text))
            if key_text in explicit:
                self._twice(key_text, place, explicit[key_text].place.line, path)
            else:
                explicit[key_text] = Entry(place, value)
        return merged | explicit

    def _twice(self, key: str, place: Place, first_line: int, path: Path) -> None:
        lines = f" (lines {first_line} and {place.line})" if place.line else ""
        hint = "; write <<: [*a, *b]" if key == "<<" else "; keep one"
        self._report(place, (*path, key), f"key '{key}' is given twice{lines}{hint}")

    def _merged(self, node: yaml.Node, path: Path) -> dict[str, Entry]:
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        entries: dict[str, Entry] = {}
        for source in sources:
            table = self.build(source, path)
            if isinstance(table, Table):
                for key, entry in table.entries.items():
                    entries.setdefault(key, entry)
            elif not (isinstance(table, Scalar) and table.broken):
                message = "a merge takes a mapping or a list of mappings"
                self._report(table.place, (*path, "<<"), message)
        return entries

    def _key(self, node: yaml.Node, place: Place, path: Path) -> str | None:
        if isinstance(node, yaml.ScalarNode) and node.tag == f"{_TAG}str":
            return str(node.value)
        if isinstance(node, yaml.ScalarNode):
            kind = node.tag.replace(_TAG, "!!")
            message = f"a key is text, and YAML reads {node.value} as {kind}; quote it: "
            self._report(place, path, f'{message}"{node.value}"')
        else:
            self._report(place, path, "a key is text, found a list or a mapping")
        return None


def _boolean(text: str) -> bool:
    if text.lower() not in _TRUE | _FALSE:
        raise ValueError("expected true or false")
    return text.lower() in _TRUE


def _whole(text: str) -> int:
    try:
        return int(text.replace("_", ""), 0)
    except ValueError as error:
        raise ValueError("expected a whole number") from error


def _real(text: str) -> float:
    value = float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))
    if not math.isfinite(value):
        raise ValueError("expected a finite number")
    return value


_CONSTRUCTORS: dict[str, Callable[[str], bool | int | float | str | None]] = {
    "str": str,
    "merge": str,
    "bool": _boolean,
    "int": _whole,
    "float": _real,
    "null": lambda _text: None,
}
