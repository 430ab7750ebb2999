"""Where work stands: status, phase and the reason for an end."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """State of a run, a server or a cell. All but the first two are final, each with a reason.

    UNAVAILABLE is a condition that was wanted where it can be had, and can't be had here.
    """

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    LOST = "LOST"
    UNAVAILABLE = "UNAVAILABLE"

    @property
    def final(self) -> bool:
        """True when nothing more will happen on its own."""
        return self not in (Status.PENDING, Status.RUNNING)


class Phase(StrEnum):
    """Steps of an attempt, in order."""

    PREPARE = "prepare"
    SERVE = "serve"
    READY = "ready"
    WARMUP = "warmup"
    LOAD = "load"
    VERIFY = "verify"
    RECORD = "record"
    TEARDOWN = "teardown"


class Reason(StrEnum):
    """Why something ended."""

    COMPLETED = "completed"
    SERVER_START_FAILED = "server_start_failed"
    SERVER_NOT_READY = "server_not_ready"
    SERVER_DIED = "server_died"
    SERVER_REFUSED = "server_refused"
    NOT_NEEDED = "not_needed"
    FOREIGN_SERVER = "foreign_server"
    DRAFTER_DID_NOT_RUN = "drafter_did_not_run"
    CONFIGURATION_DIFFERS = "configuration_differs"
    LOAD_FAILED = "load_failed"
    LOAD_TIMED_OUT = "load_timed_out"
    REQUEST_ERRORS = "request_errors"
    INCOMPLETE = "incomplete"
    METRICS_MISSING = "metrics_missing"
    COUNTERS_DISAGREE = "counters_disagree"
    ENGINE_ERROR = "engine_error"
    SUPERVISOR_LOST = "supervisor_lost"
    STOPPED_BY_USER = "stopped_by_user"
    CELLS_FAILED = "cells_failed"
    INTERNAL_ERROR = "internal_error"
