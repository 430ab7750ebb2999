"""A whole answer, put together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from runner.errors import SpecError
from runner.inventory.facts import facts_command, facts_from_file, gather_facts, parse_facts
from runner.models.container import Mount
from runner.models.host import ConnectionKind, EngineAccess, EngineFacts, Host
from runner.transport.base import Completed
from runner.transport.local import LocalConnection

DATA = Path(__file__).parents[2] / "data" / "hosts"
ANSWER = (DATA / "debian-cpu" / "facts.txt").read_bytes()
HOST = Host(name="box", connection=ConnectionKind.LOCAL)
CLOCK_MIDDLE = (1796095409.540803654 + 1796095409.681011649) / 2


class Recorded:
    """Only `run`: gathering facts must take one round trip."""

    name = "box"

    def __init__(self, answer: bytes):
        self.answer = answer
        self.calls: list[tuple[str, ...]] = []

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | None = None,
        timeout_s: float = 60.0,
        check: bool = True,
    ) -> Completed:
        self.calls.append(tuple(argv))
        return Completed(tuple(argv), 0, self.answer, b"")


def test_recorded_answer_in_one_round_trip() -> None:
    connection = Recorded(ANSWER)
    times = iter([CLOCK_MIDDLE - 3.5, CLOCK_MIDDLE - 2.5])
    facts = gather_facts(connection, HOST, now=lambda: next(times))  # type: ignore[arg-type]
    assert len(connection.calls) == 1
    assert facts.operating_system == "Debian GNU/Linux 12 (bookworm)"
    assert (facts.hostname, facts.machine) == ("vm", "x86_64")
    assert (facts.cpu_count, facts.cpu_list, facts.cpu_model) == (2, "0-1", "AMD EPYC")
    assert facts.memory_bytes == 24684084 * 1024
    assert (facts.uid, facts.gid) == (0, 0)
    assert facts.engine == EngineFacts(
        version="20.10.24+dfsg1",
        api_version="1.41",
        storage_driver="overlay2",
        cgroup_driver="cgroupfs",
        runtimes=("io.containerd.runc.v2", "io.containerd.runtime.v1.linux", "runc"),
        rootless=False,
        root_dir="/var/lib/docker",
    )
    assert facts.engine_error is None
    assert facts.disk_free_bytes == {
        "/var/lib/runner/runs": 76246400 * 1024,
        "/var/lib/docker": 76246400 * 1024,
    }
    assert facts.images["runner/base:bookworm"].startswith("sha256:7dabb6aff937")
    assert facts.missing_paths == ("/opt/models",)
    assert facts.clock_offset_s == 3.0


def test_silence_is_missing_facts_not_an_error() -> None:
    facts = parse_facts(HOST, "", before_s=0.0, after_s=1.0)
    assert facts.engine is None
    assert facts.engine_error == "the engine's command gave no answer"
    assert (facts.cpu_count, facts.cpu_list, facts.gpus) == (0, "", ())
    assert facts.clock_offset_s is None
    assert facts.gathered_at == "1970-01-01T00:00:01+00:00"


def test_paths_travel_as_arguments() -> None:
    host = Host(
        name="gpu",
        models=("/opt/models",),
        caches={"vllm": "/var/cache/a b"},
        mounts=(Mount(source="/opt/$(touch x)", target="/x"),),
        engine=EngineAccess(socket="/run/d.sock", command="podman"),
        run_root="/data/runs",
    )
    command = facts_command(host, ("/opt/models/tiny", "org/name"))
    assert command[:2] == ("sh", "-c")
    assert "/opt" not in command[2]
    assert command[3:] == (
        "runner-facts",
        "podman",
        "/run/d.sock",
        "/data/runs",
        "/opt/$(touch x)",
        "/opt/models",
        "/opt/models/tiny",
        "/var/cache/a b",
    )


@pytest.mark.parametrize("below", ["runs", "runs/deep/er"])
def test_run_root_below_a_file_is_blocked_by_it(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("")
    for root, blocked in ((f"{tmp_path}/{below}", None), (f"{tmp_path}/file/{below}", "file")):
        host = HOST.model_copy(update={"run_root": root})
        facts = gather_facts(LocalConnection("box"), host)
        assert facts.run_root_blocked_by == (f"{tmp_path}/{blocked}" if blocked else None)


def test_facts_come_back_from_a_file(tmp_path: Path) -> None:
    facts = parse_facts(HOST, ANSWER.decode(), before_s=0.0, after_s=1.0)
    path = tmp_path / "host.json"
    path.write_text(facts.model_dump_json())
    assert facts_from_file(path) == facts


@pytest.mark.parametrize(
    ("text", "message"),
    [(None, "can't be read"), ("{}", "is not a record of host facts: host"), ("[", "the file")],
)
def test_bad_facts_file(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "host.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SpecError) as caught:
        facts_from_file(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
