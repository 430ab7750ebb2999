"""`${NAME}`: found, filled in, refused when it would silently become nothing."""

from __future__ import annotations

import pytest

from runner.errors import SpecError
from runner.models.host import Inventory
from runner.specfile import environment_references, load_text, resolve_environment

WHERE = "hosts.yaml: hosts.a.environment"


def test_references_are_found_in_order_each_once() -> None:
    assert environment_references("${B}/${A}:${B} $C {D} ${1E}") == ("B", "A")
    assert environment_references("plain") == ()


def test_a_file_keeps_references_as_they_stand() -> None:
    text = "hosts: {a: {environment: {HF_TOKEN: '${HF_TOKEN}', B: '${B}'}}}"
    environment = load_text(text, "hosts.yaml", Inventory).hosts["a"].environment
    assert environment == {"HF_TOKEN": "${HF_TOKEN}", "B": "${B}"}


def test_references_are_filled_in_once() -> None:
    environ = {"HOME": "/root", "NESTED": "${HOME}"}
    mapping = {"A": "${HOME}/a:${HOME}/b", "B": "${NESTED}", "C": "as it is"}
    assert resolve_environment(mapping, environ, WHERE) == {
        "A": "/root/a:/root/b",
        "B": "${HOME}",
        "C": "as it is",
    }


def test_unset_empty_and_blank_variables_are_named_without_any_value() -> None:
    mapping = {"HF_TOKEN": "${HF_TOKEN}", "KEY": "${MY_KEY}", "X": "${X}", "OK": "${OK}"}
    environ = {"MY_KEY": "", "X": "  ", "OK": "hf_planted"}
    with pytest.raises(SpecError) as caught:
        resolve_environment(mapping, environ, WHERE)
    assert caught.value.problems == (
        f"{WHERE}.HF_TOKEN: the variable HF_TOKEN is not set",
        f"{WHERE}.KEY: the variable MY_KEY is empty",
        f"{WHERE}.X: the variable X is empty",
    )
    assert caught.value.next_step == "export HF_TOKEN MY_KEY X and repeat the command"
    assert "hf_planted" not in str(caught.value)


@pytest.mark.parametrize("text", ["${HF-TOKEN}", "${}", "${A:-b}", "${"])
def test_a_reference_to_something_else_than_a_name_is_refused(text: str) -> None:
    with pytest.raises(SpecError) as caught:
        resolve_environment({"KEY": text}, {"A": "a"}, WHERE)
    assert caught.value.problems == (
        f"{WHERE}.KEY: expected ${{NAME}} with a variable's name inside",
    )
