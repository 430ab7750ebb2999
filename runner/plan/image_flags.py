"""What the plan asks of an image that does not know it, as far as the image was asked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from runner.models.capability import ImageCapabilities
from runner.models.job import MatrixJob
from runner.models.plan import Finding
from runner.plan.findings import error, note, warning
from runner.plan.job_keys import job_key
from runner.plan.server_command import (
    PER_REQUEST_FLAG,
    own_arguments,
    per_request_metrics,
    speculative_config,
)

# what is measured stays what it is without these: sampling goes with every request, and caching and
# its token counts are recorded
_DISPENSABLE = frozenset(
    {
        "--enable-prefix-caching",
        "--enable-prompt-tokens-details",
        "--generation-config",
        "--no-enable-prefix-caching",
    }
)
_PROBE = "runner images probe --host HOST"
_OTHER_HOST = "choose a host whose image knows them: runner images probe --host HOST"


def flag_findings(
    job: MatrixJob,
    names: Sequence[str],
    capabilities: ImageCapabilities | None,
    *,
    evaluation: bool = False,
) -> Iterator[Finding]:
    """What the image can't take: flags of the plan's own, the user's, and speculative keys.

    Args:
        names: configurations that run.
        evaluation: the job was made from an evaluation, which has looked at methods itself.
    """
    if capabilities is not None and capabilities.problem is not None:
        yield warning("image server", f"it could not be asked whole: {capabilities.problem}")
    if capabilities is None or not capabilities.flags:
        yield from _unverified(job, names)
    else:
        yield from _own_flags(job, names, capabilities)
        yield from _extra_flags(job, names, capabilities)
    if capabilities is not None:
        yield from _speculative_findings(job, names, capabilities, evaluation=evaluation)


def _unverified(job: MatrixJob, names: Sequence[str]) -> Iterator[Finding]:
    flags = [argument for _, argument in _extra(job, names) if argument.startswith("--")]
    if flags:
        yield note(
            "extra_arguments",
            f"not checked, as this image told no flags that it knows: {', '.join(flags)}",
            _PROBE,
        )


def _own_flags(
    job: MatrixJob, names: Sequence[str], capabilities: ImageCapabilities
) -> Iterator[Finding]:
    own = dict.fromkeys(
        words[0] for name in names for words in own_arguments(job, job.servers[name], name)
    )
    unknown = [flag for flag in own if capabilities.knows_flag(flag) is False]
    image = _image(capabilities)
    needed = [flag for flag in unknown if flag not in _DISPENSABLE and flag != PER_REQUEST_FLAG]
    if needed:
        yield error(
            "image server",
            f"{image} does not know {', '.join(needed)}, which every plan here needs",
            _OTHER_HOST,
        )
    for flag in unknown:
        if flag in _DISPENSABLE:
            yield warning("image server", f"{image} does not know {flag}; it is not sent")


def _extra_flags(
    job: MatrixJob, names: Sequence[str], capabilities: ImageCapabilities
) -> Iterator[Finding]:
    for subject, argument in _extra(job, names):
        flag = argument.partition("=")[0].partition(".")[0].replace("_", "-")
        if argument.startswith("--") and capabilities.knows_flag(flag) is False:
            near = get_close_matches(flag, capabilities.flags, n=1)
            hint = f"did you mean {near[0]}?" if near else f"remove it from {subject}"
            yield error(subject, f"{_image(capabilities)} does not know {flag}", hint)


def _extra(job: MatrixJob, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The user's arguments, each with the key that it stands under."""
    for argument in job.server.extra_arguments:
        yield "server.extra_arguments", argument
    for name in names:
        for argument in job.servers[name].extra_arguments:
            yield f"servers.{name}.extra_arguments", argument


def _speculative_findings(
    job: MatrixJob, names: Sequence[str], capabilities: ImageCapabilities, *, evaluation: bool
) -> Iterator[Finding]:
    image = _image(capabilities)
    for name in names:
        speculative = job.servers[name].speculative
        if speculative is None:
            continue
        if not per_request_metrics(job.servers[name], capabilities):
            yield warning(
                f"servers.{name}",
                f"{image} reports no acceptance for each request: it comes from /metrics, without "
                "drafting coverage",
            )
        keys = json.loads(speculative_config(speculative))
        unknown = [key for key in keys if key not in capabilities.speculative_fields]
        if unknown and capabilities.speculative_fields:
            yield error(
                job_key("speculative", evaluation=evaluation, server=name),
                f"{image} does not know: {', '.join(unknown)}",
                "take it out, or choose a host whose image knows it",
            )
        method = speculative.method.value
        if not evaluation and capabilities.methods and method not in capabilities.methods:
            yield error(
                f"servers.{name}.speculative.method",
                f"{image} does not know the method {method}; it knows "
                f"{', '.join(capabilities.methods)}",
                "choose one of them, or a host whose image knows it",
            )


def _image(capabilities: ImageCapabilities) -> str:
    return f"this image (vLLM {capabilities.vllm_version or 'unknown'})"
