"""Findings about a host, each with its next step."""

from __future__ import annotations

import pytest

from runner.inventory.check import check_host
from runner.models.host import (
    Accelerator,
    ConnectionKind,
    CpuSplit,
    DeviceNode,
    EngineFacts,
    Gpu,
    Host,
    HostFacts,
    Vendor,
)
from runner.models.image import LockedImage
from runner.models.plan import Finding, FindingLevel

GIB = 1 << 30
HOST = Host(name="box", connection=ConnectionKind.LOCAL, run_root="/runs", models=("/opt/models",))
FACTS = HostFacts(
    host="box",
    gathered_at="2026-12-01T10:00:00+00:00",
    hostname="box",
    operating_system="Debian",
    kernel="6.1",
    machine="x86_64",
    cpu_count=4,
    cpu_list="0-3",
    memory_bytes=8 * GIB,
    uid=0,
    gid=0,
    engine=EngineFacts(version="20.10.24+dfsg1", runtimes=("runc",), root_dir="/var/lib/docker"),
    disk_free_bytes={"/runs": 100 * GIB, "/var/lib/docker": 100 * GIB},
    clock_offset_s=0.4,
    images={"runner/load:1": "sha256:" + "a" * 64},
)
LOCKED = LockedImage(
    name="load", reference="runner/load:1", digest="sha256:" + "a" * 64, built_at="2026-12-01"
)


def only(found: tuple[Finding, ...]) -> tuple[str, str, str, str]:
    (finding,) = found
    return (finding.level.value, finding.subject, finding.message, finding.next_step or "")


def changed(**update: object) -> HostFacts:
    return FACTS.model_copy(update=update)


def test_a_good_host_has_no_findings() -> None:
    assert check_host(HOST, FACTS, {"load": LOCKED}) == ()


def test_engine_that_does_not_answer_is_one_finding_without_image_noise() -> None:
    facts = changed(engine=None, engine_error="Cannot connect to the Docker daemon", images={})
    level, subject, message, step = only(check_host(HOST, facts, {"load": LOCKED}))
    assert (level, subject) == ("error", "engine")
    assert message == (
        "no container engine answers at /var/run/docker.sock: Cannot connect to the Docker daemon"
    )
    assert "docker -H unix:///var/run/docker.sock info" in step


@pytest.mark.parametrize(
    ("version", "levels"),
    [("19.03.15", ["error"]), ("20.10.0", []), ("28.2.2", []), ("dev", []), ("20.9.1", ["error"])],
)
def test_oldest_engine(version: str, levels: list[str]) -> None:
    found = check_host(HOST, changed(engine=EngineFacts(version=version)), {})
    assert [finding.level.value for finding in found] == levels


def test_image_that_was_never_built_and_image_that_is_gone() -> None:
    assert only(check_host(HOST, FACTS, {"vllm-cpu": None})) == (
        "error",
        "image vllm-cpu",
        "image 'vllm-cpu' is not in the lock for this host",
        "runner images build vllm-cpu --host box",
    )
    assert only(check_host(HOST, FACTS, {"team/vllm:1": None}))[3] == (
        "on box: docker pull team/vllm:1; then: runner images build --host box"
    )
    there = changed(images={"team/vllm:1": "sha256:x"})
    assert only(check_host(HOST, there, {"team/vllm:1": None}))[2:] == (
        "image 'team/vllm:1' is not in the lock for this host, though it is there",
        "runner images build --host box",
    )
    gone = LOCKED.model_copy(update={"digest": "sha256:" + "b" * 64})
    assert only(check_host(HOST, FACTS, {"load": gone}))[2] == (
        "image 'load' is locked as sha256:bbbbbbbbbbbb, which is not on the host"
    )


def test_run_root_that_the_login_can_not_write() -> None:
    assert only(check_host(HOST, changed(run_root_blocked_by="/var/lib"), {})) == (
        "error",
        "run_root",
        "/runs can't be written: /var/lib is not a folder that the login may write to",
        "make /runs on box and give it to that user, or set run_root in hosts.yaml",
    )


@pytest.mark.parametrize(
    ("free", "level"), [(25 * GIB, None), (10 * GIB, "warning"), (4 * GIB, "error")]
)
def test_disk(free: int, level: str | None) -> None:
    found = check_host(HOST, changed(disk_free_bytes={"/runs": free}), {})
    assert [finding.level.value for finding in found] == ([level] if level else [])


def test_disk_says_what_the_place_is_for() -> None:
    facts = changed(disk_free_bytes={"/var/lib/docker": 3 * GIB})
    assert only(check_host(HOST, facts, {}))[2] == (
        "3.0 GiB free under /var/lib/docker (the engine's images); 20 GiB are advised, "
        "5 GiB are the least"
    )


@pytest.mark.parametrize(("offset", "side"), [(3.2, "ahead of"), (-3.2, "behind")])
def test_clock(offset: float, side: str) -> None:
    assert only(check_host(HOST, changed(clock_offset_s=offset), {}))[:3] == (
        "warning",
        "clock",
        f"the host's clock is 3.2 s {side} this machine's",
    )


def test_clock_within_two_seconds_or_unknown_is_quiet() -> None:
    assert check_host(HOST, changed(clock_offset_s=-2.0), {}) == ()
    assert check_host(HOST, changed(clock_offset_s=None), {}) == ()


def test_missing_model_folder_but_not_a_foreign_path() -> None:
    facts = changed(missing_paths=("/elsewhere", "/opt/models"))
    assert only(check_host(HOST, facts, {}))[:3] == (
        "error",
        "paths",
        "/opt/models, named under 'models', does not exist",
    )


def test_one_cpu_can_not_be_shared_fairly() -> None:
    level, subject, message, _ = only(check_host(HOST, changed(cpu_list="0", cpu_count=1), {}))
    assert (level, subject) == ("warning", "cpus")
    assert message.startswith("1 CPU to use")


def test_cpusets_outside_the_allowed_list() -> None:
    host = HOST.model_copy(update={"cpus": CpuSplit(server="0-2", load="7")})
    assert only(check_host(host, FACTS, {}))[:3] == (
        "error",
        "cpus",
        "cpus.load is '7', but the host allows '0-3'",
    )
    wrong = HOST.model_copy(update={"cpus": CpuSplit(server="3-1")})
    assert only(check_host(wrong, FACTS, {}))[2] == "cpus.server: '3-1' runs backwards; write 1-3"


def nvidia(count: int) -> Host:
    return HOST.model_copy(
        update={"accelerator": Accelerator(vendor=Vendor.NVIDIA, model="H200", count=count)}
    )


NVIDIA_NODE = DeviceNode(path="/dev/nvidia0", mode="0666", gid=0)
H200 = Gpu(index=0, name="NVIDIA H200")


def test_no_devices_of_the_declared_vendor() -> None:
    assert only(check_host(nvidia(1), FACTS, {}))[:3] == (
        "error",
        "devices",
        "hosts.yaml says nvidia, but there is no /dev/nvidia* on the host",
    )


def test_gpu_count_and_missing_runtime() -> None:
    facts = changed(device_nodes=(NVIDIA_NODE,), gpus=(H200,))
    count, hook = check_host(nvidia(2), facts, {})
    assert count.message == "hosts.yaml says 2 nvidia GPUs, the host reports 1"
    assert (count.level, hook.level) == (FindingLevel.WARNING, FindingLevel.WARNING)
    assert hook.next_step is not None
    assert "nvidia-container-toolkit" in hook.next_step


def test_nvidia_host_with_runtime_is_ready() -> None:
    engine = EngineFacts(version="27.0.1", runtimes=("nvidia", "runc"))
    facts = changed(device_nodes=(NVIDIA_NODE,), gpus=(H200,), engine=engine)
    assert check_host(nvidia(1), facts, {}) == ()


def test_errors_come_first() -> None:
    facts = changed(clock_offset_s=9.0, missing_paths=("/opt/models",))
    assert [finding.subject for finding in check_host(HOST, facts, {})] == ["paths", "clock"]
