"""The SPEED-Bench matrix: acceptance by category as the public tool reports it.

It is a figure of the server, from its counters over one run for each category, and its overall is
the plain mean over categories. Both differ from the pooled acceptance length, which is worked out
from requests; the two are never mixed. The CSV has the layout of `aiperf speed-bench-report`
(AIPerf 0.13, analysis/speed_bench_report.py); that tool reads the first engine alone, this one sums
over engines.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from runner.analysis.counters import CounterPool, counted
from runner.analysis.measured import MeasuredAttempt, MeasuredRun
from runner.errors import ArtifactError

PREFIX = "speed-bench-qualitative-"
CATEGORIES = (
    *("coding", "humanities", "math", "multilingual", "qa", "rag", "reasoning", "roleplay"),
    *("stem", "summarization", "writing"),
)
STATISTIC = "server counters over the run of one category; overall: mean over categories"


@dataclass(frozen=True)
class MatrixEntry:
    """Acceptance of one category; None where its run is not in the figures or tells nothing."""

    length: float | None
    rate: float | None
    paths: tuple[str, ...]


@dataclass(frozen=True)
class MatrixRow:
    """One configuration: its categories, and the plain mean over those that have a value."""

    configuration: str
    entries: Mapping[str, MatrixEntry]

    @property
    def overall_length(self) -> float | None:
        """Mean of the categories' acceptance lengths: not the pooled length."""
        return _mean(entry.length for entry in self.entries.values())

    @property
    def overall_rate(self) -> float | None:
        """Mean of the categories' draft acceptance rates."""
        return _mean(entry.rate for entry in self.entries.values())


def speed_bench_matrix(run: MeasuredRun) -> tuple[MatrixRow, ...]:
    """A row for each speculative configuration that has a run for some category."""
    found: dict[str, dict[str, list[MeasuredAttempt]]] = {}
    for attempt in run.included:
        dataset = attempt.cell.dataset or ""
        if attempt.server.speculative is None or attempt.cell.mode == "speedup":
            continue
        if dataset.removeprefix(PREFIX) in CATEGORIES and dataset.startswith(PREFIX):
            categories = found.setdefault(attempt.server.configuration, {})
            categories.setdefault(dataset.removeprefix(PREFIX), []).append(attempt)
    return tuple(
        MatrixRow(
            name,
            {
                category: _entry(run.root, categories[category])
                for category in CATEGORIES
                if category in categories
            },
        )
        for name, categories in found.items()
    )


def matrix_csv(rows: Iterable[MatrixRow], metric: str = "length") -> str:
    """The matrix as `aiperf speed-bench-report` writes it: `Model,<categories>,Overall`, values
    with two decimals, empty where there is none. `metric` is `length` or `rate`."""
    listed = sorted(rows, key=lambda row: row.configuration)
    columns = [name for name in CATEGORIES if any(name in row.entries for row in listed)]
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["Model", *columns, "Overall"])
    for row in listed:
        values = [_value(row.entries.get(name), metric) for name in columns]
        overall = row.overall_length if metric == "length" else row.overall_rate
        writer.writerow([row.configuration, *map(_two_decimals, (*values, overall))])
    return out.getvalue()


def _entry(root: Path, attempts: Iterable[MeasuredAttempt]) -> MatrixEntry:
    pool, paths = CounterPool(), []
    for attempt in attempts:
        counters = attempt.counted or _scraped(root / attempt.path / "server")
        if counters is None:
            return MatrixEntry(None, None, (attempt.path,))
        pool.merge(counters)
        paths.append(attempt.path)
    return MatrixEntry(
        length=1 + pool.accepted / pool.drafts if pool.drafts else None,
        rate=pool.accepted / pool.drafted if pool.drafted else None,
        paths=tuple(paths),
    )


def _scraped(folder: Path) -> CounterPool | None:
    try:
        before = (folder / "metrics_before.prom").read_text(encoding="utf-8")
        after = (folder / "metrics_after.prom").read_text(encoding="utf-8")
        return counted(before, after)
    except (OSError, ArtifactError):
        return None


def _value(entry: MatrixEntry | None, metric: str) -> float | None:
    if entry is None:
        return None
    return entry.length if metric == "length" else entry.rate


def _two_decimals(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
