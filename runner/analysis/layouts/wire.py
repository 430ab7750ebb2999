"""A JSON decoder made from a layout: only what is named is decoded, the rest is skipped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from runner.analysis.layouts.catalogue import Layout, Place

_METADATA: Mapping[str, Any] = {
    "id": str,
    "turn": int,
    "start_ns": int | float,
    "end_ns": int | float,
    "credit_ns": int | float,
    "phase": str,
    "was_cancelled": bool,
}
_METRICS = ("latency_ms", "ttft_ms", "output_tokens", "input_tokens", "chunks", "stream_gaps")
_COUNTED = "stream_gaps"
"""A list of which only the length is used: it stays raw."""
_NANOSECONDS = {"ns": 1, "us": 1000, "ms": 10**6, "s": 10**9}


class SecondNames(NamedTuple):
    """For a part of a record in which some fields have several names.

    `firsts(part)` are the values under the first names; where there is None among them,
    `settle(part)` fills in what is written under another name.
    """

    firsts: Callable[[Any], tuple[object, ...]]
    settle: Callable[[Any], None]


@dataclass(frozen=True)
class Wire:
    """How the lines of a layout are decoded.

    `decode(line)` gives an object with `metadata`, `metrics`, `spec` and `error`, whose attributes
    are the names of record fields; a metric is an object with a `value`. `factors` lead from the
    unit of the layout to that of the record, for the fields where the two differ.
    """

    decode: Callable[[bytes], Any]
    metadata_names: SecondNames | None
    metrics_names: SecondNames | None
    factors: Mapping[str, float]
    measured_phase: str


def wire_of(layout: Layout, spec: type[msgspec.Struct], error: type[msgspec.Struct]) -> Wire:
    """The decoder of a layout; speculation and errors come as (subclasses of) these types.

    Raises:
        ValueError: the layout names a field or a unit that there is not.
    """
    _check(layout, spec, error)
    parts = layout.parts
    number: Any = msgspec.defstruct(
        "Number", [("value", float | None, None)], gc=False, rename={"value": parts.metric_value}
    )
    counted: Any = msgspec.defstruct(
        "Counted",
        [("value", msgspec.Raw, msgspec.Raw(b""))],
        gc=False,
        rename={"value": parts.metric_value},
    )
    metric_types = {name: counted if name == _COUNTED else number for name in _METRICS}
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [
        ("metadata", _part("Metadata", layout.metadata, _METADATA)),
        ("metrics", _part("Metrics", layout.metrics, metric_types)),
        ("error", _renamed(error, layout.error) | None, None),
    ]
    names = {"metadata": parts.metadata, "metrics": parts.metrics, "error": parts.error}
    if parts.spec is not None:
        fields.append(("spec", _renamed(spec, layout.spec) | None, None))
        names["spec"] = parts.spec
    absent = {"spec": None} if parts.spec is None else {}
    line = msgspec.defstruct("Line", fields, gc=False, rename=names, namespace=absent)
    return Wire(
        decode=msgspec.json.Decoder(line).decode,
        metadata_names=_second_names(layout.metadata),
        metrics_names=_second_names(layout.metrics),
        factors=_factors(layout),
        measured_phase=layout.measured_phase,
    )


def _check(layout: Layout, spec: type[msgspec.Struct], error: type[msgspec.Struct]) -> None:
    pairs = (
        (layout.metadata, _METADATA),
        (layout.metrics, _METRICS),
        (layout.spec, spec.__struct_fields__),
        (layout.error, error.__struct_fields__),
    )
    for named, known in pairs:
        unknown = sorted(set(named) - set(known))
        if unknown:
            raise ValueError(f"layout {layout.first}: there is no field {', '.join(unknown)}")
    for field, place in (*layout.metadata.items(), *layout.metrics.items()):
        if not place.names:
            raise ValueError(f"layout {layout.first}: {field} has no name")
        if (place.unit is not None or _unit(field) is not None) and (
            place.unit not in _NANOSECONDS or _unit(field) is None
        ):
            raise ValueError(f"layout {layout.first}: {field} can't be in {place.unit}")


def _part(name: str, places: Mapping[str, Place], types: Mapping[str, Any]) -> Any:
    """A struct with an attribute for each name; fields without a place are always None."""
    fields, names = [], {}
    for field, place in places.items():
        for attribute, written in zip(_attributes(field, place), place.names, strict=True):
            fields.append((attribute, types[field] | None, None))
            names[attribute] = written
    absent = dict.fromkeys(set(types) - set(places))
    return msgspec.defstruct(name, fields, gc=False, rename=names, namespace=absent)


def _attributes(field: str, place: Place) -> list[str]:
    return [field, *(f"{field}_{number}" for number in range(1, len(place.names)))]


def _renamed(base: type[msgspec.Struct], names: Mapping[str, str]) -> Any:
    """`base` itself where it has these names, else a subclass that is written with them."""
    own = dict(zip(base.__struct_fields__, base.__struct_encode_fields__, strict=True))
    if own == names:
        return base
    fields = [
        (one.name, one.type) if one.required else (one.name, one.type, _default(one))
        for one in msgspec.structs.fields(base)
    ]
    # a field without a name in the layout is looked for under a name that no line has
    unwritten = {name: f"(no {name})" for name in base.__struct_fields__}
    return msgspec.defstruct(
        base.__name__, fields, bases=(base,), frozen=True, gc=False, rename={**unwritten, **names}
    )


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is msgspec.NODEFAULT:
        return field.default
    return msgspec.field(default_factory=field.default_factory)


def _second_names(places: Mapping[str, Place]) -> SecondNames | None:
    others = [_attributes(field, place) for field, place in places.items() if place.names[1:]]
    if not others:
        return None

    def settle(part: Any) -> None:
        for first, *rest in others:
            if getattr(part, first) is None:
                values = (getattr(part, name) for name in rest)
                setattr(part, first, next((v for v in values if v is not None), None))

    # one name twice: with a single name, the getter would not give a tuple
    return SecondNames(attrgetter(others[0][0], *(first for first, *_ in others)), settle)


def _factors(layout: Layout) -> Mapping[str, float]:
    factors = {}
    for field, place in (*layout.metadata.items(), *layout.metrics.items()):
        unit = _unit(field)
        if unit is not None and place.unit is not None and place.unit != unit:
            factors[field] = _NANOSECONDS[place.unit] / _NANOSECONDS[unit]
    return factors


def _unit(field: str) -> str | None:
    """The unit that ends the name of a field of time."""
    last = field.rsplit("_", 1)[-1]
    return last if last in _NANOSECONDS else None
