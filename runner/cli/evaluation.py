"""Options of an evaluation, and the questions for what is missing."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from runner.cli.output import say

if TYPE_CHECKING:
    from runner.jobs import LoadedJob
    from runner.specfile import Override

T = TypeVar("T")

_PANEL = "Evaluation of a drafter"

DrafterOption = Annotated[
    str | None,
    typer.Option(
        "--drafter",
        metavar="NAME",
        help="Checkpoint: a folder on the host or a hub name. Enough without a job file.",
        rich_help_panel=_PANEL,
    ),
]
ScopeOption = Annotated[
    str | None,
    typer.Option(
        "--scope",
        metavar="SCOPE",
        help="acceptance, speedup or full; full when open.",
        rich_help_panel=_PANEL,
    ),
]
DatasetsOption = Annotated[
    str | None,
    typer.Option(
        "--datasets",
        metavar="A,B",
        help="Datasets for both modes; the defaults when open.",
        rich_help_panel=_PANEL,
    ),
]
VerifierOption = Annotated[
    str | None,
    typer.Option(
        "--verifier",
        metavar="NAME",
        help="Model that is served; the drafter's own when open.",
        rich_help_panel=_PANEL,
    ),
]
MethodOption = Annotated[
    str | None,
    typer.Option(
        "--method", metavar="METHOD", help="eagle3, mtp, draft_model, …", rich_help_panel=_PANEL
    ),
]
DraftLengthOption = Annotated[
    str | None,
    typer.Option(
        "--draft-length",
        metavar="K[,K]",
        help="Draft tokens a step; the checkpoint's own when open.",
        rich_help_panel=_PANEL,
    ),
]
ComparatorOption = Annotated[
    str | None,
    typer.Option(
        "--comparator",
        metavar="WHICH",
        help="auto, mtp or base: what it is compared with.",
        rich_help_panel=_PANEL,
    ),
]


@dataclass(frozen=True)
class EvaluationOptions:
    """What the command line says about an evaluation."""

    drafter: str | None = None
    scope: str | None = None
    datasets: str | None = None
    verifier: str | None = None
    method: str | None = None
    draft_length: str | None = None
    comparator: str | None = None

    def overrides(self) -> tuple[Override, ...]:
        """The same as values of a job file, each under its option's name."""
        from runner.specfile import Override

        lengths = (self.draft_length or "").split(",")
        texts = {
            "drafter": _text(self.drafter),
            "scope": _text(self.scope),
            "datasets": None if self.datasets is None else json.dumps(_words(self.datasets)),
            "verifier": _text(self.verifier),
            "method": _text(self.method),
            "draft_length": None if self.draft_length is None else f"[{', '.join(lengths)}]",
            "comparator": _text(self.comparator),
        }
        return tuple(
            Override(key, text, option_of(key)) for key, text in texts.items() if text is not None
        )


def option_of(key: str) -> str:
    """`draft_length` -> `--draft-length`."""
    return f"--{key.replace('_', '-')}"


def asked_job(
    job: str | None, settings: Sequence[str], options: EvaluationOptions
) -> tuple[LoadedJob, tuple[str | Override, ...]]:
    """The job that a command line means, and the values it was made with.

    On a terminal, what an evaluation without a job file lacks is asked for once.

    Raises:
        UsageError: neither a job file nor a drafter, and nobody can be asked.
        SpecError: a file or a value is wrong.
    """
    from runner.client.planning import request
    from runner.errors import UsageError

    values: tuple[str | Override, ...] = (*options.overrides(), *settings)
    given = {value.key for value in values if not isinstance(value, str)}
    given |= {value.partition("=")[0] for value in settings}
    if job is None and "drafter" not in given:
        if not is_terminal():
            raise UsageError(
                "neither a job file nor a drafter is given",
                next_step="name a job file, or --drafter NAME (with --scope and --datasets; both "
                "have defaults)",
            )
        values = (*_asked(given), *values)
    return request(job, values), values


def with_answers(
    job: str | None,
    values: Sequence[str | Override],
    loaded: LoadedJob,
    prepare: Callable[[LoadedJob], T],
) -> T:
    """What `prepare` makes of the job; on a terminal, what it misses is asked for once.

    Raises:
        MissingInput: something is missing, and nobody can be asked.
    """
    from runner.client.evaluating import MissingInput
    from runner.client.planning import request
    from runner.specfile import Override

    try:
        return prepare(loaded)
    except MissingInput as lacking:
        if not is_terminal():
            raise
        answers = []
        for item in lacking.missing:
            say(f"{item.key} can't be inferred: {item.why}")
            answer = typer.prompt(item.key, err=True)
            answers.append(Override(item.key, answer, item.option))
        return prepare(request(job, (*values, *answers)))


def is_terminal() -> bool:
    """True when somebody can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _asked(given: set[str]) -> list[Override]:
    from runner.specfile import Override

    answers = {"drafter": typer.prompt("drafter (a folder on the host, or a hub name)", err=True)}
    if "scope" not in given:
        answers["scope"] = typer.prompt("scope (acceptance, speedup, full)", "full", err=True)
    if "datasets" not in given:
        words = typer.prompt("datasets (names, or the defaults)", "defaults", err=True)
        if words != "defaults":
            answers["datasets"] = json.dumps(_words(words))
    return [Override(key, answer, option_of(key)) for key, answer in answers.items()]


def _words(text: str) -> list[str]:
    return [word for word in text.replace(",", " ").split() if word]


def _text(value: str | None) -> str | None:
    return None if value is None else json.dumps(value)
