"""Verdicts on recorded exports, and copies of exports with something changed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runner.analysis.verify import verdict, verify_cell
from runner.models.plan import CellPlan, ServerPlan
from runner.models.result import Check, RequestCounts
from runner.models.status import Reason, Status
from tests.fixtures.run_folder import NGRAM, cell_plan, counters_text, exports_of, server_plan

BEFORE = counters_text(10, 40, 20, tokens=16)
AFTER = counters_text(715, 2780, 1418, tokens=2576)
"""Growth that AIPerf saw on the server of `coalesced_ngram_c4`: 705, 2740, 1398; 2560 tokens."""


def tokens_text(tokens: int) -> str:
    """A scrape that knows only how many tokens were generated."""
    return (
        "# TYPE vllm:generation_tokens_total counter\n"
        f'vllm:generation_tokens_total{{engine="0"}} {tokens}\n'
    )


def ngram_cell() -> CellPlan:
    return cell_plan("ngram", "code", 4, exports_of("coalesced_ngram_c4"))


def verify(
    cell: CellPlan,
    exports: Path,
    *,
    server: ServerPlan | None = None,
    before: str | None = BEFORE,
    after: str | None = AFTER,
    exit_code: int | None = 0,
) -> tuple[RequestCounts, dict[str, Check], tuple[Status, Reason, str]]:
    server = server or server_plan("ngram", NGRAM)
    counts, checks = verify_cell(cell, server, exports, before, after, exit_code)
    return counts, {check.name: check for check in checks}, verdict(checks)


def edited(tmp_path: Path, name: str, change: Callable[[int, dict[str, Any]], None]) -> Path:
    """A copy of recorded exports with every record changed in place."""
    folder = tmp_path / name
    shutil.copytree(exports_of(name), folder)
    path = folder / "profile_export.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for index, record in enumerate(records):
        change(index, record)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder
