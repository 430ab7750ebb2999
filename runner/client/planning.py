"""From a job file and a host to a plan: asks the host, starts and writes nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from runner.client.capabilities import capabilities_of
from runner.client.evaluating import Evaluator, Resolved
from runner.client.fleet import Fleet
from runner.client.images import host_with_images, locked_images, outdated_images
from runner.client.runs import new_run_id
from runner.client.sources import PlanSources
from runner.errors import SpecError
from runner.images.lock import read_lock
from runner.inventory.facts import facts_from_file, gather_facts
from runner.jobs import LoadedJob, PromptRows, find_job, job_of_options, load_job, read_prompts
from runner.journal.writer import utc_now
from runner.models.capability import ImageCapabilities
from runner.models.evaluation import EvaluationJob
from runner.models.host import Host, HostFacts, Role
from runner.models.image import LockedImage
from runner.models.job import MatrixJob
from runner.models.plan import Plan, PlannedRow
from runner.plan.build import build_plan
from runner.plan.inputs import PlanInputs, PromptInput
from runner.plan.secret_names import secret_values
from runner.specfile import Override


@dataclass(frozen=True)
class Prepared:
    """A plan and what is uploaded beside it. `prompts` and `answers` have set name -> JSONL.

    `job` is the matrix job that the plan was made from; an evaluation is resolved to one.
    """

    plan: Plan
    host: Host
    facts: HostFacts
    job: MatrixJob
    prompts: Mapping[str, bytes]
    answers: Mapping[str, bytes] = field(default_factory=dict)

    def secret_values(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Values of the plan's secrets; UsageError when a variable is unset or empty."""
        declared = [self.host.environment, self.job.server.environment]
        declared += [self.job.servers[s.configuration].environment for s in self.plan.servers]
        return secret_values(self.plan.secrets, declared, environ)


def secrets_of_host(plan: Plan, host: Host, environ: Mapping[str, str]) -> dict[str, str]:
    """Values of a plan's secrets without its job file: by the host's entry, else by their names.

    Raises:
        UsageError: a variable is unset or empty.
    """
    return secret_values(plan.secrets, [host.environment], environ)


def request(job_argument: str | None, overrides: Sequence[str | Override] = ()) -> LoadedJob:
    """The job that a command line asks for: a file, or an evaluation by options alone.

    Args:
        job_argument: path of a job file, or the bare name of one in `jobs/`; None without one.
        overrides: `--set` texts and other options, in order.

    Raises:
        UsageError: there is no such job file, or an override is not `key=value`.
        SpecError: a file or a value is wrong.
    """
    if job_argument is None:
        return job_of_options(overrides)
    return load_job(find_job(job_argument), overrides)


def prepare_plan(
    fleet: Fleet,
    loaded: LoadedJob,
    host_name: str,
    progress: Callable[[str], None] = lambda _: None,
    *,
    facts_file: Path | None = None,
    sources: PlanSources,
    launch: bool = False,
) -> Prepared:
    """Everything that `submit` needs and `plan` shows.

    Args:
        loaded: see `request`.
        facts_file: facts to use in place of asking the host.
        sources: image recipes and lock, datasets, caches and the store.
        launch: datasets may be fetched and an image that nobody has asked may be probed.

    Raises:
        UsageError: an unknown host.
        MissingInput: what an evaluation needs is neither given nor to be inferred.
        SpecError: a file is wrong.
        HostError: the host can't be asked.
    """
    host = host_with_images(fleet.host(host_name), sources.images)
    images = locked_images(host, read_lock(sources.images.lock))
    recorded = _recorded_facts(facts_file, host) if facts_file is not None else None
    capabilities = _capabilities(fleet, host, images, recorded, sources, progress, launch=launch)
    if isinstance(loaded.job, EvaluationJob):
        evaluator = Evaluator(fleet, loaded, loaded.job, host, sources, progress, recorded, launch)
        resolved = evaluator.resolve(capabilities)
    else:
        resolved = _matrix(fleet, loaded, loaded.job, host, recorded, progress)
    known = {} if capabilities is None else {capabilities.digest: capabilities}
    facts = resolved.facts.model_copy(update={"capabilities": known})
    inputs = PlanInputs(
        job=resolved.job,
        prompts=resolved.prompts,
        host=host,
        facts=facts,
        run_id=new_run_id(resolved.job.name),
        created_at=utc_now(),
        origins=loaded.origins,
        images=images,
        outdated_images=outdated_images(images, sources.images),
        overrides=loaded.overrides,
        capabilities=capabilities,
        evaluation=resolved.evaluation,
    )
    try:
        plan = build_plan(inputs)
    except SpecError as error:
        raise loaded.located(error) from error
    used = {item.name: resolved.jsonl[item.name] for item in plan.prompts}
    answers = {name: data for name, data in resolved.answers.items() if name in used and data}
    return Prepared(plan, host, facts, resolved.job, used, answers)


def _capabilities(
    fleet: Fleet,
    host: Host,
    images: Mapping[Role, LockedImage],
    recorded: HostFacts | None,
    sources: PlanSources,
    progress: Callable[[str], None],
    *,
    launch: bool,
) -> ImageCapabilities | None:
    """What the server image can do; None when there is no image, or nobody has asked it."""
    image = images.get(Role.SERVER)
    if recorded is not None and image is None:
        # a replay on a machine that never built the image: the facts hold what was known of it
        return next(iter(recorded.capabilities.values()), None)
    if image is None:
        return None
    if recorded is not None and image.digest in recorded.capabilities:
        return recorded.capabilities[image.digest]
    probe = launch and recorded is None
    return capabilities_of(fleet, host, image, sources.images, probe=probe, progress=progress)


def _matrix(
    fleet: Fleet,
    loaded: LoadedJob,
    job: MatrixJob,
    host: Host,
    recorded: HostFacts | None,
    progress: Callable[[str], None],
) -> Resolved:
    rows = {
        name: read_prompts(loaded.folder / prompt_set.file, name, prompt_set.rows)
        for name, prompt_set in job.prompts.items()
    }
    jsonl = {name: rows[name].jsonl(item.output_tokens) for name, item in job.prompts.items()}
    facts = recorded or _asked(fleet, host, job, progress)
    prompts = tuple(_prompt_input(job, rows[name], jsonl[name]) for name in rows)
    answers = {name: rows[name].answers() for name in rows}
    return Resolved(job, prompts, jsonl, facts, answers=answers)


def _prompt_input(job: MatrixJob, rows: PromptRows, data: bytes) -> PromptInput:
    prompt_set = job.prompts[rows.name]
    return PromptInput(
        name=rows.name,
        sha256=hashlib.sha256(data).hexdigest(),
        rows=tuple(
            PlannedRow(id=row.id, turns=row.turns, category=row.category) for row in rows.rows
        ),
        source=prompt_set.file,
        aiperf_format=rows.aiperf_format.value,
        output_tokens=prompt_set.output_tokens,
        licence=prompt_set.licence,
    )


def _asked(fleet: Fleet, host: Host, job: MatrixJob, progress: Callable[[str], None]) -> HostFacts:
    progress(f"asking {host.name}")
    speculative = [item.speculative for item in job.servers.values()]
    drafters = [item.model for item in speculative if item is not None]
    paths = [path for path in (job.model, job.tokenizer, *drafters) if path]
    return gather_facts(fleet.connect(host.name), host, extra_paths=paths)


def _recorded_facts(path: Path, host: Host) -> HostFacts:
    """Facts from `host.json` of a run, or from what `runner hosts check --format json` printed."""
    try:
        data = json.loads(path.read_bytes())
        entries = {entry["host"]: entry["facts"] for entry in data["hosts"]}
    except (OSError, ValueError, KeyError, TypeError):
        facts = facts_from_file(path)
        if facts.host == host.name:
            return facts
        entries = {facts.host: None}
    try:
        return HostFacts.model_validate(entries[host.name])
    except (KeyError, ValidationError) as error:
        raise SpecError(
            f"holds no facts of '{host.name}'; it is about: {', '.join(entries) or 'no host'}",
            where=str(path),
            next_step=f"runner hosts check {host.name} --format json > {path}",
        ) from error
