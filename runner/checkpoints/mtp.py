"""Native multi-token prediction: which models have such a head, and where its depth stands.

The table follows vLLM 0.32 (`hf_config_override` in config/speculative.py). vLLM looks at the
outer `model_type` and the first architecture only, and so does this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from runner.checkpoints.fields import LONGEST_DRAFT_TOKENS, ConfigFields, source_of
from runner.checkpoints.methods import DEPRECATED_MTP_NAMES
from runner.models.checkpoint import MtpHead

_NEXTN = "num_nextn_predict_layers"
_TEXT_NEXTN = f"text_config.{_NEXTN}"
_LAYERS = "mtp_num_hidden_layers"
_TEXT_LAYERS = f"text_config.{_LAYERS}"


@dataclass(frozen=True)
class MtpRow:
    """Models with the same kind of head.

    Args:
        model_types, architectures: what they are known by; a '*' stands for any letters.
        depth: dotted paths; the first that has a value counts.
        default: depth where no path has a value; no head when None.
        default_reason: what the default rests on.
        refusal: why vLLM can't use such a head as `mtp`.
        without_weights: what to say when the depth is 0; then it is a refusal, not a silence.
        separate: the checkpoint is a head on its own, for a model that lies elsewhere.
    """

    model_types: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    depth: tuple[str, ...] = ()
    default: int | None = None
    default_reason: str = ""
    refusal: str | None = None
    without_weights: str | None = None
    separate: bool = False


_FIRST_LAYER = "vLLM uses the first MTP layer only"

MTP_ROWS = (
    MtpRow(
        architectures=("MistralLarge3ForCausalLM",),
        refusal="vLLM makes an EAGLE head of MistralLarge3ForCausalLM, not an MTP one",
    ),
    MtpRow(
        model_types=("deepseek_v41",),
        refusal="DeepSeek V4.1 has no classic MTP head: what lies under mtp.* are DSpark stages; "
        "use method dspark",
    ),
    MtpRow(
        model_types=("deepseek_v3", "deepseek_v32", "glm_moe_dsa", "deepseek_v4"),
        depth=(_NEXTN,),
    ),
    MtpRow(
        model_types=("dots3_note", "longcat_flash"),
        depth=(_NEXTN,),
        default=1,
        default_reason=f"{_NEXTN} not set",
    ),
    MtpRow(
        model_types=("step3p5", "step3p7"),
        architectures=("Step3p5ForCausalLM", "Step3p7ForConditionalGeneration"),
        depth=(_TEXT_NEXTN, _NEXTN),
        default=1,
        default_reason=f"{_NEXTN} not set",
    ),
    MtpRow(
        model_types=(
            "pangu_ultra_moe",
            "ernie4_5_moe",
            "exaone_moe",
            "*exaone4_5*",
            "hy_v3",
            "hy_v4",
        ),
        depth=(_NEXTN,),
    ),
    MtpRow(architectures=("BailingMoeV3VLForConditionalGeneration",), depth=(_TEXT_NEXTN, _NEXTN)),
    MtpRow(
        model_types=("bailing_hybrid",),
        architectures=("BailingMoeV2_5ForCausalLM", "BailingMoeV3ForCausalLM"),
        depth=(_NEXTN,),
    ),
    MtpRow(model_types=("kimi_k3", "glm5_next"), depth=(_TEXT_NEXTN, _NEXTN)),
    MtpRow(
        architectures=("NemotronH_Super_Omni_Reasoning_V3", "NemotronH_Omni_Reasoning_V3"),
        depth=(_TEXT_NEXTN,),
    ),
    MtpRow(model_types=("nemotron_h", "nemotron_h_puzzle"), depth=(_NEXTN,)),
    MtpRow(model_types=("qwen3_next",), depth=(_NEXTN,)),
    MtpRow(
        model_types=("qwen4_exp", "qwen4_exp_text"),
        depth=(_TEXT_LAYERS, _LAYERS, _TEXT_NEXTN, _NEXTN),
    ),
    MtpRow(
        model_types=("qwen3_5", "qwen3_5_moe", "qwen3_5_text", "qwen3_5_moe_text"),
        depth=(_LAYERS, _TEXT_LAYERS),
    ),
    MtpRow(model_types=("intern_s2_preview", "interns2_mobius"), depth=(_TEXT_LAYERS,)),
    MtpRow(
        architectures=(
            "MiMoForCausalLM",
            "Glm4MoeForCausalLM",
            "Glm4MoeLiteForCausalLM",
            "GlmOcrForConditionalGeneration",
        ),
        depth=(_NEXTN,),
    ),
    MtpRow(
        architectures=("MiMoV2ForCausalLM", "MiMoV2OmniForCausalLM", "MiMoV2FlashForCausalLM"),
        default=1,
        default_reason=_FIRST_LAYER,
    ),
    MtpRow(
        model_types=("minimax_m3_vl",),
        architectures=("MiniMaxM3SparseForConditionalGeneration",),
        depth=("text_config.num_mtp_modules", "num_mtp_modules"),
        default=1,
        default_reason="num_mtp_modules not set",
    ),
    MtpRow(
        model_types=("minimax_m3_mtp",),
        architectures=("MiniMaxM3MTP",),
        depth=("num_mtp_modules",),
        default=1,
        default_reason="num_mtp_modules not set",
        separate=True,
    ),
    MtpRow(
        model_types=("inkling_mm_model", "inkling_model"),
        depth=("mtp_config.num_nextn_predict_layers",),
        default=0,
        without_weights="this Inkling checkpoint holds no MTP weights "
        "(mtp_config.num_nextn_predict_layers is less than 1)",
    ),
    MtpRow(
        model_types=("gemma4_assistant", "gemma4_unified_assistant"),
        default=1,
        default_reason="one pass drafts one token",
        separate=True,
    ),
    MtpRow(model_types=DEPRECATED_MTP_NAMES, depth=("n_predict", _NEXTN, _LAYERS), separate=True),
)


@dataclass(frozen=True)
class MtpReading:
    """A head (`separate`: without the model that it drafts for), or why one can't be used."""

    head: MtpHead | None = None
    refusal: str | None = None
    separate: bool = False


def read_mtp(config: Mapping[str, Any], fields: ConfigFields | None = None) -> MtpReading:
    """What a configuration says about a native MTP head; nothing found is an empty reading.

    Args:
        config: the content of config.json.
        fields: gets the problems, such as a depth that is no number.
    """
    fields = fields or ConfigFields(config)
    model_type = fields.word("model_type")
    architecture = next(iter(fields.words("architectures")), None)
    for row in MTP_ROWS:
        if _matches(model_type, row.model_types):
            return _apply(row, fields, f"model_type {model_type}")
        if _matches(architecture, row.architectures):
            return _apply(row, fields, f"architectures {architecture}")
    return MtpReading()


def _matches(name: str | None, patterns: tuple[str, ...]) -> bool:
    return name is not None and any(fnmatchcase(name, pattern) for pattern in patterns)


def _apply(row: MtpRow, fields: ConfigFields, known_by: str) -> MtpReading:
    if row.refusal is not None:
        return MtpReading(refusal=row.refusal)
    found = fields.number(*row.depth, least=0, most=LONGEST_DRAFT_TOKENS)
    if found is None and any(fields.has(path) for path in row.depth):
        return MtpReading()
    depth = found.value if found else row.default
    if not depth:
        return MtpReading(refusal=row.without_weights)
    source = found.source if found else f"{source_of(known_by)} ({row.default_reason})"
    return MtpReading(head=MtpHead(depth=depth, source=source), separate=row.separate)
