"""hosts.yaml -> hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.errors import SpecError, UsageError
from runner.inventory.load import load_inventory, pick

TEXT = """\
hosts:
  local:
    connection: local
  mi50-198:
    address: 192.0.2.198
    user: root
    models: [/opt/models]
    accelerator: {vendor: amd, model: MI50, count: 4, architecture: gfx906}
"""


@pytest.fixture
def hosts_file(tmp_path: Path) -> Path:
    path = tmp_path / "hosts.yaml"
    path.write_text(TEXT)
    return path


def test_hosts_know_their_names(hosts_file: Path) -> None:
    inventory = load_inventory(hosts_file)
    assert [(key, host.name) for key, host in inventory.hosts.items()] == [
        ("local", "local"),
        ("mi50-198", "mi50-198"),
    ]
    assert inventory.hosts["mi50-198"].accelerator.architecture == "gfx906"


def test_overrides(hosts_file: Path) -> None:
    inventory = load_inventory(hosts_file, ["hosts.local.run_root=/data/runs"])
    assert inventory.hosts["local"].run_root == "/data/runs"


def test_problems_have_a_position(hosts_file: Path) -> None:
    hosts_file.write_text(TEXT.replace("user:", "usr:"))
    with pytest.raises(SpecError) as caught:
        load_inventory(hosts_file)
    assert f"{hosts_file}:6:5" in str(caught.value)
    assert "'user'" in str(caught.value)


def test_pick(hosts_file: Path) -> None:
    inventory = load_inventory(hosts_file)
    assert [host.name for host in pick(inventory, [])] == ["local", "mi50-198"]
    assert [host.name for host in pick(inventory, ["mi50-198", "local", "mi50-198"])] == [
        "mi50-198",
        "local",
    ]


def test_pick_suggests_the_nearest(hosts_file: Path) -> None:
    inventory = load_inventory(hosts_file)
    with pytest.raises(UsageError) as caught:
        pick(inventory, ["mi50_198"])
    assert str(caught.value) == (
        "host 'mi50_198' is not in the inventory; did you mean 'mi50-198'?\n"
        "  next: use one of: local, mi50-198"
    )
    with pytest.raises(UsageError, match="host 'zzz' is not in the inventory\n"):
        pick(inventory, ["zzz"])


def test_a_local_host_follows_docker_host(hosts_file: Path) -> None:
    environ = {"DOCKER_HOST": "unix:///run/other.sock"}
    hosts = load_inventory(hosts_file, environ=environ).hosts
    assert hosts["local"].engine.socket == "/run/other.sock"
    assert hosts["mi50-198"].engine.socket == "/var/run/docker.sock"
    named = load_inventory(hosts_file, ["hosts.local.engine.socket=/a.sock"], environ).hosts
    assert named["local"].engine.socket == "/a.sock"
    remote = load_inventory(hosts_file, environ={"DOCKER_HOST": "tcp://127.0.0.1:2375"}).hosts
    assert remote["local"].engine.socket == "/var/run/docker.sock"
