"""The kernel's CPU list format ("0-3,8"), read and written."""

from __future__ import annotations

from collections.abc import Iterable


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """CPU numbers of a list, sorted and unique; empty for an empty text.

    Raises:
        ValueError: the text is not a CPU list; the message quotes the part that is wrong.
    """
    numbers: set[int] = set()
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        first, dash, last = part.partition("-")
        ends = (first, last) if dash else (first, first)
        if not all(end.isascii() and end.isdigit() for end in ends):
            raise ValueError(f"'{part}' is not a CPU or a range of CPUs such as 0-3")
        low, high = int(ends[0]), int(ends[1])
        if low > high:
            raise ValueError(f"'{part}' runs backwards; write {high}-{low}")
        numbers.update(range(low, high + 1))
    return tuple(sorted(numbers))


def format_cpu_list(numbers: Iterable[int]) -> str:
    """The shortest list that names these CPUs; an empty text for none."""
    parts: list[str] = []
    ordered = sorted(set(numbers))
    start = 0
    for index in range(1, len(ordered) + 1):
        if index < len(ordered) and ordered[index] == ordered[index - 1] + 1:
            continue
        low, high = ordered[start], ordered[index - 1]
        parts.append(str(low) if low == high else f"{low}-{high}")
        start = index
    return ",".join(parts)
