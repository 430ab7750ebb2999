"""Parsers against what hosts answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.inventory.probes import amd, cpu, devices, engine, nvidia, paths, system
from runner.models.host import DeviceNode, Gpu

DATA = Path(__file__).parents[2] / "data" / "hosts"


def test_h200_is_read_from_a_longer_query_than_ours() -> None:
    text = (DATA / "h200" / "nvidia-smi-csv.txt").read_text()
    assert nvidia.parse_nvidia(text) == (
        Gpu(
            index=0,
            name="NVIDIA H200",
            architecture="sm_90",
            memory_bytes=143771 << 20,
            pci_address="00000000:00:06.0",
            unique_id="GPU-00000000-1111-2222-3333-444444444444",
        ),
    )


def test_nvidia_refusal_of_a_field_is_skipped_and_order_is_by_index() -> None:
    text = (
        'Field "compute_cap" is not a valid field to query.\n\n'
        "index, uuid, pci.bus_id, name, memory.total [MiB]\n"
        "1, GPU-b, 00000000:02:00.0, Tesla P40, 24576 MiB\n"
        "0, [N/A], 00000000:01:00.0, Tesla P40, [N/A]\n"
    )
    first, second = nvidia.parse_nvidia(text)
    assert (first.index, first.unique_id, first.memory_bytes) == (0, None, None)
    assert (second.index, second.unique_id, second.memory_bytes) == (1, "GPU-b", 24576 << 20)
    assert first.architecture is None


@pytest.mark.parametrize(
    "text", ["", "NVIDIA-SMI has failed because it couldn't communicate with the driver.\n"]
)
def test_no_nvidia_gpus(text: str) -> None:
    assert nvidia.parse_nvidia(text) == ()


def test_amd_gpus_leave_out_the_cpu_node() -> None:
    first, second = amd.parse_amd((DATA / "mi50" / "kfd.txt").read_text())
    assert first == Gpu(
        index=0,
        name="vega20",
        architecture="gfx906",
        memory_bytes=34342961152,
        pci_address="0000:43:00.0",
        unique_id="0x2172420014c30077",
        render_node="/dev/dri/renderD128",
    )
    assert (second.index, second.render_node) == (1, "/dev/dri/renderD129")
    assert second.pci_address == "0000:83:00.0"


@pytest.mark.parametrize(
    ("version", "name"),
    [(90006, "gfx906"), (90010, "gfx90a"), (90402, "gfx942"), (110000, "gfx1100")],
)
def test_gfx_names(version: int, name: str) -> None:
    assert amd.gfx_name(version) == name


def test_engine_that_is_down_leaves_what_the_command_said() -> None:
    facts, complaint = engine.parse_engine((DATA / "engine-down.txt").read_text(), "")
    assert facts is None
    assert complaint == (
        "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. "
        "Is the docker daemon running?"
    )


def test_engine_command_that_is_missing() -> None:
    facts, complaint = engine.parse_engine("sh: 1: docker: not found\n", "")
    assert facts is None
    assert complaint == "sh: 1: docker: not found"
    assert engine.parse_engine("", "") == (None, "the engine's command gave no answer")


def test_rootless_engine_with_nvidia_runtime() -> None:
    facts, complaint = engine.parse_engine(
        '{"Server":{"Version":"27.1.0","ApiVersion":"1.46"}}\n',
        'WARNING: bridge-nf-call-iptables is disabled\n{"Runtimes":{"runc":{},"nvidia":{}},'
        '"SecurityOptions":["name=seccomp","name=rootless"],"DockerRootDir":"/home/u/d"}\n',
    )
    assert complaint is None
    assert facts is not None
    assert facts.rootless
    assert facts.runtimes == ("nvidia", "runc")
    assert facts.root_dir == "/home/u/d"


def test_images_without_a_name_stand_under_their_id() -> None:
    text = (
        '{"ID":"sha256:bb","Repository":"<none>","Tag":"<none>"}\n'
        '{"ID":"sha256:aa","Repository":"runner/load","Tag":"1"}\nnot json\n'
    )
    assert engine.parse_images(text) == {"runner/load:1": "sha256:aa", "sha256:bb": "sha256:bb"}


def test_device_nodes_keep_the_numbers_of_the_host() -> None:
    text = "666 0 992 /dev/kfd\n660 0 44 /dev/dri/card 0\nstat: cannot stat\n"
    assert devices.parse_device_nodes(text) == (
        DeviceNode(path="/dev/dri/card 0", mode="0660", uid=0, gid=44),
        DeviceNode(path="/dev/kfd", mode="0666", uid=0, gid=992),
    )


def test_free_space_counts_kib_and_survives_blanks_in_names() -> None:
    text = (
        "path /var/lib/runner/runs\n"
        "Filesystem     1024-blocks     Used Available Capacity Mounted on\n"
        "/dev/vda         264212084 30144512  76246400      29% /\n"
        "path /mnt/my data\n"
        "Filesystem     1024-blocks     Used Available Capacity Mounted on\n"
        "//nas/my share  1000 400 600 40% /mnt/my data\n"
    )
    assert paths.parse_disk(text) == {
        "/var/lib/runner/runs": 76246400 * 1024,
        "/mnt/my data": 600 * 1024,
    }


def test_missing_paths_are_sorted_and_unique() -> None:
    assert paths.parse_missing("/b\n/a\n/b\n\n") == ("/a", "/b")


@pytest.mark.parametrize(
    ("lists", "allowed"),
    [("0-7\n2-5\n", "2-5"), ("0-1\n", "0-1"), ("", ""), ("rubbish\n0,2-3\n", "0,2-3")],
)
def test_allowed_cpus_are_what_all_lists_agree_on(lists: str, allowed: str) -> None:
    assert cpu.parse_cpus("8\n", lists, "model name\t: AMD EPYC\n") == cpu.Cpus(
        8, allowed, "AMD EPYC"
    )


def test_cpu_count_falls_back_to_the_list() -> None:
    assert cpu.parse_cpus("", "0-2\n", "") == cpu.Cpus(3, "0-2", None)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (
            'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
            "Debian GNU/Linux 12 (bookworm)",
        ),
        ("NAME=Alpine\n", "Alpine"),
        ("PRETTY_NAME=\"it's odd\n", "\"it's odd"),
        ("", "unknown"),
    ],
)
def test_os_release(text: str, name: str) -> None:
    assert system.parse_os_release(text) == name


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1796095409.540803654\n", 1796095409.540803654),
        ("1796095409.N\n", 1796095409.0),
        ("", None),
    ],
)
def test_clock(text: str, seconds: float | None) -> None:
    assert system.parse_clock(text) == seconds


def test_what_a_host_does_not_tell() -> None:
    assert system.parse_uname("") == system.Uname("unknown", "unknown", "unknown")
    assert system.parse_meminfo("") == 0
    assert system.parse_meminfo("MemTotal:  1000 kB\n") == 1024000
    assert system.parse_id("0\n1000\n") == (0, 1000)
    assert system.parse_id("") == (-1, -1)
