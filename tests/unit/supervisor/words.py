"""Cells of the staged run, and the events of its parts in the words of `Stage.timeline`."""

from __future__ import annotations

C1, C2, TWIN_C1 = "baseline-chat-c1-r1", "baseline-chat-c2-r1", "twin-chat-c1-r1"
ALL = (C1, C2, TWIN_C1)
GOOD = "SUCCEEDED completed"
STOPPED = "STOPPED stopped_by_user"


def cell_events(cell: str, attempt: int = 1, end: str = GOOD) -> list[str]:
    about = f"{cell}#{attempt}"
    phases = ("warmup", "load", "verify", "record")
    return [
        f"cell_started {about}",
        *(f"cell_phase {about} {phase}" for phase in phases),
        f"cell_ended {about} {end}",
    ]


def server_events(server: str, attempt: int = 1) -> list[str]:
    about = f"{server}#{attempt}"
    return [f"server_started {about}", f"server_phase {about} serve", f"server_phase {about} ready"]
