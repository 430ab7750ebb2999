"""How a server's container reaches the accelerators of its host."""

from __future__ import annotations

import re
from dataclasses import dataclass

from runner.models.container import Device, DeviceRequest
from runner.models.host import DeviceNode, Host, HostFacts, Vendor
from runner.models.plan import Finding
from runner.plan.findings import error

_RENDER_NODE = re.compile(r"/dev/dri/renderD\d+")
_NVIDIA_GPU = re.compile(r"/dev/nvidia(\d+)")


@dataclass(frozen=True)
class AcceleratorOptions:
    """Container options; the fields are those of `ContainerSpec`."""

    devices: tuple[Device, ...] = ()
    device_requests: tuple[DeviceRequest, ...] = ()
    group_add: tuple[str, ...] = ()
    security_opt: tuple[str, ...] = ()
    cap_add: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


def accelerator_options(host: Host, facts: HostFacts, *, needed: int) -> AcceleratorOptions:
    """Options for the declared vendor; `needed` is the number of GPUs that a server spreads over.

    Groups are numeric ids as the host's device nodes have them: a group's name may mean another
    number, or nothing, inside an image.
    """
    vendor = host.accelerator.vendor
    if vendor is Vendor.CPU:
        return AcceleratorOptions(cap_add=("SYS_NICE",))
    count = host.accelerator.count or len(facts.gpus)
    short = _too_few(host, count, needed)
    return _amd(host, facts, short) if vendor is Vendor.AMD else _nvidia(host, facts, count, short)


def _too_few(host: Host, count: int, needed: int) -> tuple[Finding, ...]:
    if count >= needed:
        return ()
    return (
        error(
            "devices",
            f"server.tensor_parallel_size is {needed}, but '{host.name}' has {count} GPUs",
            f"--set server.tensor_parallel_size={max(count, 1)}, or correct accelerator.count",
        ),
    )


def _amd(host: Host, facts: HostFacts, short: tuple[Finding, ...]) -> AcceleratorOptions:
    kfd = [node for node in facts.device_nodes if node.path == "/dev/kfd"]
    render = [node for node in facts.device_nodes if _RENDER_NODE.fullmatch(node.path)]
    missing = () if kfd and render else (_no_nodes(host, "/dev/kfd and /dev/dri/renderD*"),)
    nodes = [*kfd, *render]
    return AcceleratorOptions(
        devices=_devices(nodes),
        group_add=tuple(str(gid) for gid in sorted({node.gid for node in nodes})),
        security_opt=("seccomp=unconfined",),
        cap_add=("SYS_PTRACE",),
        findings=(*short, *missing),
    )


def _nvidia(
    host: Host, facts: HostFacts, count: int, short: tuple[Finding, ...]
) -> AcceleratorOptions:
    if facts.engine is not None and "nvidia" in facts.engine.runtimes:
        ids = tuple(str(index) for index in range(count))
        requests = (DeviceRequest(driver="nvidia", device_ids=ids),) if ids else ()
        return AcceleratorOptions(device_requests=requests, findings=short)
    nodes = [node for node in facts.device_nodes if _wanted_nvidia(node, count)]
    gpus = [node for node in nodes if _NVIDIA_GPU.fullmatch(node.path)]
    missing = () if gpus else (_no_nodes(host, "/dev/nvidia*"),)
    return AcceleratorOptions(devices=_devices(nodes), findings=(*short, *missing))


def _wanted_nvidia(node: DeviceNode, count: int) -> bool:
    numbered = _NVIDIA_GPU.fullmatch(node.path)
    return int(numbered[1]) < count if numbered else node.path.startswith("/dev/nvidia")


def _devices(nodes: list[DeviceNode]) -> tuple[Device, ...]:
    return tuple(Device(host_path=node.path, container_path=node.path) for node in nodes)


def _no_nodes(host: Host, wanted: str) -> Finding:
    return error(
        "devices",
        f"'{host.name}' has no {wanted} for its {host.accelerator.vendor} accelerator",
        f"runner hosts check {host.name}",
    )
