"""A plan with nothing left to decide: what `submit` uploads and the supervisor carries out."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field

from runner.models.base import SCHEMA_VERSION, Spec
from runner.models.container import ContainerSpec
from runner.models.host import Accelerator, ConnectionKind
from runner.models.image import LockedImage
from runner.models.job import Sampling, Speculative

LABEL = "dev.runner"
LABEL_RUN = "dev.runner.run"
LABEL_JOB = "dev.runner.job"
LABEL_ROLE = "dev.runner.role"
LABEL_SERVER = "dev.runner.server"
LABEL_CELL = "dev.runner.cell"
LABEL_ATTEMPT = "dev.runner.attempt"
LABEL_RUN_DIR = "dev.runner.run-dir"

ATTEMPT = "{attempt}"
"""In names and mount sources of a plan: replaced by the attempt's number when it starts."""


class Origin(StrEnum):
    """Who decided a value."""

    USER = "user"
    INFERRED = "inferred"
    DEFAULT = "default"


class Decision(Spec):
    """One resolved value with its origin; `source` is a file, an option or a fact."""

    key: str
    value: str
    origin: Origin
    source: str | None = None


class FindingLevel(StrEnum):
    """How much a finding matters."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


class Finding(Spec):
    """Something that planning noticed; an error stops `submit`."""

    level: FindingLevel
    subject: str
    message: str
    next_step: str | None = None


class Readiness(Spec):
    """Bounds on waiting for a server, in seconds."""

    quiet_s: float = 120.0
    hard_s: float = 3600.0


class WarmupPlan(Spec):
    """Requests that the supervisor sends itself; their prompts are never measured."""

    requests: int = 2
    prompt: str
    output_tokens: int = 16


class ServerPlan(Spec):
    """One server configuration. `container.name` holds `{attempt}`.

    Args:
        optional: wanted where it can be had: a refusal to start makes its cells UNAVAILABLE.
        instead_of: server that this one stands in for: it is started only when that one turned out
            UNAVAILABLE.
        baseline: id of the server it is compared with.
        baseline_fallback: the one it is compared with when `baseline` is UNAVAILABLE.
        per_request_metrics: its answers carry acceptance; else it comes from `/metrics`.
        expected: path in `/server_info` -> value that the plan asked for, as text.
    """

    id: str
    configuration: str
    served_name: str
    model: str
    port: int = 8000
    speculative: Speculative | None = None
    prefix_caching: bool = False
    baseline: str | None = None
    baseline_fallback: str | None = None
    optional: bool = False
    instead_of: str | None = None
    per_request_metrics: bool = False
    expected: Mapping[str, str] = Field(default_factory=dict)
    container: ContainerSpec
    readiness: Readiness = Readiness()
    warmup: WarmupPlan


class PlannedRow(Spec):
    """Identity of one conversation: AIPerf's `conversation_id` and turn count.

    `prompt_tokens` counts the rendered prompt with the served tokenizer, where that is known.
    """

    id: str
    turns: int = 1
    category: str | None = None
    prompt_tokens: int | None = None


class CellPlan(Spec):
    """One measurement. `container` has `{attempt}` in its name and in the export mount's source."""

    id: str
    server: str
    prompts: str
    concurrency: int
    repeat: int
    rows: tuple[PlannedRow, ...]
    output_tokens: int
    requests: int
    mode: str | None = Field(default=None, description="acceptance or speedup, in an evaluation")
    dataset: str | None = Field(default=None, description="of the catalogue, or a file")
    ignore_eos: bool = False
    duration_s: float | None = Field(
        default=None, description="ends the measured part; unfinished requests leave no record"
    )
    error_limit: float = 0.0
    timeout_s: float = 3600.0
    container: ContainerSpec


class PromptFile(Spec):
    """A prompt set as uploaded: name, SHA-256 of the JSONL, rows, licence, where it came from.

    A set of the catalogue also has its revision, the rows of the whole dataset and how the
    uploaded ones were chosen. `restricted` prompts stay out of what is shared.
    """

    name: str
    sha256: str
    rows: int
    source: str
    licence: str | None = None
    dataset: str | None = None
    revision: str | None = None
    dataset_sha256: str | None = None
    dataset_rows: int | None = None
    selection: str | None = None
    restricted: bool = False


class PlannedCheckpoint(Spec):
    """A checkpoint that a run uses, pinned; `revision` None has its reason in the source."""

    name: str
    revision: str | None
    revision_source: str


class Unavailable(Spec):
    """A condition that is part of the evaluation and is not run, with the reason."""

    condition: str
    reason: str


class Estimate(Spec):
    """What a plan will take. `hours` comes from earlier runs only, else None with the reason.

    Tokens are upper bounds: every answer as long as its cap allows.
    """

    servers: int
    cells: int
    requests: int
    output_tokens: int
    prompt_tokens: int | None = None
    hours: float | None = None
    hours_source: str


class PlannedHost(Spec):
    """Where the plan runs."""

    name: str
    connection: ConnectionKind
    address: str | None = None
    accelerator: Accelerator
    engine_socket: str


class Plan(Spec):
    """`plan.json`. Its words are final: execution makes no choices."""

    schema_version: int = SCHEMA_VERSION
    runner_version: str
    run_id: str
    job: str
    created_at: str
    kind: str = "matrix"
    description: str = ""
    host: PlannedHost
    run_dir: str
    network: str
    images: Mapping[str, LockedImage]
    supervisor: ContainerSpec
    servers: tuple[ServerPlan, ...]
    cells: tuple[CellPlan, ...]
    prompts: tuple[PromptFile, ...]
    sampling: Sampling
    checkpoints: Mapping[str, PlannedCheckpoint] = Field(default_factory=dict)
    unavailable: tuple[Unavailable, ...] = ()
    estimate: Estimate | None = None
    secrets: tuple[str, ...] = Field(default=(), description="names only")
    decisions: tuple[Decision, ...] = ()
    findings: tuple[Finding, ...] = ()
    overrides: tuple[str, ...] = ()

    def server(self, server_id: str) -> ServerPlan:
        """The server with this id; KeyError when there is none."""
        for server in self.servers:
            if server.id == server_id:
                return server
        raise KeyError(server_id)

    def cell(self, cell_id: str) -> CellPlan:
        """The cell with this id; KeyError when there is none."""
        for cell in self.cells:
            if cell.id == cell_id:
                return cell
        raise KeyError(cell_id)

    def cells_of(self, server_id: str) -> tuple[CellPlan, ...]:
        """Cells of one server in the order in which they run."""
        return tuple(cell for cell in self.cells if cell.server == server_id)


def for_attempt(spec: ContainerSpec, attempt: int) -> ContainerSpec:
    """The container of one attempt: `{attempt}` filled in name, labels and mount sources."""

    def fill(text: str) -> str:
        return text.replace(ATTEMPT, str(attempt))

    return spec.model_copy(
        update={
            "name": fill(spec.name),
            "labels": {key: fill(value) for key, value in spec.labels.items()},
            "mounts": tuple(
                mount.model_copy(update={"source": fill(mount.source)}) for mount in spec.mounts
            ),
        }
    )
