"""Job, host, facts and images in; a plan with nothing left to decide out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from runner import __version__
from runner.errors import SpecError
from runner.models.container import Mount
from runner.models.host import Role
from runner.models.image import LockedImage
from runner.models.job import MatrixJob
from runner.models.layout import RunLayout
from runner.models.plan import (
    CellPlan,
    Decision,
    Finding,
    FindingLevel,
    Origin,
    Plan,
    PlannedHost,
    PromptFile,
    Readiness,
    ServerPlan,
    WarmupPlan,
)
from runner.plan.accelerators import accelerator_options
from runner.plan.checks import check_cells, check_inputs
from runner.plan.containers import (
    RunFrame,
    load_container,
    server_alias,
    server_container,
    supervisor_container,
)
from runner.plan.cpusets import split_cpus
from runner.plan.decisions import job_decisions, masked_overrides
from runner.plan.findings import warning
from runner.plan.inputs import PlanInputs, PromptInput, ServerRole
from runner.plan.load_command import load_arguments
from runner.plan.matrix import CellKey, expand
from runner.plan.mounts import (
    cache_mounts,
    duplicate_targets,
    model_mounts,
    tokenizer_mounts,
)
from runner.plan.server_command import (
    PORT,
    expected_configuration,
    per_request_metrics,
    served_name,
    server_arguments,
    server_environment,
)

WARMUP_PROMPT = (
    "A lighthouse keeper writes one line in the log for every ship that passes. "
    "Write ten such lines, each with a time, a kind of ship and the weather."
)
"""Ours alone: no prompt set holds it, so warming up puts no measured prompt into any cache."""


def build_plan(inputs: PlanInputs) -> Plan:
    """The plan of one run; the same inputs give the same bytes.

    Problems do not raise: they are the plan's findings, and one of level error means that it
    must not be submitted.

    Raises:
        SpecError: the matrix can't be expanded (see `expand`), or includes an unknown name.
    """
    return _Builder(inputs).plan()


@dataclass(frozen=True)
class _Baseline:
    """The configuration that others are compared with, and how it was found."""

    id: str | None
    decisions: tuple[Decision, ...] = ()
    findings: tuple[Finding, ...] = ()


class _Builder:
    """What the parts of one plan have in common."""

    def __init__(self, inputs: PlanInputs):
        job, host = inputs.job, inputs.host
        self.inputs = inputs
        self.cpus = split_cpus(host, inputs.facts)
        self.frame = RunFrame(
            run_id=inputs.run_id,
            job=job.name,
            layout=RunLayout(PurePosixPath(host.run_root) / job.name / inputs.run_id),
            host=host,
            server_cpus=self.cpus.server,
            load_cpus=self.cpus.load,
        )
        self.prompts = {prompts.name: prompts for prompts in inputs.prompts}
        self.evaluation = inputs.evaluation
        if inputs.evaluation is not None:
            # an evaluation has said in which order its servers run, and what each is compared with
            self.keys = inputs.evaluation.keys
            self.server_ids = tuple(dict.fromkeys(key.server for key in self.keys))
            self.baseline = _Baseline(None)
        else:
            keys = expand(job.matrix, job.repeats, job.max_cells)
            _check_names(keys, job, self.prompts)
            used = tuple(dict.fromkeys(key.server for key in keys))
            self.baseline = _find_baseline(inputs, used)
            self.server_ids = tuple(sorted(used, key=lambda name: name != self.baseline.id))
            self.keys = tuple(sorted(keys, key=lambda key: self.server_ids.index(key.server)))
        self.accelerator = accelerator_options(
            host, inputs.facts, needed=job.server.tensor_parallel_size
        )
        self.cache_mounts, self.cache_findings = cache_mounts(host)
        self.names = {
            server_id: served_name(job.model, inputs.run_id, server_id)
            for server_id in self.server_ids
        }

    def plan(self) -> Plan:
        """All parts put together."""
        inputs, job, host = self.inputs, self.inputs.job, self.inputs.host
        servers = tuple(self._server(server_id) for server_id in self.server_ids)
        cells = tuple(self._cell(key) for key in self.keys)
        secrets = tuple(
            sorted({name for server in servers for name in server.container.secret_environment})
        )
        return Plan(
            runner_version=__version__,
            run_id=inputs.run_id,
            job=job.name,
            created_at=inputs.created_at,
            kind=job.kind if self.evaluation is None else "evaluation",
            description=job.description,
            host=PlannedHost(
                name=host.name,
                connection=host.connection,
                address=host.address,
                accelerator=host.accelerator,
                engine_socket=host.engine.socket,
            ),
            run_dir=str(self.frame.layout.root),
            network=self.frame.network,
            images={role.value: inputs.images[role] for role in Role if role in inputs.images},
            supervisor=supervisor_container(self.frame, self._image(Role.SUPERVISOR), secrets),
            servers=servers,
            cells=cells,
            prompts=_prompt_files(self.prompts[name] for name in self._used_prompts()),
            sampling=job.sampling,
            checkpoints=self.evaluation.checkpoints if self.evaluation else {},
            unavailable=self.evaluation.unavailable if self.evaluation else (),
            estimate=self.evaluation.estimate if self.evaluation else None,
            secrets=secrets,
            decisions=self._decisions(),
            findings=self._findings(servers, cells),
            overrides=masked_overrides(inputs.overrides),
        )

    def _server(self, server_id: str) -> ServerPlan:
        job, host = self.inputs.job, self.inputs.host
        configuration = job.servers[server_id]
        image = self._image(Role.SERVER)
        environment, secrets = server_environment(
            job, configuration, host, image, self.inputs.secrets
        )
        name = self.names[server_id]
        role = self._role(server_id)
        return ServerPlan(
            id=server_id,
            configuration=server_id,
            served_name=name,
            model=job.model,
            port=PORT,
            speculative=configuration.speculative,
            prefix_caching=job.server.prefix_caching,
            baseline=role.baseline,
            baseline_fallback=role.baseline_fallback,
            optional=role.optional,
            instead_of=role.instead_of,
            per_request_metrics=per_request_metrics(configuration, self.inputs.capabilities),
            expected=expected_configuration(job),
            container=server_container(
                self.frame,
                server_id,
                image,
                command=server_arguments(job, configuration, name, self.inputs.capabilities),
                environment=environment,
                secrets=secrets,
                mounts=self._server_mounts(server_id),
                accelerator=self.accelerator,
            ),
            readiness=Readiness(quiet_s=host.limits.ready_quiet_s, hard_s=host.limits.ready_hard_s),
            warmup=WarmupPlan(requests=job.load.warmup_requests, prompt=WARMUP_PROMPT),
        )

    def _role(self, server_id: str) -> ServerRole:
        if self.evaluation is not None:
            return self.evaluation.roles[server_id]
        return ServerRole(baseline=None if server_id == self.baseline.id else self.baseline.id)

    def _decisions(self) -> tuple[Decision, ...]:
        job, inputs = self.inputs.job, self.inputs
        if self.evaluation is None:
            return job_decisions(job, inputs.origins, self._inferred())
        # an option that nobody set is no decision; a null that somebody wrote is one
        said = [
            item
            for item in self.evaluation.decisions
            if item.value != "null" or item.origin is not Origin.DEFAULT
        ]
        own = {item.key for item in said}
        return (*said, *(item for item in self._inferred() if item.key not in own))

    def _cell(self, key: CellKey) -> CellPlan:
        job = self.inputs.job
        prompts = self.prompts[key.prompts]
        prompt_set = job.prompts[key.prompts]
        requests = sum(row.turns for row in prompts.rows)
        tokenizer = job.tokenizer or job.model
        command = load_arguments(
            model=self.names[key.server],
            url=f"http://{server_alias(key.server)}:{PORT}",
            tokenizer=tokenizer,
            tokenizer_revision=None if job.tokenizer else job.revision,
            prompts=prompts.name,
            aiperf_format=prompts.aiperf_format,
            output_tokens=prompts.output_tokens,
            requests=requests,
            conversations=len(prompts.rows),
            concurrency=key.concurrency,
            sampling=job.sampling,
            load=job.load,
            ignore_eos=prompt_set.ignore_eos,
            duration_s=prompt_set.duration_s,
        )
        mounts, environment = tokenizer_mounts(self.inputs.host, tokenizer)
        sampled = job.sampling.ignore_eos
        return CellPlan(
            id=key.id,
            server=key.server,
            prompts=key.prompts,
            concurrency=key.concurrency,
            repeat=key.repeat,
            rows=prompts.rows,
            output_tokens=prompts.output_tokens,
            requests=requests,
            mode=key.mode,
            dataset=prompts.dataset,
            ignore_eos=sampled if prompt_set.ignore_eos is None else prompt_set.ignore_eos,
            duration_s=prompt_set.duration_s,
            error_limit=job.load.error_limit,
            timeout_s=job.load.cell_timeout_s,
            container=load_container(
                self.frame,
                key.id,
                key.server,
                self._image(Role.LOAD),
                command=command,
                mounts=mounts,
                more_environment=environment,
            ),
        )

    def _server_mounts(self, server_id: str) -> tuple[Mount, ...]:
        job, host = self.inputs.job, self.inputs.host
        speculative = job.servers[server_id].speculative
        drafter = speculative.model if speculative else None
        models = model_mounts(host, (job.model, job.tokenizer, drafter))
        return tuple(dict.fromkeys((*models, *self.cache_mounts, *host.mounts)))

    def _image(self, role: Role) -> LockedImage:
        """The lock's entry, or a stand-in that a finding goes with, so a plan can be shown."""
        locked = self.inputs.images.get(role)
        if locked is not None:
            return locked
        name = self.inputs.host.images.get(role, role.value)
        return LockedImage(name=name, reference=name, digest=f"{name}:not-built", built_at="")

    def _used_prompts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(key.prompts for key in self.keys))

    def _inferred(self) -> tuple[Decision, ...]:
        job = self.inputs.job
        tokenizer = (
            () if job.tokenizer else (_inferred("tokenizer", job.model, "the model's own folder"),)
        )
        names = tuple(
            _inferred(f"servers.{server_id}.served_name", name, "model, run id and server id")
            for server_id, name in self.names.items()
        )
        images = tuple(
            _inferred(f"images.{role}", image.digest, f"the lock: {image.name}")
            for role in Role
            if (image := self.inputs.images.get(role)) is not None
        )
        return (*tokenizer, *self.baseline.decisions, *names, *images, *self.cpus.decisions)

    def _findings(
        self, servers: Sequence[ServerPlan], cells: Sequence[CellPlan]
    ) -> tuple[Finding, ...]:
        mounts = (
            finding for server in servers for finding in duplicate_targets(server.container.mounts)
        )
        found = (
            *(self.evaluation.findings if self.evaluation else ()),
            *check_inputs(self.inputs, self.server_ids),
            *check_cells(self.inputs.job, cells),
            *self.baseline.findings,
            *self.cpus.findings,
            *self.accelerator.findings,
            *self.cache_findings,
            *mounts,
        )
        order = (FindingLevel.ERROR, FindingLevel.WARNING, FindingLevel.NOTE)
        return tuple(sorted(dict.fromkeys(found), key=lambda finding: order.index(finding.level)))


def _check_names(
    keys: Sequence[CellKey], job: MatrixJob, prompts: Mapping[str, PromptInput]
) -> None:
    """`matrix.include` may name what is on no axis, and so what nobody described."""
    wrong = [
        f"matrix.include: {axis} '{value}' is not one of: {', '.join(known)}"
        for axis, values, known in (
            ("server", dict.fromkeys(key.server for key in keys), tuple(job.servers)),
            ("prompts", dict.fromkeys(key.prompts for key in keys), tuple(prompts)),
        )
        for value in values
        if value not in known
    ]
    if wrong:
        raise SpecError("the matrix names what the job does not describe", problems=wrong)


def _find_baseline(inputs: PlanInputs, used: Sequence[str]) -> _Baseline:
    job = inputs.job
    if job.baseline is not None:
        if job.baseline in used:
            return _Baseline(job.baseline)
        reason = f"no cell runs the baseline '{job.baseline}'"
        step = f"add '{job.baseline}' to matrix.server, or --set baseline={used[0]}"
        return _Baseline(None, findings=(_no_baseline(reason, step),))
    plain = [name for name in used if job.servers[name].speculative is None]
    if len(plain) == 1:
        source = "the only configuration that does not speculate"
        return _Baseline(plain[0], decisions=(_inferred("baseline", plain[0], source),))
    reason = (
        "every configuration speculates"
        if not plain
        else f"several configurations do not speculate: {', '.join(plain)}"
    )
    step = (
        f"--set baseline={plain[0]}"
        if plain
        else "add a configuration without 'speculative' to servers and to matrix.server"
    )
    return _Baseline(None, findings=(_no_baseline(reason, step),))


def _no_baseline(reason: str, step: str) -> Finding:
    return warning("baseline", f"{reason}, so no speed-up can be computed", step)


def _inferred(key: str, value: str, source: str) -> Decision:
    return Decision(key=key, value=value, origin=Origin.INFERRED, source=source)


def _prompt_files(prompts: Iterable[PromptInput]) -> tuple[PromptFile, ...]:
    return tuple(
        PromptFile(
            name=item.name,
            sha256=item.sha256,
            rows=len(item.rows),
            source=item.source,
            licence=item.licence,
            dataset=item.dataset,
            revision=item.revision,
            dataset_sha256=item.dataset_sha256,
            dataset_rows=item.dataset_rows,
            selection=item.selection,
            restricted=item.restricted,
        )
        for item in prompts
    )
