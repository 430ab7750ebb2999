"""Lag of live logs over SSH, beside `docker logs -f` over SSH. Not part of the tests.

    python tests/bench/bench_logs.py [--mode steady|burst] [--seconds 20] [--socket S] [--image I]

One container prints lines that hold the time at which they were written. The supervisor's own
capture copies them into a run folder, and `LogReader` follows that over a real sshd on 127.0.0.1;
at the same time `ssh ... docker logs -f` follows the container. Container and followers share one
clock. Each follower and the capture has a process of its own, as in use.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from time import time_ns
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from runner.client.logs import LogChoice, LogReader, LogSource
from runner.client.runs import RunReader, RunRef, run_ref
from runner.engine import open_engine
from runner.journal.writer import Journal
from runner.models.container import ContainerSpec, Mount
from runner.models.event import EventKind
from runner.models.host import Host
from runner.models.status import Reason, Status
from runner.supervisor.logs import LogPump, TimedLog
from runner.supervisor.redact import Redactor
from runner.transport import connect
from tests.fixtures.host_folder import small_plan
from tests.fixtures.sshd import ADDRESS, Sshd, _prepare

RUN = "20261201T101500Z-bench-3f9a"
SOCKET = "RUNNER_TEST_DOCKER_SOCKET"
READY = "ready"
LIMIT_S = 120.0
"""Beyond the time of printing: for connecting, and for what is still on the way."""

PRINTER = """
import os, sys, time
seconds, every_s, lines = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
os.write(1, b"ready\\n")
while not os.path.exists("/bench/go"):
    time.sleep(0.05)
began, number = time.monotonic(), 0
for step in range(round(seconds / every_s)):
    time.sleep(max(0.0, began + step * every_s - time.monotonic()))
    for _ in range(lines):
        os.write(1, b"%d %d INFO some words as a server logs them\\n" % (number, time.time_ns()))
        number += 1
"""


@dataclass(frozen=True)
class Mode:
    """What the container prints: `lines` lines every `every_s` seconds."""

    every_s: float
    lines: int


MODES = {"steady": Mode(0.05, 1), "burst": Mode(2.0, 5000)}


@dataclass(frozen=True)
class Arrivals:
    """What a follower saw: lag in ms by line number, and how many lines came out of order."""

    lags_ms: dict[int, float]
    disorder: int

    def row(self, sent: int) -> str:
        """A line of the table."""
        lags = sorted(self.lags_ms.values())
        figures = (lags[0], lags[len(lags) // 2], lags[len(lags) * 99 // 100], lags[-1])
        shown = "".join(f"{value:>10.1f}" for value in figures)
        return f"{len(lags):>8}{sent - len(lags):>6}{self.disorder:>10}{shown}"


def take(lines: Iterator[str], pipe: Pipe) -> None:
    """Note when each line arrives; say when the follower is there, and what it saw at the end."""
    lags: dict[int, float] = {}
    disorder, last = 0, -1
    for line in lines:
        now = time_ns()
        if line == READY:
            pipe.send(READY)
            continue
        number, written = (int(word) for word in line.split()[:2])
        disorder += number != last + 1
        last = number
        lags[number] = (now - written) / 1e6
    pipe.send(Arrivals(lags, disorder))


def follow_runner(host: Host, ref: RunRef, cell: str, pipe: Pipe) -> None:
    """What `runner logs RUN --cell C -f` does."""
    connection = connect(host)
    try:
        choice = LogChoice(source=LogSource.LOAD, cell=cell, follow=True)
        reader = RunReader(connection, host, ref)
        log = LogReader(reader, choice, reconnect=lambda: connect(host))
        take((line.text for line in log.lines()), pipe)
    finally:
        connection.close()


def follow_docker(argv: list[str], pipe: Pipe) -> None:
    """What a user would do: the engine's own client on the host."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        take((line.rstrip("\n") for line in process.stdout), pipe)


def capture(socket: str, container: str, log: str, limit_s: float) -> None:
    """What the supervisor does with a container's output."""
    engine = open_engine(socket)
    pump = LogPump(engine.logs(container), TimedLog(Path(log), Redactor(())))
    engine.wait(container, limit_s)
    pump.finish(limit_s)
    engine.close()


@dataclass
class Bench:
    """One container, one run folder, one sshd."""

    server: Sshd
    host: Host
    root: Path
    container: str

    @property
    def ref(self) -> RunRef:
        return run_ref(self.host, RUN)

    def write_plan(self) -> str:
        """A run in progress on the host; returns the cell whose load is the container."""
        plan = small_plan(self.host, RUN)
        # the follower looks whether the supervisor is alive: here the container stands for it
        supervisor = plan.supervisor.model_copy(update={"name": self.container})
        Path(self.ref.root).mkdir(parents=True)
        plan = plan.model_copy(update={"supervisor": supervisor})
        Path(self.ref.layout.plan).write_text(plan.model_dump_json())
        return plan.cells[0].id

    def docker_argv(self) -> list[str]:
        """`ssh ... docker logs -f` for the container."""
        known = f"UserKnownHostsFile={self.server.known_hosts}"
        options = ["-F", "/dev/null", "-i", str(self.server.identity_file), "-o", known]
        login = ["-p", str(self.server.port), f"{self.server.user}@{ADDRESS}"]
        docker = ["docker", "-H", f"unix://{self.host.engine.socket}"]
        return ["ssh", *options, *login, *docker, "logs", "-f", self.container]

    def measure(self, seconds: float) -> tuple[Arrivals, Arrivals]:
        """Follow the container in both ways until it ends; runner's first."""
        cell = self.write_plan()
        log = str(self.ref.layout.attempt(cell, 1).load_log)
        limit_s = seconds + LIMIT_S
        context = multiprocessing.get_context("spawn")
        ours, at_ours = context.Pipe()
        theirs, at_theirs = context.Pipe()
        journal = Journal(Path(self.ref.layout.journal))
        journal.append(EventKind.RUN_STARTED)
        journal.append(EventKind.CELL_STARTED, cell=cell, attempt=1)

        def begin(target: Any, *arguments: object) -> multiprocessing.process.BaseProcess:
            process = context.Process(target=target, args=arguments, daemon=True)
            process.start()
            return process

        capturing = begin(capture, self.host.engine.socket, self.container, log, limit_s)
        begin(follow_runner, self.host, self.ref, cell, at_ours)
        begin(follow_docker, self.docker_argv(), at_theirs)
        for pipe in (ours, theirs):
            expect(pipe, LIMIT_S)
        (self.root / "go").touch()
        capturing.join(limit_s)
        journal.append(EventKind.RUN_ENDED, status=Status.SUCCEEDED, reason=Reason.COMPLETED)
        Path(self.ref.layout.manifest).write_text("{}")
        return expect(ours, LIMIT_S), expect(theirs, LIMIT_S)


def expect(pipe: Pipe, limit_s: float) -> Any:
    """The next message of a follower."""
    if not pipe.poll(limit_s):
        raise SystemExit(f"a follower said nothing for {limit_s:.0f} s; its error stands above")
    return pipe.recv()


@contextmanager
def prepared(socket: str, image: str, mode: Mode, seconds: float) -> Iterator[Bench]:
    """The container and the sshd; both are gone afterwards."""
    program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        raise SystemExit("sshd is not installed: apt-get install openssh-server")
    engine = open_engine(socket)
    name = f"bench-logs-{uuid.uuid4().hex[:8]}"
    with tempfile.TemporaryDirectory(prefix="bench-logs-") as folder:
        root = Path(folder)
        (root / "sshd").mkdir()
        server = _prepare(program, root / "sshd")
        server.start()
        try:
            numbers = (str(seconds), str(mode.every_s), str(mode.lines))
            spec = ContainerSpec(
                name=name,
                image=image,
                command=("python3", "-c", PRINTER, *numbers),
                mounts=(Mount(source=folder, target="/bench"),),
                network="none",
            )
            engine.start(spec, {})
            access = {"socket": socket}
            host = server.host("bench", run_root=str(root / "runs"), engine=access)
            yield Bench(server, host, root, name)
        finally:
            engine.remove(name)
            engine.close()
            server.stop()


def main() -> int:
    """Measure and print a table; 1 when runner lost a line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mode", choices=sorted(MODES), default="steady")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long it prints")
    parser.add_argument(
        "--socket",
        default=os.environ.get(SOCKET, "/var/run/docker.sock"),
        help=f"the engine's socket; ${SOCKET} when left out",
    )
    parser.add_argument("--image", default="runner/base:bookworm", help="any with python3")
    given = parser.parse_args()
    mode = MODES[given.mode]
    load = os.getloadavg()[0]
    with prepared(given.socket, given.image, mode, given.seconds) as bench:
        ours, theirs = bench.measure(given.seconds)
    sent = round(given.seconds / mode.every_s) * mode.lines
    print(f"$ python {shlex.join(sys.argv)}")
    print(
        f"{mode.lines} lines every {mode.every_s * 1000:.0f} ms for {given.seconds:.0f} s; ", end=""
    )
    print(f"{os.cpu_count()} cores, load average before {load:.2f}")
    print(f"{'lag in ms':24}{'lines':>8}{'lost':>6}{'disorder':>10}", end="")
    print("".join(f"{name:>10}" for name in ("min", "median", "p99", "max")))
    print(f"{'runner logs -f':24}{ours.row(sent)}")
    print(f"{'ssh docker logs -f':24}{theirs.row(sent)}")
    return 0 if len(ours.lags_ms) == sent else 1


if __name__ == "__main__":
    sys.exit(main())
