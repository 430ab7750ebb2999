"""A run goes to its host whole or not at all; secrets go beside it and are never written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from runner.client.containers import live_runs
from runner.client.planning import Prepared
from runner.client.runs import open_run, read_state
from runner.client.submit import check_secret_values, refuse_errors, resume, submit
from runner.errors import ConnectionLost, EngineError, FileMissing, HostError, SpecError, UsageError
from runner.models.host import HostFacts, HostLimits
from runner.models.job import MatrixJob
from runner.models.plan import Finding, FindingLevel, Plan
from runner.models.status import Status
from runner.transport.local import LocalConnection
from tests.fixtures.host_folder import RUN_ID, FolderHost, small_plan

TOKEN = "hf_planted_in_a_test"


class Breaking(LocalConnection):
    """Loses the connection at the n-th file that is written."""

    def __init__(self, at: int):
        super().__init__("box")
        self.puts = 0
        self.at = at

    def put(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        self.puts += 1
        if self.puts == self.at:
            raise ConnectionLost("the connection broke", where="box")
        super().put(path, data, mode=mode)


def job(environment: Mapping[str, str]) -> MatrixJob:
    return MatrixJob.model_validate(
        {
            "kind": "matrix",
            "name": "demo",
            "model": "/models/tiny",
            "server": {"environment": dict(environment)},
            "servers": {"plain": {}, "ngram": {}},
            "prompts": {"chat": {"file": "chat.jsonl"}},
            "matrix": {"server": ["plain"], "prompts": ["chat"], "concurrency": [1]},
        }
    )


def prepared(
    box: FolderHost,
    *,
    secrets: tuple[str, ...] = (),
    findings: tuple[Finding, ...] = (),
    environment: Mapping[str, str] | None = None,
) -> Prepared:
    plan = small_plan(box.host, secrets=secrets).model_copy(update={"findings": findings})
    rows = b'{"text": "x"}\n'
    return Prepared(plan, box.host, box.facts, job(environment or {}), {"chat": rows})


def error(subject: str) -> Finding:
    return Finding(level=FindingLevel.ERROR, subject=subject, message="is wrong", next_step="mend")


def test_submit_writes_inputs_facts_and_plan_and_starts_the_supervisor(box: FolderHost) -> None:
    ready = prepared(box)
    ref = submit(box.connect(), ready, {})
    assert Path(ref.layout.prompts("chat")).read_bytes() == b'{"text": "x"}\n'
    assert HostFacts.model_validate_json(Path(ref.layout.host).read_bytes()) == box.facts
    assert Plan.model_validate_json(Path(ref.layout.plan).read_bytes()) == ready.plan
    (call,) = [line for line in box.calls() if line.startswith("run ")]
    assert call.startswith("run --restart on-failure:5 --env-file /dev/stdin --detach ")
    assert f"--name runner-{RUN_ID}-supervisor " in call
    assert read_state(box.connect(), box.host, ref).state.status is Status.PENDING


def test_no_more_runs_at_a_time_than_the_host_allows(box: FolderHost) -> None:
    going = "20261201T090000Z-demo-aaaa"
    elsewhere = "20261201T080000Z-demo-bbbb /srv/other/runs/demo/20261201T080000Z-demo-bbbb"
    (box.engine / "labelled").write_text(f"{elsewhere}\n")
    assert live_runs(box.connect(), box.host) == ()
    (box.engine / "labelled").write_text(f"{elsewhere}\n{going} {box.host.run_root}/demo/{going}\n")
    assert live_runs(box.connect(), box.host) == (going,)
    with pytest.raises(HostError) as caught:
        submit(box.connect(), prepared(box), {})
    assert caught.value.what == (
        f"no more than 1 at a time (limits.max_parallel in hosts.yaml); going on: {going}"
    )
    assert caught.value.next_step is not None
    assert f"runner stop {going}" in caught.value.next_step
    assert not Path(box.host.run_root).exists()
    ready = prepared(box)
    roomy = box.host.model_copy(update={"limits": HostLimits(max_parallel=2)})
    submit(box.connect(), replace(ready, host=roomy), {})
    assert Path(box.host.run_root).exists()


def test_an_engine_that_does_not_answer_stops_before_the_upload(box: FolderHost) -> None:
    (box.engine / "down").touch()
    with pytest.raises(EngineError, match="can't be asked for running supervisors: Cannot connect"):
        submit(box.connect(), prepared(box), {})
    assert not Path(box.host.run_root).exists()


def test_a_secret_travels_on_stdin_alone(box: FolderHost) -> None:
    ready = prepared(box, secrets=("HF_TOKEN",))
    ref = submit(box.connect(), ready, {"HF_TOKEN": TOKEN})
    assert (box.engine / "stdin").read_text() == f"HF_TOKEN={TOKEN}\n"
    (box.engine / "stdin").unlink()
    assert "HF_TOKEN" not in "\n".join(box.calls())
    for path in box.root.rglob("*"):
        assert not path.is_file() or TOKEN.encode() not in path.read_bytes(), path
    assert b"HF_TOKEN" in Path(ref.layout.plan).read_bytes()


def test_a_secret_takes_the_value_that_the_job_refers_to(box: FolderHost) -> None:
    ready = prepared(box, secrets=("HF_TOKEN",), environment={"HF_TOKEN": "${MY_TOKEN}"})
    submit(box.connect(), ready, {"MY_TOKEN": TOKEN, "HF_TOKEN": "another"})
    assert (box.engine / "stdin").read_text() == f"HF_TOKEN={TOKEN}\n"


@pytest.mark.parametrize("value", [None, "", "  ", "abc", "with\nbreak"])
def test_an_unusable_secret_stops_before_anything_is_uploaded(
    box: FolderHost, value: str | None
) -> None:
    environ = {} if value is None else {"HF_TOKEN": value}
    with pytest.raises(UsageError, match="HF_TOKEN"):
        submit(box.connect(), prepared(box, secrets=("HF_TOKEN",)), environ)
    assert not Path(box.host.run_root).exists()
    assert box.calls() == []


def test_no_message_names_a_secrets_value() -> None:
    with pytest.raises(UsageError) as caught:
        check_secret_values({"KEY": "xyz"})
    assert "xyz" not in str(caught.value)


def test_findings_of_the_host_are_a_host_error(box: FolderHost) -> None:
    plan = prepared(box, findings=(error("image load"), error("model"))).plan
    with pytest.raises(HostError) as caught:
        refuse_errors(plan)
    assert caught.value.exit_code == 4
    assert "image load: is wrong" in str(caught.value)
    assert "next: mend" in str(caught.value)


@pytest.mark.parametrize("subject", ["server.max_num_seqs", "prompts chat", "tokenizer"])
def test_findings_of_the_job_are_a_file_error(box: FolderHost, subject: str) -> None:
    with pytest.raises(SpecError) as caught:
        refuse_errors(prepared(box, findings=(error(subject),)).plan)
    assert caught.value.exit_code == 3


def test_warnings_stop_nothing(box: FolderHost) -> None:
    finding = Finding(level=FindingLevel.WARNING, subject="image load", message="is old")
    refuse_errors(prepared(box, findings=(finding,)).plan)


def test_errors_stop_before_anything_is_uploaded(box: FolderHost) -> None:
    with pytest.raises(HostError):
        submit(box.connect(), prepared(box, findings=(error("engine"),)), {})
    assert not Path(box.host.run_root).exists()


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_client_that_dies_while_uploading_leaves_no_plan(box: FolderHost, at: int) -> None:
    ready = prepared(box)
    with pytest.raises(ConnectionLost):
        submit(Breaking(at), ready, {})
    assert not (Path(box.host.run_root) / "demo" / RUN_ID / "plan.json").exists()
    assert [line.split()[0] for line in box.calls()] == ["ps"]  # asked, and nothing started


def test_a_run_is_never_uploaded_over_another(box: FolderHost) -> None:
    submit(box.connect(), prepared(box), {})
    with pytest.raises(HostError, match="is there already"):
        submit(box.connect(), prepared(box), {})


def test_an_engine_that_refuses_leaves_a_run_to_resume(box: FolderHost) -> None:
    (box.engine / "refuse").write_text("docker: Error response: no space left on device\n")
    with pytest.raises(EngineError, match="no space left on device") as caught:
        submit(box.connect(), prepared(box), {})
    assert f"runner resume {RUN_ID}" in str(caught.value)
    (box.engine / "refuse").unlink()
    reader, _ = open_run(box.fleet(), "demo")
    assert reader.view().state.status is Status.LOST
    view = resume(reader, box.host, lambda plan: {})
    assert view.state.status is Status.PENDING


@pytest.mark.parametrize(
    "said", ["Unable to find image 'sha256:1f' locally", "docker: Error: No such image: sha256:1f"]
)
def test_a_missing_supervisor_image_names_the_build(box: FolderHost, said: str) -> None:
    (box.engine / "refuse").write_text(f"{said}\n\nRun 'docker run --help' for more information\n")
    with pytest.raises(EngineError, match="runner images build --host box"):
        submit(box.connect(), prepared(box), {})


def test_resume_starts_the_container_that_exists_again(box: FolderHost) -> None:
    run = box.add_run()
    run.supervisor(False)

    def no_secrets(plan: Plan) -> dict[str, str]:
        raise AssertionError("the container has its environment already")

    view = resume(box.reader(run), box.host, no_secrets)
    assert view.state.status is Status.RUNNING
    assert f"start {run.plan.supervisor.name}" in box.calls()


def test_resume_makes_a_container_that_is_gone(box: FolderHost) -> None:
    run = box.add_run()
    run.supervisor(None)
    view = resume(box.reader(run), box.host, lambda plan: {})
    assert view.state.status is Status.RUNNING
    assert [call.split()[0] for call in box.calls()].count("run") == 1


def test_resume_refuses_what_runs_and_what_is_over(box: FolderHost) -> None:
    run = box.add_run()
    with pytest.raises(UsageError, match="its supervisor runs"):
        resume(box.reader(run), box.host, lambda plan: {})
    run.end()
    with pytest.raises(UsageError, match="nothing to resume"):
        resume(box.reader(run), box.host, lambda plan: {})


def test_resume_writes_the_manifest_of_a_run_that_ended_without(box: FolderHost) -> None:
    run = box.add_run()
    run.end(manifest=False)
    resume(box.reader(run), box.host, lambda plan: {})
    assert f"start {run.plan.supervisor.name}" in box.calls()


def test_resume_needs_a_plan(box: FolderHost) -> None:
    run = box.add_run(started=False)
    Path(run.layout.plan).unlink()
    with pytest.raises(FileMissing, match="its upload did not finish"):
        resume(box.reader(run), box.host, lambda plan: {})


def test_resume_says_when_the_engine_is_silent(box: FolderHost) -> None:
    run = box.add_run()
    (box.engine / "down").touch()
    with pytest.raises(HostError, match="does not say whether"):
        resume(box.reader(run), box.host, lambda plan: {})
