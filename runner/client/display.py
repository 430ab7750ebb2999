"""Raw log bytes to lines that are fit for a terminal. Pure and incremental."""

from __future__ import annotations

import codecs
import re

LINE_CAP = 64 * 1024
"""Characters of one line that are shown; the rest is counted and named in a note."""

_STRING_CAP = 4096
"""An escape string (a window title, say) that does not end within this is taken for text again."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_CSI_END = re.compile(r"[^\x20-\x3f]")
_STRING_END = re.compile(r"[\n\x07\x1b\x9c]")
_STRING_STARTS = "]PX^_"


class LineDecoder:
    """Feed chunks as they come, get whole lines; any way of cutting the bytes gives the same lines.

    UTF-8 split across chunks is joined, other bytes become U+FFFD. A carriage return replaces the
    line, before a newline it does nothing. Escape sequences and control characters but the tab
    are dropped. Memory is bounded by one line of `LINE_CAP` characters, however long the input.
    """

    def __init__(self) -> None:
        self._bytes = codecs.getincrementaldecoder("utf-8")("replace")
        self._scan = self._text
        self._parts: list[str] = []
        self._length = 0
        self._dropped = 0
        self._returned = False
        self._touched = False
        self._string_length = 0

    def feed(self, data: bytes) -> list[str]:
        """Lines that ended in `data`, without their newlines."""
        return self._take(self._bytes.decode(data))

    def close(self) -> list[str]:
        """The last line when it has no newline; empty when the input ended with one."""
        lines = self._take(self._bytes.decode(b"", final=True))
        if self._touched:
            lines.append(self._finish())
        self._scan = self._text
        return lines

    def _take(self, text: str) -> list[str]:
        lines: list[str] = []
        position = 0
        while position < len(text):
            position = self._scan(text, position, lines)
        return lines

    def _text(self, text: str, position: int, lines: list[str]) -> int:
        """Outside of escape sequences."""
        found = _CONTROL.search(text, position)
        if found is None:
            self._append(text[position:])
            return len(text)
        if found.start() > position:
            self._append(text[position : found.start()])
        self._control(found.group(), lines)
        return found.end()

    def _control(self, character: str, lines: list[str]) -> None:
        if character == "\n":
            lines.append(self._finish())
        elif character == "\r":
            self._returned = True
        elif character == "\t":
            self._append(character)
        elif character == "\x1b":
            self._scan = self._escape
        elif character == "\x9b":
            self._scan = self._csi

    def _escape(self, text: str, position: int, lines: list[str]) -> int:
        """Just after ESC: which kind of sequence it is."""
        character = text[position]
        if character == "[":
            self._scan = self._csi
        elif character in _STRING_STARTS:
            self._scan, self._string_length = self._string, 0
        elif "\x20" <= character <= "\x2f":
            pass  # an intermediate byte; the sequence ends with the next one
        elif "\x30" <= character <= "\x7e":
            self._scan = self._text
        else:
            self._scan = self._text
            return position
        return position + 1

    def _csi(self, text: str, position: int, lines: list[str]) -> int:
        """Inside `ESC [`: up to its final character."""
        found = _CSI_END.search(text, position)
        if found is None:
            return len(text)
        self._scan = self._text
        return found.end() if "\x40" <= found.group() <= "\x7e" else found.start()

    def _string(self, text: str, position: int, lines: list[str]) -> int:
        """Inside an escape string: up to BEL or ST; a newline or the cap ends it too."""
        room = _STRING_CAP - self._string_length
        found = _STRING_END.search(text, position, position + room)
        if found is None:
            end = min(len(text), position + room)
            self._string_length += end - position
            if self._string_length >= _STRING_CAP:
                self._scan = self._text
            return end
        if found.group() == "\x1b":
            self._scan = self._escape  # ESC \ ends the string, any other sequence replaces it
            return found.end()
        self._scan = self._text
        return found.start() if found.group() == "\n" else found.end()

    def _append(self, text: str) -> None:
        if self._returned:
            self._clear()
        self._touched = True
        kept = text[: LINE_CAP - self._length]
        if kept:
            self._parts.append(kept)
            self._length += len(kept)
            if len(self._parts) > 1024:
                self._parts = ["".join(self._parts)]
        self._dropped += len(text) - len(kept)

    def _clear(self) -> None:
        self._parts.clear()
        self._length = self._dropped = 0
        self._returned = self._touched = False

    def _finish(self) -> str:
        line = "".join(self._parts)
        if self._dropped:
            line += f" [cut: {self._dropped} more characters]"
        self._clear()
        return line
