"""How acceptance is spread over requests: beside the pooled figure, never in its place."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from runner.analysis.requests import RequestColumns


@dataclass(frozen=True)
class Spread:
    """Acceptance length of single requests, in tokens per drafted step.

    The mean over requests weighs a short answer like a long one; the pooled length weighs every
    drafted step alike. Only requests that drafted have a length.
    """

    requests: int
    mean: float
    p10: float
    p50: float
    p90: float


def spread_of(cells: Iterable[RequestColumns], rows: Collection[str]) -> Spread | None:
    """The spread over the requests of these rows; None where none of them drafted."""
    found = []
    for columns in cells:
        steps = np.asarray(columns.steps, dtype=np.float64)
        accepted = np.asarray(columns.accepted, dtype=np.float64)
        wanted = np.array([name in rows for name in columns.row_ids] or [False])
        drafted = (steps > 0) & wanted[np.asarray(columns.row, dtype=np.int32)]
        found.append(1 + accepted[drafted] / steps[drafted])
    lengths = np.concatenate(found) if found else np.array([])
    if not len(lengths):
        return None
    p10, p50, p90 = (float(value) for value in np.percentile(lengths, [10, 50, 90]))
    return Spread(len(lengths), float(lengths.mean()), p10, p50, p90)
