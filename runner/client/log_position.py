"""Where to begin in a log: after so many lines from its end, or at a time."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from runner.errors import FileMissing, UsageError
from runner.models.layout import LOG_INDEX_SUFFIX
from runner.transport.base import Connection

_BLOCK_BYTES = 64 * 1024
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d)")
_INDEX_GRAIN_MS = 200
"""An index need not mark a write that came so soon after the last mark."""
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_since(text: str, now_ms: int) -> int:
    """Milliseconds since the epoch that `--since` means.

    Args:
        text: a duration before now ("30s", "10m", "2h", "1d", also joined: "1h30m") or a point in
            time in ISO 8601; without an offset it is UTC.
        now_ms: the host's clock, which also stamped the logs.

    Raises:
        UsageError: neither of the two.
    """
    parts = _DURATION.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        back_s = sum(float(number) * _SECONDS[unit] for number, unit in parts)
        return now_ms - round(back_s * 1000)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"--since '{text}' is neither a duration (90s, 10m, 2h, 1d) nor a time "
            "(2026-12-01T10:00:00Z)",
            next_step="runner logs RUN --since 10m",
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def host_clock_ms(connection: Connection) -> int:
    """The host's clock in milliseconds since the epoch. Raises a HostError."""
    return int(connection.run(("date", "+%s")).text.strip()) * 1000


def offset_since(connection: Connection, path: str, since_ms: int) -> int:
    """Byte offset of the line in which the first write at or after `since_ms` begins.

    A log without its index begins at 0. Raises a HostError.
    """
    try:
        index = connection.get(path + LOG_INDEX_SUFFIX)
    except FileMissing:
        return 0
    offset = first_write_since(index, since_ms)
    if offset is None:
        stat = connection.stat(path)
        return stat.size_bytes if stat else 0
    return _line_start(connection, path, offset)


def first_write_since(index: bytes, since_ms: int) -> int | None:
    """Offset of the first write of an index at or after a time; None when all are older.

    Up to `_INDEX_GRAIN_MS` more is taken, so that no write without a mark is missed. A torn last
    line of the index is left out.
    """
    for line in index[: index.rfind(b"\n") + 1].splitlines():
        fields = line.split()
        if len(fields) != 2 or not (fields[0].isdigit() and fields[1].isdigit()):
            continue
        if int(fields[0]) >= since_ms - _INDEX_GRAIN_MS:
            return int(fields[1])
    return None


def offset_of_tail(connection: Connection, path: str, lines: int) -> int:
    """Byte offset at which the last `lines` lines begin; the end of the file for 0.

    Reads backwards in blocks and keeps none of them. A HostError when the host does not answer.
    """
    stat = connection.stat(path)
    if stat is None:
        return 0
    end = stat.size_bytes
    if lines <= 0 or end == 0:
        return end
    wanted = lines
    last = True
    while end > 0:
        start = max(0, end - _BLOCK_BYTES)
        block = connection.get(path, offset=start, limit_bytes=end - start)
        at = len(block)
        if last and block.endswith(b"\n"):
            at -= 1  # it ends the last line and begins none
        last = False
        while (at := block.rfind(b"\n", 0, at)) >= 0:
            wanted -= 1
            if wanted == 0:
                return start + at + 1
        end = start
    return 0


def _line_start(connection: Connection, path: str, offset: int) -> int:
    start = max(0, offset - _BLOCK_BYTES)
    before = connection.get(path, offset=start, limit_bytes=offset - start)
    at = before.rfind(b"\n")
    if at < 0 and start > 0:
        return offset
    return start + at + 1
