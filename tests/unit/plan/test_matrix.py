"""Axes -> cells: order, exclude, include, and no surprise in between."""

from __future__ import annotations

import tracemalloc
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.errors import SpecError
from runner.models.job import Matrix
from runner.plan.matrix import CellKey, expand, expand_axes


def matrix(**changes: Any) -> Matrix:
    axes = {"server": ("base", "ngram"), "prompts": ("code", "chat"), "concurrency": (1, 8)}
    return Matrix(**{**axes, **changes})


def ids(spec: Matrix, repeats: int = 1) -> list[str]:
    return [cell.id for cell in expand(spec, repeats, 500)]


def problems(spec: Matrix, repeats: int = 1, max_cells: int = 500) -> tuple[str, ...]:
    with pytest.raises(SpecError) as caught:
        expand(spec, repeats, max_cells)
    assert caught.value.exit_code == 3
    return caught.value.problems


def test_order_is_by_server_then_prompts_then_concurrency_then_repeat() -> None:
    assert ids(matrix(concurrency=(8, 1)), repeats=2) == [
        "base-code-c8-r1",
        "base-code-c8-r2",
        "base-code-c1-r1",
        "base-code-c1-r2",
        "base-chat-c8-r1",
        "base-chat-c8-r2",
        "base-chat-c1-r1",
        "base-chat-c1-r2",
        "ngram-code-c8-r1",
        "ngram-code-c8-r2",
        "ngram-code-c1-r1",
        "ngram-code-c1-r2",
        "ngram-chat-c8-r1",
        "ngram-chat-c8-r2",
        "ngram-chat-c1-r1",
        "ngram-chat-c1-r2",
    ]


def test_a_cell_says_what_it_is() -> None:
    assert expand(matrix(), 1, 500)[1] == CellKey("base", "code", 8, 1)


def test_exclude_with_some_of_the_axes_and_include_with_all() -> None:
    spec = matrix(
        exclude=({"server": "ngram", "concurrency": 8}, {"prompts": "chat"}),
        include=(
            {"server": "eagle", "prompts": "code", "concurrency": 4},
            {"server": "ngram", "prompts": "code", "concurrency": 8},
            {"server": "base", "prompts": "code", "concurrency": 4},
        ),
    )
    assert ids(spec) == [
        "base-code-c1-r1",
        "base-code-c8-r1",
        "base-code-c4-r1",
        "ngram-code-c1-r1",
        "ngram-code-c8-r1",
        "eagle-code-c4-r1",
    ]


def test_every_surprise_of_a_matrix_is_told_at_once() -> None:
    spec = matrix(
        concurrency=(1, 8, 64),
        exclude=(
            {"server": "c", "concurency": 8},
            {"concurrency": "8"},
            {"concurrency": True},
            {"concurrency": 8.0},
            {"prompts": ["code", "chat"]},
            {"repeat": 1},
            {},
        ),
        include=(
            {"sever": "base"},
            {"server": "base", "concurrency": 8},
            {"server": "base", "prompts": None, "concurrency": 0},
        ),
    )
    whole = "expected a whole number, found"
    assert problems(spec) == (
        "matrix.exclude.0.concurency: unknown axis 'concurency'; did you mean 'concurrency'?",
        f"matrix.exclude.1.concurrency: {whole} text '8'",
        f"matrix.exclude.2.concurrency: {whole} a boolean True",
        f"matrix.exclude.3.concurrency: {whole} a number 8.0",
        "matrix.exclude.4.prompts: expected one value; write an entry for each",
        "matrix.exclude.5.repeat: unknown axis 'repeat'; expected server, prompts, concurrency",
        "matrix.exclude.6: an empty entry; expected values of server, prompts, concurrency",
        "matrix.include.0.sever: unknown axis 'sever'; did you mean 'server'?",
        "matrix.include.1: an included cell is whole; prompts missing",
        "matrix.include.2.prompts: expected text, found nothing None",
        "matrix.include.2.concurrency: expected 1 or more, found 0",
    )


def test_an_exclude_that_matches_nothing_is_an_error_unless_allowed() -> None:
    entries = ({"server": "ngam"}, {"concurrency": 3}, {"server": "base", "concurrency": 8})
    allow = "(allow_unmatched: true lets it pass)"
    assert problems(matrix(exclude=entries)) == (
        f"matrix.exclude.0.server: 'ngam' matches no cell; did you mean 'ngram'? {allow}",
        f"matrix.exclude.1.concurrency: 3 matches no cell; found there: 1, 8 {allow}",
    )
    assert len(ids(matrix(exclude=entries, allow_unmatched=True))) == 6


def test_allow_unmatched_lets_no_wrong_type_pass() -> None:
    spec = matrix(exclude=({"concurrency": "8"},), allow_unmatched=True)
    assert problems(spec) == (
        "matrix.exclude.0.concurrency: expected a whole number, found text '8'",
    )


def test_an_included_cell_that_exists_is_refused() -> None:
    cell = {"server": "base", "prompts": "code", "concurrency": 8}
    new = {"server": "base", "prompts": "code", "concurrency": 9}
    assert problems(matrix(include=(cell, new, new))) == (
        "matrix.include.0: the cell {server: base, prompts: code, concurrency: 8} exists already",
        "matrix.include.2: the cell {server: base, prompts: code, concurrency: 9} exists already",
    )


def test_values_on_an_axis_twice_and_below_one() -> None:
    spec = matrix(server=("base", "ngram", "base"), concurrency=(0, 1, 1))
    assert problems(spec) == (
        "matrix.concurrency: expected 1 or more, found 0",
        "matrix.server.2: 'base' is on the axis already; keep one",
        "matrix.concurrency.2: 1 is on the axis already; keep one",
    )


def test_a_matrix_without_cells_is_an_error() -> None:
    spec = matrix(exclude=({"server": "base"}, {"server": "ngram"}))
    assert problems(spec) == ("matrix.exclude: no cell is left",)


def test_names_that_lead_to_one_id_are_refused() -> None:
    spec = matrix(server=("a", "a-b"), prompts=("b-c", "c"), concurrency=(1,))
    assert problems(spec) == (
        "matrix: server 'a-b' with prompts 'c' and server 'a' with prompts 'b-c' share the cell id"
        " a-b-c-c1-r1; rename one",
    )


def test_the_limit_counts_repeats_and_included_cells() -> None:
    cell = {"server": "base", "prompts": "code", "concurrency": 9}
    spec = matrix(include=(cell,))
    assert len(expand(spec, 3, 27)) == 27
    assert problems(spec, 3, 26) == (
        "matrix: 27 cells before exclude (2 server x 2 prompts x 2 concurrency + 1 included, each"
        " 3 times); expected at most 26. Shorten an axis, or allow it with max_cells: 27",
    )


def test_a_product_beyond_all_bounds_is_counted_and_never_built() -> None:
    axes = {name: tuple(range(100)) for name in ("model", "k", "c", "host", "image")}
    tracemalloc.start()
    with pytest.raises(SpecError) as caught:
        expand_axes(axes, exclude=({"k": 3},), max_cells=500)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert caught.value.problems == (
        "matrix: 10000000000 cells before exclude (100 model x 100 k x 100 c x 100 host x 100"
        " image); expected at most 500. Shorten an axis, or allow it with max_cells: 10000000000",
    )
    assert peak_bytes < 1 << 20


NAMES = st.lists(st.text("abz", min_size=1, max_size=3), min_size=1, max_size=4, unique=True)
NUMBERS = st.lists(st.integers(1, 999), min_size=1, max_size=4, unique=True)


@st.composite
def axes_with_entries(draw: st.DrawFn) -> tuple[dict[str, list[Any]], list[dict[str, Any]]]:
    axes: dict[str, list[Any]] = {
        "server": draw(NAMES),
        "prompts": draw(NAMES),
        "concurrency": draw(NUMBERS),
    }
    entries = []
    for _ in range(draw(st.integers(0, 3))):
        chosen = draw(st.sets(st.sampled_from(list(axes)), min_size=1))
        entries.append({axis: draw(st.sampled_from(axes[axis])) for axis in axes if axis in chosen})
    return axes, entries


@given(axes_with_entries(), st.integers(1, 3))
def test_ids_are_unique_and_exclude_takes_away_exactly_what_matches(
    drawn: tuple[dict[str, list[Any]], list[dict[str, Any]]], repeats: int
) -> None:
    axes, entries = drawn
    wanted = [
        dict(zip(axes, cell, strict=True))
        for cell in product(*axes.values())
        if not any(entry.items() <= dict(zip(axes, cell, strict=True)).items() for entry in entries)
    ]
    spec = Matrix(**axes, exclude=tuple(entries))
    if not wanted:
        assert problems(spec, repeats, 10_000) == ("matrix.exclude: no cell is left",)
        return
    keys = expand(spec, repeats, 10_000)
    assert keys == tuple(
        CellKey(**cell, repeat=repeat) for cell in wanted for repeat in range(1, repeats + 1)
    )
    assert len({key.id for key in keys}) == len(keys)


@given(axes_with_entries(), st.data())
def test_including_what_was_excluded_gives_the_whole_matrix_back(
    drawn: tuple[dict[str, list[Any]], list[dict[str, Any]]], data: st.DataObject
) -> None:
    axes, entries = drawn
    whole = expand_axes(axes, max_cells=10_000)
    cells = [dict(zip(axes, cell, strict=True)) for cell in whole]
    gone = [cell for cell in cells if any(entry.items() <= cell.items() for entry in entries)]
    back = data.draw(st.permutations(gone))
    assert expand_axes(axes, exclude=entries, include=back, max_cells=10_000) == whole
