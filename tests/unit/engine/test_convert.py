"""A spec in the engine's two languages, to the last key."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from runner.engine.convert import create_body, docker_run_argv
from runner.errors import EngineError
from runner.models.container import ContainerSpec, Device, DeviceRequest, Mount

LOG_CONFIG = {
    "Type": "local",
    "Config": {"max-size": "1g", "max-file": "2", "compress": "false"},
}
LOG_OPTIONS = [
    *("--log-driver", "local", "--log-opt", "max-size=1g"),
    *("--log-opt", "max-file=2", "--log-opt", "compress=false"),
]
RICH = ContainerSpec(
    name="server-1",
    image="vllm@sha256:aa",
    entrypoint=("vllm", "serve"),
    command=("/models/a b", "--port", "8000"),
    environment={"A": "1", "HF_TOKEN": "never this", "B": "x=y"},
    secret_environment=("HF_TOKEN",),
    mounts=(
        Mount(source="/opt/models", target="/models"),
        Mount(source="/runs/1", target="/runs/1", read_only=False),
    ),
    devices=(
        Device(host_path="/dev/kfd", container_path="/dev/kfd"),
        Device(host_path="/dev/dri/renderD128", container_path="/dev/dri/r", permissions="rw"),
    ),
    device_requests=(DeviceRequest(driver="nvidia", device_ids=("0", "1")),),
    group_add=("992", "44"),
    network="run-1",
    network_aliases=("server",),
    cpuset_cpus="0-3,8",
    memory_bytes=1024,
    shm_size_bytes=2048,
    ipc_mode="host",
    security_opt=("seccomp=unconfined",),
    cap_add=("SYS_PTRACE",),
    ulimits={"memlock": -1},
    stop_signal="SIGINT",
    stop_grace_s=12.2,
    init=False,
    user="1000:1000",
    working_dir="/work",
    labels={"run": "1", "cell": "a"},
)


def test_body_of_a_plain_spec() -> None:
    assert create_body(ContainerSpec(name="ab", image="i:1"), {}) == {
        "Image": "i:1",
        "Env": [],
        "Labels": {},
        "StopSignal": "SIGTERM",
        "StopTimeout": 30,
        "AttachStdin": False,
        "AttachStdout": False,
        "AttachStderr": False,
        "Tty": False,
        "HostConfig": {
            "Init": True,
            "LogConfig": LOG_CONFIG,
            "RestartPolicy": {"Name": "no"},
            "NetworkMode": "default",
            "Mounts": [],
            "Devices": [],
            "DeviceRequests": [],
            "GroupAdd": [],
            "SecurityOpt": [],
            "CapAdd": [],
            "Ulimits": [],
        },
    }


def test_body_of_a_rich_spec() -> None:
    assert create_body(RICH, {"HF_TOKEN": "hf_1", "OTHER": "left out"}) == {
        "Image": "vllm@sha256:aa",
        "Entrypoint": ["vllm", "serve"],
        "Cmd": ["/models/a b", "--port", "8000"],
        "Env": ["A=1", "HF_TOKEN=hf_1", "B=x=y"],
        "Labels": {"run": "1", "cell": "a"},
        "StopSignal": "SIGINT",
        "StopTimeout": 13,
        "AttachStdin": False,
        "AttachStdout": False,
        "AttachStderr": False,
        "Tty": False,
        "User": "1000:1000",
        "WorkingDir": "/work",
        "NetworkingConfig": {"EndpointsConfig": {"run-1": {"Aliases": ["server"]}}},
        "HostConfig": {
            "Init": False,
            "LogConfig": LOG_CONFIG,
            "RestartPolicy": {"Name": "no"},
            "NetworkMode": "run-1",
            "Mounts": [
                {"Type": "bind", "Source": "/opt/models", "Target": "/models", "ReadOnly": True},
                {"Type": "bind", "Source": "/runs/1", "Target": "/runs/1", "ReadOnly": False},
            ],
            "Devices": [
                {
                    "PathOnHost": "/dev/kfd",
                    "PathInContainer": "/dev/kfd",
                    "CgroupPermissions": "rwm",
                },
                {
                    "PathOnHost": "/dev/dri/renderD128",
                    "PathInContainer": "/dev/dri/r",
                    "CgroupPermissions": "rw",
                },
            ],
            "DeviceRequests": [
                {"Driver": "nvidia", "Capabilities": [["gpu"]], "DeviceIDs": ["0", "1"]}
            ],
            "GroupAdd": ["992", "44"],
            "SecurityOpt": ["seccomp=unconfined"],
            "CapAdd": ["SYS_PTRACE"],
            "Ulimits": [{"Name": "memlock", "Soft": -1, "Hard": -1}],
            "CpusetCpus": "0-3,8",
            "Memory": 1024,
            "ShmSize": 2048,
            "IpcMode": "host",
        },
    }


def test_line_of_a_plain_spec() -> None:
    assert docker_run_argv(ContainerSpec(name="ab", image="i:1")) == [
        *("docker", "run", "--detach", "--pull", "never", "--name", "ab", "--init=true"),
        *("--stop-signal", "SIGTERM", "--stop-timeout", "30"),
        *LOG_OPTIONS,
        "i:1",
    ]


def test_line_of_a_rich_spec() -> None:
    assert docker_run_argv(RICH, docker=("sudo", "docker")) == [
        *("sudo", "docker", "run", "--detach", "--pull", "never"),
        *("--name", "server-1", "--init=false"),
        *("--stop-signal", "SIGINT", "--stop-timeout", "13"),
        *LOG_OPTIONS,
        *("--network", "run-1", "--network-alias", "server"),
        *("--cpuset-cpus", "0-3,8", "--memory", "1024", "--shm-size", "2048", "--ipc", "host"),
        *("--user", "1000:1000", "--workdir", "/work"),
        *("--group-add", "992", "--group-add", "44"),
        *("--security-opt", "seccomp=unconfined", "--cap-add", "SYS_PTRACE"),
        *("--ulimit", "memlock=-1:-1"),
        *("--label", "run=1", "--label", "cell=a"),
        *("-e", "A=1", "-e", "B=x=y", "-e", "HF_TOKEN"),
        *("--mount", "type=bind,source=/opt/models,target=/models,readonly"),
        *("--mount", "type=bind,source=/runs/1,target=/runs/1"),
        *("--device", "/dev/kfd:/dev/kfd:rwm", "--device", "/dev/dri/renderD128:/dev/dri/r:rw"),
        *("--gpus", 'driver=nvidia,"device=0,1"'),
        *("--entrypoint", "vllm", "vllm@sha256:aa"),
        *("serve", "/models/a b", "--port", "8000"),
    ]


def spec(**changes: Any) -> ContainerSpec:
    return ContainerSpec(**{"name": "ab", "image": "i:1", **changes})


def tail(**changes: Any) -> list[str]:
    """What a change adds to the plain line, up to and with the image."""
    plain = len(docker_run_argv(spec())) - 1
    return docker_run_argv(spec(**changes))[plain:]


@pytest.mark.parametrize(
    ("request_", "body", "line"),
    [
        (
            DeviceRequest(driver="nvidia", count=-1),
            {"Driver": "nvidia", "Capabilities": [["gpu"]], "Count": -1},
            ["--gpus", "driver=nvidia,count=all"],
        ),
        (
            DeviceRequest(driver="", count=2, capabilities=("gpu", "utility")),
            {"Driver": "", "Capabilities": [["gpu", "utility"]], "Count": 2},
            ["--gpus", "count=2,capabilities=utility"],
        ),
        (
            DeviceRequest(driver="nvidia", device_ids=("GPU-1",)),
            {"Driver": "nvidia", "Capabilities": [["gpu"]], "DeviceIDs": ["GPU-1"]},
            ["--gpus", "driver=nvidia,device=GPU-1"],
        ),
        (
            DeviceRequest(driver="cdi", device_ids=("nvidia.com/gpu=0", "nvidia.com/gpu=1")),
            {
                "Driver": "cdi",
                "Capabilities": [["gpu"]],
                "DeviceIDs": ["nvidia.com/gpu=0", "nvidia.com/gpu=1"],
            },
            ["--device", "nvidia.com/gpu=0", "--device", "nvidia.com/gpu=1"],
        ),
    ],
)
def test_device_requests(request_: DeviceRequest, body: dict[str, Any], line: list[str]) -> None:
    wanted = spec(device_requests=(request_,))
    assert create_body(wanted, {})["HostConfig"]["DeviceRequests"] == [body]
    assert tail(device_requests=(request_,)) == [*line, "i:1"]


def test_an_empty_entrypoint_clears_the_images() -> None:
    wanted = spec(entrypoint=(), command=("true",))
    assert create_body(wanted, {})["Entrypoint"] == [""]
    assert tail(entrypoint=(), command=("true",)) == ["--entrypoint", "", "i:1", "true"]


def test_a_comma_and_a_quote_in_a_mount_are_quoted() -> None:
    mount = Mount(source='/a,b"c', target="/t")
    value = 'type=bind,"source=/a,b""c",target=/t,readonly'
    assert tail(mounts=(mount,)) == ["--mount", value, "i:1"]


def test_an_alias_without_a_network_is_left_out() -> None:
    assert tail(network_aliases=("a",)) == ["i:1"]
    assert "NetworkingConfig" not in create_body(spec(network_aliases=("a",)), {})


def test_no_cpu_and_no_memory_limit_of_zero_is_lost() -> None:
    host_config = create_body(spec(memory_bytes=0, shm_size_bytes=0), {})["HostConfig"]
    assert (host_config["Memory"], host_config["ShmSize"]) == (0, 0)


def test_secrets_without_values_are_named() -> None:
    with pytest.raises(EngineError) as caught:
        create_body(spec(secret_environment=("HF_TOKEN", "API_KEY")), {"API_KEY": "x"})
    assert caught.value.what == "no value for the secret HF_TOKEN, which the container needs"
    assert caught.value.where == "ab"
    assert (caught.value.next_step or "").startswith("export HF_TOKEN=")


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        (
            {"devices": (Device(host_path="/dev/pci-0000:03", container_path="/dev/x"),)},
            "can't take a path with a colon",
        ),
        ({"device_requests": (DeviceRequest(driver="cdi", count=1),)}, "needs device ids"),
        (
            {"device_requests": (DeviceRequest(driver="x", count=1, capabilities=("tpu",)),)},
            "for gpu only",
        ),
    ],
)
def test_what_the_command_line_cant_say(changes: dict[str, Any], what: str) -> None:
    create_body(spec(**changes), {})
    with pytest.raises(EngineError, match=what):
        docker_run_argv(spec(**changes))


def test_the_client_can_use_it_without_the_sdk() -> None:
    code = (
        "import sys, runner.engine, runner.engine.base, runner.engine.convert\n"
        "print(sorted({'docker', 'requests', 'urllib3'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
