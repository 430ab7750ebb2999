"""Errors of the docker SDK and of what lies under it, made ours. The only place that does it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import docker.errors
import requests
import urllib3.exceptions

from runner.errors import ContainerGone, EngineError, ImageMissing

_SDK_ERRORS = (
    docker.errors.DockerException,
    requests.exceptions.RequestException,
    urllib3.exceptions.HTTPError,
    OSError,
)


@dataclass(frozen=True)
class _Rule:
    """`pattern` is searched in the engine's message; its groups fill `what` and `next_step`."""

    pattern: str
    what: str
    next_step: str
    error: type[EngineError] = EngineError


_RULES = (
    _Rule(
        r"[Nn]o such image: (?P<name>\S+)",
        "image {name} is not there",
        "runner images build --host HOST, or load the image into that engine",
        ImageMissing,
    ),
    _Rule(
        r"[Nn]o such container: (?P<name>\S+)",
        "container {name} does not exist any more",
        "list what is left: docker ps --all",
        ContainerGone,
    ),
    _Rule(
        r'container name "/?(?P<name>[^"]+)" is already in use by container "?(?P<id>\w+)',
        "a container named {name} exists already ({id}); a new one was expected",
        "look at it, then remove it: docker inspect {name}; docker rm --force {name}",
    ),
    _Rule(
        r'could not select device driver "(?P<name>[^"]*)"',
        'the engine has no device driver "{name}" for GPUs: its container toolkit is missing or '
        "not set up on the host",
        "on the host install nvidia-container-toolkit, then: nvidia-ctk runtime configure "
        "--runtime=docker && systemctl restart docker",
    ),
    _Rule(
        r'error gathering device information while adding custom device "(?P<name>[^"]+)"',
        "device {name} is not there on the host, or is no device",
        "ls -l {name} on the host, then correct the host's accelerator in hosts.yaml",
    ),
    _Rule(
        r"Requested CPUs are not available - requested (?P<want>[^,\s]\S*), available: "
        r"(?P<have>[^\s\"]+)",
        "CPUs {want} were asked for, the host has {have}",
        "correct the host's cpusets in hosts.yaml",
    ),
    _Rule(
        r"bind source path does not exist: (?P<name>[^\"\n]+)",
        "mount source {name} does not exist on the host",
        "make it on the host, or correct the path in hosts.yaml",
    ),
    _Rule(
        r"[Uu]nable to find group (?P<name>[^:\s]+)",
        "the image has no group {name}, and its number may differ from the host's anyway",
        "give the number that owns the device on the host: stat --format %g DEVICE",
    ),
    _Rule(
        r"network (?P<name>\S+) not found",
        "network {name} does not exist",
        "list what is there: docker network ls",
    ),
    _Rule(
        r"could not find an available, non-overlapping IPv4 address pool",
        "the engine has no free address range for one more network",
        "remove networks that nobody uses: docker network ls; docker network rm NAME",
    ),
    _Rule(
        r'exec: "(?P<name>[^"]+)": [^"]*(?:executable file not found|no such file or directory)',
        "the image has no program {name}",
        "check entrypoint and command against the image: docker image inspect IMAGE",
    ),
    _Rule(
        r"no space left on device",
        "the host's disk is full",
        "df --human-readable on the host; runner prune removes old runs",
    ),
)


@contextmanager
def engine_errors(socket: str, doing: str) -> Iterator[None]:
    """Inside, every error of the SDK becomes an `EngineError` or a child, with its cause.

    Args:
        socket: path of the engine's socket, for messages.
        doing: what was tried, e.g. "start container x".
    """
    try:
        yield
    except EngineError:
        raise
    except _SDK_ERRORS as error:
        raise translate(error, socket, doing) from error


def translate(error: Exception, socket: str, doing: str) -> EngineError:
    """The error a user gets for one of the SDK's; the caller chains the cause."""
    doing = _short_ids(doing)
    if isinstance(error, docker.errors.APIError):
        return _refused(error, socket, doing)
    if is_timeout(error):
        return EngineError(
            f"{doing}: the engine did not answer in time",
            where=socket,
            next_step=f"docker -H unix://{socket} info; then the log of the engine",
        )
    chain = _chain(error)
    if any(isinstance(part, OSError | urllib3.exceptions.HTTPError) for part in chain):
        return EngineError(
            f"{doing}: can't talk to the container engine "
            f"({chain[-1] or type(chain[-1]).__name__})",
            where=socket,
            next_step="is the engine running and may this user open its socket? "
            f"docker -H unix://{socket} version",
        )
    return EngineError(
        f"{doing}: {error}",
        where=socket,
        next_step=f"compare what the engine offers: docker -H unix://{socket} version",
    )


def is_timeout(error: BaseException) -> bool:
    """The engine was reached and stayed silent: a read timed out, before or inside the body."""
    if isinstance(error, requests.exceptions.ReadTimeout | urllib3.exceptions.ReadTimeoutError):
        return True
    return isinstance(error, requests.exceptions.ConnectionError) and any(
        isinstance(part, urllib3.exceptions.ReadTimeoutError) for part in error.args
    )


def _refused(error: docker.errors.APIError, socket: str, doing: str) -> EngineError:
    message = _short_ids(str(error.explanation or error).strip())
    for rule in _RULES:
        if found := re.search(rule.pattern, message):
            parts = found.groupdict()
            return rule.error(
                f"{doing}: {rule.what.format(**parts)}",
                where=socket,
                next_step=rule.next_step.format(**parts),
            )
    return EngineError(
        f"{doing}: the engine refused: {message}",
        where=socket,
        next_step="the log of the engine says more: journalctl --unit docker",
    )


def _short_ids(text: str) -> str:
    """Container ids as people know them: twelve digits of 64."""
    return re.sub(r"\b([0-9a-f]{12})[0-9a-f]{52}\b", r"\1", text)


def _chain(error: BaseException) -> list[BaseException]:
    """The error and what caused it, innermost last: the SDK wraps it three deep."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        inner = [part for part in current.args if isinstance(part, BaseException)]
        current = inner[-1] if inner else current.__cause__ or current.__context__
    return chain
