"""The speculators format: a drafter that names its verifier, its method and its draft length.

Follows vLLM 0.32 (transformers_utils/configs/speculators/base.py and algos.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runner.checkpoints.families import details_of
from runner.checkpoints.fields import LONGEST_DRAFT_TOKENS, ConfigFields, shown, source_of
from runner.checkpoints.positions import longest_context
from runner.models.checkpoint import DrafterReading, Inferred
from runner.models.job import SpeculativeMethod

_LAYER = "transformer_layer_config"
_TYPE = "speculators_model_type"
_VERIFIER = "speculators_config.verifier.name_or_path"
_METHODS = "speculators_config.proposal_methods"
_LENGTH = f"{_METHODS}[0].speculative_tokens"


@dataclass(frozen=True)
class _Type:
    """What a `speculators_model_type` means; `required` are keys without which vLLM fails."""

    method: SpeculativeMethod
    parallel: bool = False
    required: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()


_BLOCK = ("aux_hidden_state_layer_ids", "mask_token_id")
_TYPES = {
    "eagle3": _Type(SpeculativeMethod.EAGLE3, layers=("llama", "qwen3")),
    "peagle": _Type(
        SpeculativeMethod.EAGLE3, True, required=("mask_token_id",), layers=("llama", "qwen3")
    ),
    "dflash": _Type(SpeculativeMethod.DFLASH, required=_BLOCK),
    "dflash2": _Type(SpeculativeMethod.DFLASH, required=_BLOCK),
    "dspark": _Type(SpeculativeMethod.DSPARK, required=_BLOCK),
}


def is_speculators(config: Mapping[str, Any]) -> bool:
    """True where vLLM takes a configuration for one of this format."""
    return config.get("speculators_config") is not None


def read_speculators(config: Mapping[str, Any]) -> DrafterReading:
    """Everything that a configuration of this format says; what it lacks is in `untold`."""
    fields = ConfigFields(config)
    untold: dict[str, str] = {}
    kind = _type(fields, untold)
    context = longest_context(fields, _LAYER)
    _check_layer(fields, kind)
    return DrafterReading(
        format="speculators",
        method=Inferred[SpeculativeMethod](value=kind.method, source=source_of(_TYPE))
        if kind
        else None,
        parallel_drafting=kind.parallel if kind else False,
        verifier=_verifier(fields, untold),
        num_speculative_tokens=_length(fields, untold),
        vocab_size=fields.size(f"{_LAYER}.vocab_size"),
        draft_vocab_size=fields.size("draft_vocab_size"),
        hidden_size=fields.size(f"{_LAYER}.hidden_size"),
        max_position_embeddings=context[0] if context else None,
        max_position_source=context[1] if context else None,
        dtype=fields.dtype(_LAYER),
        untold=untold,
        details=_details(fields, config),
        problems=fields.problems,
    )


def _type(fields: ConfigFields, untold: dict[str, str]) -> _Type | None:
    name = fields.word(_TYPE)
    if name in _TYPES:
        return _TYPES[name]
    untold["method"] = f"{_TYPE} is {shown(fields.value(_TYPE))}"
    fields.add_problem(f"{untold['method']}; vLLM loads: {', '.join(_TYPES)}")
    return None


def _verifier(fields: ConfigFields, untold: dict[str, str]) -> Inferred[str] | None:
    """Never a problem of its own: a verifier that the user names stands in for it."""
    value = fields.value(_VERIFIER)
    if isinstance(value, str) and value.strip():
        return Inferred[str](value=value, source=source_of(_VERIFIER))
    untold["verifier"] = (
        f"{_VERIFIER} is not set"
        if value is None
        else f"{_VERIFIER} is {shown(value)}, which is no name"
    )
    return None


def _length(fields: ConfigFields, untold: dict[str, str]) -> Inferred[int] | None:
    methods = fields.value(_METHODS)
    first = methods[0] if isinstance(methods, list | tuple) and methods else None
    value = first.get("speculative_tokens") if isinstance(first, Mapping) else None
    if (
        isinstance(value, int)
        and not isinstance(value, bool)
        and 1 <= value <= LONGEST_DRAFT_TOKENS
    ):
        return Inferred[int](value=value, source=source_of(_LENGTH))
    untold["draft_length"] = (
        f"{_LENGTH} is not set"
        if value is None
        else f"{_LENGTH} is {shown(value)}; expected a whole number from 1 to "
        f"{LONGEST_DRAFT_TOKENS}"
    )
    return None


def _check_layer(fields: ConfigFields, kind: _Type | None) -> None:
    """What vLLM needs to build the drafter, whoever names verifier, method and length."""
    layer = fields.value(_LAYER)
    if not isinstance(layer, Mapping):
        fields.add_problem(f"{_LAYER} is {shown(layer)}; expected the settings of a layer")
        return
    if kind is None:
        return
    model_type = fields.word(f"{_LAYER}.model_type") or "llama"
    if kind.layers and model_type not in kind.layers:
        fields.add_problem(
            f"{_LAYER}.model_type is '{model_type}'; vLLM builds {kind.method} drafters of: "
            f"{', '.join(kind.layers)}"
        )
    for key in kind.required:
        if not fields.has(key):
            fields.add_problem(f"{key} is not set; {kind.method} of this format needs it")


def _details(fields: ConfigFields, config: Mapping[str, Any]) -> dict[str, Any]:
    details = details_of(config)
    more = {
        "speculators_model_type": fields.value(_TYPE),
        "speculators_version": fields.value("speculators_version"),
        "verifier_architectures": fields.value("speculators_config.verifier.architectures"),
        "layers": fields.value(f"{_LAYER}.num_hidden_layers"),
        "layer_model_type": fields.value(f"{_LAYER}.model_type"),
    }
    methods = fields.value(_METHODS)
    if isinstance(methods, list | tuple) and len(methods) > 1:
        more["proposal_methods"] = f"{len(methods)}, of which vLLM uses the first"
    return {**details, **{key: value for key, value in more.items() if value is not None}}
