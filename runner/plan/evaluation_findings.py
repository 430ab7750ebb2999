"""What is wrong or worth knowing about an evaluation on a host, beside its servers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runner.models.evaluation import Adaptive, Comparator, EvaluationJob, Mode
from runner.models.host import Host, HostFacts
from runner.models.plan import Finding
from runner.plan.evaluation_sets import modes_of
from runner.plan.evaluation_settings import architectures
from runner.plan.findings import error, note


def evaluation_findings(
    job: EvaluationJob, host: Host, facts: HostFacts, lengths: Sequence[int]
) -> Iterator[Finding]:
    """Hardware that is not what the job wants, choices without effect, and the order of modes."""
    yield from _hardware(job, host, facts)
    yield from _without_effect(job)
    if len(lengths) > 1 and len(modes_of(job.scope)) > 1:
        yield note(
            "draft_length",
            "acceptance comes before the sweep of each draft length, not before all sweeps: every "
            "server is started once",
        )


def _hardware(job: EvaluationJob, host: Host, facts: HostFacts) -> Iterator[Finding]:
    """A host may have more accelerators than are wanted, never fewer or others."""
    wanted, there = job.hardware, host.accelerator
    kinds = architectures(host, facts)
    count = there.count or len(facts.gpus)
    differing = []
    if wanted.vendor is not None and wanted.vendor is not there.vendor:
        differing.append(("vendor", wanted.vendor.value, there.vendor.value))
    if wanted.architecture is not None and kinds != (wanted.architecture,):
        differing.append(("architecture", wanted.architecture, ", ".join(kinds) or "none"))
    if wanted.count is not None and count < wanted.count:
        differing.append(("count", str(wanted.count), str(count or "none")))
    for key, value, found in differing:
        yield error(
            f"hardware.{key}",
            f"the job wants {value}, '{host.name}' has {found}",
            "choose another --host, or correct hardware in the job or accelerator in hosts.yaml",
        )


def _without_effect(job: EvaluationJob) -> Iterator[Finding]:
    if Mode.SPEEDUP in modes_of(job.scope):
        return
    for key, chosen in (
        ("comparator", job.comparator is not Comparator.AUTO),
        ("adaptive", job.adaptive_verification is Adaptive.ON),
        ("matched_async", job.matched_async),
    ):
        if chosen:
            yield note(key, f"changes nothing: scope {job.scope} runs no sweep")
