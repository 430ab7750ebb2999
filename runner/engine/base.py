"""What every container engine offers. The rest of the program knows only this."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from runner.models.container import ContainerSpec


@dataclass(frozen=True)
class ContainerState:
    """`exit_code` is None while running. Times are the engine's ISO strings."""

    id: str
    name: str
    status: str
    running: bool
    exit_code: int | None
    oom_killed: bool
    started_at: str
    finished_at: str
    error: str
    labels: Mapping[str, str]


@dataclass(frozen=True)
class LogChunk:
    """Raw bytes; `stream` is "stdout" or "stderr"."""

    stream: str
    data: bytes


class Engine(Protocol):
    """A container engine. Every method raises `EngineError` or a child, never a library's own."""

    def version(self) -> Mapping[str, str]:
        """`version` and `api_version`."""
        ...

    def image_id(self, reference: str) -> str | None:
        """Digest ("sha256:…") of an image; None when it is not there."""
        ...

    def ensure_network(self, name: str, labels: Mapping[str, str]) -> None:
        """Create a bridge network; does nothing when it exists."""
        ...

    def connect(self, network: str, container: str) -> None:
        """Attach a running container; does nothing when it is attached."""
        ...

    def disconnect(self, network: str, container: str) -> None:
        """Detach; does nothing when either is gone."""
        ...

    def remove_network(self, name: str) -> None:
        """Does nothing when it is gone."""
        ...

    def start(self, spec: ContainerSpec, secrets: Mapping[str, str]) -> str:
        """Create and start; returns the container's id. `ImageMissing` when the image is absent.
        `secrets` gives the values of `spec.secret_environment`."""
        ...

    def inspect(self, container: str) -> Mapping[str, Any]:
        """The engine's own record; `ContainerGone` when it does not exist."""
        ...

    def state(self, container: str) -> ContainerState:
        """`ContainerGone` when it does not exist."""
        ...

    def cpu_seconds(self, container: str) -> float | None:
        """CPU time used so far; None when the engine can't tell."""
        ...

    def wait(self, container: str, timeout_s: float) -> int | None:
        """Exit code, or None when it is still running after `timeout_s`."""
        ...

    def logs(self, container: str) -> Iterator[LogChunk]:
        """All output from the first byte, following until the container ends."""
        ...

    def stop(self, container: str, *, signal: str, grace_s: float) -> None:
        """Send `signal`, wait up to `grace_s`, then kill. Nothing happens when it has ended."""
        ...

    def remove(self, container: str) -> None:
        """Remove by force; does nothing when it is gone."""
        ...

    def list(
        self, labels: Mapping[str, str], *, all_states: bool = True
    ) -> tuple[ContainerState, ...]:
        """Containers that carry all these labels."""
        ...

    def close(self) -> None: ...
