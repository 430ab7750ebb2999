"""What a host says about itself, asked in one round trip."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from runner.errors import SpecError
from runner.inventory.probes import amd, cpu, devices, engine, nvidia, paths, system
from runner.models.host import Host, HostFacts, Vendor
from runner.transport.base import Connection

_MARK = "@@ runner "

# The engine's info and the vendors' tools take seconds on a busy host; asking for the time before
# and after them makes the middle of the two comparable with the middle of the local times.
SCRIPT = (
    f"""\
engine_command=$1; engine_socket=$2; run_root=$3; shift 3
PATH=$PATH:/usr/sbin:/sbin:/usr/local/nvidia/bin
exec 2>/dev/null
section() {{ printf '\\n{_MARK}%s\\n' "$1"; }}
bounded() {{
  if command -v timeout >/dev/null; then timeout 15 "$@"; else "$@"; fi
}}
section clock-before
date +%s.%N
"""
    + "".join(probe.SCRIPT for probe in (system, cpu, engine, devices, nvidia, amd, paths))
    + """\
section clock-after
date +%s.%N
exit 0
"""
)
"""One constant program for the host's `sh`; everything that varies is passed as an argument."""


def gather_facts(
    connection: Connection,
    host: Host,
    *,
    extra_paths: Sequence[str] = (),
    now: Callable[[], float] = time.time,
) -> HostFacts:
    """Ask a host everything in one round trip; a tool that is missing there is a missing fact.

    Args:
        extra_paths: absolute paths to look for beside those that `hosts.yaml` names, such as a
            job's model.
        now: the local clock, in seconds since the epoch.

    Raises:
        HostError: the host can't be asked at all.
    """
    before = now()
    done = connection.run(facts_command(host, extra_paths), timeout_s=120.0, check=False)
    after = now()
    return parse_facts(host, done.text, before_s=before, after_s=after)


def facts_command(host: Host, extra_paths: Sequence[str] = ()) -> tuple[str, ...]:
    """The argv that `gather_facts` runs."""
    named = (*host.models, *host.caches.values(), *(mount.source for mount in host.mounts))
    wanted = sorted({path for path in (*named, *extra_paths) if path.startswith("/")})
    engine_access = (host.engine.command, host.engine.socket)
    return ("sh", "-c", SCRIPT, "runner-facts", *engine_access, host.run_root, *wanted)


def parse_facts(host: Host, output: str, *, before_s: float, after_s: float) -> HostFacts:
    """Facts from the output of `facts_command`, which ran between two local times."""
    sections = _sections(output)

    def text(name: str) -> str:
        return sections.get(name, "")

    uname = system.parse_uname(text("uname"))
    cpus = cpu.parse_cpus(text("cpu-count"), text("cpu-lists"), text("cpu-model"))
    engine_facts, engine_error = engine.parse_engine(text("engine-version"), text("engine-info"))
    uid, gid = system.parse_id(text("id"))
    by_vendor = {
        Vendor.NVIDIA: nvidia.parse_nvidia(text("nvidia")),
        Vendor.AMD: amd.parse_amd(text("amd")),
    }
    declared = by_vendor.get(host.accelerator.vendor, ())
    return HostFacts(
        host=host.name,
        gathered_at=datetime.fromtimestamp(after_s, UTC).isoformat(timespec="seconds"),
        hostname=uname.hostname,
        operating_system=system.parse_os_release(text("os-release")),
        kernel=uname.kernel,
        machine=uname.machine,
        cpu_model=cpus.model,
        cpu_count=cpus.count,
        cpu_list=cpus.allowed,
        memory_bytes=system.parse_meminfo(text("meminfo")),
        uid=uid,
        gid=gid,
        engine=engine_facts,
        engine_error=engine_error,
        gpus=declared or by_vendor[Vendor.NVIDIA] or by_vendor[Vendor.AMD],
        device_nodes=devices.parse_device_nodes(text("device-nodes")),
        disk_free_bytes=paths.parse_disk(text("disk")),
        clock_offset_s=_clock_offset(sections, before_s, after_s),
        images=engine.parse_images(text("engine-images")),
        missing_paths=paths.parse_missing(text("missing")),
        run_root_blocked_by=paths.parse_blocked(text("run-root-blocked")),
    )


def facts_from_file(path: Path) -> HostFacts:
    """Facts that were recorded as JSON (`host.json` of a run, or `hosts check --format json`).

    Raises:
        SpecError: the file can't be read or is not a record of facts.
    """
    next_step = "record facts with: runner hosts check HOST --format json"
    try:
        return HostFacts.model_validate_json(path.read_bytes())
    except OSError as error:
        raise SpecError(
            f"can't be read: {error.strerror}", where=str(path), next_step=next_step
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise SpecError(
            f"is not a record of host facts: {key or 'the file'}: {first['msg']}",
            where=str(path),
            next_step=next_step,
        ) from error


def _sections(output: str) -> Mapping[str, str]:
    pieces = re.split(rf"^{re.escape(_MARK)}(\S+)\n", output, flags=re.MULTILINE)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def _clock_offset(sections: Mapping[str, str], before_s: float, after_s: float) -> float | None:
    first = system.parse_clock(sections.get("clock-before", ""))
    last = system.parse_clock(sections.get("clock-after", ""))
    if first is None or last is None:
        return None
    return round((first + last) / 2 - (before_s + after_s) / 2, 3)
