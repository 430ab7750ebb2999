"""Container engines behind one protocol. Importing this costs nothing: the SDK loads on demand."""

from __future__ import annotations

from runner.engine.base import Engine


def open_engine(socket: str) -> Engine:
    """The engine that listens on this Unix socket.

    Args:
        socket: path, e.g. `/var/run/docker.sock`.

    Raises:
        EngineError: nothing answers there.
    """
    from runner.engine.docker import DockerEngine

    return DockerEngine(socket)
