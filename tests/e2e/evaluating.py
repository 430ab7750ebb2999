"""What the end-to-end tests of evaluations share: a short evaluation, and how it is read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.world import World

SHORT = (
    "server.enforce_eager=true",
    "server.cpu_kv_cache_gib=1",
    "server.dtype=float32",
    "budget.acceptance.rows=6",
    "budget.acceptance.output_tokens=48",
    "budget.speedup.rows=6",
    "budget.speedup.output_tokens=48",
    "concurrency.acceptance=2",
    "concurrency.speedup=[2]",
    "repeats=1",
)
"""A real evaluation in a minute or two: few rows, short answers, one concurrency, one repeat."""


@dataclass
class Evaluated:
    """A run that ended, as it was collected and reported."""

    run_id: str
    exit_code: int
    stderr: str
    folder: Path

    @property
    def plan(self) -> dict:
        return json.loads((self.folder / "plan.json").read_text())

    @property
    def summary(self) -> dict:
        return json.loads((self.folder / "report" / "summary.json").read_text())

    @property
    def readme(self) -> str:
        return (self.folder / "report" / "README.md").read_text()

    def cell(self, beginning: str) -> str:
        """The one cell whose id begins so."""
        (name,) = (c["id"] for c in self.plan["cells"] if c["id"].startswith(beginning))
        return str(name)

    def results(self) -> dict[str, dict]:
        """`result.json` by cell."""
        return {
            path.parts[-3]: json.loads(path.read_text())
            for path in self.folder.glob("cells/*/attempt-*/result.json")
        }

    def records(self, cell: str) -> list[dict]:
        """AIPerf's records of a cell."""
        (path,) = (self.folder / "cells" / cell).rglob("profile_export.jsonl")
        return [json.loads(line) for line in path.read_text().splitlines()]

    def decisions(self) -> dict[str, tuple[str, str, str | None]]:
        """Key -> value, origin, source."""
        return {
            item["key"]: (item["value"], item["origin"], item["source"])
            for item in self.plan["decisions"]
        }


def settings(*more: str) -> list[str]:
    """`--set` options of a short evaluation, then others."""
    return [word for value in (*SHORT, *more) for word in ("--set", value)]


def evaluate(world: World, *arguments: str, host: str = "local") -> Evaluated:
    """Submit an evaluation, follow it, collect it and report on it."""
    done = world.runner("submit", *arguments, "--host", host, "--follow", check=False, timeout=1200)
    run_id = done.stdout.strip()
    assert run_id.startswith("20"), done.stdout + done.stderr
    world.runner("collect", run_id)
    world.runner("report", run_id)
    # `.versions` holds folders of the same name
    (folder,) = (path for path in world.store.glob(f"*/{run_id}") if path.parent.name[0] != ".")
    return Evaluated(run_id, done.returncode, done.stderr, folder)
