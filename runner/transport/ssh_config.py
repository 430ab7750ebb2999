"""OpenSSH client configuration: Include expanded here, the rest parsed by paramiko.

paramiko takes `Include` for an ordinary option, so that included Host blocks would not exist.
Lines keep the file and number they came from: an error can name them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from runner.errors import HostError

_LINE = re.compile(r"(\w+)(?:\s*=\s*|\s+)(.+)")
_DEEPEST_INCLUDE = 16
_MATCH_CRITERIA = {"all", "canonical", "final", "host", "originalhost", "user", "localuser"}
_MATCH_WITHOUT_ARGUMENT = {"all", "canonical", "final"}

# Directives that change where or how we connect and are not carried out here, with the values
# that say "as usual". Everything else that is not used (forwarding, multiplexing, ciphers,
# StrictHostKeyChecking: keys are always checked) does not lead to another machine.
_REFUSED: Mapping[str, frozenset[str]] = {
    "bindaddress": frozenset(),
    "bindinterface": frozenset(),
    "canonicalizehostname": frozenset({"no"}),
    "certificatefile": frozenset({"none"}),
    "identityagent": frozenset({"none", "ssh_auth_sock"}),
    "knownhostscommand": frozenset({"none"}),
    "pkcs11provider": frozenset({"none"}),
    "proxycommand": frozenset({"none"}),
    "proxyusefdpass": frozenset({"no"}),
    "pubkeyauthentication": frozenset({"yes", "unbound", "host-bound"}),
    "remotecommand": frozenset({"none"}),
    "revokedhostkeys": frozenset({"none"}),
}


@dataclass(frozen=True)
class Line:
    """One directive; `keyword` in lower case, `value` as written.

    `applies` is false inside a Host block that is about other hosts.
    """

    file: Path
    number: int
    keyword: str
    value: str
    applies: bool = True

    @property
    def position(self) -> str:
        """file:line."""
        return f"{self.file}:{self.number}"


@dataclass(frozen=True)
class HostOptions:
    """What the configuration says about one alias.

    `named` is true when a Host block other than a bare `*` names the alias. `values` has
    lower-case keywords; `identity_files` in the order of the file.
    """

    named: bool
    values: Mapping[str, str]
    identity_files: tuple[str, ...]


def lookup(
    alias: str, files: Sequence[Path], *, home: Path, overrides: Mapping[str, str]
) -> HostOptions:
    """The options of `alias`; `overrides` (keyword to value) win over the files.

    Raises:
        HostError: a file can't be read or parsed, or uses a directive that is not supported; the
            message names file, line and directive.
    """
    lines = [line for file in files for line in _expand(file, alias, home)]
    effective = _effective(alias, lines, overrides)
    identity_files = effective.pop("identityfile", [])
    values = {key: str(value) for key, value in effective.items() if value is not None}
    if "proxyjump" in overrides:
        values.pop("proxycommand", None)
    for keyword, usual in _REFUSED.items():
        value = values.get(keyword)
        if value is not None and value.lower() not in usual:
            raise _refused(keyword, value, alias, lines)
    named = any(line.keyword == "host" and _is_named(alias, _words(line)) for line in lines)
    return HostOptions(named, values, tuple(str(path) for path in _as_list(identity_files)))


def _effective(
    alias: str, lines: Sequence[Line], overrides: Mapping[str, str]
) -> dict[str, object]:
    from paramiko import SSHConfig
    from paramiko.ssh_exception import ConfigParseError

    text = [f"{keyword} {value}" for keyword, value in overrides.items()]
    text += ["Host *"]
    text += [f"{line.keyword} {line.value}" for line in lines]
    files = ", ".join(dict.fromkeys(str(line.file) for line in lines))
    try:
        return dict(SSHConfig.from_text("\n".join(text)).lookup(alias))
    except (ConfigParseError, ValueError) as error:
        raise HostError(
            f"the ssh configuration can't be parsed: {error}",
            where=files,
            next_step=f"check it with `ssh -G {alias}`",
        ) from error


def _expand(file: Path, alias: str, home: Path, depth: int = 0) -> list[Line]:
    """Lines of `file` with its includes in place, as far as they concern `alias`."""
    if depth > _DEEPEST_INCLUDE:
        raise HostError(
            f"Include goes deeper than {_DEEPEST_INCLUDE} files",
            where=str(file),
            next_step="look for a file that includes itself",
        )
    lines: list[Line] = []
    # what the lines after an Include belong to, whatever blocks the included file opened
    block = Line(file, 0, "host", "*")
    for line in _read(file):
        if line.keyword == "match":
            _check_match(line)
        if line.keyword in {"host", "match"}:
            block = line
        applies = block.keyword == "match" or _matches(alias, _words(block))
        if line.keyword != "include":
            lines.append(replace(line, applies=applies))
            continue
        if block.keyword == "match" and block.value.strip().lower() != "all":
            raise _unsupported(line, "Include inside a Match block")
        if applies:
            for included in _included(line, home):
                lines += _expand(included, alias, home, depth + 1)
            lines.append(block)
    return lines


def _read(file: Path) -> list[Line]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise HostError(
            f"the ssh configuration can't be read: {error}",
            where=str(file),
            next_step="check 'ssh_config' of the host in hosts.yaml and the mode of the file",
        ) from error
    lines = []
    for number, raw in enumerate(text.splitlines(), start=1):
        stripped = raw.strip()
        if not stripped or stripped.startswith("#"):
            continue
        found = _LINE.fullmatch(stripped)
        if found is None:
            raise HostError(
                f"expected a keyword and a value, found {stripped!r}",
                where=f"{file}:{number}",
                next_step="correct the line; `ssh -G NAME -F FILE` shows how ssh reads it",
            )
        lines.append(Line(file, number, found.group(1).lower(), found.group(2)))
    return lines


def _included(line: Line, home: Path) -> Iterable[Path]:
    """Files of one Include; relative to the including file, then to ~/.ssh as ssh does."""
    for word in _words(line):
        pattern = Path(word.replace("~", str(home), 1) if word.startswith("~/") else word)
        if pattern.is_absolute():
            yield from sorted(Path(pattern.anchor).glob(str(pattern.relative_to(pattern.anchor))))
            continue
        beside = sorted(line.file.parent.glob(word))
        yield from (path for path in beside or sorted((home / ".ssh").glob(word)) if path.is_file())


def _check_match(line: Line) -> None:
    words = _words(line)
    while words:
        criterion = words.pop(0).lower().lstrip("!")
        if criterion not in _MATCH_CRITERIA:
            raise _unsupported(line, f"Match {criterion}")
        if criterion not in _MATCH_WITHOUT_ARGUMENT and words:
            words.pop(0)


def _refused(keyword: str, value: str, alias: str, lines: Sequence[Line]) -> HostError:
    origin = next(line for line in lines if line.keyword == keyword and line.applies)
    return _unsupported(origin, f"{keyword} {value}", alias)


def _unsupported(line: Line, directive: str, alias: str | None = None) -> HostError:
    concerns = f" (for '{alias}')" if alias else ""
    return HostError(
        f"'{directive}'{concerns} changes where or how to connect and is not supported",
        where=line.position,
        next_step="give the host a file of its own with 'ssh_config' in hosts.yaml, or write "
        "address, port, user, identity_file and jump there",
    )


def _words(line: Line) -> list[str]:
    try:
        return shlex.split(line.value)
    except ValueError as error:
        raise HostError(
            f"unbalanced quotes in '{line.keyword} {line.value}'",
            where=line.position,
            next_step="close the quotes",
        ) from error


def _matches(alias: str, patterns: Sequence[str]) -> bool:
    """As ssh does: one pattern fits, and no pattern with `!` does."""
    fitting = [pattern for pattern in patterns if _fits(alias, pattern.lstrip("!"))]
    return bool(fitting) and not any(pattern.startswith("!") for pattern in fitting)


def _is_named(alias: str, patterns: Sequence[str]) -> bool:
    return _matches(alias, patterns) and any(
        pattern != "*" and _fits(alias, pattern) for pattern in patterns
    )


def _fits(alias: str, pattern: str) -> bool:
    expression = "".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in pattern)
    return re.fullmatch(expression, alias) is not None


def _as_list(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else []
