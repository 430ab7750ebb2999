"""What a checkpoint says about itself: its files, its revision, and what was read from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from pydantic import Field

from runner.models.base import SCHEMA_VERSION, Record
from runner.models.job import SpeculativeMethod

T = TypeVar("T")


class Inferred(Record, Generic[T]):
    """A value that was read, with the file and key that it came from.

    `source` reads `config.json: speculators_config.verifier.name_or_path` or the like.
    """

    value: T
    source: str


class CheckpointFile(Record):
    """One file of a checkpoint; `path` is relative to it."""

    path: str
    size_bytes: int
    sha256: str | None = None


class Checkpoint(Record):
    """Configuration and identity of one checkpoint; no weights are kept.

    `name` is what the user gave: an absolute path on the host, or a name on a model hub.
    `revision` is a hub's commit (40 hexadecimal digits) or `sha256:<hex>` over the content of a
    local folder; None where it can't be told, and `revision_source` then says why.
    """

    schema_version: int = SCHEMA_VERSION
    name: str
    local: bool
    revision: str | None
    revision_source: str
    config: Mapping[str, Any]
    files: tuple[CheckpointFile, ...] = ()
    chat_template: bool = Field(default=False, description="has a chat template")


class MtpHead(Record):
    """A native multi-token-prediction head that a model's configuration names.

    `depth` is the number of its layers. A configuration is no proof of weights.
    """

    depth: int
    source: str


class VerifierReading(Record):
    """What matters of the model that is served; None where its configuration does not say.

    `max_position_source` says which number was taken as the longest context, and why.
    `problems` are contradictions inside the file, ready to print.
    """

    model_type: str | None
    architectures: tuple[str, ...] = ()
    vocab_size: int | None = None
    hidden_size: int | None = None
    max_position_embeddings: int | None = None
    max_position_source: str | None = None
    dtype: str | None = None
    mtp: MtpHead | None = None
    mtp_refusal: str | None = Field(default=None, description="why a head it has can't be used")
    problems: tuple[str, ...] = ()


class DrafterReading(Record):
    """What a drafter's configuration says; None where it says nothing.

    `details` holds settings of the format that matter to a reader (aux layers, draft vocabulary).
    `untold` has key of the job -> why nothing can be inferred for it. `problems` are contradictions
    inside the file, ready to print.
    """

    format: str = Field(description="speculators, eagle, eagle3, medusa, mtp, model …, in words")
    method: Inferred[SpeculativeMethod] | None = None
    parallel_drafting: bool = False
    verifier: Inferred[str] | None = None
    num_speculative_tokens: Inferred[int] | None = None
    mtp: MtpHead | None = None
    vocab_size: int | None = None
    draft_vocab_size: int | None = None
    hidden_size: int | None = None
    max_position_embeddings: int | None = None
    max_position_source: str | None = None
    dtype: str | None = None
    untold: Mapping[str, str] = Field(default_factory=dict)
    details: Mapping[str, Any] = Field(default_factory=dict)
    problems: tuple[str, ...] = ()
