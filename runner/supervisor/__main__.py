"""`python -m runner.supervisor RUN_DIR`: the program of the supervisor container."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from runner.artifacts.atomic import write_atomic
from runner.artifacts.hashing import build_manifest
from runner.engine import open_engine
from runner.engine.base import Engine
from runner.errors import RunnerError
from runner.journal.replay import derive, replay
from runner.journal.writer import Journal
from runner.models.layout import RunLayout
from runner.models.plan import Plan
from runner.models.status import Status
from runner.supervisor.context import RunContext
from runner.supervisor.interrupt import StopSignal
from runner.supervisor.logs import RunLog
from runner.supervisor.redact import Redactor
from runner.supervisor.run import carry_out

SOCKET_IN_CONTAINER = "/var/run/docker.sock"
EXIT_CRASHED = 70
"""Anything but 0 makes the engine start the supervisor again, which then reconciles."""
EXIT_TERMINATED = 75


def supervise(run_dir: Path, engine: Engine, environment: dict[str, str]) -> Status:
    """Carry out the plan in `run_dir` and write the manifest; return the run's final status."""
    layout = RunLayout(PurePosixPath(run_dir))
    plan = Plan.model_validate_json(Path(layout.plan).read_bytes())
    secrets = {name: environment.get(name, "") for name in plan.secrets}
    redactor = Redactor(secrets.values())
    if Path(layout.manifest).exists():
        return derive(plan, replay(Path(layout.journal).read_bytes())).status
    log = RunLog(Path(layout.supervisor_log), redactor)
    journal = Journal(Path(layout.journal), redactor.text)
    context = RunContext(
        plan=plan,
        layout=layout,
        engine=engine,
        journal=journal,
        log=log,
        redactor=redactor,
        secrets=secrets,
        stop=StopSignal(Path(layout.stop_request)),
    )
    try:
        status = carry_out(context)
    except Exception:
        log.say("the supervisor failed: " + traceback.format_exc())
        raise
    finally:
        journal.close()
        log.close()
    created_at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    manifest = build_manifest(run_dir, plan.run_id, plan.job, created_at)
    write_atomic(Path(layout.manifest), manifest.model_dump_json(indent=1) + "\n")
    return status


def main(arguments: list[str]) -> int:
    """Exit code 0 once the run has a final status, whatever that is: the journal tells."""
    if len(arguments) != 1 or not (Path(arguments[0]) / "plan.json").is_file():
        print("usage: python -m runner.supervisor RUN_DIR (with a plan.json)", file=sys.stderr)  # noqa: T201
        return 2

    def terminated(_signal: int, _frame: object) -> None:
        # containers go on; the next life of the supervisor adopts them
        os._exit(EXIT_TERMINATED)

    signal.signal(signal.SIGTERM, terminated)
    try:
        supervise(Path(arguments[0]), open_engine(SOCKET_IN_CONTAINER), dict(os.environ))
    except RunnerError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return EXIT_CRASHED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
