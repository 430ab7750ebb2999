"""Is a host ready to run plans? Facts against what `hosts.yaml` promises; no I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runner.models.cpulist import parse_cpu_list
from runner.models.host import Host, HostFacts, Vendor
from runner.models.image import LockedImage
from runner.models.plan import Finding, FindingLevel

OLDEST_ENGINE = (20, 10)
LOW_DISK_BYTES = 20 << 30
NO_DISK_BYTES = 5 << 30
CLOCK_LIMIT_S = 2.0

_DEVICE_PREFIX = {Vendor.AMD: "/dev/kfd", Vendor.NVIDIA: "/dev/nvidia"}


def check_host(
    host: Host, facts: HostFacts, wanted: Mapping[str, LockedImage | None]
) -> tuple[Finding, ...]:
    """Everything that stands between this host and a run, the most serious first.

    Args:
        wanted: image name -> its entry in the lock for this host; None when it has none.
    """
    found = (
        *_engine(host, facts),
        *_images(host, facts, wanted),
        *_accelerator(host, facts),
        *_disk(host, facts),
        *_paths(host, facts),
        *_cpus(host, facts),
        *_clock(host, facts),
    )
    order = (FindingLevel.ERROR, FindingLevel.WARNING, FindingLevel.NOTE)
    return tuple(sorted(found, key=lambda finding: order.index(finding.level)))


def _error(subject: str, message: str, next_step: str) -> Finding:
    return Finding(level=FindingLevel.ERROR, subject=subject, message=message, next_step=next_step)


def _warning(subject: str, message: str, next_step: str) -> Finding:
    return Finding(
        level=FindingLevel.WARNING, subject=subject, message=message, next_step=next_step
    )


def _engine(host: Host, facts: HostFacts) -> Iterator[Finding]:
    if facts.engine is None:
        yield _error(
            "engine",
            f"no container engine answers at {host.engine.socket}: "
            f"{facts.engine_error or 'it said nothing'}",
            f"on {host.name}: {host.engine.command} -H unix://{host.engine.socket} info; "
            "start the engine, or set engine.socket and engine.command in hosts.yaml",
        )
        return
    version = _release(facts.engine.version)
    if version is not None and version < OLDEST_ENGINE:
        yield _error(
            "engine",
            f"engine {facts.engine.version} is too old; 20.10 or newer is needed",
            f"upgrade the container engine on {host.name}",
        )


def _release(version: str) -> tuple[int, int] | None:
    parts = version.split(".")
    if len(parts) < 2 or not (parts[0].isdigit() and parts[1].isdigit()):
        return None
    return int(parts[0]), int(parts[1])


def _images(
    host: Host, facts: HostFacts, wanted: Mapping[str, LockedImage | None]
) -> Iterator[Finding]:
    if facts.engine is None:
        return
    held = set(facts.images.values())
    for name, locked in wanted.items():
        if locked is None:
            there = name in facts.images
            problem = f"is not in the lock for this host{', though it is there' * there}"
        elif locked.digest not in held:
            problem = f"is locked as {locked.digest[:19]}, which is not on the host"
        else:
            continue
        yield _error(
            f"image {name}",
            f"image '{name}' {problem}",
            _get_image(host, name, facts),
        )


def _get_image(host: Host, name: str, facts: HostFacts) -> str:
    if not set(name) & set("/:@"):
        return f"runner images build {name} --host {host.name}"
    note = f"runner images build --host {host.name}"
    if name in facts.images:
        return note
    return f"on {host.name}: {host.engine.command} pull {name}; then: {note}"


def _accelerator(host: Host, facts: HostFacts) -> Iterator[Finding]:
    declared = host.accelerator
    if declared.vendor is Vendor.CPU:
        return
    prefix = _DEVICE_PREFIX[declared.vendor]
    if not any(node.path.startswith(prefix) for node in facts.device_nodes):
        yield _error(
            "devices",
            f"hosts.yaml says {declared.vendor}, but there is no {prefix}* on the host",
            f"load the {declared.vendor} driver on {host.name}, or correct accelerator.vendor",
        )
        return
    if declared.count != len(facts.gpus):
        yield _warning(
            "devices",
            f"hosts.yaml says {declared.count} {declared.vendor} GPUs, the host reports "
            f"{len(facts.gpus)}",
            f"correct accelerator.count of '{host.name}' in hosts.yaml, or look at the driver",
        )
    no_hook = facts.engine is not None and "nvidia" not in facts.engine.runtimes
    if declared.vendor is Vendor.NVIDIA and no_hook:
        yield _warning(
            "devices",
            "the engine has no 'nvidia' runtime, so containers get plain device nodes and "
            "the driver's libraries have to be mounted",
            f"install nvidia-container-toolkit on {host.name} and run: nvidia-ctk runtime "
            "configure; or add the libraries to 'mounts' and LD_LIBRARY_PATH to 'environment'",
        )


def _disk(host: Host, facts: HostFacts) -> Iterator[Finding]:
    for path, free in facts.disk_free_bytes.items():
        if free >= LOW_DISK_BYTES:
            continue
        level = _error if free < NO_DISK_BYTES else _warning
        what = "run_root" if path == host.run_root else "the engine's images"
        yield level(
            "disk",
            f"{free / (1 << 30):.1f} GiB free under {path} ({what}); 20 GiB are advised, "
            "5 GiB are the least",
            f"runner prune --host {host.name}, or free space by hand",
        )


def _paths(host: Host, facts: HostFacts) -> Iterator[Finding]:
    if facts.run_root_blocked_by is not None:
        yield _error(
            "run_root",
            f"{host.run_root} can't be written: {facts.run_root_blocked_by} is not a folder that "
            "the login may write to",
            f"make {host.run_root} on {host.name} and give it to that user, or set run_root in "
            "hosts.yaml",
        )
    kinds = {
        **{mount.source: "mounts" for mount in host.mounts},
        **dict.fromkeys(host.caches.values(), "caches"),
        **dict.fromkeys(host.models, "models"),
    }
    for path in facts.missing_paths:
        kind = kinds.get(path)
        if kind is not None:
            yield _error(
                "paths",
                f"{path}, named under '{kind}', does not exist",
                f"on {host.name}: mkdir -p {path}; or correct '{kind}' in hosts.yaml",
            )


def _cpus(host: Host, facts: HostFacts) -> Iterator[Finding]:
    allowed = set(parse_cpu_list(facts.cpu_list))
    for name, text in (("server", host.cpus.server), ("load", host.cpus.load)):
        if text is None:
            continue
        try:
            outside = set(parse_cpu_list(text)) - allowed
        except ValueError as error:
            message = f"cpus.{name}: {error}"
        else:
            if not outside:
                continue
            message = f"cpus.{name} is '{text}', but the host allows '{facts.cpu_list}'"
        yield _error("cpus", message, f"correct cpus.{name} of '{host.name}' in hosts.yaml")
    if host.accelerator.vendor is Vendor.CPU and len(allowed) < 2:
        yield _warning(
            "cpus",
            f"{len(allowed)} CPU to use: server and load generator would share it, so no "
            "latency measured there means anything",
            "use a host with two CPUs or more; acceptance can still be measured",
        )


def _clock(host: Host, facts: HostFacts) -> Iterator[Finding]:
    offset = facts.clock_offset_s
    if offset is not None and abs(offset) > CLOCK_LIMIT_S:
        side = "ahead of" if offset > 0 else "behind"
        yield _warning(
            "clock",
            f"the host's clock is {abs(offset):.1f} s {side} this machine's",
            f"on {host.name}: timedatectl set-ntp true",
        )
