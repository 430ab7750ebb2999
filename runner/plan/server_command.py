"""The command line and environment of one vLLM server. Every value is passed explicitly."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from runner.models.capability import ImageCapabilities
from runner.models.host import Host, Vendor
from runner.models.image import LockedImage
from runner.models.job import MatrixJob, ServerConfiguration, Speculative
from runner.models.plan import Finding
from runner.plan.findings import error
from runner.plan.job_keys import job_key
from runner.plan.secret_names import split_environment

DEFAULT_ENTRYPOINT = ("vllm", "serve")
PORT = 8000
PER_REQUEST_FLAG = "--per-request-spec-decode-metrics"

_OWNED_FLAGS: Mapping[str, str] = {
    "--api-key": "environment VLLM_API_KEY",
    "--dtype": "server.dtype",
    "--enable-prefix-caching": "server.prefix_caching",
    "--enable-prompt-tokens-details": "the plan",
    "--enforce-eager": "server.enforce_eager",
    "--generation-config": "the plan",
    "--gpu-memory-utilization": "server.gpu_memory_utilization",
    "--host": "the plan",
    "--max-model-len": "server.max_model_len",
    "--max-num-batched-tokens": "server.max_num_batched_tokens",
    "--max-num-seqs": "server.max_num_seqs",
    "--model": "model",
    "--per-request-spec-decode-metrics": "the plan",
    "--port": "the plan",
    "--revision": "revision",
    "--seed": "server.seed",
    "--served-model-name": "the plan",
    "--spec-method": "speculative.method",
    "--spec-model": "speculative.model",
    "--spec-tokens": "speculative.num_speculative_tokens",
    "--speculative-config": "speculative",
    "--tensor-parallel-size": "server.tensor_parallel_size",
    "--tokenizer": "tokenizer",
    "--trust-remote-code": "server.trust_remote_code",
    "-sc": "speculative",
    "-tp": "server.tensor_parallel_size",
}

_CONFIG_FILE = "--config"
_SHORTEST_PREFIX = len("--x")

# Accepted drafts at a chosen rate, whatever the text: no measurement of a model.
_SYNTHETIC = (
    "rejection_sample_method",
    "rejection-sample-method",
    "synthetic_acceptance",
    "synthetic-acceptance",
)


def is_local(path: str | None) -> bool:
    """True for an absolute path on the host, false for a name on a model hub."""
    return path is not None and path.startswith("/")


def served_name(model: str, run_id: str, server_id: str) -> str:
    """A name that only this server of this run answers to, so no other can pass for it."""
    nonce = hashlib.sha256(f"{run_id}/{server_id}".encode()).hexdigest()[:8]
    return f"{PurePosixPath(model).name}-{nonce}"


def speculative_config(speculative: Speculative) -> str:
    """The JSON that vLLM gets: set values only, compact, keys sorted."""
    values = speculative.model_dump(mode="json", exclude_none=True)
    for switch in ("enable_adaptive_verification", "parallel_drafting"):
        if not values[switch]:
            del values[switch]
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


def per_request_metrics(
    configuration: ServerConfiguration, capabilities: ImageCapabilities | None
) -> bool:
    """Whether answers carry acceptance: the server speculates and the image knows the flag.

    An image that was never probed is taken to know it; a baseline refuses to start with it.
    """
    if configuration.speculative is None:
        return False
    return capabilities is None or capabilities.knows_flag(PER_REQUEST_FLAG) is not False


def server_arguments(
    job: MatrixJob,
    configuration: ServerConfiguration,
    name: str,
    capabilities: ImageCapabilities | None = None,
) -> tuple[str, ...]:
    """What follows the image's entry point; `name` is the served name.

    A flag of the plan's own that the image is known not to have is left out: an unknown flag ends
    a server at once. `image_flags.flag_findings` tells which, and which no plan can do without.
    """
    arguments = [job.model]
    for words in own_arguments(job, configuration, name):
        if capabilities is None or capabilities.knows_flag(words[0]) is not False:
            arguments += words
    return (*arguments, *job.server.extra_arguments, *configuration.extra_arguments)


def own_arguments(
    job: MatrixJob, configuration: ServerConfiguration, name: str
) -> Iterator[tuple[str, ...]]:
    """The plan's own flags, each with its value."""
    server, speculative = job.server, configuration.speculative
    yield "--host", "0.0.0.0"  # noqa: S104 - inside its container; no port is published
    yield "--port", str(PORT)
    yield "--served-model-name", name
    yield "--dtype", server.dtype
    yield "--max-model-len", str(server.max_model_len)
    yield "--max-num-seqs", str(server.max_num_seqs)
    yield "--max-num-batched-tokens", str(server.max_num_batched_tokens)
    yield "--seed", str(server.seed)
    yield "--tensor-parallel-size", str(server.tensor_parallel_size)
    yield "--generation-config", "vllm"
    yield ("--enable-prefix-caching" if server.prefix_caching else "--no-enable-prefix-caching",)
    yield ("--enable-prompt-tokens-details",)
    if server.enforce_eager:
        yield ("--enforce-eager",)
    if server.gpu_memory_utilization is not None:
        yield "--gpu-memory-utilization", str(server.gpu_memory_utilization)
    if job.tokenizer is not None:
        yield "--tokenizer", job.tokenizer
    if job.revision is not None:
        yield "--revision", job.revision
    if server.trust_remote_code:
        yield ("--trust-remote-code",)
    if speculative is not None:
        yield "--speculative-config", speculative_config(speculative)
        yield PER_REQUEST_FLAG, "detailed"


def server_environment(
    job: MatrixJob,
    configuration: ServerConfiguration,
    host: Host,
    image: LockedImage,
    secrets: Iterable[str] = (),
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Plain variables of a server, sorted by name, and the names of its secret ones.

    A later source beats an earlier one: the plan's own, the image's, the host's, the job's, the
    configuration's. `secrets` are names that every server gets.
    """
    own = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    speculative = configuration.speculative
    drafter = speculative.model if speculative else None
    if all(is_local(path) for path in (job.model, job.tokenizer, drafter) if path is not None):
        own["HF_HUB_OFFLINE"] = "1"
    if host.accelerator.vendor is Vendor.CPU and job.server.cpu_kv_cache_gib is not None:
        own["VLLM_CPU_KVCACHE_SPACE"] = str(job.server.cpu_kv_cache_gib)
    given = {**host.environment, **job.server.environment, **configuration.environment}
    plain, hidden = split_environment(given, secrets)
    merged = {**own, **image.environment, **plain}
    return {name: merged[name] for name in sorted(merged) if name not in hidden}, hidden


def expected_configuration(job: MatrixJob) -> dict[str, str]:
    """Path in the answer of `/server_info` -> value that every server of the job must have.

    Text as it stands there: bare words, else JSON. What vLLM decides itself (dtype `auto`) is not
    named.
    """
    server = job.server
    expected: dict[str, object] = {
        "model_config.max_model_len": server.max_model_len,
        "model_config.seed": server.seed,
        "scheduler_config.max_num_seqs": server.max_num_seqs,
        "scheduler_config.max_num_batched_tokens": server.max_num_batched_tokens,
        "parallel_config.tensor_parallel_size": server.tensor_parallel_size,
        "cache_config.enable_prefix_caching": server.prefix_caching,
    }
    if server.dtype != "auto":
        expected["model_config.dtype"] = f"torch.{_DTYPES.get(server.dtype, server.dtype)}"
    return {
        path: value if isinstance(value, str) else json.dumps(value)
        for path, value in expected.items()
    }


_DTYPES = {"half": "float16", "float": "float32"}


def argument_findings(
    job: MatrixJob, names: Sequence[str], *, evaluation: bool = False
) -> Iterator[Finding]:
    """Extra arguments that the plan sets itself, or that make up acceptance."""
    sources = [("server.extra_arguments", job.server.extra_arguments)]
    sources += [
        (f"servers.{name}.extra_arguments", job.servers[name].extra_arguments) for name in names
    ]
    for subject, arguments in sources:
        for argument in arguments:
            flag = _owned(_flag(argument))
            owner = _OWNED_FLAGS.get(flag)
            if owner is not None:
                owner = job_key(owner, evaluation=evaluation)
            if flag == _CONFIG_FILE:
                yield error(
                    subject,
                    f"'{flag}' takes flags from a file that the plan does not see",
                    f"write them into {subject} itself",
                )
            elif owner is not None:
                yield error(
                    subject,
                    f"'{flag}' repeats a flag that is set from {owner}",
                    f"remove '{flag}' from {subject}"
                    + ("" if owner == "the plan" else f" and set {owner}"),
                )
            if any(word in argument for word in _SYNTHETIC):
                yield error(
                    subject,
                    "synthetic acceptance says nothing about a model and is not measured here",
                    f"remove it from {subject}",
                )


def _owned(flag: str) -> str:
    """The owned flag that vLLM would complete this one to; the flag itself where there is none."""
    if flag in _OWNED_FLAGS or not flag.startswith("--") or len(flag) < _SHORTEST_PREFIX:
        return flag
    return next((owned for owned in _OWNED_FLAGS if owned.startswith(flag)), flag)


def _flag(argument: str) -> str:
    """The flag as vLLM reads it: `--a_b=c`, `--a-b.key` and `--no-a-b` all become `--a-b`."""
    if not argument.startswith("-"):
        return argument
    flag = argument.partition("=")[0].partition(".")[0]
    if flag.startswith("--"):
        flag = flag.replace("_", "-")
    return f"--{flag.removeprefix('--no-')}" if flag.startswith("--no-") else flag
