"""AIPerf's `outputs.json`: the text of every answer, by row and turn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

FILE_NAME = "outputs.json"

RowTurn = tuple[str, int]


class _Output(msgspec.Struct, gc=False):
    conversation_id: str
    turn_index: int = 0
    response_text: str | None = None


class _Outputs(msgspec.Struct, gc=False):
    data: list[_Output] = []


def read_outputs(exports: Path) -> Mapping[RowTurn, str] | None:
    """Answers by (row id, turn); None when the load kept none or only a part of the file.

    A request that failed has no text and is not in it.
    """
    try:
        decoded = msgspec.json.decode((exports / FILE_NAME).read_bytes(), type=_Outputs)
    except (OSError, msgspec.DecodeError):
        return None
    return {
        (one.conversation_id, one.turn_index): one.response_text
        for one in decoded.data
        if one.response_text is not None
    }
