"""The only place where an argv list becomes a line for a remote shell."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

# sshd hands the whole line to the login shell as one argument, and Linux bounds one argument.
MAX_LINE_BYTES = 128 * 1024 - 1

_SHOWN_CHARACTERS = 200

# The shell stays as leader of the process group that sshd made, so that its number is known and a
# command killed by signal N ends with 128 + N. `exec` in the subshell keeps built-ins of the shell
# (echo, kill, test) from standing in for the programs of the same name.
_ANNOUNCE = 'printf "%s %s\\n" "$0" "$$"; (exec "$@"); exit "$?"'

# Ends the group $1: first politely, after a second by force; not 0 when that is not allowed.
# A group that is left after force is made of processes that wait to be reaped.
_END_GROUP = """
kill -TERM -"$1" 2>/dev/null || exit 0
n=0
while kill -0 -"$1" 2>/dev/null; do
  n=$((n + 1))
  if [ "$n" -gt 20 ]; then kill -KILL -"$1"; exit "$?"; fi
  sleep 0.05
done
"""


def quoted(argv: Sequence[str]) -> str:
    """`argv` as one line that a POSIX shell splits back into exactly these words.

    Raises:
        ValueError: `argv` is empty or holds a NUL, which no command line can carry.
    """
    if not argv:
        raise ValueError("a command needs at least one word")
    if any("\0" in word for word in argv):
        raise ValueError("a command line cannot carry a NUL character")
    return shlex.join(argv)


def announced(argv: Sequence[str], mark: str) -> str:
    """A line that first prints `<mark> <process group>` on stdout, then runs `argv`."""
    quoted(argv)
    return "exec " + quoted(("sh", "-c", _ANNOUNCE, mark, *argv))


def end_of_group(process_group: int) -> str:
    """A line that ends every process of the group; exit code 0 when that worked."""
    return "exec " + quoted(("sh", "-c", _END_GROUP, "sh", str(process_group)))


def shown(argv: Sequence[str]) -> str:
    """`argv` for a message: quoted, cut to a length that people read."""
    line = shlex.join(argv).replace("\n", "\\n")
    return line if len(line) <= _SHOWN_CHARACTERS else line[:_SHOWN_CHARACTERS] + " ..."
