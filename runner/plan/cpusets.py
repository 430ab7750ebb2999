"""Which CPUs the server gets and which the load generator, so that neither slows the other."""

from __future__ import annotations

from dataclasses import dataclass

from runner.models.cpulist import format_cpu_list, parse_cpu_list
from runner.models.host import Host, HostFacts, Vendor
from runner.models.plan import Decision, Finding, Origin
from runner.plan.findings import error, warning


@dataclass(frozen=True)
class Cpusets:
    """CPU lists for server and load; None leaves a container unpinned."""

    server: str | None = None
    load: str | None = None
    decisions: tuple[Decision, ...] = ()
    findings: tuple[Finding, ...] = ()


def split_cpus(host: Host, facts: HostFacts) -> Cpusets:
    """What `hosts.yaml` says; on a CPU host the rest is inferred: a quarter, one at the least,
    from the end of the allowed CPUs for the load, all others for the server."""
    try:
        declared_server = _declared(host.cpus.server)
        declared_load = _declared(host.cpus.load)
        allowed = parse_cpu_list(facts.cpu_list)
    except ValueError as problem:
        return Cpusets(findings=(error("cpus", str(problem), _edit(host)),))
    if declared_server is None and declared_load is None:
        if host.accelerator.vendor is not Vendor.CPU:
            return Cpusets()
        if len(allowed) < 2:
            return Cpusets(findings=(_shared(host, len(allowed)),))
    if declared_load is None:
        free = [cpu for cpu in allowed if cpu not in set(declared_server or ())]
        load = tuple(free) if declared_server else _last_quarter(allowed)
    else:
        load = declared_load
    server = declared_server or tuple(cpu for cpu in allowed if cpu not in set(load))
    sets = {"server": server, "load": load}
    declared = {"server": declared_server, "load": declared_load}
    return Cpusets(
        server=format_cpu_list(server) or None,
        load=format_cpu_list(load) or None,
        decisions=tuple(
            _decision(name, numbers, host, facts, inferred=declared[name] is None)
            for name, numbers in sets.items()
        ),
        findings=_problems(host, facts, allowed, sets),
    )


def _declared(text: str | None) -> tuple[int, ...] | None:
    return None if text is None else parse_cpu_list(text) or None


def _last_quarter(allowed: tuple[int, ...]) -> tuple[int, ...]:
    return allowed[-max(1, len(allowed) // 4) :]


def _problems(
    host: Host, facts: HostFacts, allowed: tuple[int, ...], sets: dict[str, tuple[int, ...]]
) -> tuple[Finding, ...]:
    found: list[Finding] = []
    for name, numbers in sets.items():
        outside = set(numbers) - set(allowed)
        if outside and allowed:
            found.append(
                error(
                    "cpus",
                    f"cpus.{name} holds {format_cpu_list(outside)}, but '{host.name}' allows "
                    f"'{facts.cpu_list}'",
                    _edit(host),
                )
            )
        if not numbers:
            found.append(error("cpus", f"no CPU is left for the {name}", _edit(host)))
    both = set(sets["server"]) & set(sets["load"])
    if both:
        found.append(
            warning(
                "cpus",
                f"server and load share CPUs {format_cpu_list(both)}; latencies measured so "
                "mean nothing",
                _edit(host),
            )
        )
    return tuple(found)


def _decision(
    name: str, numbers: tuple[int, ...], host: Host, facts: HostFacts, *, inferred: bool
) -> Decision:
    source = (
        f"fact cpu_list '{facts.cpu_list}' of {host.name}"
        if inferred
        else f"hosts.yaml: hosts.{host.name}.cpus.{name}"
    )
    return Decision(
        key=f"cpus.{name}",
        value=format_cpu_list(numbers),
        origin=Origin.INFERRED if inferred else Origin.USER,
        source=source,
    )


def _shared(host: Host, count: int) -> Finding:
    return warning(
        "cpus",
        f"'{host.name}' has {count} CPU to use, so server and load share it; latencies measured "
        "there mean nothing, acceptance does",
        "use a host with two CPUs or more to measure latency",
    )


def _edit(host: Host) -> str:
    return f"correct cpus of '{host.name}' in hosts.yaml"
