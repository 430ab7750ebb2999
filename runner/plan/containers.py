"""The three kinds of container of a run, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runner.models.container import ContainerSpec, Mount
from runner.models.host import Host, Role
from runner.models.image import LockedImage
from runner.models.layout import RunLayout
from runner.models.plan import (
    ATTEMPT,
    LABEL,
    LABEL_ATTEMPT,
    LABEL_CELL,
    LABEL_JOB,
    LABEL_ROLE,
    LABEL_RUN,
    LABEL_RUN_DIR,
    LABEL_SERVER,
)
from runner.plan import load_command, server_command
from runner.plan.accelerators import AcceleratorOptions

ENGINE_SOCKET = "/var/run/docker.sock"
"""Where the supervisor finds the engine inside its container."""


@dataclass(frozen=True)
class RunFrame:
    """What all containers of one run share."""

    run_id: str
    job: str
    layout: RunLayout
    host: Host
    server_cpus: str | None
    load_cpus: str | None

    @property
    def network(self) -> str:
        """Name of the run's private network."""
        return f"runner-{self.run_id}"

    def labels(self, role: Role, **more: str) -> dict[str, str]:
        """Labels of one container; teardown and reconcile go by these alone."""
        return {
            LABEL: "1",
            LABEL_RUN: self.run_id,
            LABEL_JOB: self.job,
            LABEL_ROLE: role.value,
            LABEL_RUN_DIR: str(self.layout.root),
            **more,
        }


def server_alias(server_id: str) -> str:
    """The name under which a server is found on the run's network."""
    return f"server-{server_id}"


def server_container(
    frame: RunFrame,
    server_id: str,
    image: LockedImage,
    *,
    command: tuple[str, ...],
    environment: dict[str, str],
    secrets: tuple[str, ...],
    mounts: tuple[Mount, ...],
    accelerator: AcceleratorOptions,
) -> ContainerSpec:
    """One vLLM server, on the run's network, no port published."""
    return ContainerSpec(
        name=f"runner-{frame.run_id}-{server_id}-a{ATTEMPT}",
        image=image.digest,
        entrypoint=image.entrypoint or server_command.DEFAULT_ENTRYPOINT,
        command=command,
        environment=environment,
        secret_environment=secrets,
        mounts=mounts,
        devices=accelerator.devices,
        device_requests=accelerator.device_requests,
        group_add=accelerator.group_add,
        security_opt=accelerator.security_opt,
        cap_add=accelerator.cap_add,
        network=frame.network,
        network_aliases=(server_alias(server_id),),
        cpuset_cpus=frame.server_cpus,
        memory_bytes=frame.host.limits.server_memory_bytes,
        shm_size_bytes=frame.host.limits.shm_size_bytes,
        labels=frame.labels(Role.SERVER, **{LABEL_SERVER: server_id, LABEL_ATTEMPT: ATTEMPT}),
    )


def load_container(
    frame: RunFrame,
    cell_id: str,
    server_id: str,
    image: LockedImage,
    *,
    command: tuple[str, ...],
    mounts: tuple[Mount, ...],
    more_environment: Mapping[str, str] | None = None,
) -> ContainerSpec:
    """One AIPerf run. SIGINT is the only signal that leaves its summary behind."""
    exports = frame.layout.attempt(cell_id, ATTEMPT).exports
    environment = {
        name: value
        for name, value in sorted(image.environment.items())
        if name not in load_command.OFFLINE_SWITCHES
    }
    environment = dict(sorted({**environment, **(more_environment or {})}.items()))
    return ContainerSpec(
        name=f"runner-{frame.run_id}-load-{cell_id}-a{ATTEMPT}",
        image=image.digest,
        entrypoint=image.entrypoint or load_command.DEFAULT_ENTRYPOINT,
        command=command,
        environment=environment,
        mounts=(
            Mount(source=str(frame.layout.inputs), target=load_command.INPUTS, read_only=True),
            *mounts,
            Mount(source=str(exports), target=load_command.EXPORTS, read_only=False),
        ),
        network=frame.network,
        cpuset_cpus=frame.load_cpus,
        shm_size_bytes=frame.host.limits.shm_size_bytes,
        stop_signal="SIGINT",
        labels=frame.labels(
            Role.LOAD,
            **{LABEL_SERVER: server_id, LABEL_CELL: cell_id, LABEL_ATTEMPT: ATTEMPT},
        ),
    )


def supervisor_container(
    frame: RunFrame, image: LockedImage, secrets: tuple[str, ...]
) -> ContainerSpec:
    """The supervisor: the run's folder at its own path, because the engine resolves bind mounts
    on the host, and the engine's socket. It stays off the server's CPUs."""
    run_dir = str(frame.layout.root)
    return ContainerSpec(
        name=f"runner-{frame.run_id}-supervisor",
        image=image.digest,
        entrypoint=image.entrypoint or None,
        command=(run_dir,),
        environment=dict(sorted(image.environment.items())),
        secret_environment=secrets,
        mounts=(
            Mount(source=run_dir, target=run_dir, read_only=False),
            Mount(source=frame.host.engine.socket, target=ENGINE_SOCKET, read_only=False),
        ),
        cpuset_cpus=frame.load_cpus,
        labels=frame.labels(Role.SUPERVISOR),
    )
