"""Everything a plan is made from; the same inputs always give the same plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from runner.models.capability import ImageCapabilities
from runner.models.host import Host, HostFacts, Role
from runner.models.image import LockedImage
from runner.models.job import MatrixJob
from runner.models.plan import (
    Decision,
    Estimate,
    Finding,
    PlannedCheckpoint,
    PlannedRow,
    Unavailable,
)
from runner.plan.matrix import CellKey


@dataclass(frozen=True)
class PromptInput:
    """One prompt set as it will be uploaded.

    `aiperf_format` is AIPerf's name of the row format (`single_turn`, `multi_turn`,
    `mooncake_trace`), `sha256` that of the JSONL, `output_tokens` the cap of every answer.
    """

    name: str
    sha256: str
    rows: tuple[PlannedRow, ...]
    source: str
    aiperf_format: str
    output_tokens: int
    licence: str | None = None
    dataset: str | None = None
    revision: str | None = None
    dataset_sha256: str | None = None
    dataset_rows: int | None = None
    selection: str | None = None
    restricted: bool = False


@dataclass(frozen=True)
class ServerRole:
    """What a configuration is for in an evaluation; see `ServerPlan`."""

    optional: bool = False
    instead_of: str | None = None
    baseline: str | None = None
    baseline_fallback: str | None = None


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation adds to the matrix job that it was resolved to.

    Args:
        keys: the cells in the order in which they run; they stand in place of the job's matrix.
        roles: configuration -> what it is for; every configuration of the job has one.
        decisions: every resolved value of the evaluation with its origin.
    """

    keys: tuple[CellKey, ...]
    roles: Mapping[str, ServerRole]
    decisions: tuple[Decision, ...]
    findings: tuple[Finding, ...] = ()
    unavailable: tuple[Unavailable, ...] = ()
    checkpoints: Mapping[str, PlannedCheckpoint] = field(default_factory=dict)
    estimate: Estimate | None = None


@dataclass(frozen=True)
class PlanInputs:
    """What `build_plan` needs, all of it.

    Args:
        origins: dotted key of the job -> where its value was written ("file:line", "--set key").
        images: the lock's entry of the host for each role; a role without one is a finding.
        outdated_images: roles whose image was built from other sources than those at hand.
        secrets: names of environment variables that every server gets, values beside the plan.
        created_at: ISO time with zone.
        overrides: `--set` arguments as given.
        capabilities: of the server image; None when it was never probed.
        evaluation: set when the job was made from an evaluation.
    """

    job: MatrixJob
    prompts: tuple[PromptInput, ...]
    host: Host
    facts: HostFacts
    run_id: str
    created_at: str
    origins: Mapping[str, str] = field(default_factory=dict)
    images: Mapping[Role, LockedImage] = field(default_factory=dict)
    outdated_images: frozenset[Role] = frozenset()
    secrets: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    capabilities: ImageCapabilities | None = None
    evaluation: Evaluation | None = None
