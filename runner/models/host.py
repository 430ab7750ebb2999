"""A host as `hosts.yaml` describes it, and what is learnt by asking it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field, model_validator

from runner.models.base import SCHEMA_VERSION, Record, Spec, VariableName
from runner.models.capability import ImageCapabilities
from runner.models.checkpoint import Checkpoint
from runner.models.container import Mount


class ConnectionKind(StrEnum):
    """How a host is reached."""

    LOCAL = "local"
    SSH = "ssh"


class Vendor(StrEnum):
    """Who made the accelerator."""

    CPU = "cpu"
    AMD = "amd"
    NVIDIA = "nvidia"


class Role(StrEnum):
    """What an image is used for."""

    SERVER = "server"
    LOAD = "load"
    SUPERVISOR = "supervisor"


class Accelerator(Spec):
    """What the owner says is in the machine."""

    vendor: Vendor = Vendor.CPU
    model: str | None = None
    count: int = Field(default=0, ge=0)
    architecture: str | None = None


class EngineAccess(Spec):
    """Where the container engine listens and which command speaks to it on the host."""

    socket: str = "/var/run/docker.sock"
    command: str = "docker"


class CpuSplit(Spec):
    """Kernel CPU lists ("0-3,8") that keep server and load generator off each other's cores."""

    server: str | None = None
    load: str | None = None


class HostLimits(Spec):
    """Bounds on what runs there: runs at a time, times in seconds, sizes in bytes."""

    max_parallel: int = Field(default=1, ge=1)
    server_memory_bytes: int | None = Field(default=None, gt=0)
    shm_size_bytes: int = Field(default=1 << 30, gt=0)
    ready_quiet_s: float = Field(default=120.0, gt=0)
    ready_hard_s: float = Field(default=3600.0, gt=0)


class Host(Spec):
    """One machine. `name` is its key in `hosts.yaml`."""

    name: str = ""
    connection: ConnectionKind = ConnectionKind.SSH
    address: str | None = None
    port: int | None = Field(default=None, ge=1, le=65535)
    user: str | None = None
    identity_file: str | None = None
    ssh_config: str | None = None
    known_hosts: str | None = None
    jump: str | None = None
    connect_timeout_s: float = Field(default=10.0, gt=0)
    accelerator: Accelerator = Accelerator()
    engine: EngineAccess = EngineAccess()
    run_root: str = "/var/lib/runner/runs"
    models: tuple[str, ...] = ()
    caches: Mapping[str, str] = Field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    images: Mapping[Role, str] = Field(default_factory=dict)
    environment: Mapping[VariableName, str] = Field(default_factory=dict)
    cpus: CpuSplit = CpuSplit()
    limits: HostLimits = HostLimits()

    @model_validator(mode="after")
    def _reachable(self) -> Host:
        if self.connection is ConnectionKind.LOCAL and self.address:
            raise ValueError("a local host has no address; drop 'address' or say 'connection: ssh'")
        if not self.run_root.startswith("/"):
            raise ValueError("run_root must be an absolute path")
        return self


class Inventory(Spec):
    """`hosts.yaml` whole."""

    schema_version: int = SCHEMA_VERSION
    hosts: Mapping[str, Host]


class Gpu(Record):
    """One accelerator that a host reports."""

    index: int
    name: str
    architecture: str | None = None
    memory_bytes: int | None = None
    pci_address: str | None = None
    unique_id: str | None = None
    render_node: str | None = None


class DeviceNode(Record):
    """A character device on the host, with the numeric group that may open it."""

    path: str
    mode: str
    gid: int
    uid: int = 0


class EngineFacts(Record):
    """What the engine says about itself."""

    version: str
    api_version: str | None = None
    storage_driver: str | None = None
    cgroup_driver: str | None = None
    runtimes: tuple[str, ...] = ()
    rootless: bool = False
    root_dir: str | None = None


class HostFacts(Record):
    """What asking a host told: recorded with every plan (`host.json`), replayed with `--facts`.

    `checkpoints` (by name) and `capabilities` (by image digest) are what planning looked up, so
    that a replay needs neither the host nor a hub.
    """

    schema_version: int = SCHEMA_VERSION
    host: str
    gathered_at: str
    hostname: str
    operating_system: str
    kernel: str
    machine: str
    cpu_model: str | None = None
    cpu_count: int
    cpu_list: str
    memory_bytes: int
    uid: int
    gid: int
    engine: EngineFacts | None = None
    engine_error: str | None = None
    gpus: tuple[Gpu, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    disk_free_bytes: Mapping[str, int] = Field(default_factory=dict)
    clock_offset_s: float | None = None
    images: Mapping[str, str] = Field(default_factory=dict)
    missing_paths: tuple[str, ...] = ()
    run_root_blocked_by: str | None = Field(
        default=None, description="what keeps the login from writing under run_root"
    )
    checkpoints: Mapping[str, Checkpoint] = Field(default_factory=dict)
    capabilities: Mapping[str, ImageCapabilities] = Field(default_factory=dict)
