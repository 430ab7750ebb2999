"""Job files: which file an argument means, which model a kind means, where values come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.errors import SpecError, UsageError
from runner.jobs import find_job, load_job
from runner.plan.matrix import expand

JOB = """\
kind: matrix
name: small
model: /models/a
servers: {base: {}, other: {}}
prompts: {code: {file: sets/code.jsonl}}
matrix:
  server: [base]
  prompts: [code]
  concurrency: [1, 2]
"""


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    file = tmp_path / "jobs" / "small.yaml"
    file.parent.mkdir()
    file.write_text(JOB, encoding="utf-8")
    return file


def test_a_job_with_its_folder_origins_and_overrides(job_file: Path) -> None:
    loaded = load_job(job_file, ["repeats=2"])
    assert (loaded.job.name, loaded.job.repeats) == ("small", 2)
    assert (loaded.path, loaded.folder) == (job_file, job_file.parent)
    assert loaded.overrides == ("repeats=2",)
    assert loaded.origins["model"] == f"{job_file}:3"
    assert loaded.origins["repeats"] == "--set repeats"
    assert "max_cells" not in loaded.origins


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("kind: matrxi\n", "1:7: kind: unknown kind of job 'matrxi'; expected 'matrix' or"
         " 'evaluation'; did you mean 'matrix'?"),
        ("name: a\nkind: sweeps\n", "2:7: kind: unknown kind of job 'sweeps'; expected 'matrix' or"
         " 'evaluation'"),
        ("kind: [matrix]\n", "1:7: kind: not a kind of job; expected 'matrix' or 'evaluation'"),
        ("name: a\n", "1:1: kind: a required key is missing; expected 'matrix' or 'evaluation'"),
    ],
)  # fmt: skip
def test_the_kind_is_told_first(job_file: Path, text: str, problem: str) -> None:
    job_file.write_text(text, encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        load_job(job_file)
    assert caught.value.problems == (f"{job_file}:{problem}",)


def test_an_included_cell_names_what_the_job_defines(job_file: Path) -> None:
    include = (
        "  include:\n"
        "    - {server: other, prompts: code, concurrency: 8}\n"
        "    - {server: othr, prompts: math, concurrency: 8}\n"
    )
    job_file.write_text(JOB + include, encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        load_job(job_file)
    assert caught.value.problems == (
        f"{job_file}:12: matrix.include.1.server: unknown 'othr'; did you mean 'other'?",
        f"{job_file}:12: matrix.include.1.prompts: unknown 'math'; expected one of: code",
    )


def test_problems_of_the_matrix_get_the_place_of_their_key(job_file: Path) -> None:
    job_file.write_text(JOB + "  exclude:\n    - {concurrency: 4}\n", encoding="utf-8")
    loaded = load_job(job_file, ["matrix.server=[base, base]"])
    with pytest.raises(SpecError) as caught:
        expand(loaded.job.matrix, loaded.job.repeats, 1)
    located = loaded.located(caught.value)
    assert located.problems == (
        "--set matrix.server: matrix.server.1: 'base' is on the axis already; keep one",
        f"{job_file}:8: matrix: 4 cells before exclude (2 server x 1 prompts x 2 concurrency);"
        " expected at most 1. Shorten an axis, or allow it with max_cells: 4",
    )
    assert located.where == str(job_file)
    assert located.next_step == f"correct {job_file} and repeat the command"


def test_a_file_by_path_or_by_its_bare_name(job_file: Path) -> None:
    folder = job_file.parent
    assert find_job(str(job_file), folder) == job_file
    assert find_job("small", folder) == job_file


def test_a_file_that_is_not_there_suggests_the_nearest(job_file: Path) -> None:
    folder = job_file.parent
    with pytest.raises(UsageError) as caught:
        find_job("smal", folder)
    assert str(caught.value) == (
        f"no job file 'smal' (looked for smal and {folder / 'smal.yaml'})\n"
        "  next: did you mean 'small'?"
    )
    with pytest.raises(UsageError) as caught:
        find_job("jobs/evaluate.yaml", folder)
    assert str(caught.value) == (
        "no job file 'jobs/evaluate.yaml' (looked for jobs/evaluate.yaml)\n"
        "  next: name a file, or one of: small"
    )
    with pytest.raises(UsageError) as caught:
        find_job("x", folder / "none")
    assert caught.value.next_step == f"name a file, or one of: (no job files in {folder / 'none'})"
