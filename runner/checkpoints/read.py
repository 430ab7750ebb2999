"""What a configuration says, with the key that each value was read from; pure, never a guess."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runner.checkpoints.families import (
    PARALLEL_KEYS,
    Family,
    details_of,
    find_family,
    inferred_method,
)
from runner.checkpoints.fields import LONGEST_DRAFT_TOKENS, ConfigFields, source_of
from runner.checkpoints.mtp import MtpReading, read_mtp
from runner.checkpoints.positions import longest_context
from runner.checkpoints.speculators import is_speculators, read_speculators
from runner.models.checkpoint import Checkpoint, DrafterReading, Inferred, VerifierReading
from runner.models.job import SpeculativeMethod

_NO_VERIFIER = "config.json of the drafter does not name the model that it drafts for"
_NO_LENGTH = "config.json of the drafter holds no draft length"

# endings of architectures that predict a next token
_CAUSAL = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")


def read_verifier(checkpoint: Checkpoint) -> VerifierReading:
    """What matters of the model that is served. Never raises on odd content."""
    fields = ConfigFields(checkpoint.config)
    context = longest_context(fields)
    mtp = read_mtp(checkpoint.config, fields)
    return VerifierReading(
        model_type=fields.word("model_type"),
        architectures=fields.words("architectures"),
        vocab_size=fields.size(*fields.in_text("vocab_size")),
        hidden_size=fields.size(*fields.in_text("hidden_size")),
        max_position_embeddings=context[0] if context else None,
        max_position_source=context[1] if context else None,
        dtype=fields.dtype(),
        mtp=None if mtp.separate else mtp.head,
        mtp_refusal=mtp.refusal,
        problems=fields.problems,
    )


def read_drafter(checkpoint: Checkpoint) -> DrafterReading:
    """What a drafter says about itself. Never raises on odd content: see `problems`.

    Looked at in this order: the speculators format, the architecture (EAGLE, Medusa, ...), a native
    MTP head (the model is then its own verifier), and last an ordinary model, which drafts as
    `draft_model`. Names of paths play no part. What the user has to say is in `untold`, by key
    of the job.
    """
    config = checkpoint.config
    if is_speculators(config):
        return read_speculators(config)
    fields = ConfigFields(config)
    family = find_family(fields)
    if family is not None:
        return _of_family(config, fields, *family)
    mtp = read_mtp(config, fields)
    if mtp.head is not None:
        return _of_mtp(checkpoint, fields, mtp)
    return _ordinary(config, fields, mtp.refusal)


def _of_family(
    config: Mapping[str, Any],
    fields: ConfigFields,
    family: Family,
    method: Inferred[SpeculativeMethod],
) -> DrafterReading:
    length = fields.number(*family.length, most=LONGEST_DRAFT_TOKENS)
    verifier = fields.text(*family.verifier)
    untold = {} if verifier else {"verifier": _NO_VERIFIER}
    if length is None:
        untold["draft_length"] = _NO_LENGTH
    else:
        reason = f"{length.source} ({family.length_reason})"
        length = Inferred[int](value=length.value, source=reason)
    # a converted EAGLE checkpoint keeps the settings of its layers under `model`
    prefix = "model" if isinstance(fields.value("model"), Mapping) else None
    return DrafterReading(
        format=family.format,
        method=method,
        parallel_drafting=family.parallel or any(map(fields.has, PARALLEL_KEYS)),
        verifier=verifier,
        num_speculative_tokens=length,
        untold=untold,
        **_sizes(config, fields, prefix, family.hidden),
    )


def _of_mtp(checkpoint: Checkpoint, fields: ConfigFields, mtp: MtpReading) -> DrafterReading:
    assert mtp.head is not None
    where = mtp.head.source
    return DrafterReading(
        format="mtp",
        method=Inferred[SpeculativeMethod](value=SpeculativeMethod.MTP, source=where),
        verifier=None
        if mtp.separate
        else Inferred[str](
            value=checkpoint.name, source=f"{where} (the head is a part of the model)"
        ),
        num_speculative_tokens=Inferred[int](
            value=mtp.head.depth, source=f"{where} (depth of the head)"
        ),
        mtp=mtp.head,
        untold={"verifier": _NO_VERIFIER} if mtp.separate else {},
        **_sizes(checkpoint.config, fields),
    )


def _ordinary(
    config: Mapping[str, Any], fields: ConfigFields, refusal: str | None
) -> DrafterReading:
    architecture = next(iter(fields.words("architectures")), None)
    known_by = f"architectures {architecture}" if architecture else None
    untold = {"verifier": _NO_VERIFIER, "draft_length": _NO_LENGTH}
    parallel = next((key for key in PARALLEL_KEYS if fields.has(key)), None)
    if refusal is not None:
        untold["method"] = refusal
    elif known_by is None:
        untold["method"] = "config.json names no architecture"
    elif not known_by.endswith(_CAUSAL):
        untold["method"] = f"{source_of(known_by)} is no kind of model that drafts"
    elif parallel is None and fields.size(*fields.in_text("num_hidden_layers")) == 1:
        untold["method"] = (
            f"{source_of(known_by)} has one layer: an EAGLE head looks the same as a draft model"
        )
    method = None
    if "method" not in untold and known_by:
        drafts_as = SpeculativeMethod.DRAFT_MODEL
        method = inferred_method(drafts_as, f"{known_by} (an ordinary model)")
    return DrafterReading(
        format="model" if known_by else "unknown",
        method=method,
        parallel_drafting=parallel is not None,
        untold=untold,
        **_sizes(config, fields),
    )


def _sizes(
    config: Mapping[str, Any],
    fields: ConfigFields,
    prefix: str | None = None,
    hidden: tuple[str, ...] = ("hidden_size",),
) -> dict[str, Any]:
    """What every kind of drafter is compared by, and the problems met so far."""

    def paths(key: str) -> tuple[str, ...]:
        own = fields.in_text(key)
        return (f"{prefix}.{key}", *own) if prefix else own

    context = longest_context(fields, prefix)
    return {
        "vocab_size": fields.size(*paths("vocab_size")),
        "draft_vocab_size": fields.size(*paths("draft_vocab_size")),
        "hidden_size": fields.size(*(path for key in hidden for path in paths(key))),
        "max_position_embeddings": context[0] if context else None,
        "max_position_source": context[1] if context else None,
        "dtype": fields.dtype(*([prefix] if prefix else [])),
        "details": details_of(config),
        "problems": fields.problems,
    }
