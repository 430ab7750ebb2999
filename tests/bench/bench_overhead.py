"""What runner adds to the wall time of a job, beside a plain shell script. Not part of the tests.

    python tests/bench/bench_overhead.py [JOB] [--host local] [--set KEY=VALUE] [--rounds 2]

Submits a job with `--follow` on a local host and takes its time; then carries out the same
containers in the same order on the same engine by a shell script made from the run's `plan.json`:
`docker run`, a poll of `/health`, `docker wait`, `docker rm`. The script warms nothing up, reads
no metrics, keeps no log and checks nothing. From round to round the two swap places. Inventory,
store and lock come from RUNNER_HOSTS, RUNNER_STORE and RUNNER_LOCK.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path, PurePosixPath

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from runner.engine.convert import docker_run_argv
from runner.journal.replay import replay
from runner.models.container import ContainerSpec
from runner.models.event import Event, EventKind
from runner.models.host import ConnectionKind
from runner.models.layout import RunLayout
from runner.models.plan import CellPlan, Plan, ServerPlan, for_attempt
from runner.models.status import Phase

SMALL = ("matrix.server=[baseline,ngram]", "matrix.prompts=[code]")

BEFORE = "before the first server"
SERVERS = "servers starting"
PROOF = "proving servers"
WARMUP = "warm-up, first scrape"
CREATE = "starting load containers"
LOAD = "load containers running"
AFTER = "second scrape, inspect"
VERIFY = "verification"
END = "recording, ending, removing"
CLOSE = "closing"
Mark = tuple[float, str]
"""Seconds since the epoch, and the step that ended then."""

STEPS = (BEFORE, SERVERS, PROOF, WARMUP, CREATE, LOAD, AFTER, VERIFY, END, CLOSE)

SCRIPT_HEAD = """\
set -euo pipefail
mark() { printf '%s %s\\n' "$(date +%s.%N)" "$*" >> marks; }
ran() {
  read -r from to <<< "$(D inspect -f '{{.State.StartedAt}} {{.State.FinishedAt}}' "$1")"
  printf '%s %s\\n' "$(date -d "$from" +%s.%N)" "$2" "$(date -d "$to" +%s.%N)" "$3" >> marks
}
healthy() {
  address=$(D inspect -f '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' "$1")
  until curl -sf -o /dev/null --noproxy '*' --max-time 5 "http://$address:$2/health"; do
    [ "$(D inspect -f '{{.State.Running}}' "$1")" = true ]; sleep 0.25
  done
}
"""


@dataclass(frozen=True)
class Timeline:
    """Marks in order; the first is the beginning and has no step."""

    marks: list[Mark]

    @property
    def total_s(self) -> float:
        """Wall time."""
        return self.marks[-1][0] - self.marks[0][0]

    def steps_s(self) -> dict[str, float]:
        """Seconds by step; together they are the wall time."""
        spent = dict.fromkeys(STEPS, 0.0)
        for (before, _), (after, step) in pairwise(self.marks):
            spent[step] += after - before
        return spent


@dataclass(frozen=True)
class Settings:
    """What to run, as given."""

    job: str
    host: str
    overrides: tuple[str, ...]

    def runner(self, *arguments: str) -> list[str]:
        """argv of the tool."""
        return [sys.executable, "-m", "runner", *arguments]

    def submit(self) -> list[str]:
        """argv of the submit that is measured."""
        sets = [part for text in self.overrides for part in ("--set", text)]
        return self.runner("submit", self.job, "--host", self.host, "--follow", *sets)


def by_runner(settings: Settings) -> tuple[Plan, Timeline]:
    """The job through the command line."""
    began = time.time()
    done = subprocess.run(settings.submit(), stdout=subprocess.PIPE, text=True, check=False)
    ended = time.time()
    if done.returncode:
        raise SystemExit(f"runner ended with {done.returncode}: {shlex.join(settings.submit())}")
    run_id = done.stdout.strip()
    status = settings.runner("status", run_id, "--host", settings.host, "--format", "json")
    answer = subprocess.run(status, stdout=subprocess.PIPE, text=True, check=True)
    layout = RunLayout(PurePosixPath(json.loads(answer.stdout)["run_dir"]))
    plan = Plan.model_validate_json(Path(layout.plan).read_bytes())
    if plan.host.connection is not ConnectionKind.LOCAL:
        raise SystemExit(f"host '{settings.host}' is not local: the script must run where it is")
    marks = run_marks(plan, layout, replay(Path(layout.journal).read_bytes()))
    return plan, Timeline([(began, ""), *marks, (ended, CLOSE)])


def run_marks(
    plan: Plan, layout: RunLayout, events: Iterable[Event]
) -> Iterator[tuple[float, str]]:
    """Ends of steps from the journal, the engine's own record and the times of files."""
    for event in events:
        at = datetime.fromisoformat(event.at).timestamp()
        if event.kind is EventKind.SERVER_STARTED:
            first = event.server == plan.servers[0].id
            yield at, BEFORE if first else END
        elif event.phase is Phase.READY and event.server:
            yield Path(layout.server(event.server, 1).models).stat().st_mtime, SERVERS
            yield at, PROOF
        elif event.phase is Phase.RECORD and event.cell:
            yield from cell_marks(layout, event.cell)
            yield at, VERIFY
        elif event.kind in (EventKind.CELL_STARTED, EventKind.SERVER_ENDED):
            yield at, END


def cell_marks(layout: RunLayout, cell: str) -> Iterator[Mark]:
    """Ends of the steps between a cell's start and its verification."""
    attempt = layout.attempt(cell, 1)
    state = json.loads(Path(attempt.load_inspect).read_bytes())["State"]
    yield Path(attempt.metrics_before).stat().st_mtime, WARMUP
    yield datetime.fromisoformat(state["StartedAt"]).timestamp(), CREATE
    yield datetime.fromisoformat(state["FinishedAt"]).timestamp(), LOAD
    yield Path(attempt.metrics_after).stat().st_mtime, AFTER


def moved(plan: Plan, folder: Path) -> Plan:
    """The same containers under other names, with no label of runner, writing into `folder`."""
    text = plan.model_dump_json().replace(plan.run_dir, str(folder))
    return Plan.model_validate_json(text.replace(plan.run_id, f"shell-{plan.run_id}"))


def script(plan: Plan) -> str:
    """What a user would otherwise write."""
    docker = ["docker", "-H", f"unix://{plan.host.engine_socket}"]
    lines = [SCRIPT_HEAD, f'D() {{ {shlex.join(docker)} "$@"; }}', "mark start"]
    lines += [f"D network create {plan.network} > /dev/null", f"mark {BEFORE}"]
    for server in plan.servers:
        lines += server_lines(plan, server)
    return "\n".join([*lines, f"D network rm {plan.network} > /dev/null", f"mark {CLOSE}", ""])


def server_lines(plan: Plan, server: ServerPlan) -> list[str]:
    """Start, wait, its cells, end. The end is a kill, the quickest that there is."""
    spec = for_attempt(server.container, 1)
    lines = [run_line(spec), f"healthy {spec.name} {server.port}", f"mark {SERVERS}"]
    for cell in plan.cells_of(server.id):
        lines += cell_lines(plan, cell)
    return [*lines, f"D rm -f {spec.name} > /dev/null", f"mark {END}"]


def cell_lines(plan: Plan, cell: CellPlan) -> list[str]:
    """Start the load, wait for it, remove it."""
    spec = for_attempt(cell.container, 1)
    exports = RunLayout(PurePosixPath(plan.run_dir)).attempt(cell.id, 1).exports
    return [
        f"mkdir -p {shlex.quote(str(exports))}",
        run_line(spec),
        f'[ "$(D wait {spec.name})" = 0 ]',
        f"ran {spec.name} '{CREATE}' '{LOAD}'",
        f"D rm {spec.name} > /dev/null",
        f"mark {END}",
    ]


def run_line(spec: ContainerSpec) -> str:
    """`docker run --detach ...`."""
    bare = spec.model_copy(update={"labels": {"bench": "overhead"}})
    return f"{shlex.join(docker_run_argv(bare, docker=('D',)))} > /dev/null"


def by_shell(plan: Plan) -> Timeline:
    """The same containers by a script."""
    root = Path(plan.run_dir).parents[1]
    with tempfile.TemporaryDirectory(prefix="bench-shell-", dir=root) as name:
        folder = Path(name)
        shutil.copytree(Path(plan.run_dir) / "inputs", folder / "inputs")
        plain = moved(plan, folder)
        (folder / "script.sh").write_text(script(plain))
        with removed_afterwards(plain):
            began = time.time()
            done = subprocess.run(["bash", "script.sh"], cwd=folder, check=False)
            ended = time.time()
        if done.returncode:
            raise SystemExit(f"the shell script ended with {done.returncode}")
        lines = [line.split(" ", 1) for line in (folder / "marks").read_text().splitlines()]
    marks = [(float(at), step) for at, step in lines if step != "start"]
    return Timeline([(began, ""), *marks, (ended, CLOSE)])


@contextmanager
def removed_afterwards(plan: Plan) -> Iterator[None]:
    """Containers and network that a broken script leaves behind."""
    specs = [server.container for server in plan.servers] + [cell.container for cell in plan.cells]
    names = [for_attempt(spec, 1).name for spec in specs]
    docker = ["docker", "-H", f"unix://{plan.host.engine_socket}"]
    try:
        yield
    finally:
        for argv in (["rm", "-f", *names], ["network", "rm", plan.network]):
            subprocess.run([*docker, *argv], check=False, capture_output=True)


def measure(settings: Settings, rounds: int, keep: bool) -> tuple[list[Timeline], list[Timeline]]:
    """Both ways so many times; in every second round the shell script goes first."""
    ours: list[Timeline] = []
    theirs: list[Timeline] = []
    plan: Plan | None = None
    for number in range(rounds):
        load = os.getloadavg()[0]
        if plan is not None and number % 2:
            theirs.append(by_shell(plan))
        made, timeline = by_runner(settings)
        ours.append(timeline)
        if plan is None or not number % 2:
            theirs.append(by_shell(made))
        plan = made if plan is None else plan
        if not keep and made is not plan:
            prune(settings, made)
        say = (
            f"round {number + 1}: runner {ours[-1].total_s:.1f} s, shell {theirs[-1].total_s:.1f} s"
        )
        print(f"{say}, load average before {load:.2f}", flush=True)
    if plan is not None and not keep:
        prune(settings, plan)
    return ours, theirs


def prune(settings: Settings, plan: Plan) -> None:
    """Take the measured run off the host."""
    argv = settings.runner("prune", plan.run_id, "--host", settings.host, "--yes", "--force")
    subprocess.run(argv, check=True, capture_output=True)


def quickest_steps(timelines: list[Timeline]) -> Mapping[str, float]:
    """Seconds by step, the least of the rounds: what else the machine does can only add."""
    each = [timeline.steps_s() for timeline in timelines]
    return {step: min(steps[step] for steps in each) for step in STEPS}


def show(ours: list[Timeline], theirs: list[Timeline]) -> None:
    """The table."""
    mine, plain = quickest_steps(ours), quickest_steps(theirs)
    total, shell = sum(mine.values()), sum(plain.values())
    print(f"{'':30}{'runner (s)':>12}{'%':>8}{'shell (s)':>12}{'added (s)':>12}")
    for step in STEPS:
        added = mine[step] - plain[step]
        share = 100 * mine[step] / total
        print(f"{step:30}{mine[step]:>12.2f}{share:>8.1f}{plain[step]:>12.2f}{added:>12.2f}")
    print(f"{'total':30}{total:>12.2f}{100:>8.1f}{shell:>12.2f}{total - shell:>12.2f}")
    own = sum(mine[step] - plain[step] for step in STEPS if step not in (SERVERS, LOAD))
    print(f"runner / shell: {total / shell:.3f}")
    print(f"without '{SERVERS}' and '{LOAD}', which vary by themselves: ", end="")
    print(f"{own:+.2f} s, {100 * own / shell:.1f} % of the shell's time")


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("job", nargs="?", default="jobs/quickstart.yaml")
    parser.add_argument("--host", default="local")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="replaces a value of JOB"
    )
    parser.add_argument("--whole", action="store_true", help=f"do not set {', '.join(SMALL)}")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="leave the measured runs on the host")
    given = parser.parse_args()
    small = () if given.whole else SMALL
    settings = Settings(given.job, given.host, (*small, *given.set))
    ours, theirs = measure(settings, given.rounds, given.keep)
    print(f"$ python {shlex.join(sys.argv)}")
    print(f"{os.cpu_count()} cores, {given.rounds} rounds, the least of them for each step")
    show(ours, theirs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
