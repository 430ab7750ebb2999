"""A Docker Engine reached over its Unix socket. The only home of the docker SDK."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, suppress
from itertools import count
from typing import Any
from urllib.parse import quote

import docker
import docker.errors
import requests

from runner.engine.base import ContainerState, LogChunk
from runner.engine.convert import create_body
from runner.engine.frames import Demultiplexer
from runner.engine.translate import engine_errors, is_timeout
from runner.errors import ContainerGone, EngineError
from runner.models.container import ContainerSpec

_CONNECT_TIMEOUT_S = 30
# Creating a container on a slow disk or with many GPUs takes minutes.
_CALL_TIMEOUT_S = 300
_KILL_TIMEOUT_S = 60.0
_SHORTEST_WAIT_S = 0.05
_END_TIMEOUT_S = 5.0
_NEVER = "0001-01-01T00:00:00Z"
_ONE_SHOT_API = (1, 41)


class DockerEngine:
    """See `Engine`. Safe for several threads; each `logs` holds a connection of its own.

    Args:
        socket: path of the engine's Unix socket.

    Raises:
        EngineError: nothing answers there.
    """

    def __init__(self, socket: str):
        self._socket = socket
        with engine_errors(socket, "connect"):
            self._api = docker.APIClient(
                base_url=f"unix://{socket}", version="auto", timeout=_CONNECT_TIMEOUT_S
            )
        self._api.timeout = _CALL_TIMEOUT_S

    def version(self) -> Mapping[str, str]:
        with self._errors("read the version"):
            return {
                "version": str(self._api.version()["Version"]),
                "api_version": str(self._api.api_version),
            }

    def image_id(self, reference: str) -> str | None:
        with self._errors(f"look at image {reference}"):
            try:
                record = self._api.inspect_image(reference)  # type: ignore[no-untyped-call]
                return str(record["Id"])
            except docker.errors.ImageNotFound:
                return None

    def ensure_network(self, name: str, labels: Mapping[str, str]) -> None:
        with self._errors(f"create network {name}"):
            try:
                self._api.create_network(
                    name, driver="bridge", check_duplicate=True, labels=dict(labels)
                )
            except docker.errors.APIError as error:
                if not _says(error, 409, "already exists"):
                    raise

    def connect(self, network: str, container: str) -> None:
        with self._errors(f"attach {container} to network {network}"):
            try:
                self._api.connect_container_to_network(container, network)
            except docker.errors.APIError as error:
                if not _says(error, None, "already exists in network"):
                    raise

    def disconnect(self, network: str, container: str) -> None:
        with self._errors(f"detach {container} from network {network}"):
            try:
                self._api.disconnect_container_from_network(container, network)
            except docker.errors.NotFound:
                return
            except docker.errors.APIError as error:
                if not _says(error, None, "is not connected to"):
                    raise

    def remove_network(self, name: str) -> None:
        with self._errors(f"remove network {name}"), suppress(docker.errors.NotFound):
            self._api.remove_network(name)

    def start(self, spec: ContainerSpec, secrets: Mapping[str, str]) -> str:
        with self._errors(f"start container {spec.name}"):
            created = self._api.create_container_from_config(  # type: ignore[no-untyped-call]
                create_body(spec, secrets), name=spec.name
            )
            container = str(created["Id"])
            try:
                self._api.start(container)
            except BaseException:
                # The first error is the one that tells; what can't be removed keeps its labels.
                with suppress(EngineError):
                    self.remove(container)
                raise
            return container

    def inspect(self, container: str) -> Mapping[str, Any]:
        with self._errors(f"look at container {container}"):
            record: dict[str, Any] = self._api.inspect_container(container)
            return record

    def state(self, container: str) -> ContainerState:
        return _state(self.inspect(container))

    def cpu_seconds(self, container: str) -> float | None:
        one_shot = _numbers(str(self._api.api_version)) >= _ONE_SHOT_API
        with self._errors(f"read statistics of container {container}"):
            stats = self._api.stats(container, stream=False, one_shot=True if one_shot else None)
        # A container that has ended is answered with an empty record.
        if stats.get("read", _NEVER) == _NEVER:
            return None
        used_ns = stats.get("cpu_stats", {}).get("cpu_usage", {}).get("total_usage")
        return None if used_ns is None else used_ns / 1e9

    def wait(self, container: str, timeout_s: float) -> int | None:
        with self._errors(f"wait for container {container}"):
            try:
                answer = self._api.wait(
                    container,
                    timeout=max(timeout_s, _SHORTEST_WAIT_S),  # type: ignore[arg-type]
                )
                return int(answer["StatusCode"])
            except (requests.exceptions.ReadTimeout, requests.exceptions.ConnectionError) as error:
                if not is_timeout(error):
                    raise
        # It may have ended in the last moment, and a dead engine must not look like a long run.
        return self.state(container).exit_code

    def logs(self, container: str) -> Iterator[LogChunk]:
        delivered: Counter[str] = Counter()
        ended = not self.state(container).running
        for pass_number in count():
            seen: Counter[str] = Counter()
            try:
                for chunk in self._read_logs(container, follow=not ended):
                    new = chunk.data[max(delivered[chunk.stream] - seen[chunk.stream], 0) :]
                    seen[chunk.stream] += len(chunk.data)
                    if new:
                        delivered[chunk.stream] = seen[chunk.stream]
                        yield LogChunk(chunk.stream, new)
                # Following ends when the container does, often before the last records were
                # read (engine 20.10, half of the time): what is missing is read afterwards.
                if ended:
                    return
                ended = self.wait(container, _END_TIMEOUT_S) is not None
            except ContainerGone:
                if pass_number == 0 and not delivered:
                    raise
                return

    def stop(self, container: str, *, signal: str, grace_s: float) -> None:
        try:
            if not self._kill(container, signal):
                return
            if self.wait(container, grace_s) is not None:
                return
            if not self._kill(container, "SIGKILL"):
                return
            if self.wait(container, _KILL_TIMEOUT_S) is not None:
                return
        except ContainerGone:
            return
        raise EngineError(
            f"container {container} still runs {_KILL_TIMEOUT_S:g} s after SIGKILL; a process in "
            "it hangs in the kernel, often in a device driver",
            where=self._socket,
            next_step=f"docker top {container}, then dmesg on the host; a reboot may be needed",
        )

    def remove(self, container: str) -> None:
        with self._errors(f"remove container {container}"):
            try:
                self._api.remove_container(container, force=True, v=True)
            except docker.errors.NotFound:
                return
            except docker.errors.APIError as error:
                if not _says(error, 409, "already in progress"):
                    raise

    def list(
        self, labels: Mapping[str, str], *, all_states: bool = True
    ) -> tuple[ContainerState, ...]:
        filters = {"label": [f"{name}={value}" for name, value in labels.items()]}
        with self._errors("list containers"):
            found = self._api.containers(all=all_states, filters=filters)
        states = []
        for entry in found:
            # Removed between the two questions: then it is not there.
            with suppress(ContainerGone):
                states.append(self.state(str(entry["Id"])))
        return tuple(sorted(states, key=lambda state: state.name))

    def close(self) -> None:
        self._api.close()

    def _errors(self, doing: str) -> AbstractContextManager[None]:
        return engine_errors(self._socket, doing)

    def _read_logs(self, container: str, *, follow: bool) -> Iterator[LogChunk]:
        """All output from the first byte; silence never ends it."""
        url = f"{self._api.base_url}/v{self._api.api_version}/containers/{quote(container)}/logs"
        parameters = {"stdout": "1", "stderr": "1", "follow": str(int(follow)), "tail": "all"}
        demultiplexer = Demultiplexer()
        with self._errors(f"read the output of container {container}"):
            # The SDK's own call joins both streams.
            response = self._api.get(
                url, params=parameters, stream=True, timeout=(_CONNECT_TIMEOUT_S, None)
            )
            with closing(response):
                try:
                    response.raise_for_status()
                except requests.exceptions.HTTPError as error:
                    docker.errors.create_api_error_from_http_exception(error)
                for data in response.iter_content(chunk_size=None):
                    yield from demultiplexer.feed(data)
        if demultiplexer.torn:
            raise EngineError(
                f"the output of container {container} broke off inside a record",
                where=self._socket,
                next_step=f"docker -H unix://{self._socket} version; is the engine still running?",
            )

    def _kill(self, container: str, signal: str) -> bool:
        """False when it has ended already."""
        with self._errors(f"send {signal} to container {container}"):
            try:
                self._api.kill(container, signal=signal)
            except docker.errors.APIError as error:
                if not _says(error, None, "is not running"):
                    raise
                return False
            return True


def _says(error: docker.errors.APIError, status: int | None, words: str) -> bool:
    if status is not None and error.status_code != status:
        return False
    return words in str(error.explanation)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _state(record: Mapping[str, Any]) -> ContainerState:
    state = record["State"]
    ended = state["Status"] in {"exited", "dead", "removing"} and not state["Running"]
    return ContainerState(
        id=record["Id"],
        name=record["Name"].removeprefix("/"),
        status=state["Status"],
        running=state["Running"],
        exit_code=state["ExitCode"] if ended else None,
        oom_killed=state["OOMKilled"],
        started_at=state["StartedAt"],
        finished_at=state["FinishedAt"],
        error=state["Error"],
        labels=dict(record["Config"]["Labels"] or {}),
    )
