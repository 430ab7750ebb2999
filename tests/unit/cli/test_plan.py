"""`runner plan` shows what `submit` would do, and does nothing."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from runner.cli.main import main
from runner.models.host import EngineFacts
from runner.models.image import ImageLock, LockedImage
from tests.fixtures.host_folder import FolderHost

REPOSITORY = Path(__file__).resolve().parents[3]
JOB = str(REPOSITORY / "tests" / "data" / "jobs" / "stub.yaml")


def digest(number: int) -> str:
    return f"sha256:{number:064x}"


@pytest.fixture
def ready(box: FolderHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an inventory, recipes, a lock, and the facts of a host that has it all."""
    (tmp_path / "images").mkdir()
    for recipe in (REPOSITORY / "images").glob("*/image.yaml"):
        (tmp_path / "images" / recipe.parent.name).mkdir()
        (tmp_path / "images" / recipe.parent.name / "image.yaml").write_text(recipe.read_text())
    names = ("vllm-cpu", "aiperf", "supervisor")
    images = {
        name: LockedImage(
            name=name, reference=f"runner/{name}:1", digest=digest(number), built_at=""
        )
        for number, name in enumerate(names)
    }
    lock = ImageLock(hosts={"box": images})
    (tmp_path / "images" / "lock.yaml").write_text(lock.model_dump_json())
    facts = box.facts.model_copy(
        update={
            "engine": EngineFacts(version="28.0"),
            "images": {image.reference: image.digest for image in images.values()},
        }
    )
    (tmp_path / "facts.json").write_text(facts.model_dump_json())
    box.inventory_file(tmp_path / "hosts.yaml")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def plan(*arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["plan", JOB, "--host", "box", "--facts", "facts.json", *arguments])
    return code, out.getvalue(), err.getvalue()


def test_the_plan_as_json_is_what_submit_uploads(ready: Path, box: FolderHost) -> None:
    code, out, err = plan("--format", "json")
    assert (code, err) == (0, "")
    made = json.loads(out)
    assert [server["id"] for server in made["servers"]] == ["baseline", "ngram"]
    assert len(made["cells"]) == 4
    assert made["supervisor"]["image"] == digest(2)
    assert {item["container"]["image"] for item in made["servers"]} == {digest(0)}
    assert {item["container"]["image"] for item in made["cells"]} == {digest(1)}
    assert made["run_dir"] == f"{box.host.run_root}/stub/{made['run_id']}"


def test_planning_asks_no_engine_and_makes_nothing(ready: Path, box: FolderHost) -> None:
    before = sorted(ready.rglob("*"))
    assert plan()[0] == 0
    assert sorted(ready.rglob("*")) == before
    assert box.calls() == []


def test_the_table_shows_cells_commands_containers_and_decisions(ready: Path) -> None:
    code, out, err = plan("--set", "matrix.concurrency=[1, 2]")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "stub on box: 4 cells, 2 servers"
    assert "4  ngram-words-c2-r1" in out
    assert "Server ngram" in out
    assert "Load of baseline-words-c1-r1" in out
    assert out.count("    docker run --detach") == 6
    assert "--restart on-failure:5 --env-file /dev/stdin" in out
    assert '\'{"method":"ngram","num_speculative_tokens":3' in out
    assert "-a1" in out
    assert "{attempt}" not in out
    assert any(line.split()[:3] == ["matrix.concurrency", "[1,2]", "user"] for line in lines)
    words = [word for line in lines for word in line.split()]
    longest = max(len(word) for word in words)
    assert all(len(line) <= max(100, longest + 8) for line in lines)


def test_a_plan_with_errors_is_shown_and_ends_as_submit_would(ready: Path) -> None:
    (ready / "images" / "lock.yaml").unlink()
    code, out, err = plan()
    assert code == 4
    assert "error: image load: " in out
    assert "next: runner images build aiperf --host box" in out
    assert err == "submit would refuse this plan: see the errors among its findings\n"
    code, out, _ = plan("--format", "json")
    assert code == 4
    assert "error" in {finding["level"] for finding in json.loads(out)["findings"]}


def test_facts_may_come_from_a_check(ready: Path) -> None:
    facts = json.loads((ready / "facts.json").read_text())
    checked = {"hosts": [{"host": "other", "facts": None}, {"host": "box", "facts": facts}]}
    (ready / "facts.json").write_text(json.dumps(checked))
    assert plan()[0] == 0


def test_facts_that_are_none_are_a_file_error(ready: Path) -> None:
    (ready / "facts.json").write_text("[]")
    code, out, err = plan()
    assert (code, out) == (3, "")
    assert err.startswith("error: facts.json: is not a record of host facts")
    (ready / "facts.json").unlink()
    assert plan()[0] == 3


def test_facts_of_another_host_are_refused(ready: Path) -> None:
    facts = json.loads((ready / "facts.json").read_text())
    checked = {"hosts": [{"host": "other", "facts": facts}, {"host": "box", "facts": None}]}
    for content, about in (
        ({**facts, "host": "other"}, "other"),
        (checked, "other, box"),
        ({"hosts": []}, "no host"),
    ):
        (ready / "facts.json").write_text(json.dumps(content))
        code, out, err = plan()
        assert (code, out) == (3, "")
        assert err == (
            f"error: facts.json: holds no facts of 'box'; it is about: {about}\n"
            "  next: runner hosts check box --format json > facts.json\n"
        )


def test_a_wrong_matrix_is_told_where_it_stands(ready: Path) -> None:
    code, out, err = plan("--set", "matrix.concurrency=[0]")
    assert (code, out) == (3, "")
    assert err == (
        "error: --set matrix.concurrency: matrix.concurrency: expected 1 or more, found 0\n"
        f"  next: correct {JOB} and repeat the command\n"
    )


def test_a_secret_that_submit_would_miss_is_told(
    ready: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    wanted = ("--set", "server.environment.HF_TOKEN=${HF_TOKEN}")
    code, out, err = plan(*wanted)
    assert code == 2
    assert "secrets: HF_TOKEN=***" in out
    assert err.startswith("submit would refuse this plan: secret 'HF_TOKEN' needs the environment")
    monkeypatch.setenv("HF_TOKEN", "hf_planted")
    code, out, err = plan(*wanted)
    assert (code, err) == (0, "")
    assert "hf_planted" not in out


def test_an_image_from_other_sources_is_a_warning(ready: Path) -> None:
    recipes = ready / "images"
    (recipes / "aiperf" / "Dockerfile").write_text("FROM x\n")
    lock = json.loads((recipes / "lock.yaml").read_text())
    lock["hosts"]["box"]["aiperf"]["recipe_sha256"] = "0" * 64
    (recipes / "lock.yaml").write_text(json.dumps(lock))
    code, out, _ = plan()
    assert code == 0
    assert "warning: image load: 'aiperf' on 'box' was built from other sources" in out
    assert "next: runner images build aiperf --host box" in out


def test_an_override_of_an_unknown_key_is_refused(ready: Path) -> None:
    code, out, err = plan("--set", "repeet=2")
    assert (code, out) == (3, "")
    assert "--set repeet" in err
    assert "did you mean 'repeats'" in err
