"""Whether a drafter fits: every finding with its figures, and none where all is well."""

from __future__ import annotations

from typing import Any

import pytest

from runner.checkpoints.checks import check_pair
from runner.checkpoints.read import read_drafter, read_verifier
from runner.models.job import SpeculativeMethod
from runner.models.plan import Finding
from tests.unit.checkpoints.samples import checkpoint, config_of, sample

LLAMA = read_verifier(sample("llama"))
ANOTHER = "set 'verifier' to the model that the drafter was trained on"


def check(drafter: str, changes: dict[str, Any] | None = None, **arguments: Any) -> list[Finding]:
    reading = read_drafter(sample(drafter, **(changes or {})))
    assert reading.method is not None or "method" in arguments
    given: dict[str, Any] = {
        "drafter": reading,
        "verifier": LLAMA,
        "method": reading.method.value if reading.method else None,
        "draft_lengths": (3,),
        "draft_tensor_parallel_size": None,
        "tensor_parallel_size": 1,
        "max_model_len": 2048,
        "longest_prompt_tokens": 1000,
        "output_tokens": 1000,
        **arguments,
    }
    return list(check_pair(**given))


def only(findings: list[Finding]) -> tuple[str, str, str, str | None]:
    assert len(findings) == 1, findings
    found = findings[0]
    return found.level.value, found.subject, found.message, found.next_step


@pytest.mark.parametrize("drafter", ["speculators_eagle3", "eagle", "draft_model", "pard"])
def test_a_pair_that_fits(drafter: str) -> None:
    assert check(drafter) == []


def test_a_model_with_its_own_head_fits() -> None:
    verifier = read_verifier(sample("deepseek_v3"))
    assert check("deepseek_v3", verifier=verifier, draft_lengths=(1,)) == []


def test_nothing_told_nothing_checked() -> None:
    nothing = read_verifier(checkpoint({}))
    assert check("draft_model", verifier=nothing, longest_prompt_tokens=None) == []


# --- vocabulary and hidden size ------------------------------------------------------------------


def test_a_draft_model_needs_the_same_vocabulary() -> None:
    changes = {"vocab_size": 32000}
    assert only(check("draft_model", changes)) == (
        "error",
        "drafter",
        "vocab_size is 32000 in the drafter and 128256 in the verifier; a draft model needs the "
        "same",
        "set 'drafter' to a model with the verifier's vocabulary",
    )
    assert check("draft_model", changes, heterogeneous_vocabulary=True) == []


def test_a_draft_vocabulary_is_a_part_of_the_verifiers() -> None:
    assert only(check("eagle3", {"draft_vocab_size": 128257, "torch_dtype": "bfloat16"})) == (
        "error",
        "verifier",
        "draft_vocab_size 128257 of the drafter is more than vocab_size 128256 of the verifier",
        ANOTHER,
    )
    assert check("eagle3", {"draft_vocab_size": 128256, "torch_dtype": "bfloat16"}) == []


def test_a_head_of_another_model() -> None:
    vocabulary, hidden = check("eagle", {"vocab_size": 32000, "hidden_size": 5120})
    assert only([vocabulary]) == (
        "warning",
        "verifier",
        "vocab_size is 32000 in the drafter and 128256 in the verifier",
        ANOTHER,
    )
    assert only([hidden]) == (
        "error",
        "verifier",
        "hidden_size 5120 of the drafter is not hidden_size 4096 of the verifier, whose hidden "
        "states it reads",
        ANOTHER,
    )


def test_the_target_hidden_size_counts_before_the_own() -> None:
    assert check("eagle", {"hidden_size": 1024, "target_hidden_size": 4096}) == []
    found = only(check("eagle", {"target_hidden_size": 8192}))
    assert found[2].startswith("target_hidden_size 8192 of the drafter is not hidden_size 4096")


def test_vllm_gives_medusa_the_verifiers_vocabulary() -> None:
    changes = {"torch_dtype": "bfloat16", "num_heads": 5}
    assert check("medusa", changes) == []


def test_the_architecture_that_a_drafter_was_made_for() -> None:
    other = LLAMA.model_copy(update={"architectures": ("Qwen3ForCausalLM",)})
    assert only(check("speculators_eagle3", verifier=other)) == (
        "warning",
        "verifier",
        "the drafter was made for LlamaForCausalLM; the verifier is Qwen3ForCausalLM",
        ANOTHER,
    )


# --- lengths -------------------------------------------------------------------------------------


def test_the_longest_request_against_the_server() -> None:
    assert check("draft_model", longest_prompt_tokens=1048) == []
    assert only(check("draft_model", longest_prompt_tokens=1049)) == (
        "error",
        "server.max_model_len",
        "the longest prompt has 1049 tokens and its answer up to 1000: 2049 together, more than "
        "server.max_model_len 2048",
        "--set server.max_model_len=2049",
    )


def test_the_longest_request_against_the_model() -> None:
    source = "config.json: max_position_embeddings (llama3: holds the scaled length, no factor "
    assert only(check("draft_model", longest_prompt_tokens=131072)) == (
        "error",
        "datasets",
        "the longest prompt has 131072 tokens and its answer up to 1000: 132072 together, more "
        f"than the verifier's 131072 positions ({source}applied))",
        "set 'datasets' to shorter ones, or lower output_tokens in 'budget'",
    )
    assert check("draft_model", max_model_len=131072) == []
    first, _ = check("draft_model", max_model_len=131073)
    assert only([first]) == (
        "error",
        "server.max_model_len",
        f"131073 is more than the verifier's 131072 positions ({source}applied))",
        "--set server.max_model_len=131072",
    )


def test_an_eagle_head_is_raised() -> None:
    assert only(check("eagle", max_model_len=4096)) == (
        "note",
        "drafter",
        "the drafter has 2048 positions (config.json: max_position_embeddings), the server "
        "max_model_len 4096: vLLM raises the drafter's to that; it was not made for text so long",
        None,
    )


def test_a_draft_model_is_clipped() -> None:
    short = {"max_position_embeddings": 1024, "rope_scaling": None}
    clipped = (
        "the drafter has 1024 positions (config.json: max_position_embeddings), the server "
        "max_model_len 2048: vLLM clips the drafter to its own, and nothing is drafted beyond"
    )
    assert only(check("draft_model", short, longest_prompt_tokens=24)) == (
        "note",
        "drafter",
        clipped,
        None,
    )
    assert only(check("draft_model", short, longest_prompt_tokens=25)) == (
        "warning",
        "drafter",
        f"{clipped}; requests take up to 1025",
        "--set server.max_model_len=1024",
    )


# --- method and draft length ---------------------------------------------------------------------


def mtp(depth: int, lengths: tuple[int, ...]) -> list[Finding]:
    config = {**config_of("deepseek_v3"), "num_nextn_predict_layers": depth}
    verifier = read_verifier(checkpoint(config))
    changes = {"num_nextn_predict_layers": depth}
    return check("deepseek_v3", changes, verifier=verifier, draft_lengths=lengths)


@pytest.mark.parametrize(("depth", "lengths"), [(1, (1,)), (3, (1, 2, 3))])
def test_within_the_depth(depth: int, lengths: tuple[int, ...]) -> None:
    assert mtp(depth, lengths) == []


def test_beyond_the_depth_only_multiples() -> None:
    assert only(mtp(2, (2, 5))) == (
        "error",
        "draft_length",
        "5 is neither at most the depth 2 of the MTP head nor a multiple of it",
        "--set draft_length=4",
    )
    assert only(mtp(1, (1, 3))) == (
        "note",
        "draft_length",
        "3 with an MTP head of depth 1: vLLM runs it 3 times a step; later tokens are accepted "
        "less often than its first",
        None,
    )


def test_no_more_tokens_than_heads() -> None:
    changes = {"torch_dtype": "bfloat16"}
    assert check("mlp_speculator", changes, draft_lengths=(4,)) == []
    assert only(check("mlp_speculator", changes, draft_lengths=(5,))) == (
        "error",
        "draft_length",
        "5 is more than the drafter's 4 heads (config.json: n_predict (each head drafts one "
        "token))",
        "--set draft_length=4",
    )


@pytest.mark.parametrize(
    ("verifier", "reason"),
    [
        (
            "llama",
            "model_type llama with architectures LlamaForCausalLM is none of the models whose "
            "config.json names an MTP head that vLLM can use",
        ),
        (
            "deepseek_v41",
            "DeepSeek V4.1 has no classic MTP head: what lies under mtp.* are DSpark stages; use "
            "method dspark",
        ),
    ],
)
def test_no_native_mtp(verifier: str, reason: str) -> None:
    reading = read_verifier(sample(verifier))
    found = check(verifier, verifier=reading, method=SpeculativeMethod.MTP, draft_lengths=(1,))
    assert only(found) == (
        "error",
        "method",
        f"no native MTP here: {reason}",
        "set 'method' to another one",
    )


def test_a_method_that_the_file_contradicts() -> None:
    assert only(check("speculators_eagle3", method=SpeculativeMethod.EAGLE)) == (
        "warning",
        "method",
        "eagle is set, and the drafter reads as eagle3 (config.json: speculators_model_type)",
        "--set method=eagle3, unless the file is wrong",
    )
    assert check("one_layer", method=SpeculativeMethod.EAGLE) == []


def test_a_method_without_a_drafter() -> None:
    assert only(check("eagle3", {"torch_dtype": "bfloat16"}, method=SpeculativeMethod.NGRAM)) == (
        "error",
        "method",
        "ngram drafts without a checkpoint, so the drafter would not be used",
        "write a job with 'kind: matrix' for it, or leave 'method' out",
    )


# --- parallelism, number format, problems -----------------------------------------------------


@pytest.mark.parametrize("size", [None, 1, 4])
def test_tensor_parallelism_that_fits(size: int | None) -> None:
    assert check("draft_model", draft_tensor_parallel_size=size, tensor_parallel_size=4) == []


def test_tensor_parallelism() -> None:
    found = check("draft_model", draft_tensor_parallel_size=2, tensor_parallel_size=4)
    assert only(found) == (
        "error",
        "draft_tensor_parallel_size",
        "2 is neither 1 nor server.tensor_parallel_size 4",
        "--set draft_tensor_parallel_size=1",
    )
    note = check("mlp_speculator", {"torch_dtype": "bfloat16"}, tensor_parallel_size=4)
    assert only(note)[:3] == (
        "note",
        "draft_tensor_parallel_size",
        "vLLM runs an mlp_speculator on 1 accelerator, the verifier on 4",
    )


def test_number_formats() -> None:
    assert only(check("eagle3")) == (
        "warning",
        "server.dtype",
        "the drafter's weights are float16 and are served as bfloat16 (the verifier's)",
        "--set server.dtype=float16 serves both as float16, if the accelerator can",
    )
    assert only(check("eagle3", dtype="half"))[:3] == (
        "note",
        "server.dtype",
        "the verifier's weights are bfloat16 and are served as float16",
    )
    levels = [found.level.value for found in check("eagle", dtype="float16")]
    assert levels == ["note", "warning"]


def test_problems_of_the_files_stop_the_run() -> None:
    broken = read_verifier(sample("llama", vocab_size="many"))
    first, second = check("draft_model", {"hidden_size": -1}, verifier=broken)
    assert only([first]) == (
        "error",
        "drafter",
        "config.json of the drafter: hidden_size is -1; expected a whole number, 1 or more",
        "correct that file, or set 'drafter' to another checkpoint",
    )
    assert only([second])[:3] == (
        "error",
        "verifier",
        "config.json of the verifier: vocab_size is 'many'; expected a whole number, 1 or more",
    )
