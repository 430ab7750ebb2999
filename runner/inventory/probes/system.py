"""Operating system, kernel, memory, user, clock."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

SCRIPT = """\
section os-release
cat /etc/os-release
section uname
uname -n; uname -r; uname -m
section meminfo
cat /proc/meminfo
section id
id -u; id -g
"""


@dataclass(frozen=True)
class Uname:
    """Node name, kernel release, machine type."""

    hostname: str = "unknown"
    kernel: str = "unknown"
    machine: str = "unknown"


def parse_os_release(text: str) -> str:
    """The distribution's own name for itself; "unknown" when the file was not there."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals:
            words = shlex.split(value, posix=True) if _balanced(value) else [value]
            values[key.strip()] = words[0] if words else ""
    return values.get("PRETTY_NAME") or values.get("NAME") or "unknown"


def _balanced(value: str) -> bool:
    return value.count('"') % 2 == 0 and value.count("'") % 2 == 0


def parse_uname(text: str) -> Uname:
    """Three lines: node name, release, machine."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) != 3:
        return Uname()
    return Uname(hostname=lines[0], kernel=lines[1], machine=lines[2])


def parse_meminfo(text: str) -> int:
    """Total memory in bytes; 0 when unknown."""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        words = value.split()
        if key == "MemTotal" and words and words[0].isdigit():
            return int(words[0]) * 1024
    return 0


def parse_id(text: str) -> tuple[int, int]:
    """Numeric user and group of the account that runs commands; (0, 0) is root."""
    words = text.split()
    if len(words) != 2 or not all(word.isdigit() for word in words):
        return (-1, -1)
    return (int(words[0]), int(words[1]))


def parse_clock(text: str) -> float | None:
    """Seconds since the epoch from `date +%s.%N`; whole seconds where `%N` is not known."""
    whole, _, fraction = text.strip().partition(".")
    if not whole.isdigit():
        return None
    return float(f"{whole}.{fraction}") if fraction.isdigit() else float(whole)
