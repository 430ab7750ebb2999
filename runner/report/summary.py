"""`summary.json`: every figure with unit, statistic, interval and the cells that it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from runner.analysis.conclusions import Conclusions
from runner.analysis.differences import ServerDifferences
from runner.analysis.long_context import BinFigures, LongContext
from runner.analysis.lossless import Agreement, LosslessCheck
from runner.analysis.measured import MeasuredAttempt, MeasuredRun
from runner.analysis.measurements import Measurement
from runner.analysis.pooling import PooledAcceptance
from runner.analysis.speed_bench import STATISTIC, MatrixRow
from runner.analysis.speedup import LoadPair, Ratio
from runner.analysis.tradeoff import Tradeoff
from runner.report.figures import Json, figures_json

SCHEMA_VERSION = 2


def build_summary(found: Conclusions) -> Json:
    """The run as plain JSON data. Paths are relative to the run's folder."""
    run = found.run
    return {
        "schema_version": SCHEMA_VERSION,
        "run": _run(run),
        "cells": [_cell(one, found.ratios.get(one.cell.id)) for one in run.included],
        "pooled": [_pooled(pooled) for pooled in found.acceptance],
        "categories": [_pooled(pooled) for pooled in found.categories],
        "speed_bench": [_matrix_row(row) for row in found.matrix],
        "long_context": [_long_context(one) for one in found.long_context],
        "speedup": _speedup(found),
        "best_lengths": [asdict(one) for one in found.best_lengths],
        "kv_cache": {server: asdict(one) for server, one in found.kv_caches.items()},
        "lossless": [_lossless(one) for one in found.lossless],
        "differences": [_differences(item) for item in found.differences],
        "unavailable": [
            *(item.model_dump() for item in run.plan.unavailable),
            *(_unavailable(attempt) for attempt in run.unavailable),
        ],
        "left_out": [_identity(attempt) for attempt in run.left_out],
    }


def ratio_json(ratio: Ratio) -> Json:
    """Value, interval and what they say; or why there is none."""
    if ratio.value is None:
        return {"unavailable": ratio.unavailable or "not recorded"}
    return {
        "value": ratio.value,
        "interval": None if ratio.interval is None else asdict(ratio.interval),
        "says": ratio.judgement,
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
    speculative, spread = pooled.server.speculative, pooled.spread
    return {
        "configuration": pooled.configuration,
        "prompts": pooled.prompts,
        **({"category": pooled.category} if pooled.category is not None else {}),
        "source": "server counters" if pooled.from_counters else "request records",
        "method": speculative.method if speculative else None,
        "num_speculative_tokens": speculative.num_speculative_tokens if speculative else None,
        "figures": figures_json(pooled.measurements, pooled.paths),
        "over_requests": None if spread is None else asdict(spread),
    }


def _matrix_row(row: MatrixRow) -> Json:
    return {
        "configuration": row.configuration,
        "statistic": STATISTIC,
        "categories": {
            name: {"length": entry.length, "rate": entry.rate, "cells": list(entry.paths)}
            for name, entry in row.entries.items()
        },
        "overall_length": row.overall_length,
        "overall_rate": row.overall_rate,
    }


def _long_context(one: LongContext) -> Json:
    return {
        "configuration": one.configuration,
        "prompts": one.prompts,
        "concurrency": one.concurrency,
        "longest_answered_prompt_tokens": one.longest,
        "not_scored": one.no_score,
        "bins": [_bin(figures) for figures in one.bins],
    }


def _bin(figures: BinFigures) -> Json:
    acceptance = figures.acceptance
    return {
        "bin": figures.bin,
        "good": figures.good,
        "failed": figures.failed,
        "context_limit": figures.context_limit,
        "longest_prompt_tokens": figures.longest,
        "acceptance_length": acceptance.length if acceptance else None,
        "acceptance_interval": asdict(figures.interval) if figures.interval else None,
        "net_speedup": ratio_json(figures.speedup),
        "score": figures.score,
        "scored": figures.scored,
        "cells": list(figures.paths),
    }


def _speedup(found: Conclusions) -> list[Json]:
    rows = []
    parts = zip(found.comparisons, found.tradeoffs, found.break_evens, strict=True)
    for comparison, equal, crossing in parts:
        rows.append(
            {
                "configuration": comparison.name,
                "baseline": comparison.baseline.configuration,
                "prompts": comparison.prompts,
                "not_comparable": comparison.not_comparable,
                "equal_concurrency": [_load(load) for load in comparison.loads],
                **_equal(equal),
                "break_even": asdict(crossing),
            }
        )
    return rows


def _load(load: LoadPair) -> Json:
    return {
        "concurrency": load.concurrency,
        "throughput_ratio": ratio_json(load.throughput),
        "interactivity_ratio": ratio_json(load.interactivity),
        "time_to_first_token_ratio": ratio_json(load.ttft),
        "cells": [one.path for one in load.ours],
        "baseline_cells": [one.path for one in load.theirs],
    }


def _equal(one: Tradeoff) -> Mapping[str, object]:
    return {
        "equal_points": [
            {
                "equal": point.held,
                "at": point.at,
                "baseline": point.theirs,
                "configuration": point.ours,
                "ratio": ratio_json(point.ratio),
            }
            for point in one.equal
        ],
        "equal_points_unavailable": one.unavailable,
    }


def _lossless(one: LosslessCheck) -> Json:
    return {
        "configuration": one.configuration,
        "baseline": one.baseline,
        "prompts": one.prompts,
        "concurrency": one.concurrency,
        "verdict": one.verdict,
        "message": one.message,
        **(_agreement(one.overall) if one.overall else {}),
        "categories": {name: _agreement(item) for name, item in (one.categories or {}).items()},
        "divergences": [asdict(item) for item in one.divergences],
        "cells": list(one.paths),
    }


def _agreement(one: Agreement) -> Json:
    return {"compared": one.compared, "equal": one.equal, "share": one.share}


def _differences(item: ServerDifferences) -> Json:
    return {
        "configuration": item.configuration,
        "baseline": item.baseline,
        "not_compared": list(item.not_compared),
        "not_comparable": item.not_comparable,
        "servers": list(item.paths),
        "settings": [asdict(one) for one in item.differences],
    }
