"""An evaluation resolved: which servers, which cells, and where every value came from. Pure.

The result is a matrix job, so that planning goes on as for any other job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from runner.errors import SpecError
from runner.models.capability import ImageCapabilities
from runner.models.checkpoint import Checkpoint, DrafterReading, VerifierReading
from runner.models.evaluation import EvaluationJob, Mode
from runner.models.host import Host, HostFacts
from runner.models.job import (
    Matrix,
    MatrixJob,
    PromptSet,
    Sampling,
    ServerConfiguration,
    SpeculativeMethod,
)
from runner.models.plan import Decision, Estimate, Origin, PlannedCheckpoint
from runner.plan.decisions import job_decisions
from runner.plan.estimate import CellLoad, Pace, estimate
from runner.plan.evaluation_findings import evaluation_findings
from runner.plan.evaluation_servers import Condition, Conditions, conditions
from runner.plan.evaluation_sets import ChosenSet, chosen_sets, datasets_of, modes_of
from runner.plan.evaluation_settings import server_settings
from runner.plan.inputs import Evaluation, PromptInput
from runner.plan.matrix import CellKey

__all__ = [
    "ChosenSet",
    "EvaluationInputs",
    "Missing",
    "Resolution",
    "chosen_sets",
    "missing",
    "resolve",
]


@dataclass(frozen=True)
class EvaluationInputs:
    """Everything that an evaluation is resolved from.

    Args:
        job: with its name.
        origins: dotted key -> where its value was written.
        prompts: one for each of `chosen_sets`, in that order; without rows where a dataset is not
            at hand.
        capabilities: of the server image; None when it was never probed.
        method: the user's, under its own name; None when it is the checkpoint's.
        parallel_drafting: goes with the user's method.
        pace: of earlier runs, for the estimate.
    """

    job: EvaluationJob
    origins: Mapping[str, str]
    host: Host
    facts: HostFacts
    drafter: Checkpoint
    drafter_reading: DrafterReading
    verifier: Checkpoint
    verifier_reading: VerifierReading
    prompts: tuple[PromptInput, ...]
    capabilities: ImageCapabilities | None = None
    method: SpeculativeMethod | None = None
    parallel_drafting: bool = False
    pace: Pace | None = None


@dataclass(frozen=True)
class Missing:
    """What can't be inferred and was not given: the key of the job, and the option that sets it."""

    key: str
    option: str
    why: str


@dataclass(frozen=True)
class Resolution:
    """The matrix job that an evaluation means, and what it adds."""

    job: MatrixJob
    evaluation: Evaluation


def missing(
    job: EvaluationJob,
    reading: DrafterReading | None,
    method: SpeculativeMethod | None = None,
) -> tuple[Missing, ...]:
    """What must be asked for, given what the drafter's configuration says.

    Args:
        reading: None where it could not be read at all.
        method: the user's, under its own name; None when it is the checkpoint's.
    """
    reading = reading or DrafterReading(format="unknown")
    lacking = {
        "verifier": job.verifier is None and reading.verifier is None,
        "method": job.method is None and method is None and reading.method is None,
        "draft_length": job.draft_lengths is None and _own_length(reading, method) is None,
    }
    why = {
        "verifier": "the drafter's configuration names no verifier",
        "method": "the drafter's configuration does not say how it drafts",
        "draft_length": "the drafter's configuration names no number of draft tokens",
    }
    return tuple(
        Missing(key, f"--{key.replace('_', '-')}", reading.untold.get(key, why[key]))
        for key, lacks in lacking.items()
        if lacks
    )


def resolve(inputs: EvaluationInputs) -> Resolution:
    """The matrix job, its cells in the order in which they run, and every decision.

    Raises:
        SpecError: something is missing (see `missing`), or there are more cells than `max_cells`.
    """
    # plan can't read names of methods, and going on would serve another than the user named
    assert inputs.job.method is None or inputs.method is not None, "the job's method, not parsed"
    lacking = missing(inputs.job, inputs.drafter_reading, inputs.method)
    if lacking:
        raise SpecError(
            "the evaluation is not whole", problems=[f"{item.key}: {item.why}" for item in lacking]
        )
    return _Resolver(inputs).resolution()


class _Resolver:
    """What the parts of one resolution have in common."""

    def __init__(self, inputs: EvaluationInputs):
        job, reading = inputs.job, inputs.drafter_reading
        self.inputs = inputs
        self.job = job
        self.sets = {item.prompts: item for item in chosen_sets(job)}
        read = reading.method.value if reading.method else None
        method = inputs.method or read
        assert method is not None, "see `missing`"
        given = inputs.method is not None
        self.method = method
        own = _own_length(reading, inputs.method)
        lengths = job.draft_lengths or (() if own is None else (own[0],))
        self.lengths = lengths
        self.parallel_drafting = inputs.parallel_drafting if given else reading.parallel_drafting
        self.conditions: Conditions = conditions(
            job=job,
            method=method,
            parallel_drafting=self.parallel_drafting,
            lengths=lengths,
            drafter=inputs.drafter,
            verifier=inputs.verifier,
            verifier_reading=inputs.verifier_reading,
            capabilities=inputs.capabilities,
            vendor=inputs.host.accelerator.vendor,
        )
        self.settings, self.setting_decisions = server_settings(
            job, inputs.host, inputs.facts, inputs.verifier_reading, inputs.prompts
        )

    def resolution(self) -> Resolution:
        """All parts put together."""
        keys = tuple(self._keys())
        if len(keys) > self.job.max_cells:
            raise SpecError(
                "too many cells",
                problems=[
                    f"max_cells: {len(keys)} cells; expected at most {self.job.max_cells}. Take "
                    f"datasets or concurrencies away, or allow it with max_cells: {len(keys)}"
                ],
            )
        used = dict.fromkeys(key.server for key in keys)
        servers = {name: self.conditions.by_name[name].configuration for name in used}
        matrix_job = self._matrix_job(servers, keys)
        evaluation = Evaluation(
            keys=keys,
            roles={name: self.conditions.by_name[name].role for name in used},
            decisions=self._decisions(),
            findings=(
                *self.conditions.findings,
                *evaluation_findings(self.job, self.inputs.host, self.inputs.facts, self.lengths),
            ),
            unavailable=self.conditions.unavailable,
            checkpoints={
                "drafter": _planned(self.inputs.drafter),
                "verifier": _planned(self.inputs.verifier),
            },
            estimate=self._estimate(keys),
        )
        return Resolution(matrix_job, evaluation)

    def _keys(self) -> Iterator[CellKey]:
        for condition in self.conditions.ordered:
            if condition.acceptance:
                for prompts in self._prompts(Mode.ACCEPTANCE):
                    yield self._key(condition, prompts, self.job.concurrency.acceptance, 1)
            for prompts in self._prompts(Mode.SPEEDUP) if condition.speedup else ():
                for concurrency in self.job.concurrency.speedup:
                    for repeat in range(1, self.job.repeats + 1):
                        yield self._key(condition, prompts, concurrency, repeat)

    def _prompts(self, mode: Mode) -> list[str]:
        return [name for name, chosen in self.sets.items() if chosen.mode is mode]

    def _key(self, condition: Condition, prompts: str, concurrency: int, repeat: int) -> CellKey:
        mode = self.sets[prompts].mode
        return CellKey(condition.name, prompts, concurrency, repeat, mode=mode.value)

    def _estimate(self, keys: tuple[CellKey, ...]) -> Estimate:
        """Without stand-ins: each runs in the place of another server with the same cells."""
        roles = {condition.name: condition.role for condition in self.conditions.ordered}
        keys = tuple(key for key in keys if roles[key.server].instead_of is None)
        rows = {item.name: item.rows for item in self.inputs.prompts}
        loads = [
            CellLoad(
                rows[key.prompts],
                key.concurrency,
                self.sets[key.prompts].output_tokens,
                self.sets[key.prompts].duration_s,
            )
            for key in keys
        ]
        return estimate(len({key.server for key in keys}), loads, self.inputs.pace)

    def _matrix_job(
        self, servers: Mapping[str, ServerConfiguration], keys: tuple[CellKey, ...]
    ) -> MatrixJob:
        job, verifier = self.job, self.inputs.verifier
        sampling = job.sampling
        baseline = self.conditions.comparator
        return MatrixJob(
            kind="matrix",
            name=job.name or "evaluation",
            description=job.description,
            model=verifier.name,
            tokenizer=job.tokenizer,
            revision=None if verifier.local else verifier.revision,
            baseline=baseline if baseline in servers else None,
            server=self.settings,
            servers=servers,
            prompts={item.name: self._prompt_set(item) for item in self.inputs.prompts},
            sampling=Sampling(
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                seed=sampling.seed,
                thinking=sampling.thinking,
            ),
            load=job.load,
            matrix=Matrix(
                server=tuple(servers),
                prompts=tuple(dict.fromkeys(key.prompts for key in keys)),
                concurrency=tuple(dict.fromkeys(key.concurrency for key in keys)),
            ),
            repeats=job.repeats,
            max_cells=job.max_cells,
        )

    def _prompt_set(self, item: PromptInput) -> PromptSet:
        chosen = self.sets[item.name]
        return PromptSet(
            file=item.source,
            rows=len(item.rows) or None,
            output_tokens=chosen.output_tokens,
            ignore_eos=chosen.ignore_eos,
            duration_s=chosen.duration_s,
            licence=item.licence,
        )

    def _decisions(self) -> tuple[Decision, ...]:
        inputs, job, reading = self.inputs, self.job, self.inputs.drafter_reading
        found = [*self.setting_decisions, *self.conditions.decisions]
        if job.verifier is None and reading.verifier is not None:
            found.append(_inferred("verifier", reading.verifier.value, self._of_drafter(reading)))
        if job.method is None and reading.method is not None:
            source = f"{reading.method.source} of {job.drafter}"
            found.append(_inferred("method", self.method.value, source))
        own = _own_length(reading, inputs.method)
        if job.draft_lengths is None and own is not None:
            source = f"{own[1]} of {job.drafter}"
            found.append(_inferred("draft_length", f"[{own[0]}]", source))
        if self.parallel_drafting:
            asked = None if inputs.method is None else f"the method {job.method}"
            source = asked or f"config.json of {job.drafter}"
            found.append(_inferred("parallel_drafting", "true", source))
        if not isinstance(job.datasets, tuple):
            for mode in modes_of(job.scope):
                if job.datasets_of(mode) is None:
                    value = ", ".join(datasets_of(job, mode))
                    found.append(_default(f"datasets.{mode}", value))
        found += [
            self._revision("drafter", inputs.drafter, job.drafter_revision),
            self._revision("verifier", inputs.verifier, job.verifier_revision),
        ]
        return job_decisions(job, inputs.origins, found)

    def _revision(self, role: str, checkpoint: Checkpoint, asked: str | None) -> Decision:
        """What a checkpoint is pinned to; a branch or a tag that the user named stays the user's
        choice."""
        key, pinned = f"{role}_revision", checkpoint.revision or "not pinned"
        if asked is None:
            return _inferred(key, pinned, checkpoint.revision_source)
        where = self.inputs.origins.get(key, "the job")
        source = f"{where}: {asked}; {checkpoint.revision_source}"
        return Decision(key=key, value=pinned, origin=Origin.USER, source=source)

    def _of_drafter(self, reading: DrafterReading) -> str:
        assert reading.verifier is not None
        return f"{reading.verifier.source} of {self.job.drafter}"


def _own_length(
    reading: DrafterReading, method: SpeculativeMethod | None
) -> tuple[int, str] | None:
    """The number of draft tokens that a checkpoint names, with its source.

    The depth of an MTP head says nothing about another way to draft with the same checkpoint.
    """
    if reading.mtp is not None and method not in (None, SpeculativeMethod.MTP):
        return None
    if reading.num_speculative_tokens is not None:
        return reading.num_speculative_tokens.value, reading.num_speculative_tokens.source
    if reading.mtp is not None:
        return reading.mtp.depth, reading.mtp.source
    return None


def _planned(checkpoint: Checkpoint) -> PlannedCheckpoint:
    return PlannedCheckpoint(
        name=checkpoint.name,
        revision=checkpoint.revision,
        revision_source=checkpoint.revision_source,
    )


def _inferred(key: str, value: str, source: str) -> Decision:
    return Decision(key=key, value=value, origin=Origin.INFERRED, source=source)


def _default(key: str, value: str) -> Decision:
    return Decision(key=key, value=value, origin=Origin.DEFAULT)
