"""Evaluation files: short forms, and every key misspelt."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from runner.errors import SpecError
from runner.jobs import job_of_options, load_job
from runner.models.evaluation import EvaluationJob, Mode, Scope
from runner.specfile import Override

ROOT = Path(__file__).parents[3]


def written(tmp_path: Path, data: dict) -> Path:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump({"kind": "evaluation", "drafter": "/models/e3", **data}))
    return file


def test_only_the_drafter_must_be_given(tmp_path: Path) -> None:
    job = load_job(written(tmp_path, {})).job
    assert isinstance(job, EvaluationJob)
    assert (job.scope, job.repeats, job.draft_lengths) == (Scope.FULL, 3, None)
    assert job.datasets_of(Mode.ACCEPTANCE) is None


def test_short_forms(tmp_path: Path) -> None:
    job = load_job(written(tmp_path, {"datasets": ["humaneval"], "draft_length": 3})).job
    assert isinstance(job, EvaluationJob)
    assert job.draft_lengths == (3,)
    assert [job.datasets_of(mode) for mode in Mode] == [("humaneval",), ("humaneval",)]
    apart = {"datasets": {"speedup": ["gsm8k"]}, "draft_length": [3, 5]}
    job = load_job(written(tmp_path, apart)).job
    assert isinstance(job, EvaluationJob)
    assert job.draft_lengths == (3, 5)
    assert [job.datasets_of(mode) for mode in Mode] == [None, ("gsm8k",)]


@pytest.mark.parametrize(
    ("written_as", "meant"),
    [("off", "off"), ("on", "on"), ("auto", "auto"), ('"off"', "off"), ("no", "off")],
)
def test_adaptive_may_be_written_as_people_write_it(
    tmp_path: Path, written_as: str, meant: str
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(f"kind: evaluation\ndrafter: /models/e3\nadaptive: {written_as}\n")
    job = load_job(file).job
    assert isinstance(job, EvaluationJob)
    assert job.adaptive_verification == meant


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"draft_length": [3, 3]}, "draft_length"),
        ({"draft_length": 0}, "draft_length"),
        ({"datasets": []}, "datasets"),
        ({"concurrency": {"speedup": [1, 1]}}, "concurrency.speedup"),
        ({"scope": "ful"}, "did you mean 'full'?"),
        ({"datasets": "humaneval"}, "datasets"),
    ],
)
def test_wrong_values_are_told_at_their_key(tmp_path: Path, data: dict, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_job(written(tmp_path, data))
    assert words in str(caught.value)
    assert "job.yaml:" in str(caught.value)


def test_options_are_the_origin_of_what_they_say() -> None:
    options = [
        Override("drafter", '"/models/e3"', "--drafter"),
        Override("draft_length", "[3, 5]", "--draft-length"),
        "repeats=1",
    ]
    loaded = job_of_options(options)
    assert isinstance(loaded.job, EvaluationJob)
    assert loaded.job.draft_lengths == (3, 5)
    assert loaded.origins["drafter"] == "--drafter"
    assert loaded.origins["draft_length"] == "--draft-length"
    assert loaded.origins["repeats"] == "--set repeats"
    assert "kind" not in loaded.origins


def test_a_wrong_option_is_told_by_its_name() -> None:
    with pytest.raises(SpecError) as caught:
        job_of_options(
            [Override("drafter", '"/m"', "--drafter"), Override("scope", '"fuul"', "--scope")]
        )
    assert "--scope=…: expected" in str(caught.value)
    assert "did you mean 'full'?" in str(caught.value)


@pytest.mark.parametrize("name", ["full", "acceptance", "speedup"])
def test_the_shipped_jobs_are_evaluations(name: str) -> None:
    job = load_job(ROOT / "jobs" / f"{name}.yaml").job
    assert isinstance(job, EvaluationJob)
    assert job.scope.value == name
    assert job.drafter == "/opt/models/base-8b-eagle3"


def test_the_full_job_explains_every_key() -> None:
    text = (ROOT / "jobs" / "full.yaml").read_text()
    top = set(EvaluationJob.model_fields) - {"max_cells"}
    assert [name for name in top if f"\n{name}:" not in text and f"\n# {name}:" not in text] == []
