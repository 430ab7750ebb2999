"""The command line as a user meets it: what stands where, and with which exit code it ends."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from runner.cli.main import main
from runner.models.status import Status
from tests.fixtures.host_folder import RUN_ID, FolderHost

COMMANDS = (
    "",
    "plan",
    "submit",
    "resume",
    "logs",
    "ps",
    "status",
    "stop",
    "prune",
    "collect",
    "report",
    "compare",
    "hosts",
    "hosts list",
    "hosts check",
    "images",
    "images build",
    "images list",
    "models",
    "models tiny",
    "artifacts",
    "artifacts list",
    "artifacts verify",
    "artifacts show",
)
GROUPS = ("hosts", "images", "models", "artifacts")


@dataclass(frozen=True)
class Done:
    """How a command line ended."""

    code: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


def call(*arguments: str) -> Done:
    """Run in this process: quick, and with the real `main`."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(arguments)
    done = Done(code, out.getvalue(), err.getvalue())
    assert "Traceback" not in done.stderr
    assert "bug in runner" not in done.stderr, done.stderr
    return done


@pytest.fixture
def runner(box: FolderHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Calls in an empty folder whose inventory has the host `box`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("RUNNER_HOSTS", "RUNNER_STORE", "RUNNER_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    box.inventory_file(tmp_path / "hosts.yaml")
    return call


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(runner: Run, command: str) -> None:
    done = runner(*command.split(), "--help")
    assert done.code == 0
    assert done.stdout.startswith("Usage: runner")
    assert done.stderr == ""
    assert all(len(line) <= 100 for line in done.stdout.splitlines())
    if command not in GROUPS:
        assert "Examples:\n    runner" in done.stdout


def test_version(runner: Run) -> None:
    from runner import __version__

    assert runner("--version") == Done(0, f"runner {__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("bogus",), 2, "No such command 'bogus'"),
        (("hosts", "lst"), 2, "runner hosts --help"),
        (("submit", "job.yaml"), 2, "--host"),
        (("ps", "--format", "xml"), 2, "xml"),
        (("logs", "demo", "--tail", "-1"), 2, "--tail"),
        (("status", "nope"), 2, "no run or job 'nope' on: box"),
        (("logs", "nope", "-f"), 2, "no run or job 'nope'"),
        (("stop", "nope"), 2, "runner ps"),
        (("resume", "nope"), 2, "no run or job 'nope'"),
        (("collect", "nope"), 2, "no run or job 'nope'"),
        (("report", "nope"), 2, "nothing is collected yet"),
        (("artifacts", "show", "nope"), 2, "nothing is collected yet"),
        (("ps", "--host", "bux"), 2, "did you mean 'box'"),
        (("plan", "nope.yaml", "--host", "box"), 2, "no job file 'nope.yaml'"),
        (("plan", "nope.yaml", "--host", "bux"), 2, "no host 'bux'"),
        (("hosts", "check", "bux"), 2, "'bux' is not in the inventory"),
        (("--hosts-file", "gone.yaml", "ps"), 3, "gone.yaml"),
        (("images", "build", "nope", "--host", "box"), 2, "there is no image 'nope'"),
        (("images", "build", "--host", "box", "--build-arg", "x"), 2, "not KEY=VALUE"),
        (
            ("images", "build", "--host", "box", "--base", "a", "--bootstrap-base"),
            2,
            "not both",
        ),
        (("models", "tiny", "--host", "box"), 4, "runner images build vllm-cpu --host box"),
        (("prune",), 2, "give runs or --job, so that it is clear what to delete"),
        (("prune", "demo", "--job", "demo"), 2, "give runs or --job, not both"),
        (("status", "nope", "--host", "box"), 2, "no run or job 'nope' on: box"),
        (("prune", "--job", "nope"), 2, "no run of job 'nope'"),
    ],
)
def test_a_users_error_is_one_message_with_its_exit_code(
    runner: Run, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = runner(*arguments)
    assert done.code == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert said in done.stderr


def test_a_wrong_inventory_tells_every_problem_with_its_place(runner: Run, tmp_path: Path) -> None:
    (tmp_path / "hosts.yaml").write_text("hosts:\n  a: {prot: 22}\n  b: {port: big}\n")
    done = runner("ps")
    assert (done.code, done.stdout) == (3, "")
    assert "hosts.yaml:2:" in done.stderr
    assert "did you mean 'port'" in done.stderr
    assert "hosts.yaml:3:" in done.stderr


def test_a_wrong_job_file_is_a_file_error(runner: Run, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("kind: matrix\nname: x\nname: y\n")
    done = runner("submit", "job.yaml", "--host", "box")
    assert (done.code, done.stdout) == (3, "")
    assert "job.yaml:3:" in done.stderr


def test_no_arguments_show_help_and_are_a_usage_error(runner: Run) -> None:
    done = runner()
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: runner")


def test_hosts_list(runner: Run) -> None:
    done = runner("hosts", "list")
    assert (done.code, done.stderr) == (0, "")
    assert "box" in done.stdout.splitlines()[1]
    (host,) = json.loads(runner("hosts", "list", "--format", "json").stdout)["hosts"]
    assert (host["name"], host["connection"]) == ("box", "local")


def test_a_host_without_engine_is_not_ready(runner: Run, box: FolderHost) -> None:
    (box.engine / "down").touch()
    done = runner("hosts", "check", "--format", "json")
    assert done.code == 4
    (host,) = json.loads(done.stdout)["hosts"]
    assert host["ready"] is False
    assert "engine" in [finding["subject"] for finding in host["findings"]]
    shown = runner("hosts", "check")
    assert shown.stdout.splitlines()[1].split()[:2] == ["box", "no"]
    assert "error: box: engine: " in shown.stderr


def test_ps_and_status(runner: Run, box: FolderHost) -> None:
    run = box.add_run()
    run.start_cell("plain-chat-c1-r1")
    listed = runner("ps")
    assert (listed.code, listed.stderr) == (0, "")
    assert listed.stdout.splitlines()[1].split()[:4] == [RUN_ID, "box", "RUNNING", "0/3"]
    (row,) = json.loads(runner("ps", "--format", "json").stdout)["runs"]
    assert (row["run_id"], row["status"], row["cells"]) == (RUN_ID, "RUNNING", 3)
    shown = runner("status", "demo")
    assert shown.code == 0
    assert shown.stdout.splitlines()[0] == f"{RUN_ID} on box: RUNNING"
    record = json.loads(runner("status", "demo", "--format", "json").stdout)
    assert record["cell_states"]["plain-chat-c1-r1"]["status"] == "RUNNING"


def test_a_lost_run_shows_how_to_go_on(runner: Run, box: FolderHost) -> None:
    box.add_run(started=False)
    assert f"next: runner resume {RUN_ID}" in runner("status", "demo").stdout
    assert f"runner resume {RUN_ID}" in runner("ps").stderr
    resumed = runner("resume", "demo")
    assert (resumed.code, resumed.stdout) == (0, "")
    assert f"run {RUN_ID} is PENDING on box" in resumed.stderr


def test_status_watch_ends_with_the_run(runner: Run, box: FolderHost) -> None:
    box.add_run().end(Status.FAILED)
    assert runner("status", "demo").code == 0
    done = runner("status", "demo", "--watch")
    assert done.code == 1
    assert done.stderr == "FAILED: 3 of 3 cells done\n"


def test_status_watch_as_json_waits_for_the_end_too(runner: Run, box: FolderHost) -> None:
    box.add_run().end()
    done = runner("status", "demo", "--watch", "--format", "json")
    assert (done.code, done.stderr) == (0, "")
    assert json.loads(done.stdout)["status"] == "SUCCEEDED"


def test_nothing_to_verify_is_said(runner: Run) -> None:
    assert runner("artifacts", "verify") == Done(
        0, "", "nothing is collected yet\n  next: runner collect\n"
    )
    assert json.loads(runner("artifacts", "verify", "--format", "json").stdout) == {"runs": []}


def test_a_store_that_can_not_be_written_is_an_error_of_artifacts(
    runner: Run, box: FolderHost, tmp_path: Path
) -> None:
    box.add_run().end()
    (tmp_path / "file").write_text("")
    done = runner("--store", str(tmp_path / "file"), "collect", "demo")
    assert (done.code, done.stdout) == (5, "")
    assert "can't be written: Not a directory\n  next: look at free space" in done.stderr


def test_no_runs_is_talk_not_data(runner: Run) -> None:
    assert runner("ps") == Done(0, "", "no runs\n")


def test_logs_of_a_finished_run(runner: Run, box: FolderHost) -> None:
    run = box.add_run()
    run.say("one")
    run.log(run.layout.supervisor_log, b"caf\xc3\xa9 \x1b[31mred\x1b[0m")
    run.end()
    assert runner("logs", "demo", "-f") == Done(0, "one\ncafé red\n", "")
    assert runner("logs", "demo", "--tail", "1").stdout == "café red\n"


def test_several_logs_are_prefixed(runner: Run, box: FolderHost) -> None:
    run = box.add_run()
    for cell in ("plain-chat-c1-r1", "ngram-chat-c1-r1"):
        run.start_cell(cell)
        run.log(run.layout.attempt(cell, 1).load_log, b"x\n")
    done = runner("logs", "demo", "--source", "load")
    assert done.stdout == "plain-chat-c1-r1 | x\nngram-chat-c1-r1 | x\n"


def test_stop(runner: Run, box: FolderHost) -> None:
    run = box.add_run()
    done = runner("stop", "demo", "--no-wait")
    assert (done.code, done.stdout) == (0, "")
    assert "was asked to stop" in done.stderr
    assert Path(run.layout.stop_request).exists()
    assert runner("stop", "demo", "--timeout", "0").code == 4
    run.end(Status.STOPPED)
    assert f"run {RUN_ID} is STOPPED" in runner("stop", "demo").stderr


def test_prune_asks_and_refuses(
    runner: Run, box: FolderHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    run = box.add_run()
    run.end()
    assert "was not collected complete" in runner("prune", "demo").stderr
    assert runner("prune", "demo", "--force").code == 2  # nobody there to say yes
    assert Path(run.ref.root).exists()
    kept = runner("prune", "--job", "demo", "--yes")
    assert (kept.code, kept.stderr.startswith("note: kept: ")) == (0, True)
    done = runner("prune", "demo", "--force", "--yes")
    assert done.code == 0
    assert not Path(run.ref.root).exists()


def test_a_bug_is_told_as_one(runner: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("runner.inventory.load.load_inventory", broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    err = io.StringIO()
    with redirect_stderr(err):
        assert main(["hosts", "list"]) == 70
    first, where, _ = err.getvalue().splitlines()
    assert first == "bug in runner: ZeroDivisionError: planted"
    assert "Traceback" in Path(where.split(": ")[1]).read_text()
    monkeypatch.setenv("RUNNER_DEBUG", "1")
    with redirect_stderr(err):
        assert main(["hosts", "list"]) == 70
    assert "Traceback" in err.getvalue()


def test_an_interrupt_is_130(runner: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("runner.inventory.load.load_inventory", interrupted)
    assert runner("hosts", "list") == Done(130, "", "interrupted\n")


def process(box: FolderHost, *arguments: str, **options: object) -> subprocess.Popen[str]:
    environment = {**os.environ, "RUNNER_HOSTS": str(box.root.parent / "hosts.yaml")}
    # what runs in the background of a shell inherits an ignored SIGINT
    as_in_a_terminal = ("env", "--default-signal=INT")
    return subprocess.Popen(
        [*as_in_a_terminal, sys.executable, "-m", "runner", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).resolve().parents[3],
        **options,  # type: ignore[call-overload]
    )


def test_ctrl_c_detaches_and_leaves_the_run_alone(runner: Run, box: FolderHost) -> None:
    run = box.add_run()
    run.say("one")
    client = process(box, "logs", "demo", "-f")
    assert client.stdout is not None
    assert client.stdout.readline() == "one\n"
    client.send_signal(signal.SIGINT)
    out, err = client.communicate(timeout=30)
    assert (client.returncode, out) == (130, "")
    assert err == f"detached: the run goes on\n  runner logs {RUN_ID} -f\n"


def test_a_reader_that_goes_away_is_no_error(runner: Run, box: FolderHost) -> None:
    run = box.add_run()
    client = process(box, "logs", "demo", "-f")
    assert client.stdout is not None
    client.stdout.close()
    run.say("nobody reads this")
    assert client.wait(timeout=30) == 141
    assert client.stderr is not None
    assert client.stderr.read() == ""
    client.stderr.close()


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from runner.cli.main import main; main(['--help']);"
        "print([name for name in ('pydantic', 'paramiko', 'pandas', 'matplotlib', 'yaml', 'rich',"
        " 'docker', 'jinja2', 'asyncio') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).resolve().parents[3],
    )
    assert done.stdout.splitlines()[-1] == "[]"
