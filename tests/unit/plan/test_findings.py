"""Findings about images and host folders, each with its next step."""

from __future__ import annotations

from typing import Any

import pytest

from runner import __version__
from runner.models.container import Mount
from runner.models.host import Role
from runner.models.plan import Plan
from runner.plan.build import build_plan


def findings(plan: Plan, level: str) -> list[tuple[str, str]]:
    return [(item.subject, item.message) for item in plan.findings if item.level.value == level]


@pytest.mark.parametrize(
    ("job", "step"),
    [
        (
            {"matrix.server": ["ngram"]},
            "add 'baseline' to matrix.server, or --set baseline=ngram",
        ),
        ({"baseline": None, "servers.ngram": {}}, "--set baseline=ngram"),
        (
            {"baseline": None, "matrix.server": ["ngram"]},
            "add a configuration without 'speculative' to servers and to matrix.server",
        ),
    ],
)
def test_a_missing_baseline_says_how_to_get_one(
    make_inputs: Any, job: dict[str, Any], step: str
) -> None:
    (finding,) = build_plan(make_inputs(job)).findings
    assert (finding.subject, finding.next_step) == ("baseline", step)


def test_image_that_left_the_host_since_it_was_locked(make_inputs: Any) -> None:
    inputs = make_inputs()
    images = {name: i for name, i in inputs.facts.images.items() if name != "runner/load:1"}
    assert findings(build_plan(make_inputs(facts={"images": images})), "error") == [
        (
            "image load",
            "image 'load-image' is locked as sha256:bbbbbbbbbbbb, which is not on 'local'",
        )
    ]


def test_roles_without_an_image(make_inputs: Any) -> None:
    plan = build_plan(make_inputs(host={"images": {Role.SERVER: "reg/vllm:1"}}, images={}))
    assert [(item.message, item.next_step) for item in plan.findings] == [
        (
            "image 'reg/vllm:1' is not built on 'local'",
            "on local: docker pull reg/vllm:1; then: runner images build --host local",
        ),
        ("no image for load is built on 'local'", "runner images build --host local"),
        ("no image for supervisor is built on 'local'", "runner images build --host local"),
    ]


def test_an_image_that_is_there_has_to_be_noted_in_the_lock(make_inputs: Any) -> None:
    host = {"images": {Role.SERVER: "reg/vllm:1"}}
    there = {"images": {"reg/vllm:1": "sha256:x"}}
    first = build_plan(make_inputs(host=host, facts=there, images={})).findings[0]
    assert first.message == "image 'reg/vllm:1' is not in the lock, though it is on 'local'"
    assert first.next_step == "runner images build --host local"


def test_a_supervisor_of_another_version_is_an_error(make_inputs: Any) -> None:
    own = make_inputs().images
    old = own[Role.SUPERVISOR].model_copy(update={"versions": {"runner": "0.0.9"}})
    new = own[Role.SUPERVISOR].model_copy(update={"versions": {"runner": __version__}})
    plan = build_plan(make_inputs(images={**own, Role.SUPERVISOR: old}))
    assert [(item.level, item.subject, item.message, item.next_step) for item in plan.findings] == [
        (
            "error",
            "image supervisor",
            f"'supervisor-image' on 'local' holds runner 0.0.9, this is runner {__version__}",
            "runner images build supervisor-image --host local",
        )
    ]
    assert build_plan(make_inputs(images={**own, Role.SUPERVISOR: new})).findings == ()


def test_an_image_from_other_sources_is_a_warning(make_inputs: Any) -> None:
    plan = build_plan(make_inputs(outdated_images=frozenset({Role.SUPERVISOR})))
    assert [(item.level, item.subject, item.message, item.next_step) for item in plan.findings] == [
        (
            "warning",
            "image supervisor",
            "'supervisor-image' on 'local' was built from other sources than those at hand",
            "runner images build supervisor-image --host local",
        )
    ]


def test_folders_of_the_host_that_every_server_gets_must_exist(make_inputs: Any) -> None:
    host = {
        "caches": {"vllm": "/c/vllm"},
        "mounts": (Mount(source="/m", target="/m"),),
        "models": ("/opt/models", "/unused"),
    }
    facts = {"missing_paths": ("/c/vllm", "/m", "/unused"), "run_root_blocked_by": "/var/lib"}
    plan = build_plan(make_inputs(host=host, facts=facts))
    assert findings(plan, "error") == [
        ("caches.vllm", "/c/vllm does not exist on 'local'"),
        ("mounts", "/m does not exist on 'local'"),
        (
            "run_root",
            "/var/lib/runner/runs can't be written on 'local': /var/lib is not a folder that the "
            "login may write to",
        ),
    ]


@pytest.mark.parametrize("value", ["${", "${HF-TOKEN}", "${}", "a${A:-b}"])
def test_a_reference_without_a_name_is_an_error(make_inputs: Any, value: str) -> None:
    plan = build_plan(make_inputs(host={"environment": {"X": value}}))
    assert findings(plan, "error")[0] == (
        "servers.baseline.environment.X",
        "X holds '${' without a variable's name; expected ${NAME}",
    )
