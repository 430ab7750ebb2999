"""The end of an attempt: the verdict on disk first, then the event that says so.

Crash safety rests on that order: a verdict that is on disk stands, whatever the journal says.
"""

from __future__ import annotations

from runner.models.event import EventKind
from runner.models.result import CellResult, ServerResult
from runner.supervisor.context import RunContext


def conclude_cell(context: RunContext, result: CellResult, *, on_disk: bool = False) -> None:
    """Write a cell's `result.json` and its final event; `on_disk` when the file is there."""
    if not on_disk:
        context.write_json(context.layout.attempt(result.cell, result.attempt).result, result)
    context.journal.append(
        EventKind.CELL_ENDED,
        cell=result.cell,
        server=result.server,
        attempt=result.attempt,
        status=result.status,
        reason=result.reason,
        message=result.message,
    )


def conclude_server(context: RunContext, result: ServerResult, *, on_disk: bool = False) -> None:
    """Write a server's `result.json` and its final event; `on_disk` when the file is there."""
    if not on_disk:
        context.write_json(context.layout.server(result.server, result.attempt).result, result)
    context.journal.append(
        EventKind.SERVER_ENDED,
        server=result.server,
        attempt=result.attempt,
        status=result.status,
        reason=result.reason,
        message=result.message,
    )
