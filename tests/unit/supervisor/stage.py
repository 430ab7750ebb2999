"""A host in memory: a fake engine, servers that answer on loopback, loads that leave exports."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from runner.artifacts.hashing import verify
from runner.engine.base import Engine, LogChunk
from runner.journal.replay import replay
from runner.models.container import ContainerSpec
from runner.models.event import Event, EventKind
from runner.models.host import Role
from runner.models.layout import RunLayout
from runner.models.manifest import Manifest
from runner.models.plan import LABEL_CELL, LABEL_ROLE, LABEL_SERVER, CellPlan, Plan, PlannedRow
from runner.models.result import CellResult, ServerResult
from runner.models.status import Status
from runner.supervisor.__main__ import supervise
from tests.fixtures.fake_engine import FakeEngine, Program
from tests.unit.supervisor.endpoint import Endpoint
from tests.unit.supervisor.planned import IMAGES, plan_run

PLANTED = "hf_planted0123456789"


@dataclass(frozen=True)
class Load:
    """What one AIPerf container does. `requests` are recorded of the planned ones (None = all).

    `meanwhile` is called when it has started to load the server; with `until_stopped` it goes on
    until a signal comes or a test lets it finish.
    """

    requests: int | None = None
    errors: int = 0
    cancelled: bool = False
    exit_code: int = 0
    until_stopped: bool = False
    meanwhile: Callable[[], None] | None = None


@dataclass
class Stage:
    """One run that is planned and not yet supervised. `loads` says what each cell's load does."""

    root: Path
    engine: FakeEngine
    endpoints: dict[str, Endpoint]
    plan: Plan
    environment: dict[str, str]
    loads: dict[str, Load] = field(default_factory=dict)

    @property
    def layout(self) -> RunLayout:
        return RunLayout(PurePosixPath(self.plan.run_dir))

    @property
    def run_dir(self) -> Path:
        return Path(self.plan.run_dir)

    # what a test says

    def prepare(self) -> None:
        """Write the plan and its inputs, start the supervisor's container, teach the engine."""
        (self.run_dir / "inputs").mkdir(parents=True, exist_ok=True)
        (self.run_dir / "inputs" / "chat.jsonl").write_text("{}\n")
        Path(self.layout.plan).write_text(self.plan.model_dump_json())
        for name, endpoint in self.endpoints.items():
            self.engine.program(self.server_name(name, "*"), endpoint.program())
        for cell in self.plan.cells:
            self.load(cell.id, Load())
        self.engine.program(self.plan.supervisor.name, Program(until_stopped=True))
        self.engine.start(self.plan.supervisor, self.environment)

    def change_plan(self, change: Callable[[Plan], Plan]) -> None:
        """Replace the plan, before or after `prepare`."""
        self.plan = change(self.plan)
        Path(self.layout.plan).write_text(self.plan.model_dump_json())

    def change_server(self, server_id: str, **values: Any) -> None:
        servers = tuple(
            server.model_copy(update=values) if server.id == server_id else server
            for server in self.plan.servers
        )
        self.change_plan(lambda plan: plan.model_copy(update={"servers": servers}))

    def change_cells(self, **values: Any) -> None:
        cells = tuple(cell.model_copy(update=values) for cell in self.plan.cells)
        self.change_plan(lambda plan: plan.model_copy(update={"cells": cells}))

    def load(self, cell_id: str, load: Load) -> None:
        """What the load containers of this cell do from now on."""

        def on_start(spec: ContainerSpec, _secrets: Mapping[str, str]) -> None:
            self._write_exports(spec, load)
            if load.meanwhile is not None:
                load.meanwhile()

        program = Program(
            output=(LogChunk("stdout", f"load of {cell_id}\n".encode()),),
            exit_code=load.exit_code,
            until_stopped=load.until_stopped,
            exit_codes={"SIGINT": 0},
            on_start=on_start,
        )
        self.engine.program(self.load_name(cell_id, "*"), program)

    def server_name(self, server_id: str, attempt: int | str = 1) -> str:
        name = self.plan.server(server_id).container.name
        return name.replace("{attempt}", str(attempt))

    def load_name(self, cell_id: str, attempt: int | str = 1) -> str:
        return self.plan.cell(cell_id).container.name.replace("{attempt}", str(attempt))

    def kill_server(self, server_id: str) -> None:
        """Whatever attempt of this server runs is killed by the kernel for memory."""
        labels = {LABEL_SERVER: server_id, LABEL_ROLE: Role.SERVER.value}
        for state in self.engine.list(labels, all_states=False):
            self.engine.finish(state.id, 137, oom_killed=True)

    def ask_to_stop(self) -> None:
        Path(self.layout.stop_request).parent.mkdir(parents=True, exist_ok=True)
        Path(self.layout.stop_request).write_text("{}")

    def supervise(self, engine: Engine | None = None) -> Status:
        return supervise(self.run_dir, engine or self.engine, self.environment)

    # what a test looks at

    @property
    def events(self) -> list[Event]:
        return list(replay(Path(self.layout.journal).read_bytes()))

    @property
    def timeline(self) -> list[str]:
        """Events in words: kind, what it is about with its attempt, phase, status, reason."""
        return [_words(event) for event in self.events]

    @property
    def log(self) -> str:
        return Path(self.layout.supervisor_log).read_text()

    def result(self, cell_id: str, attempt: int = 1) -> CellResult:
        path = Path(self.layout.attempt(cell_id, attempt).result)
        return CellResult.model_validate_json(path.read_bytes())

    def server_result(self, server_id: str, attempt: int = 1) -> ServerResult:
        path = Path(self.layout.server(server_id, attempt).result)
        return ServerResult.model_validate_json(path.read_bytes())

    def verdicts(self) -> dict[str, str]:
        """Cell -> status and reason, as the journal has it in the end."""
        return {
            event.cell or "": f"{event.status} {event.reason}"
            for event in self.events
            if event.kind is EventKind.CELL_ENDED
        }

    def loads_started(self) -> Counter[str]:
        return Counter(
            spec.labels[LABEL_CELL]
            for spec in self.engine.started
            if spec.labels[LABEL_ROLE] == Role.LOAD.value
        )

    def assert_closed(self) -> None:
        """What holds for every run that is over, however it went."""
        events = self.events
        assert [event.sequence for event in events] == list(range(len(events)))
        kinds = Counter(event.kind for event in events)
        assert kinds[EventKind.RUN_ENDED] == 1
        assert events[-1].kind is EventKind.RUN_ENDED
        assert kinds[EventKind.SERVER_ENDED] == kinds[EventKind.SERVER_STARTED]
        assert set(self.verdicts()) == {cell.id for cell in self.plan.cells}
        self._assert_results(events)
        manifest = Manifest.model_validate_json(Path(self.layout.manifest).read_bytes())
        assert verify(self.run_dir, manifest) == ()
        assert manifest.refused == ()
        assert [state.name for state in self.engine.list({})] == [self.plan.supervisor.name]
        assert self.engine.networks == {}

    def _assert_results(self, events: list[Event]) -> None:
        seen: Counter[tuple[str, int]] = Counter()
        for event in events:
            if event.kind is EventKind.CELL_ENDED:
                result = self.result(event.cell or "", event.attempt or 0)
            elif event.kind is EventKind.SERVER_ENDED:
                result = self.server_result(event.server or "", event.attempt or 0)
            else:
                continue
            assert (result.status, result.reason) == (event.status, event.reason)
            assert (result.message, result.attempt) == (event.message, event.attempt)
            seen[f"{event.kind} {event.cell or event.server}", event.attempt or 0] += 1
        assert set(seen.values()) == {1}, "an attempt has two verdicts"

    def _write_exports(self, spec: ContainerSpec, load: Load) -> None:
        cell = self.plan.cell(spec.labels[LABEL_CELL])
        folder = Path(next(mount.source for mount in spec.mounts if not mount.read_only))
        stub = self.endpoints[cell.server].stub
        kept = cell.rows if load.requests is None else cell.rows[: load.requests]
        lines = [
            _failed_record(row) if number < load.errors else _good_record(row, cell, stub)
            for number, row in enumerate(kept)
        ]
        summary = {
            "was_cancelled": load.cancelled,
            "is_complete": not load.cancelled,
            "input_config": {"models": {"items": [{"name": self._served_name(cell)}]}},
        }
        (folder / "profile_export.jsonl").write_text("".join(f"{json.dumps(x)}\n" for x in lines))
        (folder / "profile_export_aiperf.json").write_text(json.dumps(summary))
        if not load.cancelled:
            marker = {"ready": True, "was_cancelled": False, "partial": False}
            (folder / ".aiperf_results_ready.json").write_text(json.dumps(marker))

    def _served_name(self, cell: CellPlan) -> str:
        return self.plan.server(cell.server).served_name


def _good_record(row: PlannedRow, cell: CellPlan, stub: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": row.id}]
    answer = stub.answer({"messages": messages, "max_completion_tokens": cell.output_tokens})
    stub.count(answer)
    record = {
        "metadata": {"conversation_id": row.id, "turn_index": 0, "was_cancelled": False},
        "metrics": {"usage_completion_tokens": {"value": answer.tokens, "unit": "tokens"}},
    }
    metrics = stub.request_metrics(answer)
    if metrics is not None:
        spec = metrics["speculative_decoding"]
        histogram = {str(k): n for k, n in enumerate(spec["acceptance_histogram"]) if n}
        record["spec_decode_acceptance"] = {**spec, "acceptance_histogram": histogram}
    return record


def _failed_record(row: PlannedRow) -> dict[str, Any]:
    return {
        "metadata": {"conversation_id": row.id, "turn_index": 0, "was_cancelled": False},
        "metrics": {},
        "error": {"code": 500, "type": "Internal Server Error", "message": "EngineDeadError"},
    }


def _words(event: Event) -> str:
    about = event.cell or event.server
    words = [event.kind.value, f"{about}#{event.attempt}" if about else None]
    words += [event.phase, event.status, event.reason]
    return " ".join(str(word) for word in words if word is not None)


@contextmanager
def staged(root: Path, cells: Mapping[str, tuple[int, ...]]) -> Iterator[Stage]:
    """A prepared run; `cells` gives the concurrencies per server of `SERVERS`."""
    engine = FakeEngine({digest: digest for digest in IMAGES.values()})
    endpoints = {name: Endpoint(engine, name) for name in cells}
    plan = plan_run(root, {name: endpoint.port for name, endpoint in endpoints.items()}, cells)
    environment = {"HF_TOKEN": PLANTED, "PATH": "/bin"}
    stage = Stage(root, engine, endpoints, plan, environment)
    stage.prepare()
    try:
        yield stage
    finally:
        for state in engine.list({}):
            engine.remove(state.id)
        for endpoint in endpoints.values():
            endpoint.close()
