"""Job file -> job. The key `kind` says which model a file follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runner.errors import SpecError, UsageError
from runner.models.evaluation import EvaluationJob
from runner.models.job import MatrixJob
from runner.specfile import (
    Document,
    Override,
    Problem,
    document_of,
    nearest,
    read_document,
    report,
    validate,
)

Job = MatrixJob | EvaluationJob

KINDS: Mapping[str, type[MatrixJob] | type[EvaluationJob]] = {
    "matrix": MatrixJob,
    "evaluation": EvaluationJob,
}
"""Every kind of job and its model."""

JOB_FOLDER = Path("jobs")
BY_OPTIONS = "the command line"


@dataclass(frozen=True)
class LoadedJob:
    """A job and where it came from.

    `folder` is what relative paths in the file start from. `origins` has dotted key ->
    `file:line`, `--set key` or an option for everything that the user gave; other keys are
    defaults. `path` is None for a job that was given by options alone.
    """

    job: Job
    path: Path | None
    folder: Path
    origins: Mapping[str, str]
    overrides: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The file, for messages."""
        return str(self.path) if self.path else BY_OPTIONS

    def located(self, error: SpecError) -> SpecError:
        """The same error with each problem that begins with a key placed where the key stands."""
        return SpecError(
            error.what,
            where=self.name,
            next_step=error.next_step or f"correct {self.name} and repeat the command",
            problems=[self._placed(problem) for problem in error.problems],
        )

    def _placed(self, problem: str) -> str:
        keys = problem.partition(":")[0].split(".")
        for length in range(len(keys), 0, -1):
            stem = ".".join(keys[:length])
            below = [place for key, place in self.origins.items() if key.startswith(f"{stem}.")]
            # a mapping has no origin of its own: its first key in the file stands for it
            origin = self.origins.get(stem) or min(below, key=_is_option, default=None)
            if origin:
                return f"{origin}: {problem}"
        return f"{self.name}: {problem}"


def _is_option(origin: str) -> bool:
    return origin.startswith("--")


def find_job(argument: str, folder: Path = JOB_FOLDER) -> Path:
    """The file that a job argument means: a path, or the bare name of a file in `jobs/`.

    Raises:
        UsageError: there is no such file.
    """
    path = Path(argument)
    if path.is_file():
        return path
    bare = path.suffix == "" and path.name == argument
    if bare and (folder / f"{argument}.yaml").is_file():
        return folder / f"{argument}.yaml"
    known = sorted(file.stem for file in folder.glob("*.yaml"))
    near = nearest(path.stem, known)
    looked = f"{path} and {folder / f'{argument}.yaml'}" if bare else str(path)
    raise UsageError(
        f"no job file '{argument}' (looked for {looked})",
        next_step=f"did you mean '{near}'?"
        if near
        else f"name a file, or one of: {', '.join(known) or f'(no job files in {folder})'}",
    )


def load_job(path: Path, overrides: Sequence[str | Override] = ()) -> LoadedJob:
    """A job file with its `--set` overrides and other options.

    Raises:
        SpecError: the file is wrong; every problem is in `problems`.
        UsageError: an override is not `key=value`.
    """
    return _loaded(read_document(path, overrides), path, overrides)


def job_of_options(options: Sequence[str | Override]) -> LoadedJob:
    """An evaluation without a job file: what the options say, the rest left to defaults.

    Raises:
        SpecError: a value is wrong, or no drafter is given.
        UsageError: an override is not `key=value`.
    """
    return _loaded(document_of("kind: evaluation\n", BY_OPTIONS, options), None, options)


def _loaded(
    document: Document, path: Path | None, overrides: Sequence[str | Override]
) -> LoadedJob:
    job = validate(document, _model(document))
    origins = document.origins()
    if path is None:
        del origins["kind"]
    given = tuple(
        item if isinstance(item, str) else f"{item.key}={item.text}" for item in overrides
    )
    loaded = LoadedJob(job, path, path.parent if path else Path(), origins, given)
    problems = _unknown_names(job) if isinstance(job, MatrixJob) else []
    if problems:
        raise loaded.located(SpecError("unknown names", problems=problems))
    return loaded


def _model(document: Document) -> type[MatrixJob] | type[EvaluationJob]:
    kind = document.scalar("kind")
    if isinstance(kind, str) and kind in KINDS:
        return KINDS[kind]
    expected = f"expected {' or '.join(repr(name) for name in KINDS)}"
    entry = document.root.entries.get("kind")
    if entry is None:
        problem = Problem(document.root.place, ("kind",), f"a required key is missing; {expected}")
        raise report(document.name, [*document.problems, problem])
    near = nearest(kind, KINDS) if isinstance(kind, str) else None
    hint = f"; did you mean '{near}'?" if near else ""
    found = f"unknown kind of job '{kind}'" if isinstance(kind, str) else "not a kind of job"
    message = f"{found}; {expected}{hint}"
    raise report(document.name, [*document.problems, Problem(entry.node.place, ("kind",), message)])


def _unknown_names(job: MatrixJob) -> list[str]:
    """Included cells may name what is on no axis, but nothing that the job does not define."""
    problems: list[str] = []
    for index, cell in enumerate(job.matrix.include):
        for axis, known in (("server", job.servers), ("prompts", job.prompts)):
            value = cell.get(axis)
            if isinstance(value, str) and value not in known:
                near = nearest(value, known)
                hint = f"did you mean '{near}'?" if near else f"expected one of: {', '.join(known)}"
                problems.append(f"matrix.include.{index}.{axis}: unknown '{value}'; {hint}")
    return problems
