"""The `Engine` protocol. Every test of a behaviour runs on a real engine and on the fake one."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from runner.engine.base import Engine, LogChunk
from runner.errors import ContainerGone, EngineError, ImageMissing
from runner.models.container import ContainerSpec, Mount
from tests.fixtures.engine import Label
from tests.fixtures.fake_engine import FakeEngine, Program

FAKE_IMAGE = "fake:1"
FAKE_DIGEST = "sha256:" + "5" * 64
END_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Act:
    """One behaviour, said twice: as a real command and as what the fake one does."""

    command: tuple[str, ...]
    program: Program


def python(code: str) -> tuple[str, ...]:
    return ("python3", "-c", code)


READY = (LogChunk("stdout", b"ready\n"),)
ENDS_WITH_7 = Act(("sh", "-c", "exit 7"), Program(exit_code=7))
RUNS = Act(("sleep", "600"), Program(until_stopped=True))
STUBBORN = Act(
    ("sh", "-c", 'trap "" TERM INT; echo ready; while :; do sleep 1; done'),
    Program(READY, until_stopped=True, ignored=frozenset({"SIGTERM", "SIGINT"})),
)
CATCHES_SIGINT = Act(
    python(
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, lambda *_: sys.exit(3))\n"
        "print('ready', flush=True)\n"
        "signal.pause()\n"
    ),
    Program(READY, until_stopped=True, exit_codes={"SIGINT": 3}),
)
STDOUT = b"\xff\xfe\x80 not UTF-8\n" + b"x" * 70_000 + b"\n" + b"\r50%\r100%\n" + b"no newline"
STDERR = b"\xc3\n" + b"\xe2\x82\xac" * 20_000 + b"\n" + b"end"
TALKS = Act(
    python(
        "import os\n"
        "def say(fd, data):\n"
        "    while data: data = data[os.write(fd, data):]\n"
        "say(1, b'\\xff\\xfe\\x80 not UTF-8\\n' + b'x' * 70_000 + b'\\n')\n"
        "say(2, b'\\xc3\\n' + b'\\xe2\\x82\\xac' * 20_000 + b'\\n' + b'end')\n"
        "say(1, b'\\r50%\\r100%\\n' + b'no newline')\n"
    ),
    Program((LogChunk("stdout", STDOUT), LogChunk("stderr", STDERR))),
)
TALKS_THEN_WAITS = Act(
    python("import time\nprint('ready', flush=True)\ntime.sleep(600)\n"),
    Program(READY, until_stopped=True),
)


@dataclass
class Subject:
    """An engine under test, with names and labels that are this test's alone."""

    engine: Engine
    image: str
    id: str
    labels: Mapping[str, str]
    _count: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def spec(self, act: Act, **changes: Any) -> ContainerSpec:
        name = f"{self.id}-{next(self._count)}"
        if isinstance(self.engine, FakeEngine):
            self.engine.program(name, act.program)
        plain = {"name": name, "image": self.image, "labels": dict(self.labels)}
        return ContainerSpec(**{**plain, "command": act.command, **changes})

    def start(self, act: Act, **changes: Any) -> str:
        return self.engine.start(self.spec(act, **changes), {})

    def start_ready(self, act: Act, **changes: Any) -> str:
        """Started, and its first line of output has arrived."""
        container = self.start(act, **changes)
        assert next(self.engine.logs(container)) == READY[0]
        return container


@pytest.fixture(params=["fake", pytest.param("docker", marks=pytest.mark.engine)])
def subject(request: pytest.FixtureRequest) -> Subject:
    if request.param == "fake":
        return Subject(FakeEngine({FAKE_IMAGE: FAKE_DIGEST}), FAKE_IMAGE, "rt-f", {"test": "fake"})
    label: Label = request.getfixturevalue("label")
    image = request.getfixturevalue("base_image")
    return Subject(request.getfixturevalue("engine"), image, label.id, label.labels)


def output(engine: Engine, container: str) -> dict[str, bytes]:
    """All output of a container that ends by itself, stream by stream."""
    streams = {"stdout": b"", "stderr": b""}
    for chunk in engine.logs(container):
        streams[chunk.stream] += chunk.data
    return streams


def test_version_and_image(subject: Subject) -> None:
    assert set(subject.engine.version()) == {"version", "api_version"}
    assert (subject.engine.image_id(subject.image) or "").startswith("sha256:")
    assert subject.engine.image_id("rt-nobody-has-this:1") is None


def test_a_container_that_ends_keeps_its_exit_code(subject: Subject) -> None:
    spec = subject.spec(ENDS_WITH_7, labels={**subject.labels, "role": "load"})
    container = subject.engine.start(spec, {})
    assert subject.engine.wait(container, END_TIMEOUT_S) == 7
    state = subject.engine.state(container)
    assert (state.id, state.name, state.status) == (container, spec.name, "exited")
    assert (state.running, state.exit_code, state.oom_killed, state.error) == (False, 7, False, "")
    assert state.labels == spec.labels
    # not compared: of a very short run the engine may record the end before the start
    for moment in (state.started_at, state.finished_at):
        assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", moment)
    assert subject.engine.cpu_seconds(container) is None


def test_a_running_container(subject: Subject) -> None:
    container = subject.start(RUNS)
    state = subject.engine.state(container)
    assert (state.status, state.running, state.exit_code) == ("running", True, None)
    assert state.finished_at == "0001-01-01T00:00:00Z"
    assert (subject.engine.cpu_seconds(container) or 0.0) > 0.0


def test_a_wait_that_runs_out_is_none_and_leaves_the_container_alone(subject: Subject) -> None:
    container = subject.start(RUNS)
    assert [subject.engine.wait(container, seconds) for seconds in (0.0, 0.2, 0.2)] == [None] * 3
    assert subject.engine.state(container).running


def test_a_wait_of_no_time_sees_an_end(subject: Subject) -> None:
    container = subject.start(ENDS_WITH_7)
    subject.engine.wait(container, END_TIMEOUT_S)
    assert subject.engine.wait(container, 0.0) == 7


def test_inspect_is_the_engines_record(subject: Subject) -> None:
    container = subject.start(RUNS, environment={"COLOUR": "blue"}, cpuset_cpus="0")
    record = subject.engine.inspect(container)
    assert record["Id"] == container
    assert record["State"]["Running"] is True
    assert "COLOUR=blue" in record["Config"]["Env"]
    assert record["Config"]["Image"] == subject.image
    assert record["Image"] == subject.engine.image_id(subject.image)
    assert record["HostConfig"]["CpusetCpus"] == "0"


def test_output_is_byte_identical_and_apart(subject: Subject) -> None:
    container = subject.start(TALKS)
    assert output(subject.engine, container) == {"stdout": STDOUT, "stderr": STDERR}
    # again, from the first byte, after the end
    assert output(subject.engine, container) == {"stdout": STDOUT, "stderr": STDERR}


def test_output_is_followed_from_a_thread_until_the_end(subject: Subject) -> None:
    container = subject.start(TALKS_THEN_WAITS)
    chunks: list[LogChunk] = []
    first = threading.Event()

    def follow() -> None:
        for chunk in subject.engine.logs(container):
            chunks.append(chunk)
            first.set()

    thread = threading.Thread(target=follow)
    thread.start()
    assert first.wait(END_TIMEOUT_S)
    assert thread.is_alive()
    subject.engine.stop(container, signal="SIGKILL", grace_s=END_TIMEOUT_S)
    thread.join(END_TIMEOUT_S)
    assert not thread.is_alive()
    assert chunks == list(READY)


def test_a_stop_sends_the_signal_that_was_asked_for(subject: Subject) -> None:
    container = subject.start_ready(CATCHES_SIGINT)
    subject.engine.stop(container, signal="SIGINT", grace_s=END_TIMEOUT_S)
    assert subject.engine.state(container).exit_code == 3


def test_a_signal_that_nobody_catches(subject: Subject) -> None:
    # not before the program runs: a signal to an init that is not ready is lost
    container = subject.start_ready(TALKS_THEN_WAITS)
    subject.engine.stop(container, signal="SIGTERM", grace_s=END_TIMEOUT_S)
    assert subject.engine.state(container).exit_code == 128 + 15


@pytest.mark.parametrize("signal", ["SIGTERM", "SIGINT"])
def test_a_container_that_ignores_the_signal_is_killed(subject: Subject, signal: str) -> None:
    container = subject.start_ready(STUBBORN)
    subject.engine.stop(container, signal=signal, grace_s=0.3)
    state = subject.engine.state(container)
    assert (state.running, state.exit_code, state.oom_killed) == (False, 137, False)


def test_a_stop_of_what_has_ended_changes_nothing(subject: Subject) -> None:
    container = subject.start(ENDS_WITH_7)
    subject.engine.wait(container, END_TIMEOUT_S)
    subject.engine.stop(container, signal="SIGTERM", grace_s=1.0)
    assert subject.engine.state(container).exit_code == 7
    subject.engine.remove(container)
    subject.engine.stop(container, signal="SIGTERM", grace_s=1.0)


def test_removed_twice_and_gone(subject: Subject) -> None:
    container = subject.start(RUNS)
    subject.engine.remove(container)
    subject.engine.remove(container)
    for ask in (subject.engine.state, subject.engine.inspect, subject.engine.cpu_seconds):
        with pytest.raises(ContainerGone, match="does not exist any more"):
            ask(container)
    with pytest.raises(ContainerGone):
        subject.engine.wait(container, 1.0)
    with pytest.raises(ContainerGone):
        next(subject.engine.logs(container))


def test_listed_by_all_labels_sorted_by_name(subject: Subject) -> None:
    running = subject.spec(RUNS, labels={**subject.labels, "role": "server", "cell": "a"})
    ended = subject.spec(ENDS_WITH_7, labels={**subject.labels, "role": "load", "cell": "a"})
    subject.engine.start(running, {})
    subject.engine.wait(subject.engine.start(ended, {}), END_TIMEOUT_S)

    def names(*, all_states: bool = True, **labels: str) -> list[str]:
        wanted = {**subject.labels, **labels}
        return [s.name for s in subject.engine.list(wanted, all_states=all_states)]

    assert names() == [running.name, ended.name]
    assert names(cell="a") == [running.name, ended.name]
    assert names(cell="a", role="load") == [ended.name]
    assert names(cell="b") == []
    assert names(all_states=False) == [running.name]
    assert [s.exit_code for s in subject.engine.list(subject.labels)] == [None, 7]


def test_a_missing_image(subject: Subject) -> None:
    spec = subject.spec(RUNS, image="rt-nobody-has-this:1")
    with pytest.raises(ImageMissing, match="image rt-nobody-has-this:1 is not there"):
        subject.engine.start(spec, {})
    assert subject.engine.list(subject.labels) == ()


def test_a_missing_mount_source(subject: Subject, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    spec = subject.spec(RUNS, mounts=(Mount(source=str(missing), target="/data"),))
    with pytest.raises(EngineError, match=f"mount source {missing} does not exist on the host"):
        subject.engine.start(spec, {})
    assert not missing.exists()
    assert subject.engine.list(subject.labels) == ()


def test_a_missing_network_leaves_nothing_behind(subject: Subject) -> None:
    spec = subject.spec(RUNS, network=f"{subject.id}-nowhere")
    with pytest.raises(EngineError, match=f"network {subject.id}-nowhere does not exist"):
        subject.engine.start(spec, {})
    assert subject.engine.list(subject.labels) == ()


def test_a_name_in_use(subject: Subject) -> None:
    spec = subject.spec(RUNS)
    first = subject.engine.start(spec, {})
    with pytest.raises(EngineError, match=f"a container named {spec.name} exists already"):
        subject.engine.start(spec, {})
    assert subject.engine.state(first).running


def test_a_secret_without_a_value(subject: Subject) -> None:
    spec = subject.spec(RUNS, secret_environment=("HF_TOKEN",))
    with pytest.raises(EngineError, match="no value for the secret HF_TOKEN"):
        subject.engine.start(spec, {"OTHER": "x"})
    assert subject.engine.list(subject.labels) == ()


def test_networks_come_and_go_twice(subject: Subject) -> None:
    engine, network = subject.engine, f"{subject.id}-net"
    engine.ensure_network(network, subject.labels)
    engine.ensure_network(network, subject.labels)
    container = subject.start(RUNS)
    engine.connect(network, container)
    engine.connect(network, container)
    assert network in engine.inspect(container)["NetworkSettings"]["Networks"]
    with pytest.raises(EngineError, match="has active endpoints"):
        engine.remove_network(network)
    engine.disconnect(network, container)
    engine.disconnect(network, container)
    assert network not in engine.inspect(container)["NetworkSettings"]["Networks"]
    engine.remove_network(network)
    engine.remove_network(network)
    engine.disconnect(network, container)
    with pytest.raises(EngineError, match=f"network {network} does not exist"):
        engine.connect(network, container)


def test_an_attachment_needs_a_container(subject: Subject) -> None:
    engine, network = subject.engine, f"{subject.id}-net"
    engine.ensure_network(network, subject.labels)
    with pytest.raises(ContainerGone):
        engine.connect(network, f"{subject.id}-nobody")
    engine.disconnect(network, f"{subject.id}-nobody")
    engine.remove_network(network)
