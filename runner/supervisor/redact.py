"""Keep secret values out of everything that is written down."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

MASK = b"***"
SHORTEST_SECRET = 4
"""Shorter values would mask ordinary text; they are refused when a plan is submitted."""


class Redactor:
    """Replaces secret values in a stream of bytes, also when one is split across two chunks.

    Only a tail that could be the beginning of a secret is held back, so live output stays live.
    """

    def __init__(self, secrets: Iterable[str]):
        values = {secret for secret in secrets if len(secret) >= SHORTEST_SECRET}
        forms = {form for value in values for form in _written_forms(value)}
        self._forms = sorted(forms, key=len, reverse=True)
        self._longest = max((len(form) for form in self._forms), default=0)
        self._pattern = re.compile(b"|".join(map(re.escape, self._forms))) if self._forms else None

    def whole(self, data: bytes) -> bytes:
        """The same text with every secret masked."""
        return data if self._pattern is None else self._pattern.sub(MASK, data)

    def text(self, text: str) -> str:
        """`whole` for text."""
        return self.whole(text.encode("utf-8", "backslashreplace")).decode()

    def stream(self) -> RedactedStream:
        """A stateful filter for one stream."""
        return RedactedStream(self)

    def held_back(self, data: bytes) -> int:
        """How many last bytes of `data` may be the beginning of a secret."""
        for size in range(min(self._longest - 1, len(data)), 0, -1):
            tail = data[-size:]
            if any(form.startswith(tail) for form in self._forms):
                return size
        return 0


class RedactedStream:
    """Feed chunks, get masked chunks; `flush` gives what was held back."""

    def __init__(self, redactor: Redactor):
        self._redactor = redactor
        self._pending = b""

    def feed(self, chunk: bytes) -> bytes:
        """What may be written now."""
        data = self._redactor.whole(self._pending + chunk)
        held = self._redactor.held_back(data)
        self._pending = data[len(data) - held :]
        return data[: len(data) - held]

    def flush(self) -> bytes:
        """The rest, at the end of the stream."""
        rest, self._pending = self._pending, b""
        return rest


def _written_forms(value: str) -> tuple[bytes, ...]:
    """A value as programs print it: plain, and escaped as JSON does."""
    ascii_only, readable = json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]
    forms = (value, value.replace('"', '\\"'), ascii_only, readable)
    return tuple(
        form.encode("utf-8", "surrogateescape")
        for text in forms
        for form in (text, text.replace("/", "\\/"))
    )
