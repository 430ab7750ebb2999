"""How sure a figure is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """Where a figure would lie in 95 of 100 like experiments, and how that was worked out."""

    low: float
    high: float
    method: str

    def holds(self, value: float) -> bool:
        """True when this value can't be told apart from the figure."""
        return self.low <= value <= self.high
