"""Progress of long work: one moving line on a terminal, plain lines elsewhere. Always stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from runner.cli.output import human_bytes, say, talk_console

_PLAIN_EVERY_BYTES = 256 << 20


@contextmanager
def build_progress() -> Iterator[Callable[[str], None]]:
    """Takes the lines of a build: the newest one beside a spinner, or each one as it is."""
    if not sys.stderr.isatty():
        yield say
        return
    from rich.text import Text

    with talk_console().status(Text("starting")) as status:
        yield lambda line: status.update(Text(line[:200], no_wrap=True, overflow="ellipsis"))


@contextmanager
def byte_progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """Takes (received bytes, total bytes): a bar, or a line now and then."""
    if not sys.stderr.isatty():
        told = 0

        def tell(received: int, total: int) -> None:
            nonlocal told
            if received - told >= _PLAIN_EVERY_BYTES:
                told = received
                say(f"{title}: {human_bytes(received)} of {human_bytes(total)}")

        yield tell
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with Progress(*columns, console=talk_console(), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda received, total: bar.update(task, completed=received, total=total)
