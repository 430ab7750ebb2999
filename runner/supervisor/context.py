"""What every part of the supervisor works with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import BaseModel

from runner.artifacts.atomic import write_atomic
from runner.engine.base import ContainerState, Engine
from runner.errors import EngineError
from runner.journal.writer import Journal
from runner.models.container import ContainerSpec
from runner.models.layout import RunLayout
from runner.models.plan import (
    LABEL_ATTEMPT,
    LABEL_CELL,
    LABEL_ROLE,
    LABEL_RUN,
    LABEL_SERVER,
    Plan,
)
from runner.supervisor.interrupt import StopSignal
from runner.supervisor.logs import LogPump, RunLog, TimedLog
from runner.supervisor.redact import Redactor

ROLE_SERVER = "server"
ROLE_LOAD = "load"


@dataclass
class RunContext:
    """One run in progress: its plan, its paths, its engine and its written record."""

    plan: Plan
    layout: RunLayout
    engine: Engine
    journal: Journal
    log: RunLog
    redactor: Redactor
    secrets: Mapping[str, str]
    stop: StopSignal

    def write(self, path: PurePosixPath, data: str | bytes) -> None:
        """Write a file of the run whole, with secrets masked."""
        raw = data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target, self.redactor.whole(raw))

    def write_json(self, path: PurePosixPath, value: BaseModel | Mapping[str, Any]) -> None:
        """Write a record or an object as JSON, with secrets masked."""
        if isinstance(value, BaseModel):
            text = value.model_dump_json(indent=1)
        else:
            text = json.dumps(value, indent=1, ensure_ascii=False, default=str)
        self.write(path, text + "\n")

    def secrets_of(self, spec: ContainerSpec) -> Mapping[str, str]:
        """Values of the secrets that this container is to see."""
        return {name: self.secrets[name] for name in spec.secret_environment}

    def capture(self, container: str, path: PurePosixPath, *, replayed: bool = False) -> LogPump:
        """Copy a container's output to `path` until it ends."""
        log = TimedLog(Path(path), self.redactor, replayed=replayed)
        return LogPump(self.engine.logs(container), log)

    def save_inspect(self, container: str, path: PurePosixPath) -> None:
        """Keep the engine's own record of a container; a container that is gone is noted."""
        try:
            self.write_json(path, self.engine.inspect(container))
        except EngineError as error:
            self.write_json(path, {"unavailable": error.what})

    def discard(self, container: str, *, signal: str, grace_s: float) -> None:
        """Stop and remove a container of this run; a failure is said, never raised."""
        try:
            self.engine.stop(container, signal=signal, grace_s=grace_s)
            self.engine.remove(container)
        except EngineError as error:
            self.log.say(f"left behind: container {container}: {error.what}")

    def sweep(self, keep: frozenset[str] = frozenset()) -> None:
        """Remove what carries this run's label but for `keep`; its log and record are kept."""
        for state in self.engine.list({LABEL_RUN: self.plan.run_id}):
            files = self._files_of(state)
            if files is None or state.id in keep:
                continue
            self.log.say(f"removing container {state.name}")
            log, inspect = files
            try:
                pump = self.capture(state.id, log, replayed=True)
                self.engine.stop(state.id, signal="SIGTERM", grace_s=10)
                pump.finish()
            except EngineError as error:
                self.log.say(f"container {state.name}: {error.what}")
            self.save_inspect(state.id, inspect)
            self.discard(state.id, signal="SIGKILL", grace_s=1)

    def _files_of(self, state: ContainerState) -> tuple[PurePosixPath, PurePosixPath] | None:
        """Log and inspect output of the attempt that a container belongs to."""
        labels = state.labels
        attempt = int(labels.get(LABEL_ATTEMPT, 0))
        if labels.get(LABEL_ROLE) == ROLE_SERVER:
            server = self.layout.server(labels[LABEL_SERVER], attempt)
            return server.log, server.inspect
        if labels.get(LABEL_ROLE) == ROLE_LOAD:
            cell = self.layout.attempt(labels[LABEL_CELL], attempt)
            return cell.load_log, cell.load_inspect
        return None
