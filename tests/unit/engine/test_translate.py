"""Errors of the SDK in our words: what, where, what next, and the cause kept."""

from __future__ import annotations

import docker.errors
import pytest
import requests
import urllib3.exceptions

from runner.engine.translate import engine_errors, is_timeout
from runner.errors import ContainerGone, EngineError, ImageMissing

SOCKET = "/run/e.sock"
LONG_ID = "0123456789ab" + "c" * 52


def refused(status: int, message: str) -> docker.errors.APIError:
    response = requests.Response()
    response.status_code = status
    return docker.errors.APIError("refused", response=response, explanation=message)


def translated(error: Exception) -> EngineError:
    with pytest.raises(EngineError) as caught, engine_errors(SOCKET, f"start {LONG_ID}"):
        raise error
    assert caught.value.__cause__ is error
    assert caught.value.where == SOCKET
    assert caught.value.exit_code == 4
    assert caught.value.what.startswith("start 0123456789ab: ")
    return caught.value


CASES: list[tuple[int, str, type[EngineError], str, str]] = [
    (404, "No such image: a/b:1", ImageMissing, "image a/b:1 is not there", "runner images build"),
    (
        404,
        f"No such container: {LONG_ID}",
        ContainerGone,
        "container 0123456789ab does not exist any more",
        "docker ps --all",
    ),
    (
        409,
        f'Conflict. The container name "/x-1" is already in use by container "{LONG_ID}". You '
        "have to remove (or rename) that container to be able to reuse that name.",
        EngineError,
        "a container named x-1 exists already (0123456789ab); a new one was expected",
        "docker rm --force x-1",
    ),
    (
        500,
        'could not select device driver "" with capabilities: [[gpu]]',
        EngineError,
        'no device driver "" for GPUs: its container toolkit is missing',
        "nvidia-ctk runtime configure --runtime=docker",
    ),
    (
        500,
        'error gathering device information while adding custom device "/dev/kfd": no such file '
        "or directory",
        EngineError,
        "device /dev/kfd is not there on the host, or is no device",
        "ls -l /dev/kfd",
    ),
    (
        400,
        "Requested CPUs are not available - requested 0-99, available: 0-1",
        EngineError,
        "CPUs 0-99 were asked for, the host has 0-1",
        "hosts.yaml",
    ),
    (
        400,
        'invalid mount config for type "bind": bind source path does not exist: /a b/c',
        EngineError,
        "mount source /a b/c does not exist on the host",
        "hosts.yaml",
    ),
    (
        500,
        "Unable to find group render: no matching entries in group file",
        EngineError,
        "the image has no group render",
        "stat --format %g",
    ),
    (404, "network n1 not found", EngineError, "network n1 does not exist", "docker network ls"),
    (
        500,
        "could not find an available, non-overlapping IPv4 address pool among the defaults to "
        "assign to the network",
        EngineError,
        "no free address range",
        "docker network rm",
    ),
    (
        400,
        'OCI runtime create failed: exec: "vllm": executable file not found in $PATH: unknown',
        EngineError,
        "the image has no program vllm",
        "entrypoint and command",
    ),
    (
        500,
        "mkdir /var/lib/docker/overlay2/ab: no space left on device",
        EngineError,
        "the host's disk is full",
        "runner prune",
    ),
    (
        500,
        "something new",
        EngineError,
        "the engine refused: something new",
        "journalctl --unit docker",
    ),
]


@pytest.mark.parametrize(("status", "message", "kind", "what", "next_step"), CASES)
def test_refusals(
    status: int, message: str, kind: type[EngineError], what: str, next_step: str
) -> None:
    error = translated(refused(status, message))
    assert type(error) is kind
    assert what in error.what
    assert next_step in (error.next_step or "")


def test_no_connection_names_the_innermost_cause() -> None:
    inner = urllib3.exceptions.ProtocolError(
        "Connection aborted.", PermissionError(13, "Permission denied")
    )
    error = translated(requests.exceptions.ConnectionError(inner))
    assert error.what.endswith("can't talk to the container engine ([Errno 13] Permission denied)")
    assert "docker -H unix:///run/e.sock version" in (error.next_step or "")


def test_a_stream_that_breaks_is_a_lost_connection() -> None:
    broken = urllib3.exceptions.ProtocolError("Response ended prematurely")
    assert "can't talk to" in translated(broken).what


def silence_in_body() -> requests.exceptions.ConnectionError:
    inner = urllib3.exceptions.ReadTimeoutError(
        urllib3.HTTPConnectionPool("x"), "/wait", "Read timed out."
    )
    return requests.exceptions.ConnectionError(inner)


def test_silence_is_told_from_a_lost_connection() -> None:
    assert is_timeout(requests.exceptions.ReadTimeout())
    assert is_timeout(silence_in_body())
    assert not is_timeout(requests.exceptions.ConnectionError("refused"))
    assert not is_timeout(requests.exceptions.ConnectTimeout())
    assert "did not answer in time" in translated(silence_in_body()).what


def test_other_errors_of_the_sdk_keep_their_words() -> None:
    error = translated(docker.errors.InvalidVersion("API versions below 1.24 are not supported"))
    assert error.what.endswith(": API versions below 1.24 are not supported")


def test_our_own_errors_and_bugs_pass_unchanged() -> None:
    for error in (ContainerGone("gone"), KeyError("bug")):
        with pytest.raises(type(error)) as caught, engine_errors(SOCKET, "x"):
            raise error
        assert caught.value is error
