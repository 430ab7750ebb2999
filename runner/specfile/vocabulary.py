"""Which keys a model knows at a place, and which of them a wrong key was meant to be."""

from __future__ import annotations

import difflib
import types
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

Step = str | int


def nearest(word: str, names: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The name that a misspelt word most likely means; case and '-' for '_' don't count."""
    folded = {_fold(name): name for name in names}
    close = difflib.get_close_matches(_fold(word), folded, n=1, cutoff=cutoff)
    return folded[close[0]] if close else None


def keys_at(model: type[BaseModel], steps: Iterable[Step]) -> tuple[str, ...]:
    """The keys that a model takes at a place; empty where there is no model.

    Args:
        model: the model of the whole file.
        steps: a pydantic error location, tags of unions included.
    """
    annotations: list[Any] = [model]
    for step in steps:
        annotations = [found for each in annotations for found in _descend(each, step)]
    members = (member for each in annotations for member in _members(each))
    return tuple(
        dict.fromkeys(key for member in members if _is_model(member) for key in _fields(member))
    )


def belongs_at(model: type[BaseModel], key: str) -> tuple[str, ...]:
    """Dotted places in a model where a key that is wrong elsewhere is right.

    The name nearest to the key counts. `<name>` stands for any key, `<n>` for any index.
    """
    places: dict[str, list[str]] = {}
    for path in _paths(model, (), frozenset()):
        places.setdefault(path[-1], []).append(".".join(path))
    name = nearest(key, places, cutoff=0.75)
    return tuple(sorted(places[name], key=lambda place: place.count("."))) if name else ()


def _fold(word: str) -> str:
    return word.lower().replace("-", "_")


def _fields(model: type[BaseModel]) -> dict[str, Any]:
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _members(annotation: Any) -> Iterator[Any]:
    """The annotation without `Annotated`, taken apart where it is a union."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _members(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for argument in get_args(annotation):
            yield from _members(argument)
    else:
        yield annotation


def _contents(annotation: Any) -> tuple[str, Any] | None:
    """What a container holds: ("<name>", value type) or ("<n>", item type)."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if not isinstance(origin, type) or not arguments:
        return None
    if issubclass(origin, Mapping):
        return "<name>", arguments[1]
    if issubclass(origin, Collection):
        return "<n>", Union[tuple(each for each in arguments if each is not ...)]  # noqa: UP007
    return None


def _descend(annotation: Any, step: Step) -> Iterator[Any]:
    for member in _members(annotation):
        contents = _contents(member)
        if _is_model(member):
            fields = _fields(member)
            if step in fields:
                yield fields[str(step)]
            elif step == member.__name__:
                yield member
        elif contents and (contents[0] == "<name>" or isinstance(step, int)):
            yield contents[1]


def _paths(
    annotation: Any, path: tuple[str, ...], above: frozenset[type]
) -> Iterator[tuple[str, ...]]:
    for member in _members(annotation):
        contents = _contents(member)
        if _is_model(member) and member not in above:
            for name, below in _fields(member).items():
                yield (*path, name)
                yield from _paths(below, (*path, name), above | {member})
        elif contents:
            yield from _paths(contents[1], (*path, contents[0]), above)
