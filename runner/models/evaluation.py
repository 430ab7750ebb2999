"""An evaluation job: one drafter, and everything else inferred, defaulted or said."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field, field_validator, model_validator

from runner.models.base import SCHEMA_VERSION, Spec
from runner.models.host import Vendor
from runner.models.job import LoadSettings, Name, ServerSettings


class Scope(StrEnum):
    """What is measured."""

    ACCEPTANCE = "acceptance"
    SPEEDUP = "speedup"
    FULL = "full"


class Mode(StrEnum):
    """What a cell is measured for."""

    ACCEPTANCE = "acceptance"
    SPEEDUP = "speedup"


class Comparator(StrEnum):
    """What the drafter is compared with. auto: native MTP where the model has it and it runs,
    else the same model without speculation."""

    AUTO = "auto"
    MTP = "mtp"
    BASE = "base"


class Adaptive(StrEnum):
    """Adaptive verification in speed-up cells. auto: off, and on where it is supported."""

    AUTO = "auto"
    OFF = "off"
    ON = "on"


class End(StrEnum):
    """When an answer ends: where the model ends it, or at the cap whatever the model says."""

    NATURAL = "natural"
    FIXED = "fixed"


class EvaluationDatasets(Spec):
    """Catalogue names or paths of JSONL files, for each mode; the defaults when left out."""

    acceptance: tuple[str, ...] | None = Field(default=None, min_length=1)
    speedup: tuple[str, ...] | None = Field(default=None, min_length=1)


class EvaluationSampling(Spec):
    """Sent with every request, the same for every configuration. `thinking` is left to the chat
    template when it is not set."""

    temperature: float = Field(default=0.0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    seed: int | None = 42
    thinking: bool | None = None


class ModeBudget(Spec):
    """How much a mode may take for each dataset.

    `rows` is a seeded subset; the whole dataset where it has no more. `duration_s` ends the
    measured part of a cell after that time, if its rows last so long.
    """

    rows: int = Field(default=80, ge=1)
    output_tokens: int = Field(default=512, ge=1)
    end: End = End.NATURAL
    duration_s: float | None = Field(default=None, gt=0)


class Budget(Spec):
    """Budgets of both modes, and the seed that chooses rows."""

    acceptance: ModeBudget = ModeBudget(rows=80, output_tokens=1024)
    speedup: ModeBudget = ModeBudget(rows=128, output_tokens=512)
    seed: int = 42


class EvaluationConcurrency(Spec):
    """Requests in flight at a time."""

    acceptance: int = Field(default=8, ge=1)
    speedup: tuple[int, ...] = Field(default=(1, 4, 16, 64), min_length=1)

    @field_validator("speedup")
    @classmethod
    def _distinct(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if min(value) < 1 or len(set(value)) != len(value):
            raise ValueError("must be different whole numbers from 1")
        return value


class Hardware(Spec):
    """What the host must have; a host that differs is refused before anything starts."""

    vendor: Vendor | None = None
    architecture: str | None = None
    count: int | None = Field(default=None, ge=1)


class EvaluationJob(Spec):
    """A job file with `kind: evaluation`. Only the drafter must be given."""

    schema_version: int = SCHEMA_VERSION
    kind: Literal["evaluation"]
    name: Name | None = None
    description: str = ""
    drafter: str
    drafter_revision: str | None = None
    scope: Scope = Scope.FULL
    datasets: EvaluationDatasets | tuple[str, ...] = EvaluationDatasets()
    verifier: str | None = None
    verifier_revision: str | None = None
    tokenizer: str | None = None
    method: str | None = None
    draft_length: int | tuple[int, ...] | None = None
    draft_tensor_parallel_size: int | None = Field(default=None, ge=1)
    comparator: Comparator = Comparator.AUTO
    matched_async: bool = False
    adaptive: Adaptive | bool = Adaptive.AUTO
    sampling: EvaluationSampling = EvaluationSampling()
    budget: Budget = Budget()
    concurrency: EvaluationConcurrency = EvaluationConcurrency()
    repeats: int = Field(default=3, ge=1, le=100)
    server: ServerSettings = ServerSettings()
    load: LoadSettings = LoadSettings()
    hardware: Hardware = Hardware()
    max_cells: int = Field(default=500, ge=1)

    @property
    def adaptive_verification(self) -> Adaptive:
        """The same choice however it was written: YAML reads `on` and `off` as truth values."""
        if isinstance(self.adaptive, bool):
            return Adaptive.ON if self.adaptive else Adaptive.OFF
        return self.adaptive

    @property
    def draft_lengths(self) -> tuple[int, ...] | None:
        """Every draft length, in the order given; None when it is to be inferred."""
        if isinstance(self.draft_length, int):
            return (self.draft_length,)
        return self.draft_length

    def datasets_of(self, mode: Mode) -> tuple[str, ...] | None:
        """The datasets given for a mode; None when its defaults are meant."""
        if isinstance(self.datasets, tuple):
            return self.datasets
        return self.datasets.acceptance if mode is Mode.ACCEPTANCE else self.datasets.speedup

    @model_validator(mode="after")
    def _draft_lengths(self) -> EvaluationJob:
        lengths = self.draft_lengths
        if lengths is None:
            return self
        if (
            not lengths
            or any(not 1 <= length <= 128 for length in lengths)
            or len(set(lengths)) != len(lengths)
        ):
            raise ValueError("draft_length must be different whole numbers from 1 to 128")
        return self

    @model_validator(mode="after")
    def _some_datasets(self) -> EvaluationJob:
        if self.datasets == ():
            raise ValueError("datasets is empty; leave it out for the defaults")
        return self
