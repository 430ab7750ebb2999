"""`${NAME}` in texts: found here, filled in by whoever knows the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping

from runner.errors import SpecError

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def environment_references(text: str) -> tuple[str, ...]:
    """Names of the variables that a text refers to as `${NAME}`, in order, each once."""
    return tuple(dict.fromkeys(_REFERENCE.findall(text)))


def resolve_environment(
    mapping: Mapping[str, str], environ: Mapping[str, str], where: str
) -> dict[str, str]:
    """The mapping with every `${NAME}` replaced.

    Args:
        mapping: key -> text, as a host or a job gives it.
        environ: the variables that exist, usually those of this process.
        where: what the mapping is called in messages, such as `hosts.yaml: hosts.a.environment`.

    Raises:
        SpecError: a variable is unset, empty or blank, or `${…}` holds something else than a name.
            Names every variable and key, never a value.
    """
    problems: list[str] = []
    unset: dict[str, None] = {}
    for key, text in mapping.items():
        for name in environment_references(text):
            if not environ.get(name, "").strip():
                state = "empty" if name in environ else "not set"
                problems.append(f"{where}.{key}: the variable {name} is {state}")
                unset[name] = None
        if "${" in _REFERENCE.sub(" ", text):
            problems.append(f"{where}.{key}: expected ${{NAME}} with a variable's name inside")
    if problems:
        step = f"export {' '.join(unset)}" if unset else "correct the reference"
        raise SpecError(
            "references to the environment can't be resolved",
            where=where,
            next_step=f"{step} and repeat the command",
            problems=problems,
        )
    return {
        key: _REFERENCE.sub(lambda match: environ[match[1]], text) for key, text in mapping.items()
    }
