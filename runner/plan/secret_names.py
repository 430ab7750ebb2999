"""Which environment variables are secrets, and where their values come from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from runner.errors import UsageError

MASK = "***"

_WORD = r"(TOKEN|(KEY|SECRET|PASSWORD|PASSWD|CREDENTIAL)S?)"
_SECRET_NAME = re.compile(rf"{_WORD}(_|$)", flags=re.IGNORECASE)
_SECRET_ENDING = re.compile(rf"{_WORD}$", flags=re.IGNORECASE)
_PLAIN_SETTING = re.compile(r"[-+]?\d+(\.\d+)?|true|false", flags=re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def is_secret(name: str, value: str) -> bool:
    """True for a name such as HF_TOKEN or API_KEY, and for a value that refers to `${…}`.

    A number or a switch under a name that only holds such a word (`TOKEN_THRESHOLD`) is none.
    """
    if _REFERENCE.search(value) or _SECRET_ENDING.search(name):
        return True
    return bool(_SECRET_NAME.search(name)) and not _PLAIN_SETTING.fullmatch(value)


def has_bad_reference(value: str) -> bool:
    """True for a `${` that no variable's name and `}` follow; it would travel as it stands."""
    return "${" in _REFERENCE.sub("", value)


def split_environment(
    environment: Mapping[str, str], secrets: Iterable[str] = ()
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Plain variables, sorted by name, and the sorted names of the secret ones."""
    hidden = set(secrets) | {name for name, value in environment.items() if is_secret(name, value)}
    plain = {name: environment[name] for name in sorted(environment) if name not in hidden}
    return plain, tuple(sorted(hidden))


def secret_values(
    names: Iterable[str],
    declared: Iterable[Mapping[str, str]],
    environ: Mapping[str, str],
) -> dict[str, str]:
    """Values of a plan's secrets, to be sent beside the plan and never written.

    Args:
        names: `Plan.secrets`.
        declared: `environment` mappings of host, job and configurations; a later one wins.
        environ: the caller's own environment, which `${NAME}` refers to and which gives the
            value of a secret that no file declares.

    Raises:
        UsageError: a variable that is needed is not set, or is blank.
    """
    merged: dict[str, str] = {}
    for environment in declared:
        merged.update(environment)

    def expand(name: str) -> str:
        text = merged.get(name, f"${{{name}}}")
        return _REFERENCE.sub(lambda found: _required(found[1], name, environ), text)

    return {name: expand(name) for name in names}


def _required(variable: str, secret: str, environ: Mapping[str, str]) -> str:
    value = environ.get(variable, "")
    if not value.strip():
        raise UsageError(
            f"secret '{secret}' needs the environment variable {variable}, which is not set",
            next_step=f"export {variable}=… and repeat the command",
        )
    return value
