"""Mounts, devices and CPUs of containers."""

from __future__ import annotations

from typing import Any

import pytest

from runner.models.container import Device, DeviceRequest, Mount
from runner.models.host import (
    Accelerator,
    ConnectionKind,
    CpuSplit,
    DeviceNode,
    EngineFacts,
    Gpu,
    Host,
    HostFacts,
    HostLimits,
    Vendor,
)
from runner.plan.accelerators import AcceleratorOptions, accelerator_options
from runner.plan.build import build_plan
from runner.plan.cpusets import Cpusets, split_cpus
from runner.plan.mounts import cache_mounts, duplicate_targets, model_mounts

HOST = Host(name="box", connection=ConnectionKind.LOCAL)


def read_only(path: str) -> Mount:
    return Mount(source=path, target=path, read_only=True)


@pytest.mark.parametrize(
    ("folders", "paths", "mounted"),
    [
        (("/opt/models",), ("/opt/models/a", "/opt/models/b/c"), ("/opt/models",)),
        (("/opt/models/",), ("/opt/models/a",), ("/opt/models",)),
        (("/opt/models",), ("/opt/models-old/a",), ("/opt/models-old/a",)),
        (("/opt", "/opt/models"), ("/opt/models/a", None), ("/opt/models",)),
        ((), ("/data/a", "/data/a/tokenizer", "/data/b"), ("/data/a", "/data/b")),
        ((), ("org/name",), ()),
        (
            (),
            ("/hub/models--org--m/snapshots/0123/",),
            ("/hub/models--org--m",),
        ),
    ],
)
def test_model_mounts(
    folders: tuple[str, ...], paths: tuple[str | None, ...], mounted: tuple[str, ...]
) -> None:
    host = HOST.model_copy(update={"models": folders})
    assert model_mounts(host, paths) == tuple(read_only(path) for path in mounted)


def test_caches_are_writable_at_known_places() -> None:
    host = HOST.model_copy(update={"caches": {"vllm": "/c/v", "huggingface": "/c/h"}})
    assert cache_mounts(host) == (
        (
            Mount(source="/c/h", target="/root/.cache/huggingface", read_only=False),
            Mount(source="/c/v", target="/root/.cache/vllm", read_only=False),
        ),
        (),
    )


def test_unknown_cache() -> None:
    mounts, (finding,) = cache_mounts(HOST.model_copy(update={"caches": {"triton": "/c/t"}}))
    assert mounts == ()
    assert finding.message == "cache 'triton' of 'box' is not one of: huggingface, vllm"
    assert finding.level.value == "error"


def test_two_folders_at_one_place() -> None:
    (finding,) = duplicate_targets(
        [read_only("/a"), read_only("/a"), Mount(source="/b", target="/a")]
    )
    assert finding.message == "/a and /b are both mounted at /a"


def test_mounts_in_a_plan(make_inputs: Any) -> None:
    extra = Mount(source="/usr/local/nvidia", target="/usr/local/nvidia")
    plan = build_plan(
        make_inputs(
            {"servers.draft_model.speculative.model": "/data/drafter"},
            host={"caches": {"vllm": "/c/v"}, "mounts": (extra,)},
        )
    )
    cache = Mount(source="/c/v", target="/root/.cache/vllm", read_only=False)
    models = read_only("/opt/models")
    assert plan.server("baseline").container.mounts == (models, cache, extra)
    assert plan.server("draft_model").container.mounts == (
        read_only("/data/drafter"),
        models,
        cache,
        extra,
    )
    assert [mount.target for mount in plan.cells[0].container.mounts] == [
        "/inputs",
        "/opt/models",
        "/out",
    ]
    assert [mount.read_only for mount in plan.cells[0].container.mounts] == [True, True, False]


def test_limits_reach_the_containers(make_inputs: Any) -> None:
    limits = HostLimits(server_memory_bytes=4 << 30, shm_size_bytes=2 << 30, ready_hard_s=99)
    plan = build_plan(make_inputs(host={"limits": limits}))
    server = plan.servers[0]
    assert server.container.memory_bytes == 4 << 30
    assert server.container.shm_size_bytes == 2 << 30
    assert server.readiness.hard_s == 99
    assert plan.cells[0].container.memory_bytes is None


def facts(**update: Any) -> HostFacts:
    values: dict[str, Any] = {
        "host": "box",
        "gathered_at": "",
        "hostname": "box",
        "operating_system": "",
        "kernel": "",
        "machine": "x86_64",
        "cpu_count": 4,
        "cpu_list": "0-3",
        "memory_bytes": 1,
        "uid": 0,
        "gid": 0,
        "engine": EngineFacts(version="27.0", runtimes=("runc",)),
    }
    return HostFacts.model_validate({**values, **update})


def node(path: str, gid: int = 0) -> DeviceNode:
    return DeviceNode(path=path, mode="0660", gid=gid)


def device(path: str) -> Device:
    return Device(host_path=path, container_path=path)


def on(vendor: Vendor, count: int = 0) -> Host:
    return HOST.model_copy(update={"accelerator": Accelerator(vendor=vendor, count=count)})


AMD_NODES = (
    node("/dev/dri/card0", 44),
    node("/dev/dri/renderD128", 992),
    node("/dev/dri/renderD129", 992),
    node("/dev/kfd", 105),
)


def test_cpu_host_needs_no_devices() -> None:
    assert accelerator_options(HOST, facts(), needed=1) == AcceleratorOptions(cap_add=("SYS_NICE",))


def test_amd_gets_nodes_and_the_hosts_numeric_groups() -> None:
    options = accelerator_options(on(Vendor.AMD, 2), facts(device_nodes=AMD_NODES), needed=2)
    assert options == AcceleratorOptions(
        devices=(
            device("/dev/kfd"),
            device("/dev/dri/renderD128"),
            device("/dev/dri/renderD129"),
        ),
        group_add=("105", "992"),
        security_opt=("seccomp=unconfined",),
        cap_add=("SYS_PTRACE",),
    )


def test_amd_without_nodes_is_an_error() -> None:
    (finding,) = accelerator_options(
        on(Vendor.AMD, 1), facts(device_nodes=AMD_NODES[:1]), needed=1
    ).findings
    assert finding.message == "'box' has no /dev/kfd and /dev/dri/renderD* for its amd accelerator"
    assert finding.next_step == "runner hosts check box"


def test_nvidia_with_a_runtime_asks_for_separate_ids() -> None:
    engine = EngineFacts(version="27.0", runtimes=("nvidia", "runc"))
    options = accelerator_options(on(Vendor.NVIDIA, 2), facts(engine=engine), needed=2)
    assert options == AcceleratorOptions(
        device_requests=(DeviceRequest(driver="nvidia", device_ids=("0", "1")),)
    )
    assert options.device_requests[0].count is None


def test_nvidia_without_a_runtime_gets_plain_nodes_of_its_gpus() -> None:
    names = ("nvidia-uvm", "nvidia0", "nvidia1", "nvidia2", "nvidiactl")
    nodes = tuple(node(f"/dev/{name}") for name in names)
    options = accelerator_options(on(Vendor.NVIDIA, 2), facts(device_nodes=nodes), needed=1)
    assert [item.host_path for item in options.devices] == [
        "/dev/nvidia-uvm",
        "/dev/nvidia0",
        "/dev/nvidia1",
        "/dev/nvidiactl",
    ]
    assert options.findings == ()


def test_undeclared_count_is_what_the_host_reports() -> None:
    engine = EngineFacts(version="27.0", runtimes=("nvidia",))
    reported = facts(engine=engine, gpus=(Gpu(index=0, name="H200"),))
    options = accelerator_options(on(Vendor.NVIDIA), reported, needed=2)
    assert options.device_requests[0].device_ids == ("0",)
    (finding,) = options.findings
    assert finding.message == "server.tensor_parallel_size is 2, but 'box' has 1 GPUs"


def test_nvidia_without_runtime_and_nodes() -> None:
    (finding,) = accelerator_options(on(Vendor.NVIDIA, 1), facts(), needed=1).findings
    assert finding.message == "'box' has no /dev/nvidia* for its nvidia accelerator"


@pytest.mark.parametrize(
    ("allowed", "server", "load"),
    [
        ("0-1", "0", "1"),
        ("0-3", "0-2", "3"),
        ("0-7", "0-5", "6-7"),
        ("2,5,9", "2,5", "9"),
        ("0-15", "0-11", "12-15"),
    ],
)
def test_inferred_cpusets(allowed: str, server: str, load: str) -> None:
    cpus = split_cpus(HOST, facts(cpu_list=allowed))
    assert (cpus.server, cpus.load, cpus.findings) == (server, load, ())
    assert {decision.origin.value for decision in cpus.decisions} == {"inferred"}


@pytest.mark.parametrize(("allowed", "count"), [("0", 1), ("", 0)])
def test_one_cpu_is_not_pinned_and_says_so(allowed: str, count: int) -> None:
    cpus = split_cpus(HOST, facts(cpu_list=allowed))
    assert (cpus.server, cpus.load) == (None, None)
    (finding,) = cpus.findings
    assert finding.level.value == "warning"
    assert finding.message.startswith(f"'box' has {count} CPU to use")


def test_gpu_host_is_pinned_only_when_told() -> None:
    assert split_cpus(on(Vendor.AMD, 1), facts()) == Cpusets()
    told = on(Vendor.AMD, 1).model_copy(update={"cpus": CpuSplit(server="0-1", load="3")})
    cpus = split_cpus(told, facts())
    assert (cpus.server, cpus.load) == ("0-1", "3")
    assert [(d.origin.value, d.source) for d in cpus.decisions] == [
        ("user", "hosts.yaml: hosts.box.cpus.server"),
        ("user", "hosts.yaml: hosts.box.cpus.load"),
    ]


@pytest.mark.parametrize(
    ("split", "server", "load"),
    [(CpuSplit(server="0"), "0", "1-3"), (CpuSplit(load="0"), "1-3", "0")],
)
def test_half_a_split_gets_the_rest(split: CpuSplit, server: str, load: str) -> None:
    cpus = split_cpus(HOST.model_copy(update={"cpus": split}), facts())
    assert (cpus.server, cpus.load, cpus.findings) == (server, load, ())
    assert sorted(decision.origin.value for decision in cpus.decisions) == ["inferred", "user"]


@pytest.mark.parametrize(
    ("split", "level", "message"),
    [
        (CpuSplit(server="0-1", load="1"), "warning", "server and load share CPUs 1; "),
        (CpuSplit(server="0", load="8-9"), "error", "cpus.load holds 8-9, but 'box' allows '0-3'"),
        (CpuSplit(server="0-3"), "error", "no CPU is left for the load"),
        (CpuSplit(server="a"), "error", "'a' is not a CPU or a range of CPUs such as 0-3"),
    ],
)
def test_wrong_splits(split: CpuSplit, level: str, message: str) -> None:
    (finding,) = split_cpus(HOST.model_copy(update={"cpus": split}), facts()).findings
    assert finding.level.value == level
    assert finding.message.startswith(message)
    assert finding.next_step == "correct cpus of 'box' in hosts.yaml"


def test_cpusets_reach_all_containers(make_inputs: Any) -> None:
    plan = build_plan(make_inputs())
    assert {server.container.cpuset_cpus for server in plan.servers} == {"0"}
    assert {cell.container.cpuset_cpus for cell in plan.cells} == {"1"}
    assert plan.supervisor.cpuset_cpus == "1"
