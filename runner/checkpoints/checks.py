"""Whether a drafter fits a verifier and the settings that both are served with, before a launch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from runner.models.checkpoint import DrafterReading, Inferred, VerifierReading
from runner.models.job import SpeculativeMethod
from runner.models.plan import Finding, FindingLevel

_EAGLE = frozenset({SpeculativeMethod.EAGLE, SpeculativeMethod.EAGLE3})
# they take the verifier's hidden states in
_ON_HIDDEN_STATES = _EAGLE | {SpeculativeMethod.DFLASH, SpeculativeMethod.DSPARK}
_WITHOUT_CHECKPOINT = frozenset(
    {SpeculativeMethod.NGRAM, SpeculativeMethod.NGRAM_GPU, SpeculativeMethod.SUFFIX}
)
# each head drafts one token, so their number is the draft length that is read
_OF_HEADS = frozenset({SpeculativeMethod.MEDUSA, SpeculativeMethod.MLP_SPECULATOR})
_DTYPES = {"half": "float16", "float": "float32"}


@dataclass(frozen=True)
class _Pair:
    """The arguments of `check_pair`."""

    drafter: DrafterReading
    verifier: VerifierReading
    method: SpeculativeMethod
    draft_lengths: tuple[int, ...]
    draft_tensor_parallel_size: int | None
    tensor_parallel_size: int
    max_model_len: int
    longest_prompt_tokens: int | None
    output_tokens: int
    dtype: str
    heterogeneous_vocabulary: bool


def check_pair(
    *,
    drafter: DrafterReading,
    verifier: VerifierReading,
    method: SpeculativeMethod,
    draft_lengths: Sequence[int],
    draft_tensor_parallel_size: int | None,
    tensor_parallel_size: int,
    max_model_len: int,
    longest_prompt_tokens: int | None,
    output_tokens: int,
    dtype: str = "auto",
    heterogeneous_vocabulary: bool = False,
) -> Iterator[Finding]:
    """Findings about a drafter on a verifier; the subject of each is a key of the evaluation job.

    What a configuration does not tell is not checked. The rules are those of vLLM 0.32
    (config/speculative.py, config/model.py).

    Args:
        method: the effective one, given or inferred.
        draft_lengths: draft tokens a step, every one that runs.
        max_model_len: of the server, in tokens.
        longest_prompt_tokens: of all rows that run, rendered; None when they were not counted.
        output_tokens: cap on an answer to that prompt.
        dtype: of the server; `auto` is the verifier's own.
        heterogeneous_vocabulary: vLLM translates between two vocabularies.
    """
    pair = _Pair(
        drafter,
        verifier,
        method,
        tuple(draft_lengths),
        draft_tensor_parallel_size,
        tensor_parallel_size,
        max_model_len,
        longest_prompt_tokens,
        output_tokens,
        dtype,
        heterogeneous_vocabulary,
    )
    for check in (_problems, _method, _vocabulary, _hidden, _length, _drafter_length):
        yield from check(pair)
    for check in (_draft_lengths, _parallelism, _dtype):
        yield from check(pair)


def _problems(pair: _Pair) -> Iterator[Finding]:
    for subject, problems in (
        ("drafter", pair.drafter.problems),
        ("verifier", pair.verifier.problems),
    ):
        for problem in problems:
            yield _error(
                subject,
                f"config.json of the {subject}: {problem}",
                f"correct that file, or set '{subject}' to another checkpoint",
            )


def _method(pair: _Pair) -> Iterator[Finding]:
    read = pair.drafter.method
    if pair.method in _WITHOUT_CHECKPOINT:
        yield _error(
            "method",
            f"{pair.method} drafts without a checkpoint, so the drafter would not be used",
            "write a job with 'kind: matrix' for it, or leave 'method' out",
        )
    elif pair.method is SpeculativeMethod.MTP and not _mtp_depth(pair):
        reason = pair.verifier.mtp_refusal or (
            f"model_type {pair.verifier.model_type} with "
            f"architectures {', '.join(pair.verifier.architectures) or 'not set'} is none of the "
            "models whose config.json names an MTP head that vLLM can use"
        )
        yield _error("method", f"no native MTP here: {reason}", "set 'method' to another one")
    elif read is not None and read.value is not pair.method:
        yield _warning(
            "method",
            f"{pair.method} is set, and the drafter reads as {read.value} ({read.source})",
            f"--set method={read.value}, unless the file is wrong",
        )
    yield from _architectures(pair)


def _architectures(pair: _Pair) -> Iterator[Finding]:
    """The speculators format names the architecture that a drafter was trained on."""
    told = pair.drafter.details.get("verifier_architectures")
    here = pair.verifier.architectures
    if isinstance(told, list | tuple) and told and here and not set(map(str, told)) & set(here):
        yield _warning(
            "verifier",
            f"the drafter was made for {', '.join(map(str, told))}; the verifier is "
            f"{', '.join(here)}",
            "set 'verifier' to the model that the drafter was trained on",
        )


def _vocabulary(pair: _Pair) -> Iterator[Finding]:
    ours, theirs = pair.drafter.vocab_size, pair.verifier.vocab_size
    draft = pair.drafter.draft_vocab_size
    if theirs is None:
        return
    if draft is not None and draft > theirs:
        yield _error(
            "verifier",
            f"draft_vocab_size {draft} of the drafter is more than vocab_size {theirs} of the "
            "verifier",
            "set 'verifier' to the model that the drafter was trained on",
        )
    if ours is None or ours == theirs or pair.method is SpeculativeMethod.MEDUSA:
        return
    message = f"vocab_size is {ours} in the drafter and {theirs} in the verifier"
    if pair.method is not SpeculativeMethod.DRAFT_MODEL:
        next_step = "set 'verifier' to the model that the drafter was trained on"
        yield _warning("verifier", message, next_step)
    elif not pair.heterogeneous_vocabulary:
        yield _error(
            "drafter",
            f"{message}; a draft model needs the same",
            "set 'drafter' to a model with the verifier's vocabulary",
        )


def _hidden(pair: _Pair) -> Iterator[Finding]:
    told = pair.drafter.details.get("target_hidden_size")
    key = "target_hidden_size" if isinstance(told, int) else "hidden_size"
    size = told if isinstance(told, int) else pair.drafter.hidden_size
    theirs = pair.verifier.hidden_size
    if pair.method not in _ON_HIDDEN_STATES or size is None or theirs is None or size == theirs:
        return
    yield _error(
        "verifier",
        f"{key} {size} of the drafter is not hidden_size {theirs} of the verifier, whose hidden "
        "states it reads",
        "set 'verifier' to the model that the drafter was trained on",
    )


def _length(pair: _Pair) -> Iterator[Finding]:
    """The longest request against the server, and the server against the model."""
    positions = pair.verifier.max_position_embeddings
    if positions is not None and pair.max_model_len > positions:
        yield _error(
            "server.max_model_len",
            f"{pair.max_model_len} is more than the verifier's {positions} positions "
            f"({pair.verifier.max_position_source})",
            f"--set server.max_model_len={positions}",
        )
    needed = _needed(pair)
    if needed is None or needed <= pair.max_model_len:
        return
    request = (
        f"the longest prompt has {pair.longest_prompt_tokens} tokens and its answer up to "
        f"{pair.output_tokens}: {needed} together"
    )
    if positions is not None and needed > positions:
        yield _error(
            "datasets",
            f"{request}, more than the verifier's {positions} positions "
            f"({pair.verifier.max_position_source})",
            "set 'datasets' to shorter ones, or lower output_tokens in 'budget'",
        )
    else:
        yield _error(
            "server.max_model_len",
            f"{request}, more than server.max_model_len {pair.max_model_len}",
            f"--set server.max_model_len={needed}",
        )


def _drafter_length(pair: _Pair) -> Iterator[Finding]:
    """What vLLM does where the drafter has fewer positions than the server."""
    positions = pair.drafter.max_position_embeddings
    if positions is None or positions >= pair.max_model_len:
        return
    shorter = (
        f"the drafter has {positions} positions ({pair.drafter.max_position_source}), the server "
        f"max_model_len {pair.max_model_len}"
    )
    if pair.method in _EAGLE:
        yield _note(
            "drafter",
            f"{shorter}: vLLM raises the drafter's to that; it was not made for text so long",
        )
    elif pair.method is SpeculativeMethod.DRAFT_MODEL:
        needed = _needed(pair)
        reached = needed is not None and needed > positions
        say = _warning if reached else _note
        yield say(
            "drafter",
            f"{shorter}: vLLM clips the drafter to its own, and nothing is drafted beyond"
            + (f"; requests take up to {needed}" if reached else ""),
            f"--set server.max_model_len={positions}" if reached else None,
        )


def _draft_lengths(pair: _Pair) -> Iterator[Finding]:
    heads = _heads(pair)
    depth = _mtp_depth(pair) if pair.method is SpeculativeMethod.MTP else None
    for length in pair.draft_lengths:
        if heads is not None and length > heads.value:
            yield _error(
                "draft_length",
                f"{length} is more than the drafter's {heads.value} heads ({heads.source})",
                f"--set draft_length={heads.value}",
            )
        if depth is None:
            continue
        if length > depth and length % depth:
            yield _error(
                "draft_length",
                f"{length} is neither at most the depth {depth} of the MTP head nor a multiple "
                "of it",
                f"--set draft_length={length // depth * depth}",
            )
        elif length > depth:
            times = length // depth
            yield _note(
                "draft_length",
                f"{length} with an MTP head of depth {depth}: vLLM runs it {times} times a step; "
                "later tokens are accepted less often than its first",
            )


def _parallelism(pair: _Pair) -> Iterator[Finding]:
    size, target = pair.draft_tensor_parallel_size, pair.tensor_parallel_size
    if size not in (None, 1, target):
        yield _error(
            "draft_tensor_parallel_size",
            f"{size} is neither 1 nor server.tensor_parallel_size {target}",
            "--set draft_tensor_parallel_size=1",
        )
    elif pair.method is SpeculativeMethod.MLP_SPECULATOR and size is None and target > 1:
        yield _note(
            "draft_tensor_parallel_size",
            f"vLLM runs an mlp_speculator on 1 accelerator, the verifier on {target}",
        )


def _dtype(pair: _Pair) -> Iterator[Finding]:
    """The drafter is served in the number format of the verifier, whatever its file says."""
    own, theirs = pair.drafter.dtype, pair.verifier.dtype
    served = theirs if pair.dtype == "auto" else _DTYPES.get(pair.dtype, pair.dtype)
    if served is None:
        return
    if theirs is not None and theirs != served:
        yield _note(
            "server.dtype", f"the verifier's weights are {theirs} and are served as {served}"
        )
    if own is not None and own != served:
        whose = "the verifier's" if pair.dtype == "auto" else "server.dtype"
        yield _warning(
            "server.dtype",
            f"the drafter's weights are {own} and are served as {served} ({whose})",
            f"--set server.dtype={own} serves both as {own}, if the accelerator can",
        )


def _needed(pair: _Pair) -> int | None:
    longest = pair.longest_prompt_tokens
    return None if longest is None else longest + pair.output_tokens


def _mtp_depth(pair: _Pair) -> int | None:
    """A head on its own counts before that of the verifier."""
    head = pair.drafter.mtp or pair.verifier.mtp
    return head.depth if head else None


def _heads(pair: _Pair) -> Inferred[int] | None:
    read = pair.drafter.method
    own = read is not None and read.value is pair.method
    return pair.drafter.num_speculative_tokens if own and pair.method in _OF_HEADS else None


def _finding(
    level: FindingLevel, subject: str, message: str, next_step: str | None = None
) -> Finding:
    return Finding(level=level, subject=subject, message=message, next_step=next_step)


def _error(subject: str, message: str, next_step: str) -> Finding:
    return _finding(FindingLevel.ERROR, subject, message, next_step)


def _warning(subject: str, message: str, next_step: str | None) -> Finding:
    return _finding(FindingLevel.WARNING, subject, message, next_step)


def _note(subject: str, message: str, next_step: str | None = None) -> Finding:
    return _finding(FindingLevel.NOTE, subject, message, next_step)
