"""Environments in files: names are checked, `${NAME}` is kept for whoever knows the values."""

from __future__ import annotations

import pytest

from runner.errors import SpecError
from runner.models.host import Inventory
from runner.specfile import load_text


def test_a_file_keeps_references_as_they_stand() -> None:
    text = "hosts: {a: {environment: {HF_TOKEN: '${HF_TOKEN}', B: '${B}'}}}"
    environment = load_text(text, "hosts.yaml", Inventory).hosts["a"].environment
    assert environment == {"HF_TOKEN": "${HF_TOKEN}", "B": "${B}"}


@pytest.mark.parametrize("name", ["A B", "A=B", "1A", "", "É"])
def test_what_no_shell_takes_as_a_name_is_refused_where_it_stands(name: str) -> None:
    text = f"hosts:\n  a:\n    environment:\n      '{name}': hf_planted\n"
    with pytest.raises(SpecError) as caught:
        load_text(text, "hosts.yaml", Inventory)
    (problem,) = caught.value.problems
    assert problem.startswith("hosts.yaml:4:7: ")
    assert problem.endswith(
        f"'{name}' is not a variable's name: letters, digits and '_', no digit first"
    )
