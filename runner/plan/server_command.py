"""The command line and environment of one vLLM server. Every value is passed explicitly."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from runner.models.host import Host, Vendor
from runner.models.image import LockedImage
from runner.models.job import MatrixJob, ServerConfiguration, Speculative
from runner.models.plan import Finding
from runner.plan.findings import error
from runner.plan.secret_names import split_environment

DEFAULT_ENTRYPOINT = ("vllm", "serve")
PORT = 8000

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


def server_arguments(
    job: MatrixJob, configuration: ServerConfiguration, name: str
) -> tuple[str, ...]:
    """What follows the image's entry point; `name` is the served name."""
    server = job.server
    caching = "--enable-prefix-caching" if server.prefix_caching else "--no-enable-prefix-caching"
    arguments = [
        job.model,
        *("--host", "0.0.0.0"),  # noqa: S104 - inside its container; no port is published
        *("--port", str(PORT)),
        *("--served-model-name", name),
        *("--dtype", server.dtype),
        *("--max-model-len", str(server.max_model_len)),
        *("--max-num-seqs", str(server.max_num_seqs)),
        *("--max-num-batched-tokens", str(server.max_num_batched_tokens)),
        *("--seed", str(server.seed)),
        *("--tensor-parallel-size", str(server.tensor_parallel_size)),
        *("--generation-config", "vllm"),
        caching,
        "--enable-prompt-tokens-details",
    ]
    if server.enforce_eager:
        arguments.append("--enforce-eager")
    if server.gpu_memory_utilization is not None:
        arguments += ["--gpu-memory-utilization", str(server.gpu_memory_utilization)]
    if job.tokenizer is not None:
        arguments += ["--tokenizer", job.tokenizer]
    if job.revision is not None:
        arguments += ["--revision", job.revision]
    if server.trust_remote_code:
        arguments.append("--trust-remote-code")
    if configuration.speculative is not None:
        arguments += ["--speculative-config", speculative_config(configuration.speculative)]
        arguments += ["--per-request-spec-decode-metrics", "detailed"]
    return (*arguments, *server.extra_arguments, *configuration.extra_arguments)


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


def argument_findings(job: MatrixJob, names: Sequence[str]) -> Iterator[Finding]:
    """Extra arguments that the plan sets itself, or that make up acceptance."""
    sources = [("server.extra_arguments", job.server.extra_arguments)]
    sources += [
        (f"servers.{name}.extra_arguments", job.servers[name].extra_arguments) for name in names
    ]
    for subject, arguments in sources:
        for argument in arguments:
            flag = _owned(_flag(argument))
            owner = _OWNED_FLAGS.get(flag)
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
