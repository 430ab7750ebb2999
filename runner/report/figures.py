"""Figures as the report prints them and as `summary.json` holds them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from runner.analysis.measurements import Measurement

Json = dict[str, Any]
Formatter = Callable[[float], str]
NOTHING = "–"  # noqa: RUF001 (an en dash is what a table shows for no value)


def figure_json(figure: Measurement, paths: Sequence[str]) -> Json:
    """`value`, `unit`, `statistic` and the cells it comes from; or why it is unavailable.

    `paths` are cell folders relative to the run: one becomes `cell`, several `cells`.
    """
    if figure.value is None:
        return {"unavailable": figure.unavailable or "not recorded"}
    result: Json = {
        "value": figure.value,
        "unit": figure.unit,
        "statistic": figure.statistic,
    }
    if figure.low is not None and figure.high is not None:
        result |= {"low": figure.low, "high": figure.high}
    if figure.interval is not None:
        result["interval"] = asdict(figure.interval)
    if len(paths) == 1:
        return result | {"cell": paths[0]}
    return result | {"cells": list(paths)}


def figures_json(figures: Iterable[Measurement], paths: Sequence[str]) -> Json:
    """Figures by metric; several of one metric by position or by statistic."""
    grouped: dict[str, list[Measurement]] = {}
    for figure in figures:
        grouped.setdefault(figure.metric, []).append(figure)
    return {metric: _group(members, paths) for metric, members in grouped.items()}


def _group(members: Sequence[Measurement], paths: Sequence[str]) -> Any:
    if members[0].position is not None:
        return [{"position": figure.position, **figure_json(figure, paths)} for figure in members]
    if len(members) == 1:
        return figure_json(members[0], paths)
    return {
        figure.statistic.removesuffix(" over requests"): figure_json(figure, paths)
        for figure in members
    }


def by_metric(figures: Iterable[Measurement]) -> Mapping[str, Measurement]:
    """The first figure of each metric."""
    result: dict[str, Measurement] = {}
    for figure in figures:
        result.setdefault(figure.metric, figure)
    return result


def number(value: float | int, digits: int = 2) -> str:
    """A number for people: fixed digits, thousands apart."""
    return f"{value:,.{digits}f}"


def shown(value: float | None, show: Formatter, missing: str = NOTHING) -> str:
    """A value for people; `missing` where there is none."""
    return missing if value is None else show(value)


def within(low: float, high: float, show: Formatter) -> str:
    """An interval for people: `[low, high]`."""
    return f"[{show(low)}, {show(high)}]"


def throughput(value: float) -> str:
    """Three or four figures that mean something."""
    return number(value, 0 if value >= 1000 else 1)


def percent(value: float) -> str:
    """A share as a percentage; what is not whole is never rounded to 0 or 100 %."""
    text = f"{100 * value:.1f} %"
    if text == "100.0 %" and value != 1:
        return "> 99.9 %"
    return "< 0.1 %" if text == "0.0 %" and value else text
