"""`summary.json`: every figure with unit, statistic and the cells that it comes from."""

from __future__ import annotations

from dataclasses import asdict

from runner.analysis.differences import ServerDifferences, server_differences
from runner.analysis.measured import MeasuredAttempt, MeasuredRun
from runner.analysis.measurements import Measurement
from runner.analysis.pairing import throughput_ratios
from runner.analysis.pooling import PooledAcceptance, pool_acceptance
from runner.report.figures import Json, figures_json

SCHEMA_VERSION = 1


def build_summary(run: MeasuredRun) -> Json:
    """The run as plain JSON data. Paths are relative to the run's folder."""
    ratios = throughput_ratios(run)
    return {
        "schema_version": SCHEMA_VERSION,
        "run": _run(run),
        "cells": [_cell(attempt, ratios.get(attempt.cell.id)) for attempt in run.included],
        "pooled": [_pooled(pooled) for pooled in pool_acceptance(run.attempts)],
        "differences": [_differences(item) for item in server_differences(run)],
        "unavailable": [
            *(item.model_dump() for item in run.plan.unavailable),
            *(_unavailable(attempt) for attempt in run.unavailable),
        ],
        "left_out": [_identity(attempt) for attempt in run.left_out],
    }


def _run(run: MeasuredRun) -> Json:
    plan, state = run.plan, run.state
    return {
        "run_id": plan.run_id,
        "job": plan.job,
        "host": plan.host.name,
        "runner_version": plan.runner_version,
        "created_at": plan.created_at,
        "status": state.status,
        "reason": state.reason,
        "cells_planned": len(plan.cells),
        "cells_included": len(run.included),
        "images": {role: image.digest for role, image in plan.images.items()},
        "kind": plan.kind,
        "checkpoints": {role: item.model_dump() for role, item in plan.checkpoints.items()},
    }


def _unavailable(attempt: MeasuredAttempt) -> Json:
    return {
        "condition": attempt.server.configuration,
        "cell": attempt.cell.id,
        "reason": attempt.message,
    }


def _identity(attempt: MeasuredAttempt) -> Json:
    cell, server = attempt.cell, attempt.server
    return {
        "id": cell.id,
        "attempt": attempt.number,
        "configuration": server.configuration,
        "server": server.id,
        "prompts": cell.prompts,
        "mode": cell.mode,
        "dataset": cell.dataset,
        "concurrency": cell.concurrency,
        "repeat": cell.repeat,
        "status": attempt.status,
        "reason": attempt.reason,
        "message": attempt.message,
        "path": attempt.path or None,
        "counts": attempt.counts.model_dump() if attempt.counts else None,
    }


def _cell(attempt: MeasuredAttempt, ratio: Measurement | None) -> Json:
    figures = (*attempt.speed, *attempt.acceptance, *((ratio,) if ratio else ()))
    return {
        **_identity(attempt),
        "warnings": [check.message for check in attempt.warnings],
        "figures": figures_json(figures, (attempt.path,)),
    }


def _pooled(pooled: PooledAcceptance) -> Json:
    speculative = pooled.server.speculative
    return {
        "configuration": pooled.configuration,
        "prompts": pooled.prompts,
        "source": "server counters" if pooled.from_counters else "request records",
        "method": speculative.method if speculative else None,
        "num_speculative_tokens": speculative.num_speculative_tokens if speculative else None,
        "figures": figures_json(pooled.measurements, pooled.paths),
    }


def _differences(item: ServerDifferences) -> Json:
    return {
        "configuration": item.configuration,
        "baseline": item.baseline,
        "not_compared": list(item.not_compared),
        "not_comparable": item.not_comparable,
        "servers": list(item.paths),
        "settings": [asdict(one) for one in item.differences],
    }
