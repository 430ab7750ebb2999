"""What configurations say, each value with its source."""

from __future__ import annotations

from typing import Any

import pytest

from runner.checkpoints.read import read_drafter, read_verifier
from runner.models.checkpoint import DrafterReading, Inferred, MtpHead
from runner.models.job import SpeculativeMethod
from tests.unit.checkpoints.samples import checkpoint, config_of, sample

TYPE = "config.json: speculators_model_type"
NAME = "config.json: speculators_config.verifier.name_or_path"
LENGTH = "config.json: speculators_config.proposal_methods[0].speculative_tokens"
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
NO_VERIFIER = "config.json of the drafter does not name the model that it drafts for"
NO_LENGTH = "config.json of the drafter holds no draft length"


def method(reading: DrafterReading) -> tuple[str, str] | None:
    return (reading.method.value.value, reading.method.source) if reading.method else None


def pair(inferred: Inferred[Any] | None) -> tuple[Any, str] | None:
    return (inferred.value, inferred.source) if inferred else None


# --- the speculators format ------------------------------------------------------------------


def test_a_speculators_drafter_says_everything() -> None:
    reading = read_drafter(sample("speculators_eagle3"))
    assert reading == DrafterReading(
        format="speculators",
        method=Inferred[SpeculativeMethod](value=SpeculativeMethod.EAGLE3, source=TYPE),
        verifier=Inferred[str](value=LLAMA, source=NAME),
        num_speculative_tokens=Inferred[int](value=3, source=LENGTH),
        vocab_size=128256,
        draft_vocab_size=32000,
        hidden_size=4096,
        max_position_embeddings=131072,
        max_position_source="config.json: transformer_layer_config.max_position_embeddings "
        "(llama3: holds the scaled length, no factor applied)",
        dtype="bfloat16",
        details={
            "draft_vocab_size": 32000,
            "eagle_aux_hidden_state_layer_ids": [2, 16, 29],
            "norm_before_residual": True,
            "speculators_model_type": "eagle3",
            "speculators_version": "0.3.0",
            "verifier_architectures": ["LlamaForCausalLM"],
            "layers": 1,
            "layer_model_type": "llama",
        },
    )


@pytest.mark.parametrize(
    ("name", "expected", "parallel", "length"),
    [
        ("speculators_peagle", "eagle3", True, 7),
        ("speculators_dflash", "dflash", False, 15),
        ("speculators_dflash2", "dflash", False, 15),
        ("speculators_dspark", "dspark", False, 7),
    ],
)
def test_other_speculators(name: str, expected: str, parallel: bool, length: int) -> None:
    reading = read_drafter(sample(name))
    assert method(reading) == (expected, TYPE)
    assert reading.parallel_drafting is parallel
    assert pair(reading.num_speculative_tokens) == (length, LENGTH)
    assert pair(reading.verifier) == ("Qwen/Qwen3-8B", NAME)
    assert (reading.untold, reading.problems) == ({}, ())


def test_aux_fields_are_kept() -> None:
    details = read_drafter(sample("speculators_dspark")).details
    assert details["aux_hidden_state_layer_ids"] == [2, 10, 18, 26, 34]
    assert (details["block_size"], details["markov_rank"], details["mask_token_id"]) == (
        7,
        256,
        151669,
    )
    assert details["sample_from_anchor"] is True


def speculators(**changes: Any) -> dict[str, Any]:
    config = config_of("speculators_eagle3")
    config["speculators_config"] = {**config["speculators_config"], **changes}
    return config


@pytest.mark.parametrize(
    ("config", "key", "why"),
    [
        (
            speculators(verifier={"name_or_path": None}),
            "verifier",
            "speculators_config.verifier.name_or_path is not set",
        ),
        (
            speculators(verifier={"name_or_path": 7}),
            "verifier",
            "speculators_config.verifier.name_or_path is 7, which is no name",
        ),
        (
            speculators(proposal_methods=[]),
            "draft_length",
            "speculators_config.proposal_methods[0].speculative_tokens is not set",
        ),
        (
            speculators(proposal_methods=[{"speculative_tokens": 0}]),
            "draft_length",
            "speculators_config.proposal_methods[0].speculative_tokens is 0; expected a whole "
            "number from 1 to 128",
        ),
    ],
)
def test_what_a_speculators_drafter_leaves_open(config: dict[str, Any], key: str, why: str) -> None:
    reading = read_drafter(checkpoint(config))
    assert reading.untold == {key: why}
    assert reading.problems == ()
    assert (reading.verifier is None) == (key == "verifier")
    assert (reading.num_speculative_tokens is None) == (key == "draft_length")


def test_only_the_first_proposal_method_counts() -> None:
    methods = [{"speculative_tokens": 4}, {"speculative_tokens": 9}]
    reading = read_drafter(checkpoint(speculators(proposal_methods=methods)))
    assert pair(reading.num_speculative_tokens) == (4, LENGTH)
    assert reading.details["proposal_methods"] == "2, of which vLLM uses the first"


@pytest.mark.parametrize(
    ("name", "changes", "problems"),
    [
        (
            "speculators_eagle3",
            {"speculators_model_type": "eagle"},
            (
                "speculators_model_type is 'eagle'; vLLM loads: eagle3, peagle, dflash, dflash2, "
                "dspark",
            ),
        ),
        (
            "speculators_eagle3",
            {"transformer_layer_config": None},
            ("transformer_layer_config is None; expected the settings of a layer",),
        ),
        (
            "speculators_eagle3",
            {"transformer_layer_config": {"model_type": "mistral"}},
            (
                "transformer_layer_config.model_type is 'mistral'; vLLM builds eagle3 drafters "
                "of: llama, qwen3",
            ),
        ),
        (
            "speculators_dflash",
            {"mask_token_id": None, "aux_hidden_state_layer_ids": None},
            (
                "aux_hidden_state_layer_ids is not set; dflash of this format needs it",
                "mask_token_id is not set; dflash of this format needs it",
            ),
        ),
    ],
)
def test_contradictions_of_a_speculators_drafter(
    name: str, changes: dict[str, Any], problems: tuple[str, ...]
) -> None:
    assert read_drafter(sample(name, **changes)).problems == problems


# --- by architecture -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "form", "expected"),
    [
        ("eagle", "eagle", ("eagle", "config.json: architectures LlamaForCausalLMEagle")),
        ("eagle_converted", "eagle", ("eagle", "config.json: architectures EagleModel")),
        ("eagle3", "eagle3", ("eagle3", "config.json: architectures LlamaForCausalLMEagle3")),
        ("medusa", "medusa", ("medusa", "config.json: architectures MedusaModel")),
        ("medusa_old", "medusa", ("medusa", "config.json: medusa_num_heads")),
        (
            "mlp_speculator",
            "mlp_speculator",
            ("mlp_speculator", "config.json: architectures MLPSpeculatorPreTrainedModel"),
        ),
        ("dflash", "dflash", ("dflash", "config.json: architectures DFlashDraftModel")),
        ("dspark", "dspark", ("dspark", "config.json: architectures Qwen3DSparkModel")),
        (
            "draft_model",
            "model",
            ("draft_model", "config.json: architectures LlamaForCausalLM (an ordinary model)"),
        ),
    ],
)
def test_method_by_architecture(name: str, form: str, expected: tuple[str, str]) -> None:
    reading = read_drafter(sample(name))
    assert (reading.format, method(reading), reading.problems) == (form, expected, ())
    assert reading.parallel_drafting is False


@pytest.mark.parametrize(
    ("architecture", "expected", "parallel"),
    [
        ("EagleLlamaForCausalLM", "eagle", False),
        ("EagleDeepSeekMTPModel", "eagle", False),
        ("MistralLarge3ForCausalLM", "eagle", False),
        ("Eagle3Qwen2_5vlForCausalLM", "eagle3", False),
        ("PeagleLlamaForCausalLM", "eagle3", True),
        ("PEagleDraftModel", "eagle3", True),
        ("DFlash2DraftModel", "dflash", False),
        ("LiLiCorrDraftModel", "dflash", False),
        ("MuseGlimmerAssistantModel", "dflash", False),
        ("DFlashLagunaForCausalLM", "dflash", False),
        ("DSparkDraftModel", "dspark", False),
        ("K3DSparkModel", "dspark", False),
        ("Gemma4DSparkModel", "dspark", False),
    ],
)
def test_architectures(architecture: str, expected: str, parallel: bool) -> None:
    reading = read_drafter(sample("eagle3", architectures=[architecture]))
    assert reading.method is not None
    assert (reading.method.value, reading.parallel_drafting) == (expected, parallel)


@pytest.mark.parametrize(
    ("name", "length"),
    [
        ("medusa", (5, "config.json: num_heads (each head drafts one token)")),
        ("medusa_old", (2, "config.json: medusa_num_heads (each head drafts one token)")),
        ("mlp_speculator", (4, "config.json: n_predict (each head drafts one token)")),
        ("dspark", (7, "config.json: block_size (vLLM's default for dspark)")),
        ("eagle3", None),
        ("dflash", None),
    ],
)
def test_draft_length(name: str, length: tuple[int, str] | None) -> None:
    reading = read_drafter(sample(name))
    assert pair(reading.num_speculative_tokens) == length
    assert reading.untold.get("draft_length") == (None if length else NO_LENGTH)


def test_an_old_medusa_names_its_verifier_and_others_do_not() -> None:
    reading = read_drafter(sample("medusa_old"))
    assert pair(reading.verifier) == (
        "lmsys/vicuna-7b-v1.3",
        "config.json: base_model_name_or_path",
    )
    assert reading.untold == {}
    assert read_drafter(sample("eagle3")).untold == {
        "verifier": NO_VERIFIER,
        "draft_length": NO_LENGTH,
    }


@pytest.mark.parametrize(
    ("name", "vocab", "draft_vocab", "hidden", "positions", "dtype"),
    [
        ("eagle", 128256, None, 4096, 2048, "bfloat16"),
        ("eagle_converted", 128256, None, 4096, 2048, "bfloat16"),
        ("eagle3", 128256, 32000, 4096, 2048, "float16"),
        ("mlp_speculator", 128256, None, 4096, None, "float16"),
        ("gemma4_assistant", 262144, None, 1024, 131072, "bfloat16"),
        ("medusa_old", None, None, None, None, None),
    ],
)
def test_sizes(
    name: str,
    vocab: int | None,
    draft_vocab: int | None,
    hidden: int | None,
    positions: int | None,
    dtype: str | None,
) -> None:
    reading = read_drafter(sample(name))
    assert reading.vocab_size == vocab
    assert reading.draft_vocab_size == draft_vocab
    assert reading.hidden_size == hidden
    assert reading.max_position_embeddings == positions
    assert reading.dtype == dtype


def test_a_draft_vocabulary_gives_an_eagle3_head_away() -> None:
    reading = read_drafter(sample("llama", num_hidden_layers=1, draft_vocab_size=32000))
    assert method(reading) == ("eagle3", "config.json: draft_vocab_size")


def test_pard_is_a_parallel_draft_model() -> None:
    reading = read_drafter(sample("pard"))
    assert (reading.format, reading.parallel_drafting) == ("model", True)
    assert reading.method is not None
    assert reading.method.value is SpeculativeMethod.DRAFT_MODEL


@pytest.mark.parametrize("key", ["pard_token", "ptd_token_id"])
def test_an_eagle3_head_with_a_token_for_what_is_not_drafted_yet_is_parallel(key: str) -> None:
    reading = read_drafter(sample("eagle3", **{key: 128255}))
    assert (reading.format, reading.parallel_drafting) == ("eagle3", True)


def test_the_name_of_a_path_plays_no_part() -> None:
    for name in ("/models/EAGLE3-head", "/models/eagle-x", "org/dflash", "org/x-dspark"):
        reading = read_drafter(checkpoint(config_of("draft_model"), name))
        assert reading.method is not None
        assert reading.method.value is SpeculativeMethod.DRAFT_MODEL


def test_one_layer_is_not_guessed_at() -> None:
    reading = read_drafter(sample("one_layer"))
    assert reading.method is None
    assert reading.untold["method"] == (
        "config.json: architectures LlamaForCausalLM has one layer: an EAGLE head looks the same "
        "as a draft model"
    )


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({}, "config.json names no architecture"),
        (
            {"architectures": ["BertForMaskedLM"]},
            "config.json: architectures BertForMaskedLM is no kind of model that drafts",
        ),
    ],
)
def test_what_is_no_drafter(config: dict[str, Any], why: str) -> None:
    reading = read_drafter(checkpoint(config))
    assert (reading.method, reading.untold["method"]) == (None, why)


# --- the verifier ----------------------------------------------------------------------------


def test_a_verifier() -> None:
    reading = read_verifier(sample("qwen3_5"))
    assert reading.model_type == "qwen3_5_moe"
    assert reading.architectures == ("Qwen3_5MoeForConditionalGeneration",)
    assert (reading.vocab_size, reading.hidden_size, reading.dtype) == (248320, 2048, "bfloat16")
    assert reading.max_position_embeddings == 262144
    assert reading.max_position_source == "config.json: text_config.max_position_embeddings"
    source = "config.json: text_config.mtp_num_hidden_layers"
    assert reading.mtp == MtpHead(depth=1, source=source)
    assert reading.problems == ()


@pytest.mark.parametrize(
    ("settings", "positions", "source"),
    [
        ({}, 4096, "config.json: max_position_embeddings"),
        (
            {"rope_scaling": {"type": "linear", "factor": 4.0}},
            16384,
            "config.json: max_position_embeddings 4096 x rope_scaling.factor 4",
        ),
        (
            {"rope_parameters": {"rope_type": "dynamic", "factor": 2}},
            8192,
            "config.json: max_position_embeddings 4096 x rope_parameters.factor 2",
        ),
        (
            {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}},
            4096,
            "config.json: max_position_embeddings",
        ),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0}}},
            32768,
            "config.json: max_position_embeddings 4096 x rope_parameters.full_attention.factor 8",
        ),
        *(
            (
                {"rope_scaling": {"rope_type": kind, "factor": 4.0}},
                4096,
                f"config.json: max_position_embeddings ({kind}: holds the scaled length, no "
                "factor applied)",
            )
            for kind in ("yarn", "llama3", "longrope", "su", "deepseek_yarn")
        ),
        (
            {"model_type": "gemma3_text", "rope_scaling": {"rope_type": "linear", "factor": 8}},
            4096,
            "config.json: max_position_embeddings (Gemma 3 holds the scaled length)",
        ),
        ({"seq_length": 2048}, 2048, "config.json: seq_length"),
        ({"model_max_length": 8192}, 8192, "config.json: model_max_length"),
    ],
)
def test_longest_context(settings: dict[str, Any], positions: int, source: str) -> None:
    config = {"model_type": "llama", "max_position_embeddings": 4096, **settings}
    reading = read_verifier(checkpoint(config))
    assert (reading.max_position_embeddings, reading.max_position_source) == (positions, source)


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"vocab_size": "many"}, "vocab_size is 'many'; expected a whole number, 1 or more"),
        ({"vocab_size": True}, "vocab_size is True; expected a whole number, 1 or more"),
        ({"hidden_size": 0}, "hidden_size is 0; expected a whole number, 1 or more"),
        ({"architectures": "Llama"}, "architectures is 'Llama'; expected a list of texts"),
        ({"model_type": 7}, "model_type is 7; expected a text"),
        (
            {"max_position_embeddings": 8, "rope_scaling": {"factor": -1}},
            "rope_scaling.factor is -1; expected a number above 0",
        ),
        (
            {"model_type": "deepseek_v3", "num_nextn_predict_layers": "one"},
            "num_nextn_predict_layers is 'one'; expected a whole number, from 0 to 128",
        ),
    ],
)
def test_problems(config: dict[str, Any], problem: str) -> None:
    assert read_verifier(checkpoint(config)).problems == (problem,)
    assert problem in read_drafter(checkpoint(config)).problems
