"""What is wrong or doubtful about a job on a host, seen before anything starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from runner import __version__
from runner.models.host import Host, Role, Vendor
from runner.models.job import MatrixJob
from runner.models.plan import CellPlan, Finding
from runner.plan.containers import server_alias
from runner.plan.findings import error, warning
from runner.plan.image_flags import flag_findings
from runner.plan.inputs import PlanInputs
from runner.plan.job_keys import job_key
from runner.plan.secret_names import has_bad_reference, is_secret
from runner.plan.server_command import argument_findings, is_local

_LONGEST_HOST_LABEL = 63
_REQUESTS_PER_SLOT = 2
# the load generator starts, and writes its exports
_START_AND_END_S = 60


def check_inputs(inputs: PlanInputs, server_ids: Sequence[str]) -> Iterator[Finding]:
    """Findings about job, host and images; `server_ids` are the configurations that run."""
    yield from _images(inputs)
    yield from _paths(inputs, server_ids)
    yield from _host_paths(inputs)
    yield from _tokenizer(inputs.job, inputs.host)
    yield from _settings(inputs, server_ids)
    evaluation = inputs.evaluation is not None
    yield from argument_findings(inputs.job, server_ids, evaluation=evaluation)
    yield from flag_findings(inputs.job, server_ids, inputs.capabilities, evaluation=evaluation)
    yield from _secrets(inputs, server_ids)


def check_cells(job: MatrixJob, cells: Sequence[CellPlan]) -> Iterator[Finding]:
    """Findings about load, once for each prompt set and concurrency."""
    for concurrency in sorted({cell.concurrency for cell in cells}):
        if concurrency > job.server.max_num_seqs:
            yield warning(
                "concurrency",
                f"concurrency {concurrency} exceeds server.max_num_seqs "
                f"{job.server.max_num_seqs}: requests queue, and the report says so",
                f"--set server.max_num_seqs={concurrency}",
            )
    for cell in _first_of_each(cells, lambda cell: (cell.prompts, cell.concurrency)):
        wanted = _REQUESTS_PER_SLOT * cell.concurrency
        # without rows the dataset is missing, which is said already
        if 0 < cell.requests < wanted:
            yield warning(
                f"prompts {cell.prompts}",
                f"{cell.requests} requests at concurrency {cell.concurrency}: fewer than "
                f"{_REQUESTS_PER_SLOT} for each slot, so start and end weigh more than load",
                _more_requests(cell, wanted),
            )
    for cell in _first_of_each(cells, lambda cell: (cell.prompts,)):
        yield from _room(job, cell)


def _first_of_each(
    cells: Sequence[CellPlan], key: Callable[[CellPlan], tuple[str | int, ...]]
) -> Iterator[CellPlan]:
    firsts: dict[tuple[str | int, ...], CellPlan] = {}
    for cell in cells:
        firsts.setdefault(key(cell), cell)
    yield from (firsts[each] for each in sorted(firsts))


def _more_requests(cell: CellPlan, wanted: int) -> str:
    if cell.mode is None:
        return f"give '{cell.prompts}' {wanted} rows or more, or lower matrix.concurrency"
    return (
        f"raise budget.{cell.mode}.rows, if '{cell.dataset}' has {wanted} or more, or lower "
        f"concurrency.{cell.mode}"
    )


def _room(job: MatrixJob, cell: CellPlan) -> Iterator[Finding]:
    """Tokens of one cell's answers within the context, and seconds within its time limit."""
    section = f"prompts.{cell.prompts}" if cell.mode is None else f"budget.{cell.mode}"
    if cell.output_tokens >= job.server.max_model_len:
        yield error(
            f"prompts {cell.prompts}",
            f"output_tokens {cell.output_tokens} leave no room for a prompt within "
            f"server.max_model_len {job.server.max_model_len}",
            f"--set {section}.output_tokens={job.server.max_model_len // 2}",
        )
    if cell.duration_s is None:
        return
    longest = cell.duration_s + job.load.request_timeout_s
    if longest >= job.load.cell_timeout_s:
        yield warning(
            f"prompts {cell.prompts}",
            f"{cell.duration_s:g} s and a last request of up to {job.load.request_timeout_s:g} s "
            f"do not fit into load.cell_timeout_s {job.load.cell_timeout_s:g}",
            f"--set load.cell_timeout_s={longest + _START_AND_END_S:g}",
        )


def _images(inputs: PlanInputs) -> Iterator[Finding]:
    host = inputs.host
    if inputs.facts.engine is None:
        yield error(
            "engine",
            f"no container engine answers on '{host.name}': "
            f"{inputs.facts.engine_error or 'it said nothing'}",
            f"runner hosts check {host.name}",
        )
    held = set(inputs.facts.images.values())
    for role in Role:
        locked = inputs.images.get(role)
        name = locked.name if locked else host.images.get(role)
        if locked is None and name in inputs.facts.images:
            problem = f"image '{name}' is not in the lock, though it is"
        elif locked is None:
            problem = f"image '{name}' is not built" if name else f"no image for {role} is built"
        elif inputs.facts.engine is not None and locked.digest not in held:
            problem = f"image '{name}' is locked as {locked.digest[:19]}, which is not"
        else:
            continue
        is_there = name in inputs.facts.images
        yield error(
            f"image {role}", f"{problem} on '{host.name}'", _get_image(host, name, is_there)
        )
    yield from _origins(inputs)


def _get_image(host: Host, name: str | None, is_there: bool) -> str:
    if name and set(name) & set("/:@"):
        note = f"runner images build --host {host.name}"
        pull = f"on {host.name}: {host.engine.command} pull {name}; then: "
        return note if is_there else f"{pull}{note}"
    return " ".join(filter(None, ("runner images build", name, f"--host {host.name}")))


def _origins(inputs: PlanInputs) -> Iterator[Finding]:
    """Images that are there, but were made from something else than what runs here."""
    supervisor = inputs.images.get(Role.SUPERVISOR)
    version = supervisor.versions.get("runner") if supervisor else None
    for role in Role:
        image = inputs.images.get(role)
        if image is None:
            continue
        again = f"runner images build {image.name} --host {inputs.host.name}"
        if role is Role.SUPERVISOR and version not in (None, __version__):
            yield error(
                f"image {role}",
                f"'{image.name}' on '{inputs.host.name}' holds runner {version}, "
                f"this is runner {__version__}",
                again,
            )
        elif role in inputs.outdated_images:
            yield warning(
                f"image {role}",
                f"'{image.name}' on '{inputs.host.name}' was built from other sources than "
                "those at hand",
                again,
            )


def _named_paths(inputs: PlanInputs, server_ids: Sequence[str]) -> Mapping[str, str | None]:
    job, evaluation = inputs.job, inputs.evaluation is not None
    drafters = {
        job_key("speculative.model", evaluation=evaluation, server=name): speculative.model
        for name in server_ids
        if (speculative := job.servers[name].speculative) is not None
    }
    return {
        job_key("model", evaluation=evaluation): job.model,
        "tokenizer": job.tokenizer,
        **drafters,
    }


def _paths(inputs: PlanInputs, server_ids: Sequence[str]) -> Iterator[Finding]:
    missing = set(inputs.facts.missing_paths)
    for key, path in _named_paths(inputs, server_ids).items():
        if path is None:
            continue
        if path.startswith((".", "~")):
            yield error(
                key,
                f"'{path}' is neither an absolute path on the host nor a name on a hub",
                f"write the absolute path that it has on '{inputs.host.name}'",
            )
        elif path in missing:
            yield error(
                key,
                f"{path} does not exist on '{inputs.host.name}'",
                f"put the model there, or --set {key}=/path/on/{inputs.host.name}",
            )


def _host_paths(inputs: PlanInputs) -> Iterator[Finding]:
    """Folders that every server gets: the engine refuses a container whose folder is missing."""
    host, missing = inputs.host, set(inputs.facts.missing_paths)
    named = {
        **{path: f"caches.{key}" for key, path in host.caches.items()},
        **{mount.source: "mounts" for mount in host.mounts},
    }
    for path, key in named.items():
        if path in missing:
            yield error(
                key,
                f"{path} does not exist on '{host.name}'",
                f"on {host.name}: mkdir -p {path}; or correct '{key}' in hosts.yaml",
            )
    if inputs.facts.run_root_blocked_by is not None:
        yield error(
            "run_root",
            f"{host.run_root} can't be written on '{host.name}': "
            f"{inputs.facts.run_root_blocked_by} is not a folder that the login may write to",
            f"make {host.run_root} there and give it to that user, or set run_root in hosts.yaml",
        )


def _tokenizer(job: MatrixJob, host: Host) -> Iterator[Finding]:
    """The load generator takes a hub's tokenizer from the host's cache, and asks no hub."""
    named = job.tokenizer or job.model
    if not is_local(named) and "huggingface" not in host.caches:
        yield error(
            "tokenizer",
            f"'{named}' is not a folder on the host, and '{host.name}' has no cache that server "
            "and load generator share",
            "set caches.huggingface in hosts.yaml, or --set tokenizer=/absolute/path/of/the/"
            "tokenizer",
        )


def _settings(inputs: PlanInputs, server_ids: Sequence[str]) -> Iterator[Finding]:
    server = inputs.job.server
    if server.prefix_caching:
        yield warning(
            "server.prefix_caching",
            "prefix caching is on: cells that share prompts on one server get faster from one "
            "to the next",
            "--set server.prefix_caching=false",
        )
    if server.max_num_batched_tokens < server.max_num_seqs:
        yield error(
            "server.max_num_batched_tokens",
            f"{server.max_num_batched_tokens} is less than server.max_num_seqs "
            f"{server.max_num_seqs}; vLLM refuses that",
            f"--set server.max_num_batched_tokens={server.max_num_seqs}",
        )
    sized = server.cpu_kv_cache_gib is not None or any(
        "VLLM_CPU_KVCACHE_SPACE" in environment
        for environment in (server.environment, inputs.host.environment)
    )
    if inputs.host.accelerator.vendor is Vendor.CPU and not sized:
        yield warning(
            "server.cpu_kv_cache_gib",
            "not set: vLLM then takes a share of all memory and fails when it is not free",
            "--set server.cpu_kv_cache_gib=2",
        )
    for name in server_ids:
        yield from _configuration(inputs, name)


def _configuration(inputs: PlanInputs, name: str) -> Iterator[Finding]:
    job, evaluation = inputs.job, inputs.evaluation is not None
    alias = server_alias(name)
    if any(len(label) > _LONGEST_HOST_LABEL for label in alias.split(".")):
        yield error(
            f"servers.{name}",
            f"'{alias}' is too long for a host name; {_LONGEST_HOST_LABEL} characters at most",
            "shorten the configuration's name",
        )
    speculative = job.servers[name].speculative
    spread = speculative.draft_tensor_parallel_size if speculative else None
    if spread not in (None, 1, job.server.tensor_parallel_size):
        key = "speculative.draft_tensor_parallel_size"
        key = job_key(key, evaluation=evaluation, server=name)
        yield error(
            key,
            f"{spread} is neither 1 nor server.tensor_parallel_size "
            f"{job.server.tensor_parallel_size}",
            f"--set {key}=1",
        )


def _secrets(inputs: PlanInputs, server_ids: Sequence[str]) -> Iterator[Finding]:
    """One value travels for each secret, so configurations can't disagree about it."""
    shared = {**inputs.host.environment, **inputs.job.server.environment}
    first: dict[str, str] = {}
    for server_id in server_ids:
        own = {**shared, **inputs.job.servers[server_id].environment}
        for name, value in own.items():
            if has_bad_reference(value):
                yield error(
                    f"servers.{server_id}.environment.{name}",
                    f"{name} holds '${{' without a variable's name; expected ${{NAME}}",
                    "correct it in the job file or in hosts.yaml",
                )
            hidden = name in inputs.secrets or is_secret(name, value)
            if hidden and first.setdefault(name, value) != value:
                yield error(
                    f"servers.{server_id}.environment.{name}",
                    f"secret '{name}' has another value in another configuration",
                    "give it one value under server.environment",
                )
