"""What a source gives, and JSON rows out of its lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from runner.errors import SpecError


@dataclass(frozen=True)
class Fetched:
    """What a source gave: its rows, what pins it, and its licence text where it brings one."""

    rows: Iterator[dict[str, Any]]
    revision: str
    sha256: str
    licence_text: str | None = None


def json_rows(lines: Iterable[str], where: str) -> Iterator[dict[str, Any]]:
    """The objects of JSON lines, empty lines left out.

    Args:
        lines: split at line feeds alone; a JSON text may hold U+2028 and its like.
        where: what the lines are of, for messages.

    Raises:
        SpecError: a line is not a JSON object; with its number.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise SpecError(f"is not JSON: {error}", where=f"{where}:{number}") from error
        if not isinstance(row, dict):
            raise SpecError("expected a JSON object", where=f"{where}:{number}")
        yield row
