"""A matrix job: server configurations x prompt sets x concurrency, measured cell by cell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from runner.models.base import SCHEMA_VERSION, Spec, VariableName

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")


def _check_name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError(
            f"'{value}' is not a name: lower-case letters, digits, '_', '.' and '-', 63 at most"
        )
    return value


Name = Annotated[str, AfterValidator(_check_name)]
"""A word that is safe in a path, a container name and a URL."""


class SpeculativeMethod(StrEnum):
    """Methods of vLLM's speculative configuration that a matrix may use."""

    NGRAM = "ngram"
    NGRAM_GPU = "ngram_gpu"
    DRAFT_MODEL = "draft_model"
    EAGLE = "eagle"
    EAGLE3 = "eagle3"
    MTP = "mtp"
    MEDUSA = "medusa"
    MLP_SPECULATOR = "mlp_speculator"
    SUFFIX = "suffix"
    DFLASH = "dflash"
    DSPARK = "dspark"


METHODS_WITHOUT_MODEL = frozenset(
    {
        SpeculativeMethod.NGRAM,
        SpeculativeMethod.NGRAM_GPU,
        SpeculativeMethod.SUFFIX,
        SpeculativeMethod.MTP,
    }
)


class Speculative(Spec):
    """How a server drafts. `method` is always explicit: vLLM guesses from path names without it."""

    method: SpeculativeMethod
    num_speculative_tokens: int = Field(ge=1, le=128)
    model: str | None = None
    revision: str | None = None
    prompt_lookup_min: int | None = Field(default=None, ge=1)
    prompt_lookup_max: int | None = Field(default=None, ge=1)
    draft_tensor_parallel_size: int | None = Field(default=None, ge=1)
    enable_adaptive_verification: bool = False
    parallel_drafting: bool = False

    @model_validator(mode="after")
    def _model_fits_method(self) -> Speculative:
        if self.model is None and self.method not in METHODS_WITHOUT_MODEL:
            raise ValueError(f"method '{self.method}' needs 'model' (a path or a name)")
        return self


class ServerSettings(Spec):
    """What every server of a job is started with; each value is passed explicitly."""

    dtype: str = "auto"
    max_model_len: int = Field(default=4096, ge=16)
    max_num_seqs: int = Field(default=64, ge=1)
    max_num_batched_tokens: int = Field(default=4096, ge=16)
    tensor_parallel_size: int = Field(default=1, ge=1)
    seed: int = 0
    prefix_caching: bool = False
    enforce_eager: bool = False
    gpu_memory_utilization: float | None = Field(default=None, gt=0, le=1)
    cpu_kv_cache_gib: int | None = Field(default=None, ge=1)
    trust_remote_code: bool = False
    extra_arguments: tuple[str, ...] = ()
    environment: Mapping[VariableName, str] = Field(default_factory=dict)


class ServerConfiguration(Spec):
    """One value of the `server` axis: what differs from the other configurations."""

    speculative: Speculative | None = None
    extra_arguments: tuple[str, ...] = ()
    environment: Mapping[VariableName, str] = Field(default_factory=dict)


class PromptSet(Spec):
    """One value of the `prompts` axis: rows of a JSONL file (`text` or `messages`)."""

    file: str
    rows: int | None = Field(default=None, ge=1, description="first N rows; all when left out")
    output_tokens: int = Field(default=128, ge=1)
    ignore_eos: bool | None = Field(default=None, description="sampling.ignore_eos when left out")
    duration_s: float | None = Field(
        default=None, gt=0, description="ends the measured part, if the rows last so long"
    )
    licence: str | None = None


class Sampling(Spec):
    """Sent with every request, the same for every configuration."""

    temperature: float = Field(default=0.0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    seed: int | None = 42
    ignore_eos: bool = False
    thinking: bool | None = Field(default=None, description="left to the chat template when unset")


class LoadSettings(Spec):
    """How AIPerf loads a server. Times in seconds."""

    warmup_requests: int = Field(default=2, ge=0)
    request_timeout_s: float = Field(default=600.0, gt=0)
    cell_timeout_s: float = Field(default=3600.0, gt=0)
    error_limit: float = Field(default=0.0, ge=0, le=1, description="share of failed requests")
    random_seed: int = 42
    workers: int = Field(default=1, ge=1)


class Matrix(Spec):
    """Axes and their values. `exclude` runs first, then `include` adds whole cells."""

    server: tuple[str, ...] = Field(min_length=1)
    prompts: tuple[str, ...] = Field(min_length=1)
    concurrency: tuple[int, ...] = Field(min_length=1)
    exclude: tuple[Mapping[str, Any], ...] = ()
    include: tuple[Mapping[str, Any], ...] = ()
    allow_unmatched: bool = False


class MatrixJob(Spec):
    """A job file with `kind: matrix`."""

    schema_version: int = SCHEMA_VERSION
    kind: Literal["matrix"]
    name: Name
    description: str = ""
    model: str
    tokenizer: str | None = None
    revision: str | None = None
    baseline: str | None = None
    server: ServerSettings = ServerSettings()
    servers: Mapping[Name, ServerConfiguration] = Field(min_length=1)
    prompts: Mapping[Name, PromptSet] = Field(min_length=1)
    sampling: Sampling = Sampling()
    load: LoadSettings = LoadSettings()
    matrix: Matrix
    repeats: int = Field(default=1, ge=1, le=100)
    max_cells: int = Field(default=500, ge=1)

    @model_validator(mode="after")
    def _names_exist(self) -> MatrixJob:
        for axis, values, known in (
            ("server", self.matrix.server, self.servers),
            ("prompts", self.matrix.prompts, self.prompts),
        ):
            for value in values:
                if value not in known:
                    raise ValueError(
                        f"matrix.{axis} names '{value}', which is not one of: {', '.join(known)}"
                    )
        if self.baseline is not None and self.baseline not in self.servers:
            raise ValueError(f"baseline '{self.baseline}' is not one of: {', '.join(self.servers)}")
        return self
