"""The longest context that a configuration stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from runner.checkpoints.fields import ConfigFields, source_of

# names of the same thing in different model families; vLLM takes the smallest that is there
_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
# `max_position_embeddings` of these holds the scaled length already
_ALREADY_SCALED = frozenset(
    {"su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling"}
)
_ROPE = ("rope_parameters", "rope_scaling")


def longest_context(fields: ConfigFields, prefix: str | None = None) -> tuple[int, str] | None:
    """Positions, and where the number comes from; None when the configuration does not tell.

    The rule is vLLM 0.32's (`_get_and_verify_max_len` in config/model.py): the smallest length
    that is given (`model_max_length` before all others), times the factor of RoPE scaling, unless
    the kind of scaling (llama3, longrope, yarn, ...) leaves the scaled length in the file.

    Args:
        prefix: dotted path of the part to look in; the language model's when left out.
    """

    def paths(key: str) -> tuple[str, ...]:
        return fields.in_text(key) if prefix is None else (f"{prefix}.{key}",)

    found = fields.number(*paths("model_max_length"))
    if found is None:
        lengths = [fields.number(*paths(key)) for key in _KEYS]
        found = min((each for each in lengths if each), key=lambda each: each.value, default=None)
    if found is None:
        return None
    key = found.source.removeprefix(source_of(""))
    if "gemma3" in (fields.word("model_type") or ""):
        return found.value, f"{found.source} (Gemma 3 holds the scaled length)"
    kind, factor, place = _scaling(fields, paths)
    if kind in _ALREADY_SCALED:
        return found.value, f"{found.source} ({kind}: holds the scaled length, no factor applied)"
    if factor is None or factor == 1.0:
        return found.value, found.source
    return int(found.value * factor), f"{source_of(key)} {found.value} x {place} {factor:g}"


def _scaling(
    fields: ConfigFields, paths: Callable[[str], tuple[str, ...]]
) -> tuple[str | None, float | None, str]:
    """Kind, factor and place of RoPE scaling; layers of one model share their factor."""
    kind: str | None = None
    for key in _ROPE:
        for path in paths(key):
            for place, settings in _settings(fields.value(path), path):
                named = settings.get("rope_type", settings.get("type"))
                kind = named if isinstance(named, str) else kind
                factor = settings.get("factor")
                if kind in _ALREADY_SCALED or factor is None:
                    continue
                if not isinstance(factor, int | float) or not 0 < factor < 1e6:
                    fields.add_problem(f"{place}.factor is {factor!r}; expected a number above 0")
                    continue
                return kind, float(factor), f"{place}.factor"
    return kind, None, ""


def _settings(value: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """One set of settings, or one for each kind of layer."""
    if not isinstance(value, Mapping):
        return
    nested = {key: inner for key, inner in value.items() if isinstance(inner, Mapping)}
    if nested and len(nested) == len(value):
        yield from ((f"{path}.{key}", inner) for key, inner in nested.items())
    elif value:
        yield path, value
