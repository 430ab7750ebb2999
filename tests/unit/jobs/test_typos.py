"""A typo in any key of a job file is caught, with the name that was meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel

from runner.errors import SpecError
from runner.jobs import KINDS, load_job

BASES: Mapping[str, dict[str, Any]] = {
    "evaluation": {"kind": "evaluation", "drafter": "/models/e3"},
    "matrix": {
        "kind": "matrix",
        "name": "m",
        "model": "/models/tiny",
        "servers": {"x": {"speculative": {"method": "ngram", "num_speculative_tokens": 2}}},
        "prompts": {"x": {"file": "rows.jsonl"}},
        "matrix": {"server": ["x"], "prompts": ["x"], "concurrency": [1]},
    },
}


def models_in(annotation: Any) -> Iterator[tuple[tuple[str, ...], type[BaseModel]]]:
    """Models inside an annotation, with the steps to them; `x` stands for a free key."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield (), annotation
    elif get_origin(annotation) is not None and "Mapping" in str(get_origin(annotation)):
        for steps, model in models_in(get_args(annotation)[1]):
            yield ("x", *steps), model
    elif get_origin(annotation) is not tuple:
        for member in get_args(annotation):
            yield from models_in(member)


def keys(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every key that a file of this model may have."""
    for name, field in model.model_fields.items():
        yield (*path, name)
        for steps, below in models_in(field.annotation):
            yield from keys(below, (*path, name, *steps))


CASES = [(kind, path) for kind, model in KINDS.items() for path in keys(model)]


def named(part: str | tuple[str, ...]) -> str:
    return part if isinstance(part, str) else ".".join(part)


def test_the_cases_reach_every_depth() -> None:
    reached = {".".join(path) for _, path in CASES}
    assert {
        "budget.acceptance.output_tokens",
        "servers.x.speculative.prompt_lookup_min",
        "prompts.x.output_tokens",
        "sampling.temperature",
    } <= reached
    assert len(CASES) > 120


@pytest.mark.parametrize(("kind", "path"), CASES, ids=named)
def test_the_right_key_is_named(tmp_path: Path, kind: str, path: tuple[str, ...]) -> None:
    right = path[-1]
    wrong = f"{right[0]}{right[2:]}" if len(right) > 3 else f"{right}s"
    data = yaml.safe_load(yaml.safe_dump(BASES[kind]))
    below = data
    for step in path[:-1]:
        below = below.setdefault(step, {})
    below[wrong] = below.pop(right, 1)
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(data))
    with pytest.raises(SpecError) as caught:
        load_job(file)
    if path == ("kind",):  # without it, nobody can say which keys a file may have
        assert "kind: a required key is missing" in str(caught.value)
        return
    assert f"unknown key '{wrong}'; did you mean '{right}'?" in str(caught.value)
    assert f"{file}:" in str(caught.value)
