"""Sentences about values: what was expected, what was found, how to write it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from runner.specfile.tree import Listing, Node, Scalar
from runner.specfile.vocabulary import nearest

SHOWN_CHARACTERS = 60

_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "model_type": "a mapping of keys to values",
    "dict_type": "a mapping of keys to values",
    "tuple_type": "a list",
    "list_type": "a list",
    "frozen_set_type": "a list",
    "none_required": "nothing",
    "finite_number": "a finite number",
}
_BOUNDS = {
    "greater_than_equal": ("ge", "a number of at least {}"),
    "greater_than": ("gt", "a number above {}"),
    "less_than_equal": ("le", "a number of at most {}"),
    "less_than": ("lt", "a number below {}"),
    "too_short": ("min_length", "at least {} entries"),
    "too_long": ("max_length", "at most {} entries"),
    "string_too_short": ("min_length", "a text of at least {} characters"),
    "string_too_long": ("max_length", "a text of at most {} characters"),
    "string_pattern_mismatch": ("pattern", "a text that matches {}"),
}
_ONE_OF = frozenset({"enum", "literal_error"})
_QUOTED = re.compile(r"'([^']*)'")


def is_type_error(kind: str) -> bool:
    """Whether the value is of another kind than wanted, rather than out of bounds."""
    return kind in _EXPECTED


def expected(kind: str, context: Mapping[str, Any]) -> str | None:
    """What pydantic's error of this kind wanted; None when only its message can say it."""
    if kind in _ONE_OF:
        return str(context["expected"])
    if kind in _BOUNDS:
        name, sentence = _BOUNDS[kind]
        bound = context[name]
        text = sentence.format(f"{bound:g}" if isinstance(bound, float) else bound)
        return text.replace("1 entries", "one entry").replace("1 characters", "one character")
    return _EXPECTED.get(kind)


def found(node: Node, *, secret: bool) -> str:
    """The offending value in words; `***` for one that may be a secret."""
    if isinstance(node, Listing):
        return f"a list of {len(node.items)}" if node.items else "an empty list"
    if not isinstance(node, Scalar):
        return "a mapping" if node.entries else "an empty mapping"
    if node.value is None:
        return "nothing"
    if secret:
        return "***"
    if isinstance(node.value, bool):
        word = str(node.value).lower()
        return word if node.written.lower() == word else f"{node.written}, read as {word}"
    shown = node.written[:SHOWN_CHARACTERS] + "…" * (len(node.written) > SHOWN_CHARACTERS)
    return f"the text '{shown}'" if isinstance(node.value, str) else f"the number {shown}"


def hint(kind: str, context: Mapping[str, Any], node: Node, *, secret: bool) -> str:
    """How to write what was probably meant, with its separator; empty when there is no guess."""
    if not isinstance(node, Scalar):
        return ""
    value = node.value
    if kind in _ONE_OF and isinstance(value, str):
        near = nearest(value, _QUOTED.findall(str(context["expected"])))
        return f"; did you mean '{near}'?" if near else ""
    if value is None:
        return '; write "" for an empty text' if kind == "string_type" else ""
    if kind == "string_type":
        return "; quote it" if secret else f'; quote it: "{node.written}"'
    if kind in ("tuple_type", "list_type") and not secret:
        return f"; write [{node.written[:SHOWN_CHARACTERS]}]"
    number = _number_meant(kind, value)
    return f"; write {number}" if number is not None and not secret else ""


def _number_meant(kind: str, value: object) -> int | float | None:
    """The number that a text or a float stands for, where a number is wanted."""
    if kind not in ("int_type", "int_from_float", "float_type") or isinstance(value, bool):
        return None
    try:
        number = float(str(value))
    except ValueError:
        return None
    if kind == "float_type":
        return number
    return int(number) if number.is_integer() else None
