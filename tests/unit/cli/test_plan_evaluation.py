"""`runner plan` of an evaluation on a machine that reaches neither the host nor a hub."""

from __future__ import annotations

import io
import json
import os
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from runner.cli.main import main
from runner.datasets.cache import DatasetCache
from runner.models.dataset import SourceKind
from runner.plan.evaluation_sets import DEFAULT_DATASETS

REPOSITORY = Path(__file__).resolve().parents[3]
DATA = REPOSITORY / "tests" / "data" / "evaluation"
GOLDEN = DATA / "full-on-mi50-198.json"
FACTS = DATA / "mi50-198.json"


@pytest.fixture
def datasets(tmp_path: Path) -> Path:
    """The default sets with eight rows each: their names are real, their rows are not."""
    cache = DatasetCache(tmp_path / "datasets")
    for name in dict.fromkeys(name for names in DEFAULT_DATASETS.values() for name in names):
        two_turns = name == "mt-bench"
        cache.put(
            (
                {
                    "id": str(number),
                    "category": f"kind-{number % 2}",
                    **({"turns": ["one", "two"]} if two_turns else {"text": f"row {number}"}),
                }
                for number in range(1, 9)
            ),
            name=name,
            title=name,
            kind=SourceKind.HUB,
            source=f"made up for {name}",
            revision="0" * 40,
            licence="none",
            restricted=name.startswith("speed-bench"),
        )
    return cache.root


def run(*arguments: str, datasets: Path, tmp_path: Path) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    options = ("--hosts-file", str(REPOSITORY / "hosts.yaml"), "--store", str(tmp_path / "store"))
    options += ("--lock-file", str(tmp_path / "lock.yaml"), "--datasets-folder", str(datasets))
    with redirect_stdout(out), redirect_stderr(err):
        code = main([*options, *arguments])
    return code, out.getvalue(), err.getvalue()


def shown(plan: dict) -> dict:
    """What a golden file is about; container options have golden files of their own."""
    return {
        "servers": [
            {
                **{key: server[key] for key in ("id", "baseline", "baseline_fallback")},
                **{key: server[key] for key in ("optional", "instead_of", "per_request_metrics")},
                # the served name carries the run's nonce
                "command": [
                    "…" if "-" in word and word.startswith("base-8b-") else word
                    for word in server["container"]["command"]
                ],
            }
            for server in plan["servers"]
        ],
        "cells": [
            [cell["id"], cell["mode"], cell["dataset"], cell["requests"], cell["output_tokens"]]
            for cell in plan["cells"]
        ],
        "prompts": plan["prompts"],
        "decisions": [
            [item[key] for key in ("key", "value", "origin", "source")]
            for item in plan["decisions"]
            if not item["key"].endswith("served_name")
        ],
        "findings": [
            [item["level"], item["subject"], item["message"]] for item in plan["findings"]
        ],
        "unavailable": plan["unavailable"],
        "checkpoints": plan["checkpoints"],
        "estimate": plan["estimate"],
    }


def test_the_full_job_on_a_box_that_is_not_reached(
    datasets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPOSITORY)
    code, out, err = run(
        *("plan", "jobs/full.yaml", "--host", "mi50-198", "--facts", str(FACTS)),
        *("--format", "json"),
        datasets=datasets,
        tmp_path=tmp_path,
    )
    assert code == 4, err  # that box has no images in this test's lock
    plan = json.loads(out)
    text = json.dumps(shown(plan), indent=1, ensure_ascii=False) + "\n"
    text = text.replace(str(tmp_path), "")
    if os.environ.get("RUNNER_UPDATE_GOLDEN") == "1":
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text(), "if intended: RUNNER_UPDATE_GOLDEN=1 pytest and look at it"
    # 7 acceptance sets, then 5 sets x 4 concurrencies x 3 repeats for drafter and baseline
    assert len(plan["cells"]) == 7 + 2 * 5 * 4 * 3
    assert [server["id"] for server in plan["servers"]] == ["drafter-adaptive_off", "baseline"]


def test_datasets_that_are_not_here_are_findings_of_a_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPOSITORY)
    code, out, _ = run(
        *("plan", "jobs/acceptance.yaml", "--host", "mi50-198", "--facts", str(FACTS)),
        *("--format", "json", "--set", "datasets=[humaneval, mbbp]"),
        datasets=tmp_path / "none",
        tmp_path=tmp_path,
    )
    assert code == 4
    told = {item["message"]: item["next_step"] for item in json.loads(out)["findings"]}
    assert told["dataset 'humaneval' is not fetched"] == "runner datasets fetch humaneval"
    assert told["there is no dataset 'mbbp'"] == "did you mean 'mbpp'?"


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ((), 2, "neither a job file nor a drafter is given"),
        (("--drafter", "/opt/models/none"), 3, "the facts hold no checkpoint '/opt/models/none'"),
        (("--drafter", "/opt/models/base-8b-eagle3", "--scope", "ful"), 3, "did you mean 'full'?"),
        (
            ("--drafter", "/opt/models/base-8b", "--scope", "acceptance"),
            2,
            "--verifier … --draft-length …",
        ),
        (
            ("--drafter", "/opt/models/base-8b-eagle3", "--method", "eagel3"),
            3,
            "method: ",
        ),
    ],
)
def test_what_is_missing_or_wrong_is_listed_in_a_pipe(
    datasets: Path, tmp_path: Path, options: tuple[str, ...], code: int, words: str
) -> None:
    done = run(
        *("plan", "--host", "mi50-198", "--facts", str(FACTS), *options),
        datasets=datasets,
        tmp_path=tmp_path,
    )
    assert (done[0], words in done[2]) == (code, True), done
    assert done[1] == ""


def test_facts_are_recorded_for_a_replay(datasets: Path, tmp_path: Path) -> None:
    file = tmp_path / "again.json"
    options = ("plan", "--host", "mi50-198", "--drafter", "/opt/models/base-8b-eagle3")
    first = run(
        *options, "--facts", str(FACTS), "--record-facts", str(file), "--format", "json",
        datasets=datasets, tmp_path=tmp_path,
    )  # fmt: skip
    again = run(
        *options, "--facts", str(file), "--format", "json", datasets=datasets, tmp_path=tmp_path
    )
    assert first[0] == again[0] == 4
    one, other = json.loads(first[1]), json.loads(again[1])
    assert shown(one) == shown(other)


def test_on_a_terminal_what_is_missing_is_asked_for_once(
    datasets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {
        "drafter (a folder on the host, or a hub name)": "/opt/models/base-8b",
        "scope (acceptance, speedup, full)": "acceptance",
        "datasets (names, or the defaults)": "humaneval gsm8k",
        "verifier": "/opt/models/base-8b",
        "draft_length": "2",
    }
    asked = []

    def prompt(text: str, default: object = None, *, err: bool) -> object:
        assert err, "questions are talk, not data"
        asked.append(text)
        return answers[text]

    monkeypatch.setattr("runner.cli.evaluation.is_terminal", lambda: True)
    monkeypatch.setattr("typer.prompt", prompt)
    code, out, err = run(
        *("plan", "--host", "mi50-198", "--facts", str(FACTS), "--format", "json"),
        datasets=datasets,
        tmp_path=tmp_path,
    )
    assert code == 4, err
    assert asked == list(answers)
    plan = json.loads(out)
    assert {cell["dataset"] for cell in plan["cells"]} == {"humaneval", "gsm8k"}
    decided = {item["key"]: (item["value"], item["source"]) for item in plan["decisions"]}
    assert decided["verifier"] == ("/opt/models/base-8b", "--verifier")
    assert decided["scope"] == ("acceptance", "--scope")
    (server,) = plan["servers"]
    assert '"num_speculative_tokens":2' in " ".join(server["container"]["command"])


def test_on_a_terminal_nothing_is_asked_that_was_given(
    datasets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runner.cli.evaluation.is_terminal", lambda: True)
    monkeypatch.setattr("typer.prompt", None)
    code, _, _ = run(
        *("plan", "--host", "mi50-198", "--facts", str(FACTS)),
        *("--drafter", "/opt/models/base-8b-eagle3"),
        datasets=datasets,
        tmp_path=tmp_path,
    )
    assert code == 4
