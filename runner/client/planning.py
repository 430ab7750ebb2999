"""From a job file and a host to a plan: asks the host, starts and writes nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from runner.client.fleet import Fleet
from runner.client.images import (
    ImageFiles,
    host_with_images,
    locked_images,
    outdated_images,
)
from runner.client.runs import new_run_id
from runner.errors import SpecError
from runner.images.lock import read_lock
from runner.inventory.facts import facts_from_file, gather_facts
from runner.jobs import LoadedJob, PromptRows, find_job, load_job, read_prompts
from runner.journal.writer import utc_now
from runner.models.host import Host, HostFacts
from runner.models.job import MatrixJob
from runner.models.plan import Plan, PlannedRow
from runner.plan.build import build_plan
from runner.plan.inputs import PlanInputs, PromptInput
from runner.plan.secret_names import secret_values


@dataclass(frozen=True)
class Prepared:
    """A plan and what is uploaded beside it. `prompts` has set name -> JSONL."""

    plan: Plan
    host: Host
    facts: HostFacts
    job: MatrixJob
    prompts: Mapping[str, bytes]

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


def prepare_plan(
    fleet: Fleet,
    job_argument: str,
    host_name: str,
    overrides: Sequence[str] = (),
    progress: Callable[[str], None] = lambda _: None,
    *,
    facts_file: Path | None = None,
    files: ImageFiles,
) -> Prepared:
    """Everything that `submit` needs and `plan` shows.

    Args:
        job_argument: path of a job file, or the bare name of one in `jobs/`.
        overrides: `key=value` texts of `--set`.
        facts_file: facts to use in place of asking the host.
        files: the image recipes and their lock.

    Raises:
        UsageError: an unknown host or job file, or an override that is not `key=value`.
        SpecError: a file is wrong.
        HostError: the host can't be asked.
    """
    host = host_with_images(fleet.host(host_name), files)
    loaded = load_job(find_job(job_argument), overrides)
    rows = _prompt_rows(loaded)
    facts = _facts(fleet, host, loaded.job, progress, facts_file)
    job = loaded.job
    prompts = {
        name: rows[name].jsonl(prompt_set.output_tokens) for name, prompt_set in job.prompts.items()
    }
    images = locked_images(host, read_lock(files.lock))
    inputs = PlanInputs(
        job=job,
        prompts=tuple(_prompt_input(loaded, rows[name], prompts[name]) for name in rows),
        host=host,
        facts=facts,
        run_id=new_run_id(job.name),
        created_at=utc_now(),
        origins=loaded.origins,
        images=images,
        outdated_images=outdated_images(images, files),
        overrides=tuple(overrides),
    )
    try:
        plan = build_plan(inputs)
    except SpecError as error:
        raise loaded.located(error) from error
    used = {item.name: prompts[item.name] for item in plan.prompts}
    return Prepared(plan, host, facts, job, used)


def _prompt_rows(loaded: LoadedJob) -> dict[str, PromptRows]:
    return {
        name: read_prompts(loaded.prompt_file(name), name, prompt_set.rows)
        for name, prompt_set in loaded.job.prompts.items()
    }


def _prompt_input(loaded: LoadedJob, rows: PromptRows, data: bytes) -> PromptInput:
    prompt_set = loaded.job.prompts[rows.name]
    return PromptInput(
        name=rows.name,
        sha256=hashlib.sha256(data).hexdigest(),
        rows=tuple(PlannedRow(id=row.id, turns=row.turns) for row in rows.rows),
        source=prompt_set.file,
        aiperf_format=rows.aiperf_format.value,
        output_tokens=prompt_set.output_tokens,
        licence=prompt_set.licence,
    )


def _facts(
    fleet: Fleet,
    host: Host,
    job: MatrixJob,
    progress: Callable[[str], None],
    facts_file: Path | None,
) -> HostFacts:
    if facts_file is not None:
        return _recorded_facts(facts_file, host)
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
