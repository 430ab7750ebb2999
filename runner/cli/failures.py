"""Every way a command can end, turned into one message and one exit code."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

from runner.cli.output import say
from runner.errors import ArtifactError, RunnerError

_EXIT_USAGE = 2
_EXIT_BUG = 70
EXIT_INTERRUPTED = 130
_EXIT_BROKEN_PIPE = 141
_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class OutputClosed(Exception):
    """Whoever reads our output has gone."""


class Program(TyperGroup):
    """The commands. typer would turn an interrupt and a closed pipe into exits of its own."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise typer.Abort from error
        except BrokenPipeError as error:
            raise OutputClosed from error


def reported(command: Callable[[], object]) -> int:
    """Run a command; what it raises is said on stderr, and becomes its exit code."""
    try:
        code = command()
        sys.stdout.flush()
    except SystemExit as stopped:  # shell completion ends the program by itself
        code = stopped.code
    except (Exception, KeyboardInterrupt) as error:
        return _told(error)
    return code if isinstance(code, int) else 0


def _told(error: BaseException) -> int:
    if isinstance(error, RunnerError):
        say(f"error: {error}")
        return error.exit_code
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        say("interrupted")
        return EXIT_INTERRUPTED
    if isinstance(error, BrokenPipeError | OutputClosed):
        return _quiet_pipe()
    if isinstance(error, OSError) and error.errno in _DISK_FULL:
        return _disk_full(error)
    return _usage(error) if _is_usage(error) else _bug(error)


def _is_usage(error: BaseException) -> bool:
    # typer carries its own copy of click, older ones import it: only the shape is common to both
    return hasattr(error, "format_message") and hasattr(error, "exit_code")


def _usage(error: BaseException) -> int:
    message = str(error.format_message()).strip()  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        say(message)
        return _EXIT_USAGE
    path = context.command_path if context is not None else "runner"
    say(f"error: {message}\n  next: {path} --help")
    return _EXIT_USAGE


def _quiet_pipe() -> int:
    # whoever read our output has gone; without this the interpreter complains at exit
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return _EXIT_BROKEN_PIPE


def _disk_full(error: OSError) -> int:
    name = error.filename or "stdout"
    say(f"error: {name}: can't be written: {error.strerror}\n  next: df -h")
    return ArtifactError.exit_code


def _bug(error: BaseException) -> int:
    text = "".join(traceback.format_exception(error))
    kind = f"{type(error).__name__}: {error}"
    if os.environ.get("RUNNER_DEBUG") == "1":
        say(text.rstrip())
        return _EXIT_BUG
    try:
        handle, name = tempfile.mkstemp(prefix="runner-bug-", suffix=".txt")
        with os.fdopen(handle, "w") as file:
            file.write(text)
        where = f"details: {name}"
    except OSError:
        where = "repeat with RUNNER_DEBUG=1 for details"
    say(f"bug in runner: {kind[:500]}\n  {where}\n  next: report it with that file")
    return _EXIT_BUG
