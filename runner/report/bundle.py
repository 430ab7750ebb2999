"""A folder to pass on: the report with its raw files, without what a licence keeps private."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from runner.errors import ArtifactError
from runner.models.layout import RunLayout
from runner.models.plan import Plan

RAW = "raw"
"""Folder of a bundle that holds the files of the run."""

_LAYOUT = RunLayout(PurePosixPath())
_WORDS = "licence keeps its prompts private"


@dataclass(frozen=True)
class LeftOut:
    """A file of the run that is not in a bundle, and why."""

    path: str
    why: str


def copy_raw(run_root: Path, plan: Plan, bundle: Path) -> tuple[LeftOut, ...]:
    """Copy the run's files below `bundle`/raw, without restricted prompts and raw exports.

    Returns:
        What was left out, by path.

    Raises:
        ArtifactError: the bundle has raw files already, or a file can't be copied.
    """
    target = bundle / RAW
    if target.exists() and any(target.iterdir()):
        raise ArtifactError(
            "holds the raw files of another bundle", where=str(target), next_step="another --out"
        )
    private = tuple(_restricted(plan))
    left_out = []
    try:
        for path in sorted(run_root.rglob("*")):
            name = path.relative_to(run_root)
            if path.is_symlink() or not path.is_file() or name.parts[0] in ("report", "control"):
                continue
            # a folder that a report leads to is there, with or without its files
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            why = next((words for pattern, words in private if fnmatch(str(name), pattern)), None)
            if why is not None:
                left_out.append(LeftOut(str(name), why))
                continue
            shutil.copyfile(path, target / name)
    except OSError as error:
        raise ArtifactError(
            f"can't be copied: {error.strerror}",
            where=str(error.filename or target),
            next_step="make room or choose another --out",
        ) from error
    return tuple(left_out)


def _restricted(plan: Plan) -> Iterator[tuple[str, str]]:
    """Patterns of paths that stay private, each with the reason.

    Prompts and answers of a restricted set, and of its cells everything that AIPerf wrote, its log
    and its command line: inputs, answers and prompts may stand in each of them. Logs of a server
    that saw such prompts stay private too.
    """
    names = {item.name for item in plan.prompts if item.restricted}
    for name in sorted(names):
        why = f"prompt set {name}: its {_WORDS}"
        yield str(_LAYOUT.prompts(name)), why
        yield str(_LAYOUT.answers(name)), why
        servers = set()
        for cell in plan.cells:
            if cell.prompts == name:
                yield f"{_LAYOUT.cells / cell.id}/*/load/*", why
                servers.add(cell.server)
        for server in sorted(servers):
            yield f"{_LAYOUT.servers / server}/*/output.log*", why


def left_out_text(left_out: tuple[LeftOut, ...]) -> str:
    """`LEFT_OUT.md` of a bundle."""
    lines = ["# Left out of this bundle", ""]
    if not left_out:
        return "\n".join([*lines, "Nothing.", ""])
    lines += ["| file | why |", "| --- | --- |"]
    lines += [f"| {one.path} | {one.why} |" for one in left_out]
    return "\n".join([*lines, ""])
