"""Which servers an evaluation means: exact roles, cells and decisions, and why one is missing."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from runner.errors import SpecError
from runner.models.checkpoint import DrafterReading, Inferred, MtpHead, VerifierReading
from runner.models.host import Gpu
from runner.models.job import SpeculativeMethod
from runner.plan.evaluation import Resolution, missing, resolve

from .conftest import FACTS
from .test_evaluation import CAPABLE, GPU, MTP, OLD, checkpoint, decided, drafter, errors, make


class Row(NamedTuple):
    """One server as it is planned; cells are (acceptance, speed-up)."""

    server: str
    drafts: tuple[str, int, str | None, bool] | None
    optional: bool
    instead_of: str | None
    baseline: str | None
    fallback: str | None
    cells: tuple[int, int]


def rows(resolution: Resolution) -> list[Row]:
    """Method, length, model and adaptive verification of each server, then its role and cells."""
    found = []
    for name, configuration in resolution.job.servers.items():
        role, spec = resolution.evaluation.roles[name], configuration.speculative
        modes = [key.mode for key in resolution.evaluation.keys if key.server == name]
        found.append(
            Row(
                name,
                None
                if spec is None
                else (
                    spec.method.value,
                    spec.num_speculative_tokens,
                    spec.model,
                    spec.enable_adaptive_verification,
                ),
                role.optional,
                role.instead_of,
                role.baseline,
                role.baseline_fallback,
                (modes.count("acceptance"), modes.count("speedup")),
            )
        )
    return found


def drafts(k: int = 3, *, on: bool = False) -> tuple[str, int, str | None, bool]:
    return ("eagle3", k, "/m/draft", on)


# 2 datasets: 2 acceptance cells, and 2 x 2 concurrencies x 2 repeats of a sweep
OFF, ON = "drafter-adaptive_off", "drafter-adaptive_on"
BASE = Row("baseline", None, False, None, None, None, (0, 8))
HEAD = Row("mtp", ("mtp", 2, None, False), True, None, None, None, (0, 8))
TABLE: list[tuple[dict[str, Any], dict[str, Any], list[Row], dict[str, str | None]]] = [
    (
        {},
        {},
        [
            Row(OFF, drafts(), False, None, "baseline", None, (2, 8)),
            BASE,
            Row(ON, drafts(on=True), True, None, "baseline", None, (0, 8)),
        ],
        {"comparator": "baseline", "adaptive": "off, and on is tried"},
    ),
    (
        {"scope": "acceptance", "draft_length": (3, 5)},
        {"verifier_reading": MTP},
        [
            Row("drafter-k3", drafts(3), False, None, None, None, (2, 0)),
            Row("drafter-k5", drafts(5), False, None, None, None, (2, 0)),
        ],
        {"comparator": "auto", "adaptive": "auto", "comparator_draft_length": None},
    ),
    (
        {"scope": "speedup", "draft_length": (3, 5)},
        {"verifier_reading": MTP},
        [
            Row("drafter-k3-adaptive_off", drafts(3), False, None, "mtp", "baseline", (0, 8)),
            Row("drafter-k5-adaptive_off", drafts(5), False, None, "mtp", "baseline", (0, 8)),
            HEAD,
            BASE._replace(instead_of="mtp"),
            Row(
                "drafter-k3-adaptive_on", drafts(3, on=True), True, None, "mtp", "baseline", (0, 8)
            ),
            Row(
                "drafter-k5-adaptive_on", drafts(5, on=True), True, None, "mtp", "baseline", (0, 8)
            ),
        ],
        {
            "comparator": "mtp, else baseline",
            "adaptive": "off, and on is tried",
            "comparator_draft_length": "2",
        },
    ),
    (
        {"comparator": "mtp", "adaptive": "off"},
        {"verifier_reading": MTP},
        [Row("drafter", drafts(), False, None, "mtp", None, (2, 8)), HEAD],
        {"comparator": "mtp", "adaptive": "off", "comparator_draft_length": "2"},
    ),
    (
        {"comparator": "base", "adaptive": "on"},
        {"verifier_reading": MTP, "capabilities": OLD},
        [Row(OFF, drafts(), False, None, "baseline", None, (2, 8)), BASE],
        {"comparator": "base", "adaptive": "on", "comparator_draft_length": None},
    ),
    (
        {"comparator": "mtp", "adaptive": "off"},
        {},
        [Row("drafter", drafts(), False, None, None, None, (2, 8))],
        {"comparator": "mtp", "comparator_draft_length": None},
    ),
]


@pytest.mark.parametrize(("job", "fields", "expected", "values"), TABLE)
def test_servers_roles_cells_and_decisions(
    job: dict[str, Any],
    fields: dict[str, Any],
    expected: list[Row],
    values: dict[str, str | None],
) -> None:
    resolution = resolve(make(job, **fields))
    assert rows(resolution) == expected
    found = decided(resolution)
    assert {key: found[key][0] if key in found else None for key in values} == values


def unavailable(resolution: Resolution) -> list[tuple[str, str]]:
    return [(item.condition, item.reason) for item in resolution.evaluation.unavailable]


def notes(resolution: Resolution) -> list[tuple[str, str, str]]:
    return [(f.level.value, f.subject, f.message) for f in resolution.evaluation.findings]


def mtp_drafter(name: str, verifier: str) -> dict[str, Any]:
    reading = DrafterReading(
        format="mtp",
        method=Inferred(value=SpeculativeMethod.MTP, source="config.json: model_type"),
        verifier=Inferred(value=verifier, source="config.json: model_type"),
        num_speculative_tokens=Inferred(value=2, source="config.json: depth"),
        mtp=MtpHead(depth=2, source="config.json: depth"),
    )
    return {
        "drafter": checkpoint(name),
        "drafter_reading": reading,
        "verifier": checkpoint(verifier),
        "verifier_reading": MTP if name == verifier else VerifierReading(model_type="gemma4"),
    }


def test_a_native_head_is_read_from_the_served_model_and_has_no_mtp_to_beat() -> None:
    resolution = resolve(make({"drafter": "/m/base"}, **mtp_drafter("/m/base", "/m/base")))
    assert [(row.server, row.drafts) for row in rows(resolution)] == [
        (OFF, ("mtp", 2, None, False)),
        ("baseline", None),
        (ON, ("mtp", 2, None, True)),
    ]
    assert unavailable(resolution) == []
    reason = "no native MTP: the drafter itself is an MTP head"
    assert decided(resolution)["comparator"] == ("baseline", "inferred", reason)


def test_a_head_with_a_checkpoint_of_its_own_is_named() -> None:
    resolution = resolve(make({"adaptive": "off"}, **mtp_drafter("/m/draft", "/m/base")))
    assert rows(resolution)[0].drafts == ("mtp", 2, "/m/draft", False)


def test_a_drafter_of_a_hub_is_pinned_and_a_folder_is_not() -> None:
    hub = checkpoint("org/draft").model_copy(update={"local": False, "revision": "c" * 40})
    for given, revision in ((hub, "c" * 40), (checkpoint("/m/draft"), None)):
        spec = resolve(make(drafter=given)).job.servers[OFF].speculative
        assert spec is not None and (spec.model, spec.revision) == (given.name, revision)


def test_a_revision_that_the_user_named_stays_the_users() -> None:
    origins = {"drafter_revision": "job.yaml:5"}
    found = decided(resolve(make({"drafter_revision": "main"}, origins=origins)))
    assert found["drafter_revision"] == ("sha256:1", "user", "job.yaml:5: main; content")
    assert found["verifier_revision"] == ("sha256:1", "inferred", "content")


@pytest.mark.parametrize(
    ("verifier", "capabilities", "reason"),
    [
        (VerifierReading(model_type="x", mtp_refusal="use dspark"), CAPABLE, "use dspark"),
        (
            MTP,
            CAPABLE.model_copy(update={"methods": ("eagle3",)}),
            "this image (vLLM 0.32.0) does not know the method mtp",
        ),
    ],
)
def test_a_head_that_can_not_be_served_is_unavailable_with_the_reason(
    verifier: VerifierReading, capabilities: Any, reason: str
) -> None:
    job = {"adaptive": "off"}
    resolution = resolve(make(job, verifier_reading=verifier, capabilities=capabilities))
    assert unavailable(resolution) == [("mtp", reason)]
    assert [row.server for row in rows(resolution)] == ["drafter", "baseline"]
    assert errors(resolution) == []


def test_a_model_without_a_head_misses_nothing() -> None:
    assert unavailable(resolve(make({"adaptive": "off"}))) == []


def matched(method: SpeculativeMethod, **fields: Any) -> Resolution:
    job = {"matched_async": True, "adaptive": "off", "method": method.value, "draft_length": 2}
    return resolve(make({**job, **fields.pop("job", {})}, method=method, **fields))


def test_a_matched_baseline_runs_without_async_scheduling() -> None:
    resolution = matched(SpeculativeMethod.MEDUSA)
    base = resolution.job.servers["baseline-async_off"]
    assert base.extra_arguments == ("--no-async-scheduling",)
    assert resolution.evaluation.roles["drafter"].baseline == "baseline-async_off"
    assert "baseline" not in resolution.job.servers


def test_matching_that_changes_nothing_is_said() -> None:
    kept = matched(SpeculativeMethod.EAGLE3)
    assert list(kept.job.servers) == ["drafter", "baseline"]
    told = ("note", "matched_async", "changes nothing: vLLM keeps async scheduling with eagle3")
    assert told in notes(kept)
    flags = tuple(flag for flag in CAPABLE.flags if flag != "--async-scheduling")
    bare = CAPABLE.model_copy(update={"flags": flags})
    old = matched(SpeculativeMethod.MEDUSA, capabilities=bare)
    assert list(old.job.servers) == ["drafter", "baseline"]
    told = ("note", "matched_async", "changes nothing: this image has no async scheduling")
    assert told in notes(old)


def test_mtp_is_no_matched_comparator_and_that_is_said() -> None:
    resolution = matched(SpeculativeMethod.MEDUSA, verifier_reading=MTP)
    assert list(resolution.job.servers) == ["drafter", "mtp", "baseline-async_off"]
    assert [(level, key) for level, key, _ in notes(resolution) if level == "warning"] == [
        ("warning", "matched_async")
    ]


def test_choices_about_a_sweep_that_does_not_run_are_said() -> None:
    job = {"scope": "acceptance", "adaptive": "on", "comparator": "base", "matched_async": True}
    why = "changes nothing: scope acceptance runs no sweep"
    assert notes(resolve(make(job))) == [
        ("note", key, why) for key in ("comparator", "adaptive", "matched_async")
    ]
    assert notes(resolve(make({"scope": "acceptance"}))) == []


def test_several_lengths_start_every_server_once_and_say_what_that_means() -> None:
    resolution = resolve(make({"draft_length": (3, 5), "adaptive": "off"}))
    assert [(level, key) for level, key, _ in notes(resolution)] == [("note", "draft_length")]
    order = [(key.server, key.mode) for key in resolution.evaluation.keys]
    assert list(dict.fromkeys(order)) == [
        ("drafter-k3", "acceptance"),
        ("drafter-k3", "speedup"),
        ("drafter-k5", "acceptance"),
        ("drafter-k5", "speedup"),
        ("baseline", "speedup"),
    ]


def test_nothing_is_planned_without_a_draft_length() -> None:
    """A method of the user's own does not stand in for what else is missing."""
    fields = {"drafter_reading": drafter(num_speculative_tokens=None)}
    with pytest.raises(SpecError) as caught:
        resolve(make({"method": "eagle3"}, method=SpeculativeMethod.EAGLE3, **fields))
    assert [text.partition(":")[0] for text in caught.value.problems] == ["draft_length"]


def test_the_depth_of_a_head_is_no_length_for_another_method() -> None:
    inputs = make(
        {"drafter": "/m/base", "method": "draft_model"}, **mtp_drafter("/m/base", "/m/base")
    )
    asked = missing(inputs.job, inputs.drafter_reading, SpeculativeMethod.DRAFT_MODEL)
    assert [item.key for item in asked] == ["draft_length"]
    assert missing(inputs.job, inputs.drafter_reading, SpeculativeMethod.MTP) == ()


def test_without_a_reading_everything_that_was_not_given_is_asked_for() -> None:
    keys = [item.key for item in missing(make().job, None)]
    assert keys == ["verifier", "method", "draft_length"]
    given = {"verifier": "/v", "method": "eagle3", "draft_length": 3}
    assert missing(make(given).job, None) == ()


def test_parallel_drafting_reaches_the_server_and_the_decisions() -> None:
    resolution = resolve(make({"adaptive": "off"}, drafter_reading=drafter(parallel_drafting=True)))
    spec = resolution.job.servers["drafter"].speculative
    assert spec is not None and spec.parallel_drafting
    found = decided(resolution)["parallel_drafting"]
    assert found == ("true", "inferred", "config.json of /m/draft")
    assert "parallel_drafting" not in decided(resolve(make()))


def test_hardware_that_hosts_yaml_leaves_open_is_what_the_host_reports() -> None:
    """Neither declared: two gfx906 that the host reported itself."""
    accelerator = GPU.accelerator.model_copy(
        update={"vendor": "amd", "count": 0, "architecture": None}
    )
    host = GPU.model_copy(update={"accelerator": accelerator})
    gpus = tuple(Gpu(index=n, name="MI50", architecture="gfx906") for n in range(2))
    facts = FACTS.model_copy(update={"gpus": gpus})

    def refused(**wanted: Any) -> list[tuple[str, str]]:
        made = resolve(make({"hardware": wanted}, host=host, facts=facts))
        levels = [item for item in made.evaluation.findings if item.level.value == "error"]
        return [(item.subject, item.message) for item in levels]

    assert refused(count=2, architecture="gfx906") == []
    assert refused(count=1) == []
    assert refused(count=4) == [("hardware.count", "the job wants 4, 'local' has 2")]
    assert refused(architecture="gfx942") == [
        ("hardware.architecture", "the job wants gfx942, 'local' has gfx906")
    ]
    assert resolve(make(host=host, facts=facts)).job.server.dtype == "float16"
