"""Native MTP heads: every row of the table."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import pytest

from runner.checkpoints.mtp import MTP_ROWS, read_mtp
from runner.checkpoints.read import read_drafter, read_verifier
from runner.models.checkpoint import MtpHead
from tests.unit.checkpoints.samples import checkpoint, sample

NEXTN = "num_nextn_predict_layers"
LAYERS = "mtp_num_hidden_layers"

BY_TYPE: list[tuple[str, dict[str, Any], str]] = [
    *(
        (name, {NEXTN: 2}, NEXTN)
        for name in [
            "deepseek_v3",
            "deepseek_v32",
            "glm_moe_dsa",
            "deepseek_v4",
            "dots3_note",
            "longcat_flash",
            "step3p5",
            "step3p7",
            "pangu_ultra_moe",
            "ernie4_5_moe",
            "exaone_moe",
            "exaone4_5",
            "exaone4_5_text",
            "hy_v3",
            "hy_v4",
            "bailing_hybrid",
            "kimi_k3",
            "glm5_next",
            "nemotron_h",
            "nemotron_h_puzzle",
            "qwen3_next",
            "qwen4_exp",
            "deepseek_mtp",
        ]
    ),
    ("kimi_k3", {"text_config": {NEXTN: 2}}, f"text_config.{NEXTN}"),
    ("glm5_next", {"text_config": {NEXTN: 2}}, f"text_config.{NEXTN}"),
    ("step3p7", {"text_config": {NEXTN: 2}}, f"text_config.{NEXTN}"),
    ("qwen4_exp", {LAYERS: 2, NEXTN: 3}, LAYERS),
    ("qwen4_exp_text", {LAYERS: 2}, LAYERS),
    *(
        (name, {LAYERS: 2}, LAYERS)
        for name in ("qwen3_5", "qwen3_5_moe", "qwen3_5_text", "qwen3_5_moe_text")
    ),
    *(
        (name, {"text_config": {LAYERS: 2}}, f"text_config.{LAYERS}")
        for name in ("qwen3_5", "qwen3_5_moe", "intern_s2_preview", "interns2_mobius")
    ),
    ("minimax_m3_vl", {"text_config": {"num_mtp_modules": 2}}, "text_config.num_mtp_modules"),
    ("minimax_m3_mtp", {"num_mtp_modules": 2}, "num_mtp_modules"),
    ("inkling_mm_model", {"mtp_config": {NEXTN: 2}}, f"mtp_config.{NEXTN}"),
    ("inkling_model", {"mtp_config": {NEXTN: 2}}, f"mtp_config.{NEXTN}"),
]

BY_ARCHITECTURE: list[tuple[str, dict[str, Any], str]] = [
    *(
        (name, {NEXTN: 2}, NEXTN)
        for name in [
            "MiMoForCausalLM",
            "Glm4MoeForCausalLM",
            "Glm4MoeLiteForCausalLM",
            "GlmOcrForConditionalGeneration",
            "Step3p5ForCausalLM",
            "Step3p7ForConditionalGeneration",
            "BailingMoeV2_5ForCausalLM",
            "BailingMoeV3ForCausalLM",
        ]
    ),
    *(
        (name, {"text_config": {NEXTN: 2}}, f"text_config.{NEXTN}")
        for name in (
            "BailingMoeV3VLForConditionalGeneration",
            "NemotronH_Super_Omni_Reasoning_V3",
            "NemotronH_Omni_Reasoning_V3",
        )
    ),
]


@pytest.mark.parametrize(("model_type", "config", "path"), BY_TYPE)
def test_depth_by_model_type(model_type: str, config: dict[str, Any], path: str) -> None:
    found = read_mtp({"model_type": model_type, **config})
    assert found.head == MtpHead(depth=2, source=f"config.json: {path}")
    assert found.refusal is None


@pytest.mark.parametrize(("architecture", "config", "path"), BY_ARCHITECTURE)
def test_depth_by_architecture(architecture: str, config: dict[str, Any], path: str) -> None:
    found = read_mtp({"model_type": "other", "architectures": [architecture], **config})
    assert found.head == MtpHead(depth=2, source=f"config.json: {path}")


@pytest.mark.parametrize(
    ("config", "source"),
    [
        ({"model_type": "dots3_note"}, f"model_type dots3_note ({NEXTN} not set)"),
        ({"model_type": "longcat_flash"}, f"model_type longcat_flash ({NEXTN} not set)"),
        ({"model_type": "step3p5"}, f"model_type step3p5 ({NEXTN} not set)"),
        ({"model_type": "minimax_m3_vl"}, "model_type minimax_m3_vl (num_mtp_modules not set)"),
        ({"model_type": "minimax_m3_mtp"}, "model_type minimax_m3_mtp (num_mtp_modules not set)"),
        (
            {"model_type": "gemma4_assistant"},
            "model_type gemma4_assistant (one pass drafts one token)",
        ),
        (
            {"model_type": "gemma4_unified_assistant"},
            "model_type gemma4_unified_assistant (one pass drafts one token)",
        ),
        *(
            (
                {"architectures": [name]},
                f"architectures {name} (vLLM uses the first MTP layer only)",
            )
            for name in (
                "MiMoV2ForCausalLM",
                "MiMoV2OmniForCausalLM",
                "MiMoV2FlashForCausalLM",
            )
        ),
    ],
)
def test_depth_by_default(config: dict[str, Any], source: str) -> None:
    assert read_mtp(config).head == MtpHead(depth=1, source=f"config.json: {source}")


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "llama", NEXTN: 1},
        {"model_type": "deepseek_v3"},
        {"model_type": "nemotron_h", NEXTN: 0},
        {"model_type": "qwen3_5", "text_config": {LAYERS: 0}},
        {"model_type": "qwen3_next", NEXTN: None},
        {},
    ],
)
def test_no_head(config: dict[str, Any]) -> None:
    found = read_mtp(config)
    assert (found.head, found.refusal) == (None, None)


@pytest.mark.parametrize(
    ("config", "refusal"),
    [
        (
            {"model_type": "deepseek_v41", NEXTN: 3},
            "DeepSeek V4.1 has no classic MTP head: what lies under mtp.* are DSpark stages; use "
            "method dspark",
        ),
        (
            {"model_type": "inkling_model", "mtp_config": {NEXTN: 0}},
            "this Inkling checkpoint holds no MTP weights (mtp_config.num_nextn_predict_layers is "
            "less than 1)",
        ),
        (
            {"model_type": "deepseek_v3", "architectures": ["MistralLarge3ForCausalLM"], NEXTN: 1},
            "vLLM makes an EAGLE head of MistralLarge3ForCausalLM, not an MTP one",
        ),
    ],
)
def test_heads_that_are_refused(config: dict[str, Any], refusal: str) -> None:
    found = read_mtp(config)
    assert (found.head, found.refusal) == (None, refusal)
    reading = read_verifier(checkpoint(config))
    assert (reading.mtp, reading.mtp_refusal) == (None, refusal)


def test_every_row_is_tested() -> None:
    types = {name for name, _, _ in BY_TYPE} | {"deepseek_v41", "gemma4_assistant"}
    architectures = {name for name, _, _ in BY_ARCHITECTURE}
    architectures |= {"MiMoV2ForCausalLM", "MistralLarge3ForCausalLM"}
    for row in MTP_ROWS:
        known = [fnmatchcase(name, each) for name in types for each in row.model_types]
        known += [name in row.architectures for name in architectures]
        assert any(known), row


# --- a model with a head, given as a drafter ---------------------------------------------------


def test_a_model_with_a_head_is_its_own_verifier() -> None:
    reading = read_drafter(sample("deepseek_v3"))
    where = f"config.json: {NEXTN}"
    assert reading.format == "mtp"
    assert reading.method is not None
    assert (reading.method.value, reading.method.source) == ("mtp", where)
    assert reading.verifier is not None
    assert reading.verifier.value == "some/model"
    assert reading.verifier.source == f"{where} (the head is a part of the model)"
    assert reading.num_speculative_tokens is not None
    assert reading.num_speculative_tokens.value == 1
    assert reading.num_speculative_tokens.source == f"{where} (depth of the head)"
    assert reading.mtp == MtpHead(depth=1, source=where)
    assert (reading.untold, reading.problems) == ({}, ())


def test_an_assistant_needs_a_verifier_and_is_none() -> None:
    reading = read_drafter(sample("gemma4_assistant"))
    assert reading.method is not None
    assert (reading.method.value, reading.verifier) == ("mtp", None)
    assert list(reading.untold) == ["verifier"]
    assert reading.mtp is not None
    assert read_verifier(sample("gemma4_assistant")).mtp is None


def test_deepseek_v41_as_a_drafter_asks_for_the_method() -> None:
    reading = read_drafter(sample("deepseek_v41"))
    assert (reading.method, reading.mtp) == (None, None)
    assert reading.untold["method"].startswith("DeepSeek V4.1 has no classic MTP head")
