"""A seeded choice of rows that depends on nothing but the rows and the seed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol, TypeVar


class Named(Protocol):
    """Anything with an id."""

    @property
    def id(self) -> str:
        """Name of the row."""


R = TypeVar("R", bound=Named)


def subset(rows: Sequence[R], count: int, seed: int) -> tuple[tuple[R, ...], str]:
    """At most `count` rows, in the order of the file, and the choice in words.

    Each row is ranked by a hash of the seed and its id, so a smaller choice is part of a larger
    one, and adding rows to a set moves no other row's rank.
    """
    if count >= len(rows):
        return tuple(rows), f"all {len(rows)} rows"
    ranked = sorted(range(len(rows)), key=lambda index: (_rank(seed, rows[index].id), index))
    chosen = sorted(ranked[:count])
    return tuple(rows[index] for index in chosen), f"{count} of {len(rows)} rows, seed {seed}"


def _rank(seed: int, row_id: str) -> bytes:
    return hashlib.sha256(f"{seed}/{row_id}".encode()).digest()
