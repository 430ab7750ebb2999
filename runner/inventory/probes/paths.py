"""Free disk space, a run_root that can't be written, paths that are named and not there."""

from __future__ import annotations

import re
from collections.abc import Mapping

SCRIPT = """\
free_space() {
  place=$1
  while [ ! -e "$place" ] && [ "$place" != / ] && [ "$place" != . ]; do
    place=$(dirname -- "$place")
  done
  printf 'path %s\\n' "$1"
  df -Pk -- "$place"
}
section disk
free_space "$run_root"
engine_root=$(bounded "$engine_command" -H "unix://$engine_socket" \\
  info --format '{{.DockerRootDir}}')
if [ -n "$engine_root" ]; then free_space "$engine_root"; fi
section run-root-blocked
if [ ! -d "$run_root" ] || [ ! -w "$run_root" ]; then
  place=$run_root
  while [ ! -e "$place" ] && [ "$place" != / ] && [ "$place" != . ]; do
    place=$(dirname -- "$place")
  done
  if [ ! -d "$place" ] || [ ! -w "$place" ]; then printf '%s\\n' "$place"; fi
fi
section missing
for path in "$@"; do
  if [ ! -e "$path" ]; then printf '%s\\n' "$path"; fi
done
"""

_ROW = re.compile(r".*\s\d+\s+\d+\s+(?P<free>\d+)\s+\d+%\s.*")


def parse_disk(text: str) -> Mapping[str, int]:
    """Asked path -> free bytes of the file system that holds it or its nearest parent."""
    free: dict[str, int] = {}
    asked: str | None = None
    for line in text.splitlines():
        row = _ROW.fullmatch(line)
        if line.startswith("path /"):
            asked = line.removeprefix("path ")
        elif row and asked is not None:
            free[asked] = int(row["free"]) * 1024
    return free


def parse_blocked(text: str) -> str | None:
    """The nearest thing above or at run_root that the login can't make folders in."""
    return text.strip() or None


def parse_missing(text: str) -> tuple[str, ...]:
    """Paths that are not there, sorted."""
    return tuple(sorted({line for line in text.splitlines() if line.startswith("/")}))
