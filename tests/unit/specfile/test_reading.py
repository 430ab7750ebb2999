"""YAML text in: what PyYAML would lose or let pass, and the place of each problem."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from runner.errors import SpecError
from runner.specfile import load_spec, load_text


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Devices(Strict):
    gpus: list[int] = []
    label: str | None = None


class File(Strict):
    hosts: dict[str, Devices] = {}
    base: Devices | None = None
    cells: list[Devices] = []
    text: str = ""
    number: float = 0.0
    free: dict[str, str] = {}


def problems(text: str) -> tuple[str, ...]:
    with pytest.raises(SpecError) as caught:
        load_text(text, "f.yaml", File)
    assert caught.value.exit_code == 3
    return caught.value.problems


def test_a_key_given_twice_names_both_lines_and_anchors_go_on_working() -> None:
    text = (
        "hosts: {a: {gpus: [2]}}\n"
        "hosts: {b: {gpus: [8]}}\n"
        "base: &b {gpus: [0]}\n"
        "cells:\n"
        "  - {<<: *b, gpus: [1]}\n"
        "  - *b\n"
    )
    assert problems(text) == (
        "f.yaml:2:1: hosts: key 'hosts' is given twice (lines 1 and 2); keep one",
    )
    read = load_text(text.split("\n", 1)[1], "f.yaml", File)
    read.cells[0].gpus.append(7)
    read.cells[1].gpus.append(9)
    assert [cell.gpus for cell in read.cells] == [[1, 7], [0, 9]]
    assert read.base is not None and read.base.gpus == [0]


def test_every_key_given_twice_is_told_at_any_depth() -> None:
    text = "cells:\n  - gpus: [1]\n    gpus: [2]\n  - {label: a, gpus: [], label: b}\n"
    assert problems(text) == (
        "f.yaml:3:5: cells.0.gpus: key 'gpus' is given twice (lines 2 and 3); keep one",
        "f.yaml:4:26: cells.1.label: key 'label' is given twice (lines 4 and 4); keep one",
    )


def test_of_two_merged_mappings_the_earlier_wins_and_an_explicit_key_beats_both() -> None:
    text = (
        "hosts:\n"
        "  a: &a {gpus: [1], label: a}\n"
        "  b: &b {gpus: [2], label: b}\n"
        "  c: {label: c, <<: [*b, *a]}\n"
    )
    merged = load_text(text, "f.yaml", File).hosts["c"]
    assert (merged.gpus, merged.label) == ([2], "c")


def test_a_quoted_merge_key_is_an_ordinary_key() -> None:
    assert load_text('free: {"<<": x}', "f.yaml", File).free == {"<<": "x"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\n---\nb: 2\n", "f.yaml:2:1: a second document starts here; expected one document"
         " in the file"),
        ("cells:\n\t- {}\n", "f.yaml:2:1: a tab stands where YAML wants spaces; indent with"
         " spaces"),
        ("cells: [1,\n", "f.yaml:2:1: not valid YAML: expected the node content, but found"
         " '<stream end>' (while parsing a flow node, line 2)"),
        ("base: *nowhere\n", "f.yaml:1:7: not valid YAML: found undefined alias 'nowhere'"),
        ("text: a\x07b\n", "f.yaml:1:8: character U+0007 is not allowed in YAML"),
        ("", "f.yaml:1:1: the file is empty; expected a mapping of keys to values"),
        ("# nothing\n", "f.yaml:1:1: the file is empty; expected a mapping of keys to values"),
        ("- a\n", "f.yaml:1:1: expected a mapping of keys to values, found a list"),
        ("word", "f.yaml:1:1: expected a mapping of keys to values, found a single value"),
        ("text: !secret x\n", "f.yaml:1:7: text: unknown tag '!secret'; write plain YAML"
         " without it"),
        ("base: !!python/object:os.system {}\n", "f.yaml:1:7: base: unknown tag"
         " '!!python/object:os.system'; write plain YAML without it"),
        ("cells: !!set {a}\n", "f.yaml:1:8: cells: unknown tag '!!set'; write plain YAML"
         " without it"),
        ("number: .inf\n", "f.yaml:1:9: number: '.inf' can't be read as !!float: expected a"
         " finite number"),
        ("number: !!int 010\n", "f.yaml:1:9: number: '010' can't be read as !!int: expected a"
         " whole number"),
        ("base: &b {gpus: *b}\n", "f.yaml:1:7: base.gpus: the value contains itself through an"
         " alias"),
        ("base: {<<: 3}\n", "f.yaml:1:12: base.<<: a merge takes a mapping or a list of mappings"),
        ("cells: &c []\nbase: {<<: {}, <<: {}}\n", "f.yaml:2:16: base.<<: key '<<' is given"
         " twice (lines 2 and 2); write <<: [*a, *b]"),
        ("free: {on: x}\n", "f.yaml:1:8: free: a key is text, and YAML reads on as !!bool;"
         ' quote it: "on"'),
        ("free: {8: x}\n", 'f.yaml:1:8: free: a key is text, and YAML reads 8 as !!int; quote it:'
         ' "8"'),
        ("free: {[a]: x}\n", "f.yaml:1:8: free: a key is text, found a list or a mapping"),
    ],
)  # fmt: skip
def test_what_is_no_plain_yaml_is_refused_at_its_place(text: str, problem: str) -> None:
    assert problems(text) == (problem,)


def test_structure_and_content_are_told_together_in_order() -> None:
    text = "tetx: a\nnumber: five\nfree: {a: x, a: y}\ncells: !x []\nhosts: 3\n"
    assert problems(text) == (
        "f.yaml:1:1: tetx: unknown key 'tetx'; did you mean 'text'?",
        "f.yaml:2:9: number: expected a number, found the text 'five'",
        "f.yaml:3:14: free.a: key 'a' is given twice (lines 3 and 3); keep one",
        "f.yaml:4:8: cells: unknown tag '!x'; write plain YAML without it",
        "f.yaml:5:8: hosts: expected a mapping of keys to values, found the number 3",
    )


def test_what_is_wrong_in_an_anchor_is_told_once() -> None:
    text = "base: &b {label: !x y}\ncells: [*b, *b, *b]\n"
    assert problems(text) == (
        "f.yaml:1:18: base.label: unknown tag '!x'; write plain YAML without it",
    )


def test_aliases_of_aliases_are_bounded() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    for level in range(1, 12):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]")
    assert problems("\n".join(lines)) == ("f.yaml:1:1: aliases expand to more than 50000 values",)


def test_depth_and_size_are_bounded() -> None:
    assert problems("cells: " + "[" * 500) == (
        "f.yaml:1:71: not valid YAML: nested deeper than 64 levels",
    )
    assert problems("#" * (1 << 20) + "\n") == (
        "f.yaml:1:1: 1048577 characters; expected 1048576 at most",
    )


@pytest.mark.parametrize("text", ["2026-12-01", "12:30:45", "0123", "12e4567", "1.2.3", "="])
def test_what_only_looks_like_a_number_or_a_date_stays_text(text: str) -> None:
    assert load_text(f"text: {text}\n", "f.yaml", File).text == text


@pytest.mark.parametrize(
    ("text", "value"),
    [("1_000", 1000.0), ("-3", -3.0), ("0x10", 16.0), ("1.5e3", 1500.0), (".5", 0.5)],
)
def test_numbers(text: str, value: float) -> None:
    assert load_text(f"number: {text}\n", "f.yaml", File).number == value


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_bytes(b"\xef\xbb\xbftext: caf\xc3\xa9\n")
    assert load_spec(file, File).text == "café"


def test_files_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"text: a\nfree: {a: caf\xe9}\n")
    with pytest.raises(SpecError) as caught:
        load_spec(latin, File)
    assert str(caught.value) == (
        f"{latin}: byte 0xe9 in line 2 is not UTF-8 text\n  next: save {latin} as UTF-8"
    )
    missing = tmp_path / "missing.yaml"
    with pytest.raises(SpecError) as caught:
        load_spec(missing, File)
    assert str(caught.value) == (
        f"{missing}: can't be read: No such file or directory\n  next: check the path"
    )
