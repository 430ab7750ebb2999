"""A `ContainerSpec` in the two languages of an engine: API body and `docker run` line. Pure."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

from runner.errors import EngineError
from runner.models.container import ContainerSpec, Device, DeviceRequest, Mount

# The engine's default driver stores output as JSON text, which replaces every byte that is not
# UTF-8, also in a character that its 16 KiB buffer cuts in two. This one keeps bytes.
LOG_DRIVER = "local"
# Output is read while it is written; the limit only saves the disk from a container gone wild.
LOG_OPTIONS: Mapping[str, str] = {"max-size": "1g", "max-file": "2", "compress": "false"}

_CDI = "cdi"
_GPU = "gpu"


def create_body(spec: ContainerSpec, secrets: Mapping[str, str]) -> dict[str, Any]:
    """Body of the engine API's `POST /containers/create`; the name travels beside it.

    Args:
        spec: what the container is to be.
        secrets: values of `spec.secret_environment`; other names in it are left out.

    Raises:
        EngineError: a secret has no value.
    """
    body: dict[str, Any] = {
        "Image": spec.image,
        "Env": [f"{name}={value}" for name, value in _environment(spec, secrets).items()],
        "Labels": dict(spec.labels),
        "StopSignal": spec.stop_signal,
        "StopTimeout": math.ceil(spec.stop_grace_s),
        "AttachStdin": False,
        "AttachStdout": False,
        "AttachStderr": False,
        "Tty": False,
        "HostConfig": _host_config(spec),
    }
    if spec.entrypoint is not None:
        body["Entrypoint"] = list(spec.entrypoint) or [""]
    if spec.command:
        body["Cmd"] = list(spec.command)
    if spec.user is not None:
        body["User"] = spec.user
    if spec.working_dir is not None:
        body["WorkingDir"] = spec.working_dir
    if spec.network is not None and spec.network_aliases:
        endpoint = {"Aliases": list(spec.network_aliases)}
        body["NetworkingConfig"] = {"EndpointsConfig": {spec.network: endpoint}}
    return body


def docker_run_argv(spec: ContainerSpec, docker: Sequence[str] = ("docker",)) -> list[str]:
    """`docker run --detach …` that starts the same container as `create_body`.

    A secret appears as `-e NAME`: the process that runs the line must have it in its own
    environment. An image that is not there is an error, never pulled.

    Args:
        spec: what the container is to be.
        docker: how the client is called, with its own options.

    Raises:
        EngineError: the command line can't express what the API can.
    """
    argv = [*docker, "run", "--detach", "--pull", "never", "--name", spec.name]
    argv += [f"--init={'true' if spec.init else 'false'}"]
    argv += ["--stop-signal", spec.stop_signal, "--stop-timeout", str(math.ceil(spec.stop_grace_s))]
    argv += ["--log-driver", LOG_DRIVER]
    for name, value in LOG_OPTIONS.items():
        argv += ["--log-opt", f"{name}={value}"]
    argv += _option_values(spec)
    for name, value in spec.labels.items():
        argv += ["--label", f"{name}={value}"]
    for name, value in spec.environment.items():
        if name not in spec.secret_environment:
            argv += ["-e", f"{name}={value}"]
    for name in spec.secret_environment:
        argv += ["-e", name]
    for mount in spec.mounts:
        argv += ["--mount", mount_option(mount)]
    for device in spec.devices:
        argv += ["--device", _device_value(device)]
    for request in spec.device_requests:
        argv += _request_argv(request)
    return argv + _process_argv(spec)


def _environment(spec: ContainerSpec, secrets: Mapping[str, str]) -> dict[str, str]:
    missing = [name for name in spec.secret_environment if name not in secrets]
    if missing:
        raise EngineError(
            f"no value for the secret {', '.join(missing)}, which the container needs",
            where=spec.name,
            next_step=f"export {missing[0]}=… where the run is submitted, then submit again",
        )
    return {**spec.environment, **{name: secrets[name] for name in spec.secret_environment}}


def _host_config(spec: ContainerSpec) -> dict[str, Any]:
    config: dict[str, Any] = {
        "Init": spec.init,
        "LogConfig": {"Type": LOG_DRIVER, "Config": dict(LOG_OPTIONS)},
        "RestartPolicy": {"Name": "no"},
        "NetworkMode": spec.network or "default",
        "Mounts": [_mount(mount) for mount in spec.mounts],
        "Devices": [_device(device) for device in spec.devices],
        "DeviceRequests": [_device_request(request) for request in spec.device_requests],
        "GroupAdd": list(spec.group_add),
        "SecurityOpt": list(spec.security_opt),
        "CapAdd": list(spec.cap_add),
        "Ulimits": [
            {"Name": name, "Soft": limit, "Hard": limit} for name, limit in spec.ulimits.items()
        ],
    }
    optional = {
        "CpusetCpus": spec.cpuset_cpus,
        "Memory": spec.memory_bytes,
        "ShmSize": spec.shm_size_bytes,
        "IpcMode": spec.ipc_mode,
    }
    return config | {key: value for key, value in optional.items() if value is not None}


def _mount(mount: Mount) -> dict[str, Any]:
    # A mount of type bind fails when the source is missing; `Binds` would make a folder silently.
    return {
        "Type": "bind",
        "Source": mount.source,
        "Target": mount.target,
        "ReadOnly": mount.read_only,
    }


def _device(device: Device) -> dict[str, str]:
    return {
        "PathOnHost": device.host_path,
        "PathInContainer": device.container_path,
        "CgroupPermissions": device.permissions,
    }


def _device_request(request: DeviceRequest) -> dict[str, Any]:
    body: dict[str, Any] = {
        "Driver": request.driver,
        "Capabilities": [list(request.capabilities)],
    }
    if request.device_ids:
        return body | {"DeviceIDs": list(request.device_ids)}
    return body | {"Count": request.count}


def _option_values(spec: ContainerSpec) -> list[str]:
    """Options that take one plain value each, in a fixed order."""
    pairs: list[tuple[str, str | int | None]] = [
        ("--network", spec.network),
        *(("--network-alias", alias) for alias in spec.network_aliases if spec.network),
        ("--cpuset-cpus", spec.cpuset_cpus),
        ("--memory", spec.memory_bytes),
        ("--shm-size", spec.shm_size_bytes),
        ("--ipc", spec.ipc_mode),
        ("--user", spec.user),
        ("--workdir", spec.working_dir),
        *(("--group-add", group) for group in spec.group_add),
        *(("--security-opt", option) for option in spec.security_opt),
        *(("--cap-add", capability) for capability in spec.cap_add),
        *(("--ulimit", f"{name}={limit}:{limit}") for name, limit in spec.ulimits.items()),
    ]
    return [part for name, value in pairs if value is not None for part in (name, str(value))]


def _csv(fields: Sequence[str]) -> str:
    """One value of the client's CSV options: a comma inside a field needs quotes."""
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(fields)
    return out.getvalue()


def mount_option(mount: Mount) -> str:
    """The value of `--mount` for a bind mount; quoted where a path holds a comma."""
    fields = ["type=bind", f"source={mount.source}", f"target={mount.target}"]
    return _csv([*fields, "readonly"] if mount.read_only else fields)


def _device_value(device: Device) -> str:
    parts = (device.host_path, device.container_path, device.permissions)
    if any(":" in part for part in parts):
        raise EngineError(
            f"device {device.host_path} -> {device.container_path}: `docker run` can't take a "
            "path with a colon",
            next_step="name the device by a path without a colon, e.g. /dev/dri/renderD128",
        )
    return ":".join(parts)


def _request_argv(request: DeviceRequest) -> list[str]:
    if request.driver == _CDI:
        if not request.device_ids:
            raise EngineError(
                "a CDI device request needs device ids, not a count",
                next_step="name the devices in full, e.g. nvidia.com/gpu=0",
            )
        return [part for name in request.device_ids for part in ("--device", name)]
    if _GPU not in request.capabilities:
        raise EngineError(
            f"`docker run` asks device drivers for gpu only, not for {request.capabilities}",
            next_step="add gpu to the capabilities",
        )
    fields = [f"driver={request.driver}"] if request.driver else []
    if request.device_ids:
        fields.append(f"device={','.join(request.device_ids)}")
    else:
        fields.append(f"count={'all' if request.count == -1 else request.count}")
    # The client adds gpu itself.
    others = [name for name in request.capabilities if name != _GPU]
    if others:
        fields.append(f"capabilities={','.join(others)}")
    return ["--gpus", _csv(fields)]


def _process_argv(spec: ContainerSpec) -> list[str]:
    if spec.entrypoint is None:
        return [spec.image, *spec.command]
    head, *rest = spec.entrypoint or ("",)
    return ["--entrypoint", head, spec.image, *rest, *spec.command]
