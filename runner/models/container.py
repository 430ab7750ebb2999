"""What a container is asked to be: plain data, the same whichever engine carries it out."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field, model_validator

from runner.models.base import Spec


class Mount(Spec):
    """A bind mount of a host path."""

    source: str
    target: str
    read_only: bool = True


class Device(Spec):
    """A device node passed into a container."""

    host_path: str
    container_path: str
    permissions: str = "rwm"


class DeviceRequest(Spec):
    """A request to the engine's device driver: ids or a count, never both."""

    driver: str
    device_ids: tuple[str, ...] = ()
    count: int | None = None
    capabilities: tuple[str, ...] = ("gpu",)

    @model_validator(mode="after")
    def _ids_xor_count(self) -> DeviceRequest:
        if bool(self.device_ids) == (self.count is not None):
            raise ValueError("give device_ids or count, not both and not neither")
        return self


class ContainerSpec(Spec):
    """Everything the engine is told about one container.

    `secret_environment` holds names only: values travel beside the plan and are never written.
    `cpuset_cpus` uses the kernel's list format ("0-3,8"). Sizes are bytes, times seconds.
    """

    name: str = Field(min_length=2)
    image: str
    entrypoint: tuple[str, ...] | None = None
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = Field(default_factory=dict)
    secret_environment: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()
    devices: tuple[Device, ...] = ()
    device_requests: tuple[DeviceRequest, ...] = ()
    group_add: tuple[str, ...] = ()
    network: str | None = None
    network_aliases: tuple[str, ...] = ()
    cpuset_cpus: str | None = None
    memory_bytes: int | None = None
    shm_size_bytes: int | None = None
    ipc_mode: str | None = None
    security_opt: tuple[str, ...] = ()
    cap_add: tuple[str, ...] = ()
    ulimits: Mapping[str, int] = Field(default_factory=dict)
    stop_signal: str = "SIGTERM"
    stop_grace_s: float = 30.0
    init: bool = True
    user: str | None = None
    working_dir: str | None = None
    labels: Mapping[str, str] = Field(default_factory=dict)
