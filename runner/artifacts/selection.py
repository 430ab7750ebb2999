"""Which files of a run that is still going are whole. Pure: a listing in, a choice out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from runner.artifacts.safety import safe_path
from runner.errors import ArtifactError
from runner.models.layout import LOG_INDEX_SUFFIX, RunLayout

LISTING_FORMAT = r"%y\0%s\0%T@\0%l\0%P\0"
"""For `find -printf`: kind, size in bytes, modification time, target of a link, path."""

_FIELDS = 5
_TOP = RunLayout(PurePosixPath())
_WHOLE = frozenset({str(_TOP.plan), str(_TOP.host)})
_LOG = str(_TOP.supervisor_log)
_GROWING = frozenset({str(_TOP.journal), _LOG, _LOG + LOG_INDEX_SUFFIX})
_ATTEMPT_PARTS = 3
_SERVER = _TOP.server("x", 1)
_LIVE_SERVER = frozenset(
    {_SERVER.spec.name, _SERVER.inspect.name, _SERVER.log.name}
    | {_SERVER.log.name + LOG_INDEX_SUFFIX}
)


@dataclass(frozen=True)
class Listed:
    """One thing below a run folder that is not a folder. `modified` is only ever compared."""

    kind: str
    size_bytes: int
    modified: str
    target: str
    path: str


@dataclass(frozen=True)
class Selection:
    """`whole` will not change any more, `growing` is only added to; `left_out` says the rest."""

    whole: Mapping[str, Listed]
    growing: Mapping[str, Listed]
    left_out: tuple[str, ...]


def parse_listing(data: bytes) -> tuple[Listed, ...]:
    """Output of `find RUN_DIR -mindepth 1 -printf LISTING_FORMAT` without its folders.

    Raises:
        ArtifactError: it is cut off or something else.
    """
    fields = data.split(b"\0")
    if fields.pop() != b"" or len(fields) % _FIELDS:
        raise ArtifactError(
            "the listing of the run is not whole", next_step="collect again; is it GNU find?"
        )
    found = []
    for start in range(0, len(fields), _FIELDS):
        kind, size, modified, target, path = fields[start : start + _FIELDS]
        if kind != b"d":
            found.append(
                Listed(
                    kind=kind.decode("ascii", "replace"),
                    size_bytes=int(size),
                    modified=modified.decode("ascii", "replace"),
                    target=target.decode("utf-8", "backslashreplace"),
                    path=path.decode("utf-8", "surrogateescape"),
                )
            )
    return tuple(found)


def select(listed: Iterable[Listed]) -> Selection:
    """What to take of a run without a manifest.

    Whole: the plan, host facts, inputs, and attempts that have their `result.json` (written
    last). Growing: journal and log of the supervisor; specification, inspect output and log of
    servers that run. Raises UnsafeArchive for a path that leaves the run.
    """
    files = sorted(listed, key=lambda file: file.path)
    ended = {folder for file in files if (folder := _ends(file.path)) is not None}
    whole: dict[str, Listed] = {}
    growing: dict[str, Listed] = {}
    left_out: dict[str, None] = {}
    for file in files:
        if (reason := _refusal(file)) is not None:
            left_out[reason] = None
            continue
        top, _, rest = safe_path(file.path).partition("/")
        if file.path in _GROWING:
            growing[file.path] = file
        elif file.path in _WHOLE or (top == str(_TOP.inputs) and rest):
            whole[file.path] = file
        elif (folder := _attempt(file.path)) is None:
            if top != str(_TOP.control):
                left_out[f"{file.path}: not known to be whole before the run ends"] = None
        elif folder in ended:
            whole[file.path] = file
        else:
            live = top == str(_TOP.servers) and file.path.removeprefix(folder + "/") in _LIVE_SERVER
            if live:
                growing[file.path] = file
            left_out[_still_going(folder, top)] = None
    return Selection(whole, growing, tuple(left_out))


def _attempt(path: str) -> str | None:
    """`cells/<id>/attempt-<n>` or the same of a server, for a path inside one."""
    parts = path.split("/")
    inside = len(parts) > _ATTEMPT_PARTS and parts[0] in (str(_TOP.cells), str(_TOP.servers))
    return "/".join(parts[:_ATTEMPT_PARTS]) if inside else None


def _ends(path: str) -> str | None:
    folder = _attempt(path)
    return folder if folder and path == f"{folder}/{_SERVER.result.name}" else None


def _still_going(folder: str, top: str) -> str:
    if top == str(_TOP.servers):
        return f"{folder}: still going; only its specification, inspect output and log so far"
    return f"{folder}: still going"


def _refusal(file: Listed) -> str | None:
    shown = file.path.encode("utf-8", "backslashreplace").decode()
    if file.kind == "l":
        return f"{shown} -> {file.target} (symbolic link)"
    if file.kind != "f":
        return f"{shown} (not a regular file)"
    return f"{shown} (name is not UTF-8)" if shown != file.path else None
