"""Compare what a server says it runs with what the plan asked for. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from runner.models.plan import ServerPlan
from runner.models.result import Check, Verdict
from runner.models.status import Reason

SPECULATION = "effective_speculation"
"""Name of the check that what drafts is what was asked for."""

_DROPPED = (
    # what vLLM writes when it goes on without, or with something else than, what was asked for
    re.compile(r"Disabling num_speculative_tokens_per_batch_size"),
    re.compile(r"speculative decoding (is|will be) disabled", re.IGNORECASE),
    re.compile(r"falling back to legacy speculative rejection"),
    re.compile(r"disabling speculative decoding", re.IGNORECASE),
)
_CHOICES = (
    "draft_tensor_parallel_size",
    "parallel_drafting",
    "prompt_lookup_max",
    "prompt_lookup_min",
    "revision",
)
"""Compared where the plan sets them and the server tells them; some methods draft in parallel
without being asked."""


def check_served_name(models: Mapping[str, Any] | None, server: ServerPlan) -> Check:
    """The answer of `/v1/models` must hold the served name, which carries this run's nonce."""
    cards = (models or {}).get("data")
    cards = cards if isinstance(cards, list) else []
    names = [str(card.get("id")) for card in cards if isinstance(card, Mapping)]
    if server.served_name in names:
        return Check(
            name="served_name", verdict=Verdict.OK, message=f"serves '{server.served_name}'"
        )
    return Check(
        name="served_name",
        verdict=Verdict.REFUSE,
        reason=Reason.FOREIGN_SERVER,
        message=f"expected '{server.served_name}', the server offers {names or 'nothing'}",
    )


def check_speculation(info: Mapping[str, Any] | None, server: ServerPlan) -> Check:
    """The effective speculative configuration of `/server_info` must be the one of the plan."""
    name = SPECULATION
    if info is None:
        return Check(
            name=name,
            verdict=Verdict.WARN,
            message="unavailable: this server has no /server_info; not compared",
        )
    config = info.get("vllm_config")
    found = config.get("speculative_config") if isinstance(config, Mapping) else None
    wanted = server.speculative
    if wanted is None:
        return _compare(name, {"speculation": "off"}, {"speculation": "on" if found else "off"})
    if not isinstance(found, Mapping):
        return _compare(name, {"method": wanted.method.value}, {"method": None})
    keys = {
        "method": wanted.method.value,
        "num_speculative_tokens": wanted.num_speculative_tokens,
        "enable_adaptive_verification": wanted.enable_adaptive_verification,
    }
    if wanted.model is not None:
        keys["model"] = wanted.model
    chosen = wanted.model_dump(mode="json", exclude_none=True)
    keys |= {key: chosen[key] for key in _CHOICES if chosen.get(key) and key in found}
    # an older server does not know every key: what it does not have, it cannot have switched on
    present = {
        key: found.get(key, False if value is False else None) for key, value in keys.items()
    }
    return _compare(name, keys, present)


def check_synthetic(info: Mapping[str, Any] | None) -> Check:
    """A server that accepts drafts at a chosen rate has no place in a measurement."""
    config = (info or {}).get("vllm_config")
    found = config.get("speculative_config") if isinstance(config, Mapping) else None
    told = found if isinstance(found, Mapping) else {}
    synthetic = told.get("rejection_sample_method") == "synthetic" or any(
        told.get(key) is not None
        for key in ("synthetic_acceptance_rates", "synthetic_acceptance_length")
    )
    if synthetic:
        return Check(
            name="real_acceptance",
            verdict=Verdict.REFUSE,
            reason=Reason.CONFIGURATION_DIFFERS,
            message="the server accepts drafts at a synthetic rate",
        )
    return Check(name="real_acceptance", verdict=Verdict.OK, message="acceptance is not synthetic")


def check_expected(info: Mapping[str, Any] | None, server: ServerPlan) -> Check:
    """Settings that the plan passed must be in force; what the answer does not name is said."""
    name = "effective_settings"
    config = (info or {}).get("vllm_config")
    if not isinstance(config, Mapping):
        return Check(
            name=name,
            verdict=Verdict.WARN,
            message="unavailable: this server has no /server_info; not compared",
        )
    found = {path: _at(config, path) for path in server.expected}
    known = {path: value for path, value in found.items() if value is not None}
    wanted = {path: server.expected[path] for path in known}
    compared = _compare(name, wanted, known)
    absent = [path for path in server.expected if path not in known]
    if compared.verdict is Verdict.OK and absent:
        message = f"not told by the server, so not compared: {', '.join(absent)}"
        return Check(name=name, verdict=Verdict.WARN, message=message)
    return compared


def check_fallback(log: Iterable[str], server: ServerPlan) -> Check:
    """The log of a speculating server has no line that says it goes on without its drafter."""
    name = "no_fallback"
    if server.speculative is None:
        return Check(name=name, verdict=Verdict.OK, message="no speculation, nothing to drop")
    for line in log:
        if any(pattern.search(line) for pattern in _DROPPED):
            return Check(
                name=name,
                verdict=Verdict.REFUSE,
                reason=Reason.CONFIGURATION_DIFFERS,
                message=f"the server goes on without what was asked for: {line.strip()[:300]}",
            )
    return Check(name=name, verdict=Verdict.OK, message="no line of the log drops the drafter")


def _at(config: Mapping[str, Any], path: str) -> str | None:
    """The value at a dotted path, as text; None where the path does not exist."""
    value: Any = config
    for step in path.split("."):
        if not isinstance(value, Mapping) or step not in value:
            return None
        value = value[step]
    return value if isinstance(value, str) else json.dumps(value)


def check_proof(answer: Mapping[str, Any], server: ServerPlan) -> tuple[Check, ...]:
    """The small request must have produced tokens and, when speculating, speculative metrics."""
    usage = answer.get("usage")
    counted = usage.get("completion_tokens") if isinstance(usage, Mapping) else None
    tokens = counted if isinstance(counted, int) else 0
    served = Check(
        name="proof_request",
        verdict=Verdict.OK if tokens > 0 else Verdict.REFUSE,
        reason=None if tokens > 0 else Reason.SERVER_NOT_READY,
        message=f"{tokens} tokens generated",
        figures={"completion_tokens": tokens},
    )
    if server.speculative is None:
        return (served,)
    if not server.per_request_metrics:
        told = "this image has none: acceptance comes from /metrics"
        return (served, Check(name="speculative_metrics", verdict=Verdict.OK, message=told))
    metrics = answer.get("metrics")
    found = isinstance(metrics, Mapping) and isinstance(
        metrics.get("speculative_decoding"), Mapping
    )
    return (
        served,
        Check(
            name="speculative_metrics",
            verdict=Verdict.OK if found else Verdict.WARN,
            message="present in the response"
            if found
            else "absent from the response; acceptance can only come from /metrics",
        ),
    )


def check_counters(metrics: str, server: ServerPlan) -> Check:
    """`/metrics` must have speculative counters exactly when the server is to speculate."""
    found = "vllm:spec_decode_num_drafts_total" in metrics
    wanted = server.speculative is not None
    words = {True: "present", False: "absent"}
    return Check(
        name="speculative_counters",
        verdict=Verdict.OK if found == wanted else Verdict.REFUSE,
        reason=None if found == wanted else Reason.CONFIGURATION_DIFFERS,
        message=f"expected {words[wanted]}, found {words[found]}",
    )


def _compare(name: str, wanted: Mapping[str, object], found: Mapping[str, object]) -> Check:
    differing = [
        f"{key} is {found.get(key)!r}, the plan says {value!r}"
        for key, value in wanted.items()
        if found.get(key) != value
    ]
    if differing:
        return Check(
            name=name,
            verdict=Verdict.REFUSE,
            reason=Reason.CONFIGURATION_DIFFERS,
            message="; ".join(differing),
        )
    shown = ", ".join(f"{key}={value}" for key, value in wanted.items())
    return Check(name=name, verdict=Verdict.OK, message=shown)
