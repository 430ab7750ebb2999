"""Axes -> cells. Pure: counts before it expands, and refuses what would be a surprise.

Rules, in this order: the product of the axes; `exclude` takes away every cell that has all values
of an entry; `include` adds whole cells, which may hold values that are on no axis. Values are
compared with their type: 2 is not "2", and true is not 1.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from runner.errors import SpecError
from runner.models.job import Matrix

Value = str | int
Cell = tuple[Value, ...]
"""One value for each axis, in the order of the axes."""


@dataclass(frozen=True)
class CellKey:
    """What a cell is: one value of every axis, and which repeat (from 1).

    `mode` is what an evaluation measures it for.
    """

    server: str
    prompts: str
    concurrency: int
    repeat: int
    mode: str | None = None

    @property
    def id(self) -> str:
        """Readable and stable: `<server>-<prompts>-c<concurrency>-r<repeat>`."""
        return f"{self.server}-{self.prompts}-c{self.concurrency}-r{self.repeat}"


def expand(matrix: Matrix, repeats: int, max_cells: int) -> tuple[CellKey, ...]:
    """The cells of a matrix: by server in the order given, then prompts, concurrency, repeat.

    Raises:
        SpecError: an entry or an axis is wrong, nothing is left, two cells would share an id, or
            there are more than `max_cells`, counted before `exclude`; with every problem, each
            beginning with its key in the job file.
    """
    axes: dict[str, tuple[Value, ...]] = {
        "server": matrix.server,
        "prompts": matrix.prompts,
        "concurrency": matrix.concurrency,
    }
    low = [value for value in matrix.concurrency if value < 1]
    problems = [f"matrix.concurrency: expected 1 or more, found {value}" for value in low]
    cells = expand_axes(
        axes,
        exclude=matrix.exclude,
        include=matrix.include,
        allow_unmatched=matrix.allow_unmatched,
        repeats=repeats,
        max_cells=max_cells,
        problems=problems,
    )
    keys = tuple(
        CellKey(str(server), str(prompts), int(concurrency), repeat)
        for server, prompts, concurrency in cells
        for repeat in range(1, repeats + 1)
    )
    _refuse_shared_ids(keys)
    return keys


def expand_axes(
    axes: Mapping[str, Sequence[Value]],
    *,
    exclude: Sequence[Mapping[str, Any]] = (),
    include: Sequence[Mapping[str, Any]] = (),
    allow_unmatched: bool = False,
    repeats: int = 1,
    max_cells: int,
    problems: Sequence[str] = (),
) -> tuple[Cell, ...]:
    """The cells of any axes, sorted by the order of axes and values; repeats are only counted.

    `problems` are what the caller found already; they are raised together with what is found here.
    Values that only `include` brings come after those of their axis, in order of appearance.

    Raises:
        SpecError: as `expand` says.
    """
    found = [*problems, *_axis_problems(axes), *_too_many(axes, len(include), repeats, max_cells)]
    found += _entry_problems("exclude", exclude, axes)
    found += _entry_problems("include", include, axes)
    if not found and not allow_unmatched:
        found += _unmatched(exclude, axes)
    if found:
        raise _error(found)
    names = tuple(axes)
    left = [cell for cell in product(*axes.values()) if not _excluded(cell, names, exclude)]
    cells = {_typed(cell): cell for cell in left}
    for index, entry in enumerate(include):
        cell = tuple(entry[name] for name in names)
        if _typed(cell) in cells:
            found.append(f"matrix.include.{index}: the cell {_shown(entry)} exists already")
        cells.setdefault(_typed(cell), cell)
    if not cells:
        found.append("matrix.exclude: no cell is left")
    if found:
        raise _error(found)
    return _sorted(axes, tuple(cells.values()))


def _error(problems: Sequence[str]) -> SpecError:
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return SpecError(f"{count} in the matrix", problems=problems)


def _axis_problems(axes: Mapping[str, Sequence[Value]]) -> Iterator[str]:
    for axis, values in axes.items():
        if not values:
            yield f"matrix.{axis}: expected one value at least"
        first: dict[tuple[type, Value], int] = {}
        for index, value in enumerate(values):
            if first.setdefault((type(value), value), index) != index:
                yield f"matrix.{axis}.{index}: {value!r} is on the axis already; keep one"


def _too_many(
    axes: Mapping[str, Sequence[Value]], included: int, repeats: int, max_cells: int
) -> Iterator[str]:
    cells = math.prod(len(values) for values in axes.values())
    total = (cells + included) * repeats
    if total > max_cells:
        factors = " x ".join(f"{len(values)} {axis}" for axis, values in axes.items())
        extra = f" + {included} included" if included else ""
        times = f", each {repeats} times" if repeats > 1 else ""
        yield (
            f"matrix: {total} cells before exclude ({factors}{extra}{times}); expected at most"
            f" {max_cells}. Shorten an axis, or allow it with max_cells: {total}"
        )


def _entry_problems(
    key: str, entries: Sequence[Mapping[str, Any]], axes: Mapping[str, Sequence[Value]]
) -> Iterator[str]:
    """Wrong names and types; an included cell must be whole as well."""
    for index, entry in enumerate(entries):
        where = f"matrix.{key}.{index}"
        if not entry:
            yield f"{where}: an empty entry; expected values of {', '.join(axes)}"
            continue
        for axis, value in entry.items():
            if axis in axes:
                yield from _type_problem(f"{where}.{axis}", value, axes[axis], key)
            else:
                close = difflib.get_close_matches(axis, axes, n=1)
                hint = f"did you mean '{close[0]}'?" if close else f"expected {', '.join(axes)}"
                yield f"{where}.{axis}: unknown axis '{axis}'; {hint}"
        missing = [axis for axis in axes if axis not in entry]
        if key == "include" and missing and set(entry) <= set(axes):
            yield f"{where}: an included cell is whole; {', '.join(missing)} missing"


def _type_problem(where: str, value: Any, values: Sequence[Value], key: str) -> Iterator[str]:
    wanted = {type(each) for each in values}
    if isinstance(value, list | dict):
        yield f"{where}: expected one value; write an entry for each"
    elif wanted and type(value) not in wanted:
        kinds = " or ".join(sorted(_KINDS[each] for each in wanted))
        found = _KINDS.get(type(value), "nothing")
        yield f"{where}: expected {kinds}, found {found} {value!r}"
    elif key == "include" and isinstance(value, int) and value < 1:
        yield f"{where}: expected 1 or more, found {value}"


_KINDS: Mapping[type, str] = {
    str: "text",
    int: "a whole number",
    bool: "a boolean",
    float: "a number",
}


def _unmatched(
    exclude: Sequence[Mapping[str, Any]], axes: Mapping[str, Sequence[Value]]
) -> Iterator[str]:
    for index, entry in enumerate(exclude):
        for axis, value in entry.items():
            if value not in axes[axis]:
                names = [str(each) for each in axes[axis]]
                close = difflib.get_close_matches(str(value), names, n=1)
                hint = (
                    f"did you mean '{close[0]}'?" if close else f"found there: {', '.join(names)}"
                )
                yield (
                    f"matrix.exclude.{index}.{axis}: {value!r} matches no cell; {hint}"
                    " (allow_unmatched: true lets it pass)"
                )


def _excluded(cell: Cell, names: Sequence[str], exclude: Sequence[Mapping[str, Any]]) -> bool:
    own = dict(zip(names, cell, strict=True))
    return any(
        all(type(own[axis]) is type(value) and own[axis] == value for axis, value in entry.items())
        for entry in exclude
    )


def _typed(cell: Cell) -> tuple[tuple[type, Value], ...]:
    return tuple((type(value), value) for value in cell)


def _shown(entry: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{axis}: {value}" for axis, value in entry.items()) + "}"


def _sorted(axes: Mapping[str, Sequence[Value]], cells: Sequence[Cell]) -> tuple[Cell, ...]:
    ranks: list[dict[tuple[type, Value], int]] = []
    for position, values in enumerate(axes.values()):
        rank: dict[tuple[type, Value], int] = {}
        for value in (*values, *(cell[position] for cell in cells)):
            rank.setdefault((type(value), value), len(rank))
        ranks.append(rank)

    def order(cell: Cell) -> tuple[int, ...]:
        return tuple(rank[(type(value), value)] for rank, value in zip(ranks, cell, strict=True))

    return tuple(sorted(cells, key=order))


def _refuse_shared_ids(keys: Sequence[CellKey]) -> None:
    owners: dict[str, CellKey] = {}
    problems = [
        f"matrix: server '{key.server}' with prompts '{key.prompts}' and server '{owner.server}'"
        f" with prompts '{owner.prompts}' share the cell id {key.id}; rename one"
        for key in keys
        if (owner := owners.setdefault(key.id, key)) != key
    ]
    if problems:
        raise _error(problems)
