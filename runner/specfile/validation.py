"""Document -> model. pydantic decides, and its errors are told at the place where they stand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from runner.models.base import SCHEMA_VERSION
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
    plain,
    report,
)
from runner.specfile.vocabulary import Step, belongs_at, keys_at, nearest
from runner.specfile.wording import expected, found, hint, is_type_error

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class _Fault:
    """One error of pydantic, tied to the tree."""

    kind: str
    steps: tuple[Step, ...]
    context: dict[str, Any]
    message: str
    path: Path
    node: Node
    place: Place
    tags: tuple[tuple[Path, Step], ...]

    @property
    def secret(self) -> bool:
        """Values of environment variables are never shown."""
        return "environment" in self.path[:-1]


def validate(document: Document, model: type[M]) -> M:
    """The model that a document describes. A document is validated once.

    Types are strict: text is no number, 1 is no boolean, 2.0 is no whole number; a whole number
    serves where any number does.

    Raises:
        SpecError: with every problem of the document. A misspelt key hides no other problem: the
            rest is checked as if it had been spelt right.
    """
    problems = [*document.problems, *_version_problems(document, model)]
    result, faults = _attempt(document.root, model)
    faults = _one_member_of_each_union(faults)
    unknown = [fault for fault in faults if fault.kind == "extra_forbidden"]
    if unknown:
        problems += [_unknown_key(fault, model) for fault in unknown]
        repaired = [_repair(document.root, fault, model) for fault in unknown]
        _, again = _attempt(document.root, model)
        faults = [
            fault
            for fault in _one_member_of_each_union(again)
            if not any(fault.path[: len(path)] == path for path in repaired)
        ]
    problems += _problems([fault for fault in faults if not _is_broken(fault)])
    if problems or result is None:
        raise report(document.name, problems)
    return result


def _attempt(root: Table, model: type[M]) -> tuple[M | None, list[_Fault]]:
    # JSON is where pydantic's strict mode still takes lists for tuples and text for enums
    data = json.dumps(plain(root))
    try:
        return model.model_validate_json(data, strict=True), []
    except ValidationError as error:
        found_errors = error.errors(include_url=False, include_input=False)
        return None, [_fault(root, dict(each)) for each in found_errors]


def _fault(root: Table, error: dict[str, Any]) -> _Fault:
    steps: tuple[Step, ...] = error["loc"]
    at_key = steps[-1:] == ("[key]",)
    missing = error["type"] == "missing"
    walked = steps[:-1] if at_key or missing else steps
    node: Node = root
    place = root.place
    path: Path = ()
    tags: list[tuple[Path, Step]] = []
    for step in walked:
        below = _child(node, step)
        if below is None:
            tags.append((path, step))
            continue
        above_is_table = isinstance(node, Table)
        key_place, node = below
        path = (*path, str(step))
        # a key stands for its mapping or list; a single value is shown where it stands itself
        on_value = isinstance(node, Scalar) and not at_key and error["type"] != "extra_forbidden"
        place = node.place if on_value or not above_is_table else key_place
    if missing:
        path = (*path, str(steps[-1]))
    context = error.get("ctx", {})
    message = str(context["error"]) if "error" in context else str(error["msg"])
    return _Fault(error["type"], steps, context, message, path, node, place, tuple(tags))


def _child(node: Node, step: Step) -> tuple[Place, Node] | None:
    if isinstance(node, Table) and step in node.entries:
        entry = node.entries[str(step)]
        return entry.place, entry.node
    if isinstance(node, Listing) and isinstance(step, int) and step < len(node.items):
        return node.items[step].place, node.items[step]
    return None


def _one_member_of_each_union(faults: Sequence[_Fault]) -> list[_Fault]:
    """Keeps, of a union's alternatives, the one that fits best; all, where none fits in shape."""
    kept = list(faults)
    for prefix in dict.fromkeys(path for fault in faults for path, _ in fault.tags):
        members: dict[Step, list[_Fault]] = {}
        for fault in kept:
            for path, tag in fault.tags:
                if path == prefix:
                    members.setdefault(tag, []).append(fault)
        fitting = {
            tag: each
            for tag, each in members.items()
            if not any(fault.path == prefix and is_type_error(fault.kind) for fault in each)
        }
        if fitting:
            best = min(fitting, key=lambda tag: len(fitting[tag]))
            kept = [
                fault
                for fault in kept
                if all(path != prefix or tag == best for path, tag in fault.tags)
            ]
    return kept


def _unknown_key(fault: _Fault, model: type[BaseModel]) -> Problem:
    key = fault.path[-1]
    known = keys_at(model, fault.steps[:-1])
    near = _meant(fault, model)
    elsewhere = belongs_at(model, key)
    if near:
        rest = f"did you mean '{near}'?"
    elif elsewhere:
        rest = f"did you mean {' or '.join(repr(place) for place in elsewhere[:2])}?"
    else:
        rest = f"expected one of: {', '.join(known)}"
    return Problem(fault.place, fault.path, f"unknown key '{key}'; {rest}")


def _meant(fault: _Fault, model: type[BaseModel]) -> str | None:
    """The key of the same place that an unknown key stands for."""
    key, known = fault.path[-1], keys_at(model, fault.steps[:-1])
    near = nearest(key, known, cutoff=0.75)
    if near or any(place.endswith(f".{key}") for place in belongs_at(model, key)):
        return near
    return nearest(key, known)


def _repair(root: Table, fault: _Fault, model: type[BaseModel]) -> Path:
    """Respells an unknown key, or drops it; returns the path below which nothing is reported."""
    table: Node = root
    for step in fault.path[:-1]:
        below = _child(table, int(step) if isinstance(table, Listing) else step)
        assert below is not None
        table = below[1]
    assert isinstance(table, Table)
    entry: Entry = table.entries.pop(fault.path[-1])
    meant = _meant(fault, model)
    if meant is None or meant in table.entries:
        return fault.path
    table.entries[meant] = entry
    return (*fault.path[:-1], meant)


def _problems(faults: Sequence[_Fault]) -> list[Problem]:
    problems: list[Problem] = []
    alternatives: dict[Path, list[_Fault]] = {}
    for fault in faults:
        if fault.tags and is_type_error(fault.kind):
            alternatives.setdefault(fault.path, []).append(fault)
        else:
            problems.append(_problem(fault))
    for path, each in alternatives.items():
        wanted = " or ".join(dict.fromkeys(expected(fault.kind, {}) or "" for fault in each))
        value = found(each[0].node, secret=each[0].secret)
        problems.append(Problem(each[0].place, path, f"expected {wanted}, found {value}"))
    return problems


def _problem(fault: _Fault) -> Problem:
    if fault.kind == "missing":
        return Problem(fault.place, fault.path, "a required key is missing")
    if fault.kind in ("value_error", "assertion_error"):
        return _told_by_a_validator(fault)
    wanted = expected(fault.kind, fault.context)
    if fault.steps[-1:] == ("[key]",):
        key = Scalar(fault.path[-1], fault.place, fault.path[-1])
        near = hint(fault.kind, fault.context, key, secret=False)
        return Problem(fault.place, fault.path, f"expected the key {wanted or fault.message}{near}")
    value = found(fault.node, secret=fault.secret)
    if wanted is None:
        message = fault.message[:1].lower() + fault.message[1:]
        return Problem(fault.place, fault.path, f"{message}; found {value}")
    near = hint(fault.kind, fault.context, fault.node, secret=fault.secret)
    return Problem(fault.place, fault.path, f"expected {wanted}, found {value}{near}")


def _told_by_a_validator(fault: _Fault) -> Problem:
    """A rule of the model itself; a message that begins with a key is placed at that key."""
    node, place = fault.node, fault.place
    for step in fault.message.split(" ", 1)[0].split("."):
        below = _child(node, step)
        if below is None:
            break
        place, node = below
    else:
        place = node.place if isinstance(node, Scalar) else place
    message = fault.message
    hidden = fault.secret or fault.steps[-1:] == ("[key]",)
    if isinstance(fault.node, Scalar) and not hidden and fault.node.written not in message:
        message = f"{message}; found {found(fault.node, secret=False)}"
    return Problem(place, fault.path, message)


def _is_broken(fault: _Fault) -> bool:
    return isinstance(fault.node, Scalar) and fault.node.broken


def _version_problems(document: Document, model: type[BaseModel]) -> list[Problem]:
    entry = document.root.entries.get("schema_version")
    version = document.scalar("schema_version")
    if entry is None or "schema_version" not in model.model_fields:
        return []
    if not isinstance(version, int) or isinstance(version, bool) or version == SCHEMA_VERSION:
        return []
    message = f"this runner reads version {SCHEMA_VERSION}, found {version}"
    return [Problem(entry.node.place, ("schema_version",), message)]
