"""From an evaluation job to the matrix job that it means: looks everything up, starts nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from runner.checkpoints.checks import check_pair
from runner.checkpoints.fetch import fetch_checkpoint, fetch_small_file
from runner.checkpoints.methods import MethodName, parse_method
from runner.checkpoints.read import read_drafter, read_verifier
from runner.client.datasets import LoadedDataset, load_dataset
from runner.client.fleet import Fleet
from runner.client.pace import pace_of
from runner.client.sources import PlanSources
from runner.datasets.cache import DatasetCache
from runner.datasets.mrcr import bin_of
from runner.datasets.subset import subset
from runner.datasets.tokens import TokenCounter
from runner.errors import RunnerError, SpecError, UsageError
from runner.inventory.facts import gather_facts
from runner.jobs import LoadedJob, PromptRows
from runner.models.capability import ImageCapabilities
from runner.models.checkpoint import Checkpoint
from runner.models.evaluation import EvaluationJob
from runner.models.host import Host, HostFacts
from runner.models.job import MatrixJob, SpeculativeMethod
from runner.models.plan import Finding, PlannedRow
from runner.plan.evaluation import (
    ChosenSet,
    EvaluationInputs,
    Missing,
    chosen_sets,
    missing,
    resolve,
)
from runner.plan.findings import error
from runner.plan.inputs import Evaluation, PromptInput
from runner.transport.base import Connection

Progress = Callable[[str], None]


class MissingInput(UsageError):
    """What an evaluation needs and nobody said; `missing` can be asked for."""

    def __init__(self, items: Sequence[Missing]):
        lines = "\n".join(f"  {item.key}: {item.why}" for item in items)
        options = " ".join(f"{item.option} …" for item in items)
        super().__init__(
            f"the evaluation lacks what can't be inferred\n{lines}",
            next_step=f"add {options}, or set the keys in the job file",
        )
        self.missing = tuple(items)


@dataclass(frozen=True)
class Resolved:
    """What planning goes on with. `jsonl` has prompt set -> what is sent, `answers` what good
    answers hold."""

    job: MatrixJob
    prompts: tuple[PromptInput, ...]
    jsonl: Mapping[str, bytes]
    facts: HostFacts
    evaluation: Evaluation | None = None
    answers: Mapping[str, bytes] = field(default_factory=dict)


@dataclass
class Evaluator:
    """Looks up what an evaluation rests on.

    `recorded` facts stand in for the host: then nothing is asked there. With `launch`, datasets
    that are not here are fetched.
    """

    fleet: Fleet
    loaded: LoadedJob
    job: EvaluationJob
    host: Host
    sources: PlanSources
    progress: Progress
    recorded: HostFacts | None
    launch: bool
    _checkpoints: dict[str, Checkpoint] = field(default_factory=dict)
    _findings: list[Finding] = field(default_factory=list)

    def resolve(self, capabilities: ImageCapabilities | None) -> Resolved:
        """The matrix job with its cells, prompts and facts.

        Raises:
            MissingInput: verifier, method or draft length is neither given nor in the checkpoint.
            SpecError, UsageError, HostError: a checkpoint or a dataset can't be had.
        """
        job = self.job
        given = self._given_method()
        drafter = self._checkpoint(job.drafter, job.drafter_revision)
        reading = read_drafter(drafter)
        lacking = missing(job, reading, given.method if given else None)
        if lacking:
            raise MissingInput(lacking)
        name = job.verifier or (reading.verifier.value if reading.verifier else job.drafter)
        verifier = self._checkpoint(name, job.verifier_revision)
        verifier_reading = read_verifier(verifier)
        facts = self._facts(verifier)
        if job.tokenizer in (None, verifier.name):
            counter = self._counter(verifier.name, verifier.revision)
        else:
            counter = self._counter(job.tokenizer or verifier.name, None)
        sets = chosen_sets(job)
        chosen = {item.prompts: self._rows(item, counter) for item in sets}
        jsonl = {item.prompts: chosen[item.prompts][1] for item in sets}
        answers = {item.prompts: chosen[item.prompts][2] for item in sets}
        prompts = tuple(chosen[item.prompts][0] for item in sets)
        job = job.model_copy(update={"name": job.name or _name_of(job.drafter)})
        inputs = EvaluationInputs(
            job=job,
            origins=self.loaded.origins,
            host=self.host,
            facts=facts,
            drafter=drafter,
            drafter_reading=reading,
            verifier=verifier,
            verifier_reading=verifier_reading,
            prompts=prompts,
            capabilities=capabilities,
            method=given.method if given else None,
            parallel_drafting=given.parallel_drafting if given else False,
            pace=pace_of(self.sources.store, self.host.name, verifier.name),
        )
        resolution = resolve(inputs)
        checks = self._pair_checks(inputs, resolution.job)
        evaluation = resolution.evaluation
        findings = (*evaluation.findings, *checks, *self._findings)
        return Resolved(
            job=resolution.job,
            prompts=prompts,
            jsonl=jsonl,
            answers=answers,
            facts=facts,
            evaluation=_with_findings(evaluation, findings),
        )

    def _given_method(self) -> MethodName | None:
        """The method that the user named, under any of its names."""
        if self.job.method is None:
            return None
        try:
            return parse_method(self.job.method)
        except ValueError as wrong:
            raise self.loaded.located(
                SpecError("an unknown method", problems=[f"method: {wrong}"])
            ) from wrong

    def _checkpoint(self, name: str, revision: str | None) -> Checkpoint:
        """A checkpoint by name; each is looked up once."""
        if name in self._checkpoints:
            return self._checkpoints[name]
        if self.recorded is not None:
            found = self.recorded.checkpoints.get(name)
            if found is None:
                known = ", ".join(self.recorded.checkpoints) or "none"
                raise SpecError(
                    f"the facts hold no checkpoint '{name}', only: {known}",
                    where=self.host.name,
                    next_step="where the host can be reached: runner plan … --record-facts FILE",
                )
        else:
            self.progress(f"reading {name}")
            found = fetch_checkpoint(
                name,
                connection=self._connection(name),
                revision=revision,
                cache=self.sources.cache,
                progress=self.progress,
            )
        self._checkpoints[name] = found
        return found

    def _connection(self, name: str) -> Connection | None:
        """The host, for a folder on it; a hub needs none."""
        return self.fleet.connect(self.host.name) if name.startswith("/") else None

    def _facts(self, verifier: Checkpoint) -> HostFacts:
        facts = self.recorded
        if facts is None:
            self.progress(f"asking {self.host.name}")
            names = (verifier.name, self.job.tokenizer, self.job.drafter)
            paths = [name for name in names if name is not None and name.startswith("/")]
            facts = gather_facts(self.fleet.connect(self.host.name), self.host, extra_paths=paths)
        return facts.model_copy(update={"checkpoints": dict(self._checkpoints)})

    def _counter(self, name: str, revision: str | None) -> TokenCounter | None:
        """Counts prompt tokens as the server will; None where its tokenizer can't be read here."""
        if self.recorded is not None:
            return None

        def small(path: str) -> bytes | None:
            return fetch_small_file(
                name, path, connection=self._connection(name), revision=revision
            )

        try:
            tokenizer = small("tokenizer.json")
            if tokenizer is None:
                return None
            return TokenCounter.from_files(
                tokenizer, small("tokenizer_config.json"), small("chat_template.jinja")
            )
        except RunnerError as problem:
            self.progress(f"prompts can't be counted with the tokenizer of {name}: {problem.what}")
            return None

    def _rows(
        self, chosen: ChosenSet, counter: TokenCounter | None
    ) -> tuple[PromptInput, bytes, bytes]:
        """The rows of one dataset that one mode measures, and what is uploaded of them: what the
        load sends, and the good answers."""
        dataset = self._dataset(chosen.dataset, counter)
        if dataset is None:
            return _absent(chosen), b"", b""
        rows, selection = subset(dataset.rows.rows, chosen.rows, chosen.seed)
        prompts = PromptRows(chosen.prompts, dataset.rows.aiperf_format, tuple(rows))
        data = prompts.jsonl(chosen.output_tokens)
        record = dataset.record
        return (
            PromptInput(
                name=chosen.prompts,
                sha256=hashlib.sha256(data).hexdigest(),
                rows=tuple(
                    _planned(prompts, dataset.record.name, counter, self.job.sampling.thinking)
                ),
                source=record.source,
                aiperf_format=prompts.aiperf_format.value,
                output_tokens=chosen.output_tokens,
                licence=record.licence,
                dataset=record.name,
                revision=record.revision,
                dataset_sha256=record.sha256,
                dataset_rows=record.rows,
                selection=selection,
                restricted=record.restricted,
            ),
            data,
            prompts.answers(),
        )

    def _dataset(self, name: str, counter: TokenCounter | None) -> LoadedDataset | None:
        """A dataset of the cache, or a file; None with a finding where a plan can't have it."""
        cache = DatasetCache(self.sources.datasets)
        wanted = str(self.loaded.folder / name) if is_file(name) else name
        try:
            return load_dataset(
                cache,
                wanted,
                fetch=self.launch,
                progress=self.progress,
                counter=counter,
                thinking=self.job.sampling.thinking,
            )
        except RunnerError as problem:
            if self.launch:
                raise
            step = problem.next_step or f"runner datasets fetch {name}"
            told = problem.problems[:3] if isinstance(problem, SpecError) else ()
            finding = error("datasets", "; ".join(told) or problem.what, step)
            if finding not in self._findings:
                self._findings.append(finding)
            return None

    def _pair_checks(self, inputs: EvaluationInputs, job: MatrixJob) -> Iterable[Finding]:
        speculative = [item.speculative for item in job.servers.values() if item.speculative]
        drafting = [item for item in speculative if item.model == inputs.drafter.name]
        method = drafting[0].method if drafting else SpeculativeMethod.MTP
        tokens, cap = _longest(inputs.prompts)
        return check_pair(
            drafter=inputs.drafter_reading,
            verifier=inputs.verifier_reading,
            method=method,
            draft_lengths=tuple(item.num_speculative_tokens for item in drafting or speculative),
            draft_tensor_parallel_size=self.job.draft_tensor_parallel_size,
            tensor_parallel_size=job.server.tensor_parallel_size,
            max_model_len=job.server.max_model_len,
            longest_prompt_tokens=tokens,
            output_tokens=cap,
            dtype=job.server.dtype,
        )


def _longest(prompts: Sequence[PromptInput]) -> tuple[int | None, int]:
    """Prompt tokens and cap of the row that needs the most room; the largest cap alone where
    nothing is counted. Earlier answers of a conversation are part of its last prompt."""
    needs = [
        (row.prompt_tokens + (row.turns - 1) * item.output_tokens, item.output_tokens)
        for item in prompts
        for row in item.rows
        if row.prompt_tokens is not None
    ]
    if not needs:
        return None, max(item.output_tokens for item in prompts)
    return max(needs, key=sum)


def is_file(name: str) -> bool:
    """True for a dataset that is a file of the user, false for a name of the catalogue."""
    return name.endswith(".jsonl")


def _planned(
    prompts: PromptRows, dataset: str, counter: TokenCounter | None, thinking: bool | None
) -> Iterable[PlannedRow]:
    counts: Sequence[int | None]
    if counter is None:
        counts = [None] * len(prompts.rows)
    else:
        counts = [found.tokens for found in counter.count_rows(prompts, thinking=thinking)]
    for row, tokens in zip(prompts.rows, counts, strict=True):
        category = row.category
        if category is None and tokens is not None and dataset.startswith("mrcr"):
            # the public rows are grouped by length, which is known with the served tokenizer only
            category = bin_of(tokens)
        yield PlannedRow(id=row.id, turns=row.turns, category=category, prompt_tokens=tokens)


def _absent(chosen: ChosenSet) -> PromptInput:
    """A set that is not here: the plan can be shown, and a finding keeps it from running."""
    return PromptInput(
        name=chosen.prompts,
        sha256="",
        rows=(),
        source="not fetched",
        aiperf_format="single_turn",
        output_tokens=chosen.output_tokens,
        dataset=chosen.dataset,
    )


def _with_findings(evaluation: Evaluation, findings: Sequence[Finding]) -> Evaluation:
    return replace(evaluation, findings=tuple(dict.fromkeys(findings)))


def _name_of(drafter: str) -> str:
    """A job name from the last part of the drafter's."""
    stem = PurePosixPath(drafter.rstrip("/")).name.lower()
    safe = "".join(letter if letter.isalnum() or letter in "_.-" else "-" for letter in stem)
    return safe.lstrip("_.-")[:63] or "evaluation"
