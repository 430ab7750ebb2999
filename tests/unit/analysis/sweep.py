"""Runs whose every number was chosen: synthetic exports in the recorded layout."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.models.job import Speculative, SpeculativeMethod
from runner.models.plan import PlannedRow
from runner.models.status import Status
from tests.fixtures.run_folder import RunFolder, cell_plan

SECOND_NS = 1_000_000_000
START_NS = 1_800_000_000 * SECOND_NS


def eagle(k: int = 3) -> Speculative:
    """A drafter of this length."""
    return Speculative(method=SpeculativeMethod.EAGLE3, num_speculative_tokens=k, model="/d")


@dataclass
class Request:
    """One answer. `accepted` lists the drafts that each drafted step accepted."""

    row: str
    latency_s: float = 1.0
    ttft_s: float = 0.2
    tokens: int = 9
    turn: int = 0
    accepted: Sequence[int] | None = None
    k: int = 3
    prompt_tokens: int = 10
    text: str | None = None
    error: str | None = None

    def record(self, start_s: float) -> dict[str, Any]:
        """The line of `profile_export.jsonl`."""
        start_ns = START_NS + round(start_s * SECOND_NS)
        metadata = {
            "conversation_id": self.row,
            "turn_index": self.turn,
            "request_start_ns": start_ns,
            "request_end_ns": start_ns + round(self.latency_s * SECOND_NS),
            "credit_issued_ns": start_ns,
            "benchmark_phase": "profiling",
            "was_cancelled": False,
        }
        if self.error is not None:
            error = {"code": 400, "type": "BadRequest", "message": self.error}
            return {"metadata": metadata, "metrics": {}, "error": error}
        gaps = len(self.accepted) if self.accepted is not None else self.tokens - 1
        metrics = {
            "request_latency": {"value": 1000 * self.latency_s, "unit": "ms"},
            "time_to_first_token": {"value": 1000 * self.ttft_s, "unit": "ms"},
            "usage_completion_tokens": {"value": self.tokens, "unit": "tokens"},
            "usage_prompt_tokens": {"value": self.prompt_tokens, "unit": "tokens"},
            "http_req_chunks_received": {"value": gaps + 1, "unit": "count"},
            "inter_chunk_latency": {"value": [1.0] * gaps, "unit": "ms"},
        }
        line: dict[str, Any] = {"metadata": metadata, "metrics": metrics}
        if self.accepted is not None:
            histogram = {str(j): self.accepted.count(j) for j in sorted(set(self.accepted))}
            line["spec_decode_acceptance"] = {
                "engine": "vllm",
                "acceptance_histogram": histogram,
                "num_accepted_draft_tokens": sum(self.accepted),
                "num_draft_tokens": self.k * len(self.accepted),
                "num_spec_steps": len(self.accepted),
                "num_spec_tokens": self.k,
                "completion_tokens": self.tokens,
                "per_step_accepted": list(self.accepted),
                "per_step_drafted": [self.k] * len(self.accepted),
            }
        return line


def write_exports(folder: Path, requests: Sequence[Request], concurrency: int) -> Path:
    """Exports of a closed loop: so many places, in each one request after the other."""
    folder.mkdir(parents=True)
    free = [0.0] * concurrency
    lines = []
    for request in requests:
        place = free.index(min(free))
        lines.append(request.record(free[place]))
        free[place] += request.latency_s
    (folder / "profile_export.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    summary = {
        "schema_version": "1.4",
        "aiperf_version": "0.13.0",
        "was_cancelled": False,
        "is_complete": True,
        "input_config": {"models": {"items": [{"name": "tiny"}]}},
    }
    (folder / "profile_export_aiperf.json").write_text(json.dumps(summary))
    marker = {"ready": True, "was_cancelled": False, "partial": False}
    (folder / ".aiperf_results_ready.json").write_text(json.dumps(marker))
    texts = [
        {"conversation_id": one.row, "turn_index": one.turn, "response_text": one.text}
        for one in requests
        if one.text is not None
    ]
    if texts:
        (folder / "outputs.json").write_text(json.dumps({"data": texts}))
    return folder


@dataclass
class Sweep:
    """A run with a baseline and drafters, cell by cell."""

    root: Path
    run: RunFolder = field(init=False)

    def __post_init__(self) -> None:
        self.run = RunFolder(self.root / "run")
        self.run.server("baseline")

    def drafter(self, name: str = "drafter", k: int = 3) -> None:
        """Add a drafter whose baseline is `baseline`."""
        self.run.server(name, eagle(k))

    def cell(
        self,
        server: str,
        requests: Sequence[Request],
        concurrency: int = 1,
        *,
        prompts: str = "code",
        repeat: int = 1,
        rows: Iterable[PlannedRow] | None = None,
        **values: Any,
    ) -> str:
        """Record a cell with these requests; its id."""
        name = f"{server}-{prompts}-c{concurrency}-r{repeat}"
        exports = write_exports(self.root / name, requests, concurrency)
        cell = cell_plan(server, prompts, concurrency, exports, repeat=repeat, output_tokens=4096)
        planned = tuple(rows) if rows is not None else cell.rows
        cell = cell.model_copy(
            update={"rows": planned, "requests": sum(row.turns for row in planned), **values}
        )
        self.run.record(self.run.plan(cell), exports)
        return name

    def write(self) -> Path:
        """The run's folder."""
        return self.run.write(Status.SUCCEEDED)


def same(count: int, **values: Any) -> list[Request]:
    """So many rows `rows/0`, `rows/1`, … with equal answers."""
    return [Request(row=f"rows/{number}", **values) for number in range(count)]
