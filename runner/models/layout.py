"""Every path of a run, once. Pure: the same on the host and in the store."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True)
class AttemptLayout:
    """One attempt of a cell."""

    root: PurePosixPath

    @property
    def server(self) -> PurePosixPath:
        """What was read from the server around this cell."""
        return self.root / "server"

    @property
    def metrics_before(self) -> PurePosixPath:
        return self.server / "metrics_before.prom"

    @property
    def metrics_after(self) -> PurePosixPath:
        return self.server / "metrics_after.prom"

    @property
    def server_pointer(self) -> PurePosixPath:
        """JSON that names the server attempt this cell was measured on."""
        return self.server / "server.json"

    @property
    def load(self) -> PurePosixPath:
        return self.root / "load"

    @property
    def load_spec(self) -> PurePosixPath:
        return self.load / "spec.json"

    @property
    def load_inspect(self) -> PurePosixPath:
        return self.load / "inspect.json"

    @property
    def load_log(self) -> PurePosixPath:
        return self.load / "output.log"

    @property
    def exports(self) -> PurePosixPath:
        """AIPerf's own exports, untouched."""
        return self.load / "aiperf"

    @property
    def result(self) -> PurePosixPath:
        return self.root / "result.json"


@dataclass(frozen=True)
class ServerLayout:
    """One attempt of a server, which may serve several cells."""

    root: PurePosixPath

    @property
    def spec(self) -> PurePosixPath:
        return self.root / "spec.json"

    @property
    def inspect(self) -> PurePosixPath:
        return self.root / "inspect.json"

    @property
    def log(self) -> PurePosixPath:
        return self.root / "output.log"

    @property
    def server_info(self) -> PurePosixPath:
        return self.root / "server_info.json"

    @property
    def models(self) -> PurePosixPath:
        return self.root / "models.json"

    @property
    def proof(self) -> PurePosixPath:
        """The small request that proved serving, with its answer."""
        return self.root / "proof.json"

    @property
    def metrics_ready(self) -> PurePosixPath:
        return self.root / "metrics_ready.prom"

    @property
    def result(self) -> PurePosixPath:
        return self.root / "result.json"


@dataclass(frozen=True)
class RunLayout:
    """One run."""

    root: PurePosixPath

    @property
    def plan(self) -> PurePosixPath:
        return self.root / "plan.json"

    @property
    def journal(self) -> PurePosixPath:
        return self.root / "journal.jsonl"

    @property
    def supervisor_log(self) -> PurePosixPath:
        return self.root / "supervisor.log"

    @property
    def host(self) -> PurePosixPath:
        """Host facts as they were when the run was submitted."""
        return self.root / "host.json"

    @property
    def manifest(self) -> PurePosixPath:
        return self.root / "manifest.json"

    @property
    def inputs(self) -> PurePosixPath:
        """Prompt files, one `<name>.jsonl` per prompt set, and its answers where it has some."""
        return self.root / "inputs"

    @property
    def control(self) -> PurePosixPath:
        """Requests from clients; not part of the artifacts."""
        return self.root / "control"

    @property
    def stop_request(self) -> PurePosixPath:
        return self.control / "stop.json"

    @property
    def cells(self) -> PurePosixPath:
        return self.root / "cells"

    @property
    def servers(self) -> PurePosixPath:
        return self.root / "servers"

    def prompts(self, name: str) -> PurePosixPath:
        """The rows of one prompt set."""
        return self.inputs / f"{name}.jsonl"

    def answers(self, name: str) -> PurePosixPath:
        """What good answers to the rows of one prompt set hold; never sent to a server."""
        return self.inputs / f"{name}.answers.jsonl"

    def attempt(self, cell: str, number: int | str) -> AttemptLayout:
        """Folder of attempt `number` (from 1, or a plan's placeholder for it) of a cell."""
        return AttemptLayout(self.cells / cell / f"attempt-{number}")

    def server(self, server: str, number: int) -> ServerLayout:
        """Folder of attempt `number` (from 1) of a server."""
        return ServerLayout(self.servers / server / f"attempt-{number}")


LOG_INDEX_SUFFIX = ".times"
"""Beside every log `X` lies `X.times`: lines `<epoch ms> <byte offset>`, one per write."""
