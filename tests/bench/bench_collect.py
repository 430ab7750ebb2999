"""How long `collect` takes beside rsync and scp over the same link. Not part of the tests.

    python tests/bench/bench_collect.py [--files 3000] [--big-mb 300]

A real sshd on 127.0.0.1 serves a finished run; every tool copies it into an empty folder, then
once more. `collect` also checks every byte against the manifest.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from runner.artifacts.atomic import write_json
from runner.artifacts.hashing import build_manifest
from runner.artifacts.store import Store
from runner.client.collect import collect_run
from runner.transport import connect
from tests.fixtures.sshd import ADDRESS, Sshd, _prepare

RUN = "20261201T101500Z-bench-3f9a"
SMALL = '{"request": %d, "latency_ms": [12.25, 11.5, 13.75], "text": "some words"}\n'


def make_run(root: Path, files: int, big_mb: int) -> Path:
    """A finished run: many small exports, one big one that does not compress."""
    folder = root / "bench" / RUN
    for number in range(files):
        cell = folder / f"cells/cell-{number // 10:04d}/attempt-1"
        cell.mkdir(parents=True, exist_ok=True)
        (cell / f"export-{number % 10}.jsonl").write_text(SMALL % number * (number % 40))
    with (folder / "big.bin").open("wb") as big:
        for _ in range(big_mb):
            big.write(os.urandom(1 << 20))
    plan = {"run_id": RUN, "job": "bench", "supervisor": {"image": "none"}}
    (folder / "plan.json").write_text(json.dumps(plan))
    write_json(folder / "manifest.json", build_manifest(folder, RUN, "bench", "now"))
    return folder


def seconds(action: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def ssh_options(server: Sshd) -> list[str]:
    """What the command-line tools need to reach the server."""
    known = f"UserKnownHostsFile={server.known_hosts}"
    return ["-F", "/dev/null", "-i", str(server.identity_file), "-o", known]


def collect_times(server: Sshd, folder: Path, target: Path) -> tuple[float, float]:
    """First and second `collect_run`, each with a connection of its own."""
    host = server.host("bench", run_root=str(folder.parents[1]))

    def collect() -> None:
        connection = connect(host)
        try:
            collect_run(connection, host, str(folder), Store(target))
        finally:
            connection.close()

    return seconds(collect), seconds(collect)


def tool_times(argv: list[str], target: Path) -> tuple[float, float] | None:
    """First and second copy by a tool; None when it is not installed."""
    if shutil.which(argv[0]) is None:
        return None
    target.mkdir(parents=True)

    def copy() -> None:
        subprocess.run([*argv, str(target)], check=True, stdout=subprocess.DEVNULL)

    return seconds(copy), seconds(copy)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=3000)
    parser.add_argument("--big-mb", type=int, default=300)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-collect-") as name:
        root = Path(name)
        folder = make_run(root / "runs", given.files, given.big_mb)
        (root / "sshd").mkdir()
        program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
        if program is None:
            raise SystemExit("sshd is not installed: apt-get install openssh-server")
        server = _prepare(program, root / "sshd")
        server.start()
        options = ssh_options(server)
        ssh = " ".join(["ssh", "-p", str(server.port), *options])
        source = f"{server.user}@{ADDRESS}:{folder}"
        try:
            rows = {
                "runner collect": collect_times(server, folder, root / "artifacts"),
                "rsync -a": tool_times(["rsync", "-a", "-e", ssh, source], root / "rsync"),
                "scp -r": tool_times(
                    ["scp", "-q", "-r", "-P", str(server.port), *options, source], root / "scp"
                ),
            }
        finally:
            server.stop()
    print(f"{given.files} small files and one of {given.big_mb} MiB, sshd on {ADDRESS}")
    print(f"{'':16}{'first (s)':>12}{'again (s)':>12}")
    for tool, times in rows.items():
        shown = "".join(f"{t:12.2f}" for t in times) if times else "  not installed"
        print(f"{tool:16}{shown}")


if __name__ == "__main__":
    main()
