"""What method, image and platform allow, as far as it can be told before a server is started."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from runner.models.capability import ImageCapabilities
from runner.models.host import Vendor
from runner.models.job import SpeculativeMethod

ADAPTIVE = "enable_adaptive_verification"
"""Key of the speculative configuration."""

# vLLM 0.32: methods that its second model runner refuses, and those that only it has
FIRST_RUNNER_ONLY = frozenset(
    {SpeculativeMethod.SUFFIX, SpeculativeMethod.MEDUSA, SpeculativeMethod.MLP_SPECULATOR}
)
SECOND_RUNNER_ONLY = frozenset({SpeculativeMethod.DSPARK})
# they draft in parallel by design; any other parallel drafter (P-EAGLE, PARD) keeps to the first
PARALLEL_BY_DESIGN = frozenset({SpeculativeMethod.DFLASH, SpeculativeMethod.DSPARK})
NOT_MODEL_BASED = frozenset(
    {SpeculativeMethod.NGRAM, SpeculativeMethod.NGRAM_GPU, SpeculativeMethod.SUFFIX}
)
WITHOUT_ASYNC_SCHEDULING = frozenset(
    {
        SpeculativeMethod.NGRAM,
        SpeculativeMethod.SUFFIX,
        SpeculativeMethod.MEDUSA,
        SpeculativeMethod.MLP_SPECULATOR,
    }
)
"""Methods for which vLLM switches async scheduling off by itself."""


class Outlook(StrEnum):
    """What is known before a server was tried."""

    SUPPORTED = "supported"
    TRY = "try"
    RULED_OUT = "ruled out"


@dataclass(frozen=True)
class Support:
    """An outlook with its reason."""

    outlook: Outlook
    reason: str

    @property
    def ruled_out(self) -> bool:
        """True when starting a server would be a waste."""
        return self.outlook is Outlook.RULED_OUT


def method_support(
    method: SpeculativeMethod,
    parallel_drafting: bool,
    capabilities: ImageCapabilities | None,
    vendor: Vendor,
) -> Support:
    """Whether an image serves a method.

    Args:
        parallel_drafting: P-EAGLE and PARD.
        capabilities: None when the image was never probed.
        vendor: of the host's accelerator.
    """
    image = _image(capabilities)
    if capabilities is not None and capabilities.methods and method not in capabilities.methods:
        return Support(Outlook.RULED_OUT, f"{image} does not know the method {method}")
    if method in SECOND_RUNNER_ONLY and not _second_runner(capabilities, vendor):
        return Support(
            Outlook.RULED_OUT,
            f"{method} needs vLLM's second model runner, which {image} does not have{_on(vendor)}",
        )
    if _first_runner_only(method, parallel_drafting):
        return Support(
            Outlook.TRY,
            f"{_named(method, parallel_drafting)} is served by vLLM's first model runner alone",
        )
    if capabilities is None or not capabilities.methods:
        return Support(Outlook.TRY, f"{image} was not asked which methods it knows")
    return Support(Outlook.SUPPORTED, f"{image} knows the method {method}")


def adaptive_support(
    method: SpeculativeMethod,
    parallel_drafting: bool,
    capabilities: ImageCapabilities | None,
    vendor: Vendor,
) -> Support:
    """Whether adaptive verification can be had with a method.

    vLLM 0.32 documents it for dspark; its code offers it to every model-based drafter of the
    second model runner, so these are tried.
    """
    why_not = _why_not_adaptive(method, parallel_drafting, capabilities, vendor)
    if why_not is not None:
        return Support(Outlook.RULED_OUT, why_not)
    if method is not SpeculativeMethod.DSPARK:
        return Support(Outlook.TRY, f"not documented for {method}; a server is tried")
    told = capabilities is not None and capabilities.speculative_fields
    if capabilities is None or not told or capabilities.model_runner_v2 is None:
        image = _image(capabilities)
        return Support(Outlook.TRY, f"documented for dspark, but {image} was not asked for it")
    return Support(Outlook.SUPPORTED, "documented for dspark")


def _why_not_adaptive(
    method: SpeculativeMethod,
    parallel_drafting: bool,
    capabilities: ImageCapabilities | None,
    vendor: Vendor,
) -> str | None:
    image = _image(capabilities)
    if method in NOT_MODEL_BASED:
        return f"{method} has no adaptive verification"
    fields = capabilities.speculative_fields if capabilities is not None else ()
    if fields and ADAPTIVE not in fields:
        return f"{image} has no adaptive verification"
    needs = "adaptive verification needs vLLM's second model runner"
    if _first_runner_only(method, parallel_drafting):
        return f"{needs}, and {_named(method, parallel_drafting)} keeps to the first"
    if not _second_runner(capabilities, vendor):
        return f"{needs}, which {image} does not have{_on(vendor)}"
    return None


def _first_runner_only(method: SpeculativeMethod, parallel_drafting: bool) -> bool:
    return method in FIRST_RUNNER_ONLY or (parallel_drafting and method not in PARALLEL_BY_DESIGN)


def _named(method: SpeculativeMethod, parallel_drafting: bool) -> str:
    return f"{method} with parallel drafting" if parallel_drafting else method.value


def _second_runner(capabilities: ImageCapabilities | None, vendor: Vendor) -> bool:
    """False only where it is known to be absent."""
    if vendor is Vendor.CPU:
        return False
    return capabilities is None or capabilities.model_runner_v2 is not False


def _image(capabilities: ImageCapabilities | None) -> str:
    if capabilities is None or capabilities.vllm_version is None:
        return "this image"
    return f"this image (vLLM {capabilities.vllm_version})"


def _on(vendor: Vendor) -> str:
    return " on a CPU" if vendor is Vendor.CPU else ""
