"""Drafters that are known by their architecture, and what each kind tells about itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from runner.checkpoints.fields import ConfigFields, source_of
from runner.models.checkpoint import Inferred
from runner.models.job import SpeculativeMethod

PARALLEL_KEYS = ("pard_token", "ptd_token_id")
"""The token that stands for what is not drafted yet: only a parallel drafter has one."""

DETAIL_KEYS = (
    "draft_vocab_size",
    "target_hidden_size",
    "num_hidden_layers",
    "eagle_aux_hidden_state_layer_ids",
    "aux_hidden_state_layer_ids",
    "target_layer_ids",
    "dspark_target_layer_ids",
    "eagle_config",
    "dflash_config",
    "norm_before_residual",
    "norm_before_fc",
    "fc_norm",
    "norm_output",
    "mask_token_id",
    *PARALLEL_KEYS,
    "block_size",
    "dspark_block_size",
    "markov_rank",
    "markov_head_type",
    "enable_confidence_head",
    "confidence_head_with_markov",
    "use_aux_hidden_state",
    "sample_from_anchor",
    "sliding_window_non_causal",
    "conv_kernel_size",
    "conv_group_size",
    "selector_rank",
    "selector_top_k",
    "medusa_num_heads",
    "medusa_num_layers",
    "n_predict",
    "top_k_tokens_per_head",
)
"""Settings of all formats that matter to a reader of the report."""


@dataclass(frozen=True)
class Family:
    """One kind of drafter.

    Args:
        architectures: patterns for the first architecture; a '*' stands for any letters.
        model_types: values of `model_type`.
        keys: keys of which one alone gives it away, where the architecture is an ordinary one.
        length: where its draft length stands; `length_reason` says why that is the length.
        verifier: where the model stands that it drafts for.
        hidden: where its hidden size stands.
    """

    format: str
    method: SpeculativeMethod
    architectures: tuple[str, ...] = ()
    model_types: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    parallel: bool = False
    length: tuple[str, ...] = ()
    length_reason: str = ""
    verifier: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ("hidden_size",)


FAMILIES = (
    Family(
        "dspark",
        SpeculativeMethod.DSPARK,
        architectures=("*DSpark*",),
        length=("block_size", "dspark_block_size"),
        length_reason="vLLM's default for dspark",
    ),
    Family(
        "dflash",
        SpeculativeMethod.DFLASH,
        architectures=("DFlash*", "*DFlash", "LiLiCorrDraftModel", "MuseGlimmerAssistantModel"),
    ),
    Family(
        "p-eagle", SpeculativeMethod.EAGLE3, architectures=("Peagle*", "PEagle*"), parallel=True
    ),
    Family("eagle3", SpeculativeMethod.EAGLE3, architectures=("Eagle3*", "*Eagle3")),
    Family(
        "eagle",
        SpeculativeMethod.EAGLE,
        architectures=("Eagle*", "*Eagle", "MistralLarge3ForCausalLM"),
        model_types=("eagle",),
    ),
    Family(
        "medusa",
        SpeculativeMethod.MEDUSA,
        architectures=("MedusaModel",),
        model_types=("medusa",),
        keys=("medusa_num_heads",),
        length=("medusa_num_heads", "num_heads"),
        length_reason="each head drafts one token",
        verifier=("base_model_name_or_path",),
    ),
    Family(
        "mlp_speculator",
        SpeculativeMethod.MLP_SPECULATOR,
        architectures=("MLPSpeculator*",),
        model_types=("mlp_speculator",),
        length=("n_predict",),
        length_reason="each head drafts one token",
        hidden=("emb_dim", "hidden_size"),
    ),
    Family("eagle3", SpeculativeMethod.EAGLE3, keys=("draft_vocab_size", "eagle_config")),
)


def find_family(fields: ConfigFields) -> tuple[Family, Inferred[SpeculativeMethod]] | None:
    """The kind of drafter and its method with what gave it away; None for an ordinary model."""
    architecture = next(iter(fields.words("architectures")), None)
    model_type = fields.word("model_type")
    for family in FAMILIES:
        if architecture and any(fnmatchcase(architecture, each) for each in family.architectures):
            known_by = f"architectures {architecture}"
        elif model_type in family.model_types:
            known_by = f"model_type {model_type}"
        elif key := next((key for key in family.keys if fields.has(key)), None):
            known_by = key
        else:
            continue
        return family, inferred_method(family.method, known_by)
    return None


def inferred_method(method: SpeculativeMethod, known_by: str) -> Inferred[SpeculativeMethod]:
    """A method with its source in config.json."""
    return Inferred[SpeculativeMethod](value=method, source=source_of(known_by))


def details_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of `DETAIL_KEYS` that are there."""
    return {key: config[key] for key in DETAIL_KEYS if config.get(key) is not None}
