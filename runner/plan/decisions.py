"""Every resolved value of a job with where it came from; secrets stay out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from runner.models.evaluation import EvaluationJob
from runner.models.job import MatrixJob
from runner.models.plan import Decision, Origin
from runner.plan.secret_names import MASK, is_secret


def job_decisions(
    job: MatrixJob | EvaluationJob,
    origins: Mapping[str, str],
    inferred: Iterable[Decision],
) -> tuple[Decision, ...]:
    """Values of the job in the order of its file format, then what planning inferred.

    A value that was inferred replaces the default of the same key.
    """
    later = tuple(inferred)
    replaced = {decision.key for decision in later}
    own = tuple(
        _decision(key, value, origins)
        for key, value in _leaves("", job.model_dump(mode="json"))
        if key not in replaced
    )
    return (*own, *later)


def masked_overrides(overrides: Iterable[str]) -> tuple[str, ...]:
    """`--set` arguments as given, without the values of environment variables that are secret."""
    return tuple(_mask(override) for override in overrides)


def _mask(override: str) -> str:
    key, equals, value = override.partition("=")
    name = key.strip().rpartition(".")[2]
    secret = name == "environment" or (_in_environment(key) and is_secret(name, value))
    return f"{key}={MASK}" if equals and secret else override


def _leaves(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, child in value.items():
            yield from _leaves(f"{prefix}.{key}" if prefix else str(key), child)
    else:
        yield prefix, value


def _decision(key: str, value: Any, origins: Mapping[str, str]) -> Decision:
    source = _source(key, origins)
    name = key.rpartition(".")[2]
    hidden = _in_environment(key) and is_secret(name, str(value))
    return Decision(
        key=key,
        value=MASK if hidden else _text(value),
        origin=Origin.DEFAULT if source is None else Origin.USER,
        source=source,
    )


def _source(key: str, origins: Mapping[str, str]) -> str | None:
    """The origin of a key, or of the first of its items when it is a list."""
    if key in origins:
        return origins[key]
    inside = re.compile(re.escape(key) + r"(\.|\[)")
    return next((source for name, source in origins.items() if inside.match(name)), None)


def _in_environment(key: str) -> bool:
    return "environment" in key.split(".")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
