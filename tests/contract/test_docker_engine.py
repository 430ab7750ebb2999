"""What only a real engine can show: the inside of containers, and the two ways to start one."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runner.engine import open_engine
from runner.engine.convert import docker_run_argv
from runner.engine.docker import DockerEngine
from runner.errors import EngineError
from runner.models.container import ContainerSpec, Device, DeviceRequest, Mount
from tests.fixtures.engine import Label

pytestmark = pytest.mark.engine

PLANTED = "planted-5d1c7a"
RENDER_GID = 992


class Inside:
    """Runs small programs in containers of this test."""

    def __init__(self, engine: DockerEngine, image: str, label: Label):
        self.engine, self.image, self.label = engine, image, label

    def spec(self, name: str, *command: str, **changes: Any) -> ContainerSpec:
        plain = {"name": f"{self.label.id}-{name}", "image": self.image, "command": command}
        return ContainerSpec(**{**plain, "labels": dict(self.label.labels), **changes})

    def output(self, spec: ContainerSpec, secrets: Mapping[str, str] | None = None) -> str:
        """Both streams of a program that ends with 0."""
        container = self.engine.start(spec, secrets or {})
        said = b"".join(chunk.data for chunk in self.engine.logs(container)).decode()
        assert self.engine.wait(container, 60.0) == 0, said
        return said


@pytest.fixture
def inside(engine: DockerEngine, base_image: str, label: Label) -> Inside:
    return Inside(engine, base_image, label)


def test_containers_of_a_network_find_each_other_by_alias(inside: Inside) -> None:
    network = f"{inside.label.id}-net"
    inside.engine.ensure_network(network, inside.label.labels)
    serve = "import http.server as h; h.test(h.SimpleHTTPRequestHandler, port=8000, bind='0.0.0.0')"
    inside.engine.start(
        inside.spec("a", "python3", "-c", serve, network=network, network_aliases=("server",)), {}
    )
    ask = (
        "import time, urllib.request as u\n"
        "for _ in range(300):\n"
        "    try: print(u.urlopen('http://server:8000/etc/hostname').status); break\n"
        "    except OSError: time.sleep(0.1)\n"
    )
    assert inside.output(inside.spec("b", "python3", "-c", ask, network=network)) == "200\n"


def test_the_cpuset_holds_inside(inside: Inside) -> None:
    command = ("grep", "Cpus_allowed_list", "/proc/self/status")
    assert inside.output(inside.spec("a", *command, cpuset_cpus="0")) == "Cpus_allowed_list:\t0\n"


def test_limits_user_folder_and_init_hold_inside(inside: Inside) -> None:
    code = (
        "import os, resource, signal\n"
        "print(os.getuid(), os.getgid(), sorted(os.getgroups()), os.getcwd(), os.getpid() == 1)\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE))\n"
        "print(os.statvfs('/dev/shm').f_blocks * os.statvfs('/dev/shm').f_frsize)\n"
    )
    spec = inside.spec(
        "a",
        *("python3", "-c", code),
        user="1000:1001",
        group_add=("992", "44"),
        working_dir="/usr/lib",
        shm_size_bytes=128 * 2**20,
        ulimits={"nofile": 4096},
    )
    assert inside.output(spec).splitlines() == [
        "1000 1001 [44, 992, 1001] /usr/lib False",
        "(4096, 4096)",
        str(128 * 2**20),
    ]
    without = inside.spec("b", "python3", "-c", "import os; print(os.getpid())", init=False)
    assert inside.output(without) == "1\n"


def test_an_entrypoint_takes_the_command_as_arguments(inside: Inside) -> None:
    spec = inside.spec("a", "a b", "$HOME", entrypoint=("printf", "[%s]"))
    assert inside.output(spec) == "[a b][$HOME]"


def test_mounts_are_read_only_unless_asked(inside: Inside, tmp_path: Path) -> None:
    for name in ("ro", "rw"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "given").write_text("from the host\n")
    mounts = (
        Mount(source=str(tmp_path / "ro"), target="/ro"),
        Mount(source=str(tmp_path / "rw"), target="/rw", read_only=False),
    )
    code = "cat /ro/given /rw/given; echo back >/rw/made; touch /ro/made || echo refused"
    said = inside.output(inside.spec("a", "sh", "-c", code, mounts=mounts))
    # between the two streams the engine keeps no order
    assert sorted(said.splitlines()) == [
        "from the host",
        "from the host",
        "refused",
        "touch: cannot touch '/ro/made': Read-only file system",
    ]
    assert (tmp_path / "rw" / "made").read_text() == "back\n"
    assert not (tmp_path / "ro" / "made").exists()


@pytest.fixture
def fake_kfd(tmp_path: Path) -> Path:
    """A stand-in for a GPU's device node: /dev/null's numbers, a render group's mode."""
    node = tmp_path / "kfd"
    os.mknod(node, stat.S_IFCHR | 0o660, os.makedev(1, 3))
    os.chown(node, 0, RENDER_GID)
    node.chmod(0o660)
    return node


OPEN_KFD = (
    "import os\n"
    "node = os.stat('/dev/kfd')\n"
    "print(oct(node.st_mode), node.st_gid, os.major(node.st_rdev), os.minor(node.st_rdev))\n"
    "try: print(os.write(os.open('/dev/kfd', os.O_RDWR), b'abc'))\n"
    "except PermissionError as error: print(error.strerror)\n"
)


@pytest.mark.parametrize(("groups", "answer"), [(("992",), "3"), ((), "Permission denied")])
def test_a_device_opens_for_the_number_of_its_group(
    inside: Inside, fake_kfd: Path, groups: tuple[str, ...], answer: str
) -> None:
    spec = inside.spec(
        "a",
        *("python3", "-c", OPEN_KFD),
        user="1000:1000",
        group_add=groups,
        devices=(Device(host_path=str(fake_kfd), container_path="/dev/kfd"),),
    )
    assert inside.output(spec).splitlines() == ["0o20660 992 1 3", answer]


def test_device_permissions_hold_inside(inside: Inside, fake_kfd: Path) -> None:
    device = Device(host_path=str(fake_kfd), container_path="/dev/kfd", permissions="r")
    # 1:3 itself is always allowed in a container; the record tells what was asked for.
    container = inside.engine.start(inside.spec("a", "sleep", "600", devices=(device,)), {})
    assert inside.engine.inspect(container)["HostConfig"]["Devices"] == [
        {"PathOnHost": str(fake_kfd), "PathInContainer": "/dev/kfd", "CgroupPermissions": "r"}
    ]


def test_secrets_reach_the_process_and_no_command_line(inside: Inside) -> None:
    code = (
        "import glob, os\n"
        "print(os.environ['HF_TOKEN'] == 'planted-' + '5d1c7a')\n"
        "print(any(b'planted-' + b'5d1c7a' in open(p, 'rb').read()"
        " for p in glob.glob('/proc/[0-9]*/cmdline')))\n"
    )
    spec = inside.spec("a", "python3", "-c", code, secret_environment=("HF_TOKEN",))
    assert inside.output(spec, {"HF_TOKEN": PLANTED, "OTHER": "not asked for"}) == "True\nFalse\n"
    assert PLANTED not in spec.model_dump_json()


REFUSALS: dict[str, tuple[dict[str, Any], str, str]] = {
    "GPU without toolkit": (
        {"device_requests": (DeviceRequest(driver="nvidia", device_ids=("0", "1")),)},
        'no device driver "nvidia" for GPUs',
        "nvidia-container-toolkit",
    ),
    "device": (
        {"devices": (Device(host_path="/dev/rt-nothing", container_path="/dev/kfd"),)},
        "device /dev/rt-nothing is not there on the host",
        "ls -l /dev/rt-nothing",
    ),
    "cpuset": ({"cpuset_cpus": "0-4095"}, "CPUs 0-4095 were asked for", "hosts.yaml"),
    "group name": ({"group_add": ("render",)}, "the image has no group render", "stat --format %g"),
    "program": (
        {"init": False, "command": ("rt-nothing",)},
        "the image has no program rt-nothing",
        "entrypoint and command",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_names_the_thing_and_the_next_step(inside: Inside, case: str) -> None:
    changes, what, next_step = REFUSALS[case]
    spec = inside.spec("a", "sleep", "600")
    with pytest.raises(EngineError) as caught:
        inside.engine.start(spec.model_copy(update=changes), {})
    assert what in caught.value.what
    assert next_step in (caught.value.next_step or "")
    assert caught.value.__cause__ is not None
    assert inside.engine.list(inside.label.labels) == ()


def test_nothing_listens() -> None:
    with pytest.raises(EngineError) as caught:
        open_engine("/nonexistent/docker.sock")
    assert "No such file or directory" in caught.value.what
    assert "docker -H unix:///nonexistent/docker.sock version" in (caught.value.next_step or "")


def test_the_command_line_makes_the_same_container_as_the_api(
    inside: Inside, engine_socket: str, fake_kfd: Path, tmp_path: Path
) -> None:
    network = f"{inside.label.id}-net"
    inside.engine.ensure_network(network, inside.label.labels)
    odd = tmp_path / 'a,b "c"'
    odd.mkdir()
    rich = inside.spec(
        "api",
        *("-c", 'sleep "$@"', "sh", "600"),
        entrypoint=("sh", "-u"),
        environment={"A": "1", "EMPTY": "", "SPACE": "a b", "HF_TOKEN": "overridden"},
        secret_environment=("HF_TOKEN",),
        mounts=(
            Mount(source=str(odd), target="/odd"),
            Mount(source=str(tmp_path), target="/rw", read_only=False),
        ),
        devices=(Device(host_path=str(fake_kfd), container_path="/dev/kfd", permissions="rw"),),
        group_add=("992",),
        network=network,
        network_aliases=("one", "two"),
        cpuset_cpus="0",
        memory_bytes=512 * 2**20,
        shm_size_bytes=64 * 2**20,
        ipc_mode="private",
        security_opt=("seccomp=unconfined",),
        cap_add=("SYS_NICE",),
        ulimits={"memlock": 65536, "nofile": 1024},
        stop_signal="SIGINT",
        stop_grace_s=12.5,
        user="1000:1000",
        working_dir="/usr",
    )
    by_api = inside.engine.inspect(inside.engine.start(rich, {"HF_TOKEN": PLANTED}))
    other = rich.model_copy(update={"name": f"{inside.label.id}-cli"})
    argv = docker_run_argv(other, docker=("docker", "-H", f"unix://{engine_socket}"))
    assert PLANTED not in " ".join(argv)
    environment = {**os.environ, "HF_TOKEN": PLANTED}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    by_line = inside.engine.inspect(done.stdout.strip())
    assert by_line["State"]["Running"] is True
    assert comparable(by_line) == comparable(by_api)


def comparable(record: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a record that a spec decides; order counts only where it means something."""
    config, host = record["Config"], record["HostConfig"]
    [endpoint] = record["NetworkSettings"]["Networks"].values()
    process = [*config["Entrypoint"], *config["Cmd"]]
    return {
        "process": process,
        "env": sorted(config["Env"]),
        "aliases": [name for name in endpoint["Aliases"] if name != record["Id"][:12]],
        "mounts": sorted(host["Mounts"], key=lambda mount: str(mount["Target"])),
        # one way writes SYS_NICE, the other CAP_SYS_NICE
        "capabilities": [name.removeprefix("CAP_") for name in host["CapAdd"]],
        "ports": host["PortBindings"] or {},
        "ulimits": sorted(host["Ulimits"], key=lambda limit: str(limit["Name"])),
        **{key: config[key] for key in ("Image", "Labels", "User", "WorkingDir", "StopSignal")},
        **{key: config[key] for key in ("StopTimeout", "Tty", "OpenStdin")},
        **{key: host[key] for key in ("Init", "LogConfig", "NetworkMode", "GroupAdd")},
        **{key: host[key] for key in ("SecurityOpt", "CpusetCpus", "Memory", "ShmSize")},
        **{key: host[key] for key in ("IpcMode", "Devices", "RestartPolicy")},
    }
