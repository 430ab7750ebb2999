"""What every server of an evaluation is started with: said, inferred, or left to the default."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from runner.models.checkpoint import VerifierReading
from runner.models.evaluation import EvaluationJob, Mode
from runner.models.host import Host, HostFacts
from runner.models.job import ServerSettings
from runner.models.plan import Decision, Origin
from runner.plan.evaluation_sets import modes_of
from runner.plan.inputs import PromptInput

_LEAST_MODEL_LEN = 4096
_MODEL_LEN_STEP = 256
_UNKNOWN_MODEL_LEN = 8192
_LEAST_SEQS = 8
_BATCHED_TOKENS = 8192
# vLLM's kernels for this architecture have no bfloat16
_FLOAT16_ONLY = frozenset({"gfx906"})

Settled = tuple[str, Any, str]
"""Name of a setting, its value, and where that comes from."""


def server_settings(
    job: EvaluationJob,
    host: Host,
    facts: HostFacts,
    verifier: VerifierReading,
    prompts: Sequence[PromptInput],
) -> tuple[ServerSettings, tuple[Decision, ...]]:
    """The settings, and a decision for each one that was inferred.

    What the user set stays as it is.
    """
    given = job.server.model_fields_set
    settled = [
        found
        for found in (
            _dtype(host, facts, verifier),
            _model_len(verifier, prompts),
            _seqs(job),
        )
        if found is not None and found[0] not in given
    ]
    settings = job.server.model_copy(update={name: value for name, value, _ in settled})
    if "max_num_batched_tokens" not in given:
        tokens = max(_BATCHED_TOKENS, settings.max_num_seqs)
        settings = settings.model_copy(update={"max_num_batched_tokens": tokens})
        source = "runner's default for evaluations"
        if tokens > _BATCHED_TOKENS:
            source = "vLLM takes no less than max_num_seqs"
        chosen = Decision(
            key="server.max_num_batched_tokens",
            value=str(tokens),
            origin=Origin.INFERRED if tokens > _BATCHED_TOKENS else Origin.DEFAULT,
            source=source,
        )
        return settings, (*_decisions(settled), chosen)
    return settings, tuple(_decisions(settled))


def architectures(host: Host, facts: HostFacts) -> tuple[str, ...]:
    """Of the host's accelerators, as its owner declares it, else as the host reports them."""
    declared = host.accelerator.architecture
    if declared is not None:
        return (declared,)
    return tuple(dict.fromkeys(gpu.architecture for gpu in facts.gpus if gpu.architecture))


def _decisions(settled: Sequence[Settled]) -> Iterator[Decision]:
    for name, value, source in settled:
        yield Decision(
            key=f"server.{name}", value=str(value), origin=Origin.INFERRED, source=source
        )


def _dtype(host: Host, facts: HostFacts, verifier: VerifierReading) -> Settled | None:
    found = sorted(_FLOAT16_ONLY.intersection(architectures(host, facts)))
    if found:
        return "dtype", "float16", f"{found[0]} has no bfloat16"
    if verifier.dtype is not None:
        return "dtype", verifier.dtype, "the verifier's config.json"
    return None


def _model_len(verifier: VerifierReading, prompts: Sequence[PromptInput]) -> Settled:
    longest = verifier.max_position_embeddings
    needs = [_need(item) for item in prompts]
    known = [need for need in needs if need is not None]
    if known and len(known) == len(needs):
        need = max(known)
        wanted = max(_LEAST_MODEL_LEN, -(-need // _MODEL_LEN_STEP) * _MODEL_LEN_STEP)
        source = f"the longest conversation needs {need} tokens, its answers at their cap"
    else:
        wanted = _UNKNOWN_MODEL_LEN
        source = "prompts could not be counted"
    if longest is not None and longest < wanted:
        return "max_model_len", longest, f"the verifier's own limit; {source}"
    return "max_model_len", wanted, source


def _need(item: PromptInput) -> int | None:
    """Tokens of a set's longest conversation; None where a row is not counted."""
    needs = []
    for row in item.rows:
        if row.prompt_tokens is None:
            return None
        needs.append(row.prompt_tokens + row.turns * item.output_tokens)
    return max(needs, default=None)


def _seqs(job: EvaluationJob) -> Settled:
    modes = modes_of(job.scope)
    wanted = [_LEAST_SEQS]
    if Mode.ACCEPTANCE in modes:
        wanted.append(job.concurrency.acceptance)
    if Mode.SPEEDUP in modes:
        wanted += job.concurrency.speedup
    return "max_num_seqs", max(wanted), "the largest concurrency"
