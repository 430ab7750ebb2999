"""The server configurations of an evaluation: drafter, comparator, adaptive verification."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from runner.models.capability import ImageCapabilities
from runner.models.checkpoint import Checkpoint, MtpHead, VerifierReading
from runner.models.evaluation import Adaptive, Comparator, EvaluationJob, Mode
from runner.models.host import Vendor
from runner.models.job import ServerConfiguration, Speculative, SpeculativeMethod
from runner.models.plan import Decision, Finding, Origin, Unavailable
from runner.plan.evaluation_sets import modes_of
from runner.plan.findings import error, note, warning
from runner.plan.inputs import ServerRole
from runner.plan.support import (
    WITHOUT_ASYNC_SCHEDULING,
    Outlook,
    Support,
    adaptive_support,
    method_support,
)

BASELINE, MTP, DRAFTER = "baseline", "mtp", "drafter"
NO_ASYNC = "--no-async-scheduling"


@dataclass(frozen=True)
class Condition:
    """One server configuration and which modes are measured on it."""

    name: str
    configuration: ServerConfiguration
    role: ServerRole
    acceptance: bool
    speedup: bool


@dataclass(frozen=True)
class Conditions:
    """All of an evaluation, in the order in which their servers run.

    `comparator` is the first choice to compare with; None where nothing is compared.
    """

    ordered: tuple[Condition, ...]
    comparator: str | None
    decisions: tuple[Decision, ...]
    findings: tuple[Finding, ...]
    unavailable: tuple[Unavailable, ...]

    @property
    def by_name(self) -> Mapping[str, Condition]:
        """The same by name."""
        return {condition.name: condition for condition in self.ordered}


@dataclass(frozen=True)
class _Compared:
    """The comparator's conditions, first choice first."""

    conditions: tuple[Condition, ...] = ()
    decisions: tuple[Decision, ...] = ()
    findings: tuple[Finding, ...] = ()
    unavailable: tuple[Unavailable, ...] = ()

    @property
    def first(self) -> str | None:
        return self.conditions[0].name if self.conditions else None

    @property
    def fallback(self) -> str | None:
        return self.conditions[1].name if len(self.conditions) > 1 else None

    def role(self, *, optional: bool) -> ServerRole:
        """Of a drafter that is compared with these."""
        return ServerRole(optional=optional, baseline=self.first, baseline_fallback=self.fallback)


def conditions(
    *,
    job: EvaluationJob,
    method: SpeculativeMethod,
    parallel_drafting: bool,
    lengths: Sequence[int],
    drafter: Checkpoint,
    verifier: Checkpoint,
    verifier_reading: VerifierReading,
    capabilities: ImageCapabilities | None,
    vendor: Vendor,
) -> Conditions:
    """Every condition of an evaluation, and those that can't be had with the reason."""
    modes = modes_of(job.scope)
    speedup = Mode.SPEEDUP in modes
    compared = _Compared()
    if speedup:
        compared = _compared(job, method, verifier_reading, capabilities, vendor)
    support = method_support(method, parallel_drafting, capabilities, vendor)
    adaptive = adaptive_support(method, parallel_drafting, capabilities, vendor)
    on_the_table = speedup and job.adaptive_verification is not Adaptive.OFF

    def drafting(length: int, *, on: bool) -> Condition:
        spec = _speculative(job, method, parallel_drafting, length, drafter, verifier)
        spec = spec.model_copy(update={"enable_adaptive_verification": on})
        return Condition(
            name=_drafter_name(length, lengths, on if on_the_table else None),
            configuration=ServerConfiguration(speculative=spec),
            role=compared.role(optional=on),
            acceptance=Mode.ACCEPTANCE in modes and not on,
            speedup=speedup,
        )

    plain = [drafting(length, on=False) for length in lengths]
    adapting = [drafting(length, on=True) for length in lengths] if on_the_table else []
    findings = [*compared.findings, *_unsupported(method, support)]
    unavailable = list(compared.unavailable)
    if adapting and adaptive.ruled_out:
        unavailable += [Unavailable(condition=c.name, reason=adaptive.reason) for c in adapting]
        if job.adaptive_verification is Adaptive.ON:
            findings.append(error("adaptive", adaptive.reason, "--set adaptive=auto"))
        adapting = []
    return Conditions(
        ordered=(*plain, *compared.conditions, *adapting),
        comparator=compared.first,
        decisions=(*compared.decisions, *_adaptive_decision(job, adaptive, on_the_table)),
        findings=tuple(findings),
        unavailable=tuple(unavailable),
    )


def _speculative(
    job: EvaluationJob,
    method: SpeculativeMethod,
    parallel_drafting: bool,
    length: int,
    drafter: Checkpoint,
    verifier: Checkpoint,
) -> Speculative:
    """How the drafter drafts, without adaptive verification.

    A head that is part of the served model is read from there; one of its own has to be named.
    """
    native = method is SpeculativeMethod.MTP and drafter.name == verifier.name
    return Speculative(
        method=method,
        num_speculative_tokens=length,
        model=None if native else drafter.name,
        revision=None if native or drafter.local else drafter.revision,
        draft_tensor_parallel_size=job.draft_tensor_parallel_size,
        parallel_drafting=parallel_drafting,
    )


def _drafter_name(length: int, lengths: Sequence[int], on: bool | None) -> str:
    name = DRAFTER if len(lengths) == 1 else f"{DRAFTER}-k{length}"
    return name if on is None else f"{name}-adaptive_{'on' if on else 'off'}"


def _unsupported(method: SpeculativeMethod, support: Support) -> Iterator[Finding]:
    if support.ruled_out:
        yield error(
            "method",
            support.reason,
            "choose a host whose image serves it: runner images probe --host HOST",
        )
    elif support.outlook is Outlook.TRY:
        yield note("method", support.reason)


def _compared(
    job: EvaluationJob,
    method: SpeculativeMethod,
    verifier: VerifierReading,
    capabilities: ImageCapabilities | None,
    vendor: Vendor,
) -> _Compared:
    base, notes = _base(job, method, capabilities)
    if job.comparator is Comparator.BASE:
        return _Compared((base,), findings=notes)
    mtp, lacking = _mtp(method, verifier, capabilities, vendor)
    if mtp is None:
        return _without_mtp(job, base, notes, lacking, has_head=_has_head(method, verifier))
    if job.matched_async and base.configuration.extra_arguments:
        notes = (*notes, _unmatched(method))
    length = Decision(
        key="comparator_draft_length",
        value=str(mtp.depth),
        origin=Origin.INFERRED,
        source=f"{mtp.source} of the verifier",
    )
    tried = Condition(
        name=MTP,
        configuration=ServerConfiguration(
            speculative=Speculative(method=SpeculativeMethod.MTP, num_speculative_tokens=mtp.depth)
        ),
        role=ServerRole(optional=True),
        acceptance=False,
        speedup=True,
    )
    if job.comparator is Comparator.MTP:
        return _Compared((tried,), (length,), notes)
    stand_in = replace(base, role=ServerRole(instead_of=MTP))
    source = f"the verifier has an MTP head of depth {mtp.depth} ({mtp.source})"
    decision = _inferred("comparator", f"mtp, else {base.name}", source)
    return _Compared((tried, stand_in), (decision, length), notes)


def _without_mtp(
    job: EvaluationJob,
    base: Condition,
    notes: tuple[Finding, ...],
    lacking: str,
    *,
    has_head: bool,
) -> _Compared:
    """What is compared with where MTP can't be had; `has_head` where it would have been taken."""
    unavailable = (Unavailable(condition=MTP, reason=lacking),)
    if job.comparator is Comparator.MTP:
        step = "--set comparator=base"
        refused = error("comparator", f"no native MTP: {lacking}", step)
        return _Compared(findings=(*notes, refused), unavailable=unavailable)
    decision = _inferred("comparator", base.name, f"no native MTP: {lacking}")
    return _Compared((base,), (decision,), notes, unavailable if has_head else ())


def _mtp(
    method: SpeculativeMethod,
    verifier: VerifierReading,
    capabilities: ImageCapabilities | None,
    vendor: Vendor,
) -> tuple[MtpHead | None, str]:
    """The head to compare with, or None and why there is none."""
    if method is SpeculativeMethod.MTP:
        return None, "the drafter itself is an MTP head"
    if verifier.mtp_refusal is not None:
        return None, verifier.mtp_refusal
    if verifier.mtp is None:
        return None, "the verifier's configuration names no MTP head"
    support = method_support(SpeculativeMethod.MTP, False, capabilities, vendor)
    return (None if support.ruled_out else verifier.mtp), support.reason


def _has_head(method: SpeculativeMethod, verifier: VerifierReading) -> bool:
    """True where MTP is part of the evaluation, usable or not."""
    named = verifier.mtp is not None or verifier.mtp_refusal is not None
    return named and method is not SpeculativeMethod.MTP


def _base(
    job: EvaluationJob, method: SpeculativeMethod, capabilities: ImageCapabilities | None
) -> tuple[Condition, tuple[Finding, ...]]:
    """The model without speculation, and a note where async scheduling was to be matched."""
    why = None
    if method not in WITHOUT_ASYNC_SCHEDULING:
        why = f"vLLM keeps async scheduling with {method}"
    elif capabilities is not None and capabilities.knows_flag(NO_ASYNC) is False:
        why = "this image has no async scheduling"
    async_off = job.matched_async and why is None
    notes = (
        (note("matched_async", f"changes nothing: {why}"),)
        if job.matched_async and why is not None
        else ()
    )
    condition = Condition(
        name=f"{BASELINE}-async_off" if async_off else BASELINE,
        configuration=ServerConfiguration(extra_arguments=(NO_ASYNC,) if async_off else ()),
        role=ServerRole(),
        acceptance=False,
        speedup=True,
    )
    return condition, notes


def _unmatched(method: SpeculativeMethod) -> Finding:
    return warning(
        "matched_async",
        f"native MTP keeps async scheduling, which vLLM switches off with {method}: that pair is "
        "not matched",
        "--set comparator=base",
    )


def _adaptive_decision(
    job: EvaluationJob, support: Support, on_the_table: bool
) -> Iterator[Decision]:
    if on_the_table and job.adaptive_verification is Adaptive.AUTO:
        words = {
            Outlook.SUPPORTED: "off and on",
            Outlook.TRY: "off, and on is tried",
            Outlook.RULED_OUT: "off",
        }
        yield _inferred("adaptive", words[support.outlook], support.reason)


def _inferred(key: str, value: str, source: str) -> Decision:
    return Decision(key=key, value=value, origin=Origin.INFERRED, source=source)
