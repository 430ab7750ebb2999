"""Which rows an evaluation measures: datasets, modes and budgets. From the job alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from runner.errors import SpecError
from runner.models.evaluation import End, EvaluationJob, Mode, Scope

DEFAULT_DATASETS: Mapping[Mode, tuple[str, ...]] = {
    Mode.ACCEPTANCE: (
        "speed-bench-qualitative",
        "mt-bench",
        "gsm8k",
        "humaneval",
        "mbpp",
        "math500",
        "mrcr",
    ),
    Mode.SPEEDUP: ("mt-bench", "gsm8k", "humaneval", "math500", "mbpp"),
}
"""What is measured where the job names no dataset."""

_UNSAFE = re.compile(r"[^a-z0-9_.-]+")


@dataclass(frozen=True)
class ChosenSet:
    """The rows of one dataset for one mode.

    `dataset` is a catalogue name or a file as the job names it, `prompts` the name of the prompt
    set, `rows` the most that are taken, chosen by `seed`; `output_tokens` caps every answer.
    """

    mode: Mode
    dataset: str
    prompts: str
    rows: int
    output_tokens: int
    ignore_eos: bool
    duration_s: float | None
    seed: int


def modes_of(scope: Scope) -> tuple[Mode, ...]:
    """The modes of a scope, in the order in which they run."""
    if scope is Scope.FULL:
        return (Mode.ACCEPTANCE, Mode.SPEEDUP)
    return (Mode(scope.value),)


def datasets_of(job: EvaluationJob, mode: Mode) -> tuple[str, ...]:
    """The datasets of a mode: those of the job, else the defaults."""
    return job.datasets_of(mode) or DEFAULT_DATASETS[mode]


def chosen_sets(job: EvaluationJob) -> tuple[ChosenSet, ...]:
    """Every prompt set of an evaluation, acceptance first.

    Raises:
        SpecError: a dataset is named twice, or two files would share a name.
    """
    found: dict[str, ChosenSet] = {}
    problems = []
    for chosen in _sets(job):
        other = found.setdefault(chosen.prompts, chosen)
        if other is not chosen:
            key = f"datasets.{chosen.mode}"
            if other.dataset == chosen.dataset:
                problems.append(f"{key}: '{chosen.dataset}' is named twice; keep one")
            else:
                problems.append(
                    f"{key}: '{chosen.dataset}' and '{other.dataset}' share the name "
                    f"{chosen.prompts}; rename one file"
                )
    if problems:
        raise SpecError("the datasets clash", problems=problems)
    return tuple(found.values())


def _sets(job: EvaluationJob) -> Iterator[ChosenSet]:
    for mode in modes_of(job.scope):
        budget = job.budget.acceptance if mode is Mode.ACCEPTANCE else job.budget.speedup
        for dataset in datasets_of(job, mode):
            yield ChosenSet(
                mode=mode,
                dataset=dataset,
                prompts=f"{mode}-{_safe(dataset)}",
                rows=budget.rows,
                output_tokens=budget.output_tokens,
                ignore_eos=budget.end is End.FIXED,
                duration_s=budget.duration_s,
                seed=job.budget.seed,
            )


def _safe(dataset: str) -> str:
    """A part of a name: the stem of a file, or the dataset's own name."""
    stem = PurePosixPath(dataset).stem if dataset.endswith(".jsonl") else dataset
    return _UNSAFE.sub("-", stem.lower()).strip("-.")[:48] or "rows"
