"""Names of speculative methods, as people write them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from runner.models.job import SpeculativeMethod
from runner.specfile import nearest

_SEPARATORS = re.compile(r"[-_. ]")

# vLLM 0.32 takes these, warns, and goes on with `mtp` (config/speculative.py, MTPModelTypes)
DEPRECATED_MTP_NAMES = (
    "bailing_hybrid_mtp",
    "bailing_hybrid_v3_mtp",
    "deepseek_mtp",
    "dots3_note_mtp",
    "ernie_mtp",
    "exaone4_5_mtp",
    "exaone_moe_mtp",
    "gemma4_mtp",
    "glm4_moe_lite_mtp",
    "glm4_moe_mtp",
    "glm5_next_mtp",
    "glm_ocr_mtp",
    "hy_v3_mtp",
    "hy_v4_mtp",
    "inkling_mtp",
    "kimi_k3_mtp",
    "longcat_flash_mtp",
    "mimo_mtp",
    "mimo_v2_mtp",
    "minimax_m3_mtp",
    "nemotron_h_mtp",
    "pangu_ultra_moe_mtp",
    "qwen3_5_mtp",
    "qwen3_next_mtp",
    "qwen4_exp_mtp",
    "step3p5_mtp",
)

_REFUSED = {
    "extract_hidden_states": "it writes hidden states to disk and speeds nothing up",
    "custom_class": "it names Python code, not a checkpoint, and is experimental",
}


@dataclass(frozen=True)
class MethodName:
    """A method as vLLM takes it.

    Args:
        parallel_drafting: every draft token of a step comes from one pass; P-EAGLE and PARD are
            methods of that kind without a name of their own in vLLM.
        note: what the name that was written stands for; None for a name of vLLM.
    """

    method: SpeculativeMethod
    parallel_drafting: bool = False
    note: str | None = None


_PARALLEL_EAGLE = MethodName(
    SpeculativeMethod.EAGLE3, True, "P-EAGLE is eagle3 with parallel drafting"
)
_NAMES: dict[str, MethodName] = {
    **{method.value: MethodName(method) for method in SpeculativeMethod},
    **{
        name: MethodName(SpeculativeMethod.MTP, note=f"'{name}' is an old name of mtp")
        for name in DEPRECATED_MTP_NAMES
    },
    "peagle": _PARALLEL_EAGLE,
    "pard": MethodName(
        SpeculativeMethod.DRAFT_MODEL, True, "PARD is draft_model with parallel drafting"
    ),
    "dflash2": MethodName(
        SpeculativeMethod.DFLASH, note="DFlash2 is dflash with another draft architecture"
    ),
    "lilicorr": MethodName(
        SpeculativeMethod.DFLASH, note="LiLiCorr is dflash with another draft architecture"
    ),
}


def _fold(text: str) -> str:
    return _SEPARATORS.sub("", text.strip().lower())


_BY_FOLDED = {_fold(name): meaning for name, meaning in _NAMES.items()}
_REFUSED_BY_FOLDED = {_fold(name): (name, why) for name, why in _REFUSED.items()}


def parse_method(text: str) -> MethodName:
    """The method that a name means; case, '-', '_', '.' and blanks don't count.

    Raises:
        ValueError: no such method (with the nearest name), or one that no drafter can be
            evaluated with (with the reason).
    """
    word = _fold(text)
    if word in _BY_FOLDED:
        return _BY_FOLDED[word]
    if word in _REFUSED_BY_FOLDED:
        name, why = _REFUSED_BY_FOLDED[word]
        raise ValueError(f"no drafter can be evaluated with '{name}': {why}")
    meant = nearest(text, _NAMES)
    known = ", ".join(SpeculativeMethod)
    raise ValueError(
        f"'{text}' is not a method; "
        + (f"did you mean '{meant}'?" if meant else f"expected one of: {known}")
    )
