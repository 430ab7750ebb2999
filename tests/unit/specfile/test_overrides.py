"""`--set key=value`, and where each value of a file came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.errors import SpecError, UsageError
from runner.models.host import Inventory
from runner.models.job import MatrixJob
from runner.specfile import load_text, load_with_origins

JOB = """\
kind: matrix
name: small
model: /models/a
servers:
  base: {}
  v1.5: {extra_arguments: [--one, --two]}
prompts:
  code: {file: code.jsonl}
matrix:
  server: [base, v1.5]
  prompts: [code]
  concurrency:
    - 1
    - 2
"""


def load(*overrides: str) -> MatrixJob:
    return load_text(JOB, "job.yaml", MatrixJob, overrides)


def problems(*overrides: str) -> tuple[str, ...]:
    with pytest.raises(SpecError) as caught:
        load(*overrides)
    return caught.value.problems


def test_an_item_a_whole_list_and_a_mapping_that_the_file_leaves_out() -> None:
    assert load("matrix.concurrency.0=4").matrix.concurrency == (4, 2)
    assert load("matrix.concurrency=[1,2,8]").matrix.concurrency == (1, 2, 8)
    assert load("server.seed=7", "server.dtype=float16").server.seed == 7
    assert load("sampling={temperature: 0.5}").sampling.temperature == 0.5


def test_values_are_yaml_and_a_later_override_wins() -> None:
    assert load('revision="1234567"').revision == "1234567"
    assert load("repeats=2", "repeats=3").repeats == 3
    assert load("baseline=base", "baseline=null").baseline is None
    assert load("model=a=b").model == "a=b"


def test_a_key_that_holds_dots_is_found() -> None:
    job = load("servers.v1.5.extra_arguments.1=--three", "servers.v1.5.environment.A=b")
    assert job.servers["v1.5"].extra_arguments == ("--one", "--three")
    assert job.servers["v1.5"].environment == {"A": "b"}


def test_problems_cite_the_option_and_never_its_value() -> None:
    told = problems(
        "matrix.concurency=[1]",
        "matrix.concurrency.2=4",
        "matrix.concurrency.one=4",
        "repeats=many",
        "model.path=x",
        "sampling.top_p=[",
        "servers.base.environment.HF_TOKEN=12345678",
        "servers.base.speculative={method: ngram}",
    )
    index = "'matrix.concurrency' is a list; expected an index (0 to 1), found"
    assert told == (
        "--set matrix.concurency=…: unknown key 'concurency'; did you mean 'concurrency'?",
        f"--set matrix.concurrency.2=…: {index} '2'",
        f"--set matrix.concurrency.one=…: {index} 'one'",
        "--set repeats=…: expected a whole number, found the text 'many'",
        "--set model.path=…: 'model' is a single value and has nothing below it",
        "--set sampling.top_p=…: not valid YAML: expected the node content, but found"
        " '<stream end>' (while parsing a flow node, line 1)",
        "--set servers.base.environment.HF_TOKEN=…: expected text, found ***; quote it",
        "--set servers.base.speculative=…: servers.base.speculative.num_speculative_tokens:"
        " a required key is missing",
    )


def test_problems_of_the_file_come_before_those_of_options() -> None:
    with pytest.raises(SpecError) as caught:
        load_text(JOB.replace("name: small", "name: 3"), "job.yaml", MatrixJob, ["repeats=0"])
    assert caught.value.problems == (
        'job.yaml:2:7: name: expected text, found the number 3; quote it: "3"',
        "--set repeats=…: expected a number of at least 1, found the number 0",
    )
    assert caught.value.next_step == "correct job.yaml and repeat the command"


def test_when_only_options_are_wrong_the_file_is_not_blamed() -> None:
    with pytest.raises(SpecError) as caught:
        load("repeats=0")
    assert caught.value.next_step == "correct the options and repeat the command"


def test_an_option_mends_what_is_wrong_in_the_file() -> None:
    text = JOB.replace("name: small", "name: 3")
    assert load_text(text, "job.yaml", MatrixJob, ["name=three"]).name == "three"


@pytest.mark.parametrize("override", ["repeats", "=3", "a..b=3", ".a=3"])
def test_an_option_without_key_or_value_is_wrong_usage(override: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(override)
    assert caught.value.exit_code == 2
    assert caught.value.next_step == "write it like --set matrix.concurrency=[1,4]"


def test_origins_name_the_line_or_the_option_and_leave_defaults_out(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(JOB, encoding="utf-8")
    overrides = ["matrix.concurrency.1=4", "server.seed=7"]
    job, origins = load_with_origins(file, MatrixJob, overrides)
    assert (job.matrix.concurrency, job.server.seed) == ((1, 4), 7)
    assert origins == {
        "kind": f"{file}:1",
        "name": f"{file}:2",
        "model": f"{file}:3",
        "servers.base": f"{file}:5",
        "servers.v1.5.extra_arguments": f"{file}:6",
        "servers.v1.5.extra_arguments.0": f"{file}:6",
        "servers.v1.5.extra_arguments.1": f"{file}:6",
        "prompts.code.file": f"{file}:8",
        "matrix.server": f"{file}:10",
        "matrix.server.0": f"{file}:10",
        "matrix.server.1": f"{file}:10",
        "matrix.prompts": f"{file}:11",
        "matrix.prompts.0": f"{file}:11",
        "matrix.concurrency": f"{file}:12",
        "matrix.concurrency.0": f"{file}:13",
        "matrix.concurrency.1": "--set matrix.concurrency.1",
        "server.seed": "--set server.seed",
    }
    assert file.read_text(encoding="utf-8") == JOB


def test_overrides_of_an_aliased_mapping_change_one_use_only() -> None:
    text = "hosts:\n  a: &a {limits: {max_parallel: 2}}\n  b: *a\n"
    read = load_text(text, "h.yaml", Inventory, ["hosts.b.limits.max_parallel=5"])
    assert [read.hosts[name].limits.max_parallel for name in "ab"] == [2, 5]
