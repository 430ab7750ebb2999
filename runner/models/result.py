"""The verdict on an attempt: what was checked, what was found, in figures."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field

from runner.models.base import SCHEMA_VERSION, Record
from runner.models.status import Reason, Status


class Verdict(StrEnum):
    """What a check says. A cell with a `refuse` is in no average."""

    OK = "ok"
    WARN = "warn"
    REFUSE = "refuse"


class Check(Record):
    """One named check with its message (figure and limit) and, on refusal, the reason it gives."""

    name: str
    verdict: Verdict
    message: str
    reason: Reason | None = None
    figures: Mapping[str, float | int | str | None] = Field(default_factory=dict)


class RequestCounts(Record):
    """Requests of one cell. `recorded` = `good` + `errors` + `cancelled` + `empty`."""

    planned: int
    recorded: int
    good: int
    errors: int
    cancelled: int
    empty: int
    torn_lines: int = 0


class CellResult(Record):
    """`result.json` of a cell attempt."""

    schema_version: int = SCHEMA_VERSION
    cell: str
    attempt: int
    server: str
    server_attempt: int | None
    status: Status
    reason: Reason
    message: str
    started_at: str
    ended_at: str
    load_exit_code: int | None = None
    counts: RequestCounts | None = None
    checks: tuple[Check, ...] = ()


class ServerResult(Record):
    """`result.json` of a server attempt."""

    schema_version: int = SCHEMA_VERSION
    server: str
    attempt: int
    status: Status
    reason: Reason
    message: str
    started_at: str
    ended_at: str
    ready_after_s: float | None = None
    exit_code: int | None = None
    checks: tuple[Check, ...] = ()
