"""A job like the quickstart's, on a host with two CPUs; tests change what they are about."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from runner.models.host import ConnectionKind, EngineFacts, Host, HostFacts, Role
from runner.models.image import LockedImage
from runner.models.job import MatrixJob
from runner.models.plan import PlannedRow
from runner.plan.inputs import PlanInputs, PromptInput

MakeInputs = Callable[..., PlanInputs]

JOB: dict[str, Any] = {
    "kind": "matrix",
    "name": "quickstart",
    "description": "three servers, two prompt sets",
    "model": "/opt/models/tiny",
    "baseline": "baseline",
    "server": {
        "dtype": "float32",
        "max_model_len": 1024,
        "max_num_seqs": 16,
        "enforce_eager": True,
        "cpu_kv_cache_gib": 1,
    },
    "servers": {
        "ngram": {
            "speculative": {
                "method": "ngram",
                "num_speculative_tokens": 4,
                "prompt_lookup_min": 2,
                "prompt_lookup_max": 4,
            }
        },
        "draft_model": {
            "speculative": {
                "method": "draft_model",
                "num_speculative_tokens": 3,
                "model": "/opt/models/tiny",
            }
        },
        "baseline": {},
    },
    "prompts": {
        "code": {"file": "prompts/code.jsonl", "output_tokens": 64},
        "chat": {"file": "prompts/chat.jsonl", "output_tokens": 32},
    },
    "matrix": {
        "server": ["ngram", "draft_model", "baseline"],
        "prompts": ["code", "chat"],
        "concurrency": [1, 2],
    },
}


def locked(role: Role, **more: Any) -> LockedImage:
    """A made-up entry of the lock; the digest repeats the role's first letter's code."""
    letter = {"server": "a", "load": "b", "supervisor": "c"}[role.value]
    return LockedImage(
        name=f"{role.value}-image",
        reference=f"runner/{role.value}:1",
        digest=f"sha256:{letter * 64}",
        built_at="2026-12-01T09:00:00+00:00",
        **more,
    )


HOST = Host(
    name="local",
    connection=ConnectionKind.LOCAL,
    run_root="/var/lib/runner/runs",
    models=("/opt/models",),
    images={role: f"{role.value}-image" for role in Role},
)
IMAGES = {role: locked(role) for role in Role}
FACTS = HostFacts(
    host="local",
    gathered_at="2026-12-01T10:00:00+00:00",
    hostname="vm",
    operating_system="Debian GNU/Linux 12 (bookworm)",
    kernel="6.1.0",
    machine="x86_64",
    cpu_model="AMD EPYC",
    cpu_count=2,
    cpu_list="0-1",
    memory_bytes=24 << 30,
    uid=0,
    gid=0,
    engine=EngineFacts(version="20.10.24", runtimes=("runc",), root_dir="/var/lib/docker"),
    images={image.reference: image.digest for image in IMAGES.values()},
)
PROMPTS = (
    PromptInput(
        name="code",
        sha256="1" * 64,
        rows=tuple(PlannedRow(id=f"code/{number}") for number in range(1, 5)),
        source="prompts/code.jsonl",
        aiperf_format="single_turn",
        output_tokens=64,
        licence="MIT",
    ),
    PromptInput(
        name="chat",
        sha256="2" * 64,
        rows=(PlannedRow(id="chat/a", turns=2), PlannedRow(id="chat/b", turns=3)),
        source="prompts/chat.jsonl",
        aiperf_format="multi_turn",
        output_tokens=32,
    ),
)


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`base` with dotted keys set."""
    result = deepcopy(base)
    for dotted, value in changes.items():
        *parents, last = dotted.split(".")
        at = result
        for parent in parents:
            at = at.setdefault(parent, {})
        at[last] = value
    return result


@pytest.fixture
def make_inputs() -> MakeInputs:
    """`make_inputs(job={"server.dtype": "auto"}, host={…}, facts={…}, **fields)`."""

    def make(
        job: dict[str, Any] | None = None,
        host: dict[str, Any] | None = None,
        facts: dict[str, Any] | None = None,
        **fields: Any,
    ) -> PlanInputs:
        values: dict[str, Any] = {
            "job": MatrixJob.model_validate(merged(JOB, job or {})),
            "prompts": PROMPTS,
            "host": HOST.model_copy(update=host or {}),
            "facts": FACTS.model_copy(update=facts or {}),
            "run_id": "20261201T101500Z-quickstart-3f9a",
            "created_at": "2026-12-01T10:15:00+00:00",
            "images": IMAGES,
        }
        return PlanInputs(**{**values, **fields})

    return make
