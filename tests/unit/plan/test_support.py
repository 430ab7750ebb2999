"""What image, method and platform allow, before a server is tried."""

from __future__ import annotations

from typing import Any

import pytest

from runner.models.capability import ImageCapabilities
from runner.models.host import Vendor
from runner.models.job import SpeculativeMethod
from runner.plan.support import adaptive_support, method_support

NEW = ImageCapabilities(
    digest="sha256:a",
    probed_at="2026-12-01T00:00:00+00:00",
    vllm_version="0.32.0",
    flags=("--dtype",),
    methods=tuple(method.value for method in SpeculativeMethod),
    speculative_fields=("method", "enable_adaptive_verification"),
    model_runner_v2=True,
)
FIRST = NEW.model_copy(update={"model_runner_v2": False})
OLD = NEW.model_copy(
    update={"vllm_version": "0.20.1", "speculative_fields": ("method",), "methods": ("eagle3",)}
)
FAILED = ImageCapabilities(digest="sha256:b", probed_at="", problem="no vLLM")


@pytest.mark.parametrize(
    ("method", "parallel", "capabilities", "vendor", "outlook"),
    [
        ("eagle3", False, NEW, Vendor.NVIDIA, "supported"),
        ("mtp", False, FIRST, Vendor.CPU, "supported"),
        ("dspark", False, NEW, Vendor.NVIDIA, "supported"),
        ("dspark", True, NEW, Vendor.NVIDIA, "supported"),
        ("dspark", False, FIRST, Vendor.NVIDIA, "ruled out"),
        ("dspark", False, NEW, Vendor.CPU, "ruled out"),
        ("dspark", False, None, Vendor.AMD, "try"),
        ("dspark", False, OLD, Vendor.AMD, "ruled out"),
        ("medusa", False, NEW, Vendor.NVIDIA, "try"),
        ("eagle3", True, NEW, Vendor.NVIDIA, "try"),
        ("draft_model", True, NEW, Vendor.NVIDIA, "try"),
        ("eagle3", False, None, Vendor.NVIDIA, "try"),
        ("eagle3", False, FAILED, Vendor.NVIDIA, "try"),
        ("eagle3", False, OLD, Vendor.AMD, "supported"),
        ("mtp", False, OLD, Vendor.AMD, "ruled out"),
    ],
)
def test_methods(method: str, parallel: bool, capabilities: Any, vendor: Any, outlook: str) -> None:
    found = method_support(SpeculativeMethod(method), parallel, capabilities, vendor)
    assert found.outlook.value == outlook
    assert found.ruled_out == (outlook == "ruled out")


@pytest.mark.parametrize(
    ("method", "parallel", "capabilities", "vendor", "outlook"),
    [
        ("dspark", False, NEW, Vendor.NVIDIA, "supported"),
        ("dspark", True, NEW, Vendor.NVIDIA, "supported"),
        ("dspark", False, None, Vendor.NVIDIA, "try"),
        ("dspark", False, FAILED, Vendor.NVIDIA, "try"),
        *(
            (method, False, NEW, Vendor.NVIDIA, "try")
            for method in ("eagle", "eagle3", "mtp", "dflash", "draft_model")
        ),
        ("dflash", True, NEW, Vendor.NVIDIA, "try"),
        ("eagle3", True, NEW, Vendor.NVIDIA, "ruled out"),
        ("eagle3", False, None, Vendor.NVIDIA, "try"),
        ("eagle3", False, FIRST, Vendor.NVIDIA, "ruled out"),
        ("eagle3", False, NEW, Vendor.CPU, "ruled out"),
        ("eagle3", False, OLD, Vendor.AMD, "ruled out"),
        *(
            (method, False, NEW, Vendor.NVIDIA, "ruled out")
            for method in ("ngram", "ngram_gpu", "suffix", "medusa", "mlp_speculator")
        ),
    ],
)
def test_adaptive_verification(
    method: str, parallel: bool, capabilities: Any, vendor: Any, outlook: str
) -> None:
    found = adaptive_support(SpeculativeMethod(method), parallel, capabilities, vendor)
    assert found.outlook.value == outlook


def test_reasons_name_the_image_and_what_it_lacks() -> None:
    def adaptive(capabilities: Any, vendor: Any) -> str:
        return adaptive_support(SpeculativeMethod.EAGLE3, False, capabilities, vendor).reason

    assert adaptive(OLD, Vendor.AMD) == "this image (vLLM 0.20.1) has no adaptive verification"
    needs = "adaptive verification needs vLLM's second model runner"
    assert adaptive(FIRST, Vendor.NVIDIA).startswith(f"{needs}, which this image (vLLM 0.32.0)")
    parallel = adaptive_support(SpeculativeMethod.EAGLE3, True, NEW, Vendor.NVIDIA).reason
    assert parallel == f"{needs}, and eagle3 with parallel drafting keeps to the first"
    unknown = method_support(SpeculativeMethod.MTP, False, OLD, Vendor.AMD).reason
    assert unknown == "this image (vLLM 0.20.1) does not know the method mtp"
