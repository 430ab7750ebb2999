"""Facts against a real machine, a real engine and real device nodes."""

from __future__ import annotations

import os
import stat
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from runner.client.hosts import check_hosts
from runner.engine.docker import DockerEngine
from runner.errors import HostKeyUnknown
from runner.inventory.check import check_host
from runner.inventory.facts import facts_command, gather_facts, parse_facts
from runner.models.container import ContainerSpec, Device
from runner.models.cpulist import parse_cpu_list
from runner.models.host import (
    Accelerator,
    ConnectionKind,
    DeviceNode,
    EngineAccess,
    Host,
    HostFacts,
    Inventory,
    Vendor,
)
from runner.plan.accelerators import accelerator_options
from runner.transport import connect
from tests.fixtures.engine import Label
from tests.fixtures.sshd import Sshd

pytestmark = pytest.mark.engine


def local(**update: Any) -> Host:
    return Host(name="here", connection=ConnectionKind.LOCAL).model_copy(update=update)


def ask(host: Host, *paths: str) -> HostFacts:
    with closing(connect(host)) as connection:
        return gather_facts(connection, host, extra_paths=paths)


def test_this_machine_and_its_engine(
    engine_socket: str, engine: DockerEngine, base_image: str, tmp_path: Path
) -> None:
    run_root = tmp_path / "not" / "yet" / "there"
    there = tmp_path / "a model's folder"
    there.mkdir()
    host = local(
        engine=EngineAccess(socket=engine_socket),
        run_root=str(run_root),
        models=(str(there), str(tmp_path / "gone")),
    )
    facts = ask(host)
    assert facts.engine_error is None
    assert facts.engine is not None
    assert facts.engine.version == engine.version()["version"]
    assert "runc" in facts.engine.runtimes
    assert facts.images[base_image] == engine.image_id(base_image)
    assert facts.hostname == os.uname().nodename
    assert (facts.kernel, facts.machine) == (os.uname().release, os.uname().machine)
    assert (facts.uid, facts.gid) == (os.getuid(), os.getgid())
    assert facts.memory_bytes == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert set(parse_cpu_list(facts.cpu_list)) <= os.sched_getaffinity(0)
    assert parse_cpu_list(facts.cpu_list)
    assert list(facts.disk_free_bytes) == [str(run_root), facts.engine.root_dir]
    assert min(facts.disk_free_bytes.values()) > 0
    assert facts.missing_paths == (str(tmp_path / "gone"),)
    assert not run_root.exists()
    errors = [f for f in check_host(host, facts, {}) if f.level.value == "error"]
    assert [(f.subject, f.message) for f in errors if f.subject != "disk"] == [
        ("paths", f"{tmp_path / 'gone'}, named under 'models', does not exist")
    ]


def test_clock_of_this_machine_is_this_clock(engine_socket: str) -> None:
    times: list[float] = []

    def now() -> float:
        times.append(time.time())
        return times[-1]

    host = local(engine=EngineAccess(socket=engine_socket))
    with closing(connect(host)) as connection:
        offset = gather_facts(connection, host, now=now).clock_offset_s
    assert offset is not None
    # Both remote times lie between the local ones, so half of the distance bounds the difference.
    assert abs(offset) <= (times[1] - times[0]) / 2 + 0.001


def test_no_engine_at_the_socket(tmp_path: Path) -> None:
    facts = ask(local(engine=EngineAccess(socket=str(tmp_path / "none.sock"))))
    assert facts.engine is None
    assert facts.images == {}
    assert facts.engine_error is not None
    assert str(tmp_path / "none.sock") in facts.engine_error
    assert facts.cpu_count > 0


def test_no_command_for_the_engine() -> None:
    facts = ask(local(engine=EngineAccess(command="no-such-engine-command")))
    assert facts.engine is None
    assert facts.engine_error is not None
    assert "no-such-engine-command" in facts.engine_error


def test_paths_are_data_never_code(tmp_path: Path, engine_socket: str) -> None:
    trap = f"{tmp_path}/$(touch {tmp_path}/made)`touch {tmp_path}/made`; '\"\\ *"
    facts = ask(local(engine=EngineAccess(socket=engine_socket)), trap)
    assert facts.missing_paths == (trap,)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.sshd
def test_same_facts_over_ssh_while_another_host_is_refused(
    engine_socket: str, sshd: Sshd, tmp_path: Path
) -> None:
    empty = tmp_path / "known_hosts"
    empty.touch()
    engine_access = EngineAccess(socket=engine_socket)
    hosts = {
        "here": local(engine=engine_access),
        "far": sshd.host("far", engine=engine_access),
        "stranger": sshd.host("stranger", known_hosts=str(empty)),
    }
    here, far, stranger = check_hosts(Inventory(hosts=hosts), [], connect)
    assert here.facts is not None
    assert far.facts is not None
    for name in ("hostname", "kernel", "cpu_list", "memory_bytes", "engine", "device_nodes"):
        assert getattr(far.facts, name) == getattr(here.facts, name)
    assert isinstance(stranger.error, HostKeyUnknown)
    assert stranger.facts is None


def test_device_nodes_with_the_hosts_numeric_groups(
    engine: DockerEngine, base_image: str, label: Label, tmp_path: Path
) -> None:
    """The script inside a real container that has stand-ins for an AMD host's nodes."""
    wanted = {"/dev/kfd": 992, "/dev/dri/renderD128": 105}
    devices = []
    for number, (path, gid) in enumerate(wanted.items()):
        stand_in = tmp_path / f"node{number}"
        os.mknod(stand_in, stat.S_IFCHR, os.makedev(1, 3))
        stand_in.chmod(0o660)
        os.chown(stand_in, 0, gid)
        devices.append(Device(host_path=str(stand_in), container_path=path))
    host = local(accelerator=Accelerator(vendor=Vendor.AMD, count=1))
    command = facts_command(host, ("/nowhere",))
    spec = ContainerSpec(
        name=f"{label.id}-facts",
        image=base_image,
        entrypoint=command[:1],
        command=command[1:],
        devices=tuple(devices),
        labels=label.labels,
    )
    container = engine.start(spec, {})
    assert engine.wait(container, 60.0) == 0
    output = b"".join(chunk.data for chunk in engine.logs(container)).decode()
    facts = parse_facts(host, output, before_s=0.0, after_s=0.0)
    assert facts.device_nodes == (
        DeviceNode(path="/dev/dri/renderD128", mode="0660", uid=0, gid=105),
        DeviceNode(path="/dev/kfd", mode="0660", uid=0, gid=992),
    )
    assert facts.missing_paths == ("/nowhere",)
    assert facts.engine is None
    assert accelerator_options(host, facts, needed=1).group_add == ("105", "992")
