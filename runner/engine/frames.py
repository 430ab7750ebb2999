"""The engine's multiplexed log stream, taken apart. Pure: bytes in, chunks out."""

from __future__ import annotations

from collections.abc import Iterator

from runner.engine.base import LogChunk
from runner.errors import EngineError

_HEADER_BYTES = 8
_STREAMS = {0: "stdout", 1: "stdout", 2: "stderr"}
# The engine cuts a line into records of this size; a record ends earlier only at a newline or
# where the output ends.
_RECORD_BYTES = 16 * 1024


class Demultiplexer:
    """Takes the stream in pieces of any size and gives back whole frames as chunks.

    A frame is one byte for the stream, three zero bytes, four bytes of length (big endian), and
    the data. Engines of the 20.10 line lose the newline after a line longer than one record; it
    is put back, since a short record without one is followed by more output only then. (A line
    of exactly n records can't be told from the beginning of a longer one and stays as it is.)
    """

    def __init__(self) -> None:
        self._pending = bytearray()
        self._newline_lost = {"stdout": False, "stderr": False}

    def feed(self, data: bytes) -> Iterator[LogChunk]:
        """Chunks that are complete after `data`.

        Raises:
            EngineError: the bytes are not a multiplexed stream.
        """
        self._pending += data
        start = 0
        while len(self._pending) - start >= _HEADER_BYTES:
            stream = _STREAMS.get(self._pending[start])
            if stream is None or any(self._pending[start + 1 : start + 4]):
                raise EngineError(
                    "the log stream is not multiplexed as expected; was the container started "
                    "with a terminal?",
                    next_step="start it without a terminal (no -t)",
                )
            size = int.from_bytes(self._pending[start + 4 : start + _HEADER_BYTES], "big")
            end = start + _HEADER_BYTES + size
            if len(self._pending) < end:
                break
            yield LogChunk(stream, self._restored(stream, start + _HEADER_BYTES, end))
            start = end
        del self._pending[:start]

    @property
    def torn(self) -> bool:
        """The stream broke off inside a frame."""
        return bool(self._pending)

    def _restored(self, stream: str, start: int, end: int) -> bytes:
        data = bytes(self._pending[start:end])
        lost = self._newline_lost[stream]
        self._newline_lost[stream] = len(data) < _RECORD_BYTES and not data.endswith(b"\n")
        return b"\n" + data if lost else data
