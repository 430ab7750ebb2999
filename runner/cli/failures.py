"""Every way a command can end, turned into one message and one exit code."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Callable

import typer

from runner.cli.output import say
from runner.errors import RunnerError

EXIT_USAGE = 2
EXIT_BUG = 70
EXIT_INTERRUPTED = 130
_EXIT_BROKEN_PIPE = 141


def reported(command: Callable[[], object]) -> int:
    """Run a command; what it raises is said on stderr, and becomes its exit code."""
    try:
        code = command()
        sys.stdout.flush()
    except RunnerError as error:
        say(f"error: {error}")
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        say("interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return _quiet_pipe()
    except Exception as error:
        if _is_usage(error):
            return _usage(error)
        return _bug(error)
    return code if isinstance(code, int) else 0


def _is_usage(error: Exception) -> bool:
    # typer carries its own copy of click, older ones import it: only the shape is common to both
    return hasattr(error, "format_message") and hasattr(error, "exit_code")


def _usage(error: Exception) -> int:
    message = str(error.format_message()).strip()  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        say(message)
        return EXIT_USAGE
    path = context.command_path if context is not None else "runner"
    say(f"error: {message}\n  next: {path} --help")
    return EXIT_USAGE


def _quiet_pipe() -> int:
    # whoever read our output has gone; without this the interpreter complains at exit
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return _EXIT_BROKEN_PIPE


def _bug(error: Exception) -> int:
    text = "".join(traceback.format_exception(error))
    kind = f"{type(error).__name__}: {error}"
    if os.environ.get("RUNNER_DEBUG") == "1":
        say(text.rstrip())
        return EXIT_BUG
    try:
        handle, name = tempfile.mkstemp(prefix="runner-bug-", suffix=".txt")
        with os.fdopen(handle, "w") as file:
            file.write(text)
        where = f"details: {name}"
    except OSError:
        where = "repeat with RUNNER_DEBUG=1 for details"
    say(f"bug in runner: {kind[:500]}\n  {where}\n  next: report it with that file")
    return EXIT_BUG
