"""An engine that misbehaves: what no healthy one can show. HTTP over a Unix socket, scripted."""

from __future__ import annotations

import json
import socketserver
import tempfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from runner.engine.docker import DockerEngine
from runner.errors import ContainerGone, EngineError
from runner.models.container import ContainerSpec

Answer = Callable[["Script"], None]
CONTAINER = "c" * 64


class Script(BaseHTTPRequestHandler):
    """Answers `METHOD path` from the server's table; each entry is used once, the last stays."""

    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        path = self.path.partition("?")[0].removeprefix("/v1.41")
        answers = self.server.table[f"{self.command} {path}"]  # type: ignore[attr-defined]
        self.server.asked.append(f"{self.command} {path}")  # type: ignore[attr-defined]
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        (answers.pop(0) if len(answers) > 1 else answers[0])(self)

    do_GET = do_POST = do_DELETE = answer  # noqa: N815

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *_: Any) -> None:
        """Quiet."""


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def __init__(self, path: str):
        super().__init__(path, Script)
        self.asked: list[str] = []
        self.table: dict[str, list[Answer]] = {
            "GET /version": [says(200, {"Version": "1", "ApiVersion": "1.41"})]
        }


def says(status: int, body: Any) -> Answer:
    def answer(script: Script) -> None:
        data = json.dumps(body).encode()
        script.send_response(status)
        script.send_header("Content-Type", "application/json")
        script.send_header("Content-Length", str(len(data)))
        script.end_headers()
        script.wfile.write(data)

    return answer


def streams(*chunks: bytes, whole: bool = True) -> Answer:
    def answer(script: Script) -> None:
        script.send_response(200)
        script.send_header("Transfer-Encoding", "chunked")
        script.end_headers()
        for chunk in chunks:
            script.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
        if whole:
            script.wfile.write(b"0\r\n\r\n")
        script.close_connection = True

    return answer


def frame(data: bytes) -> bytes:
    return b"\x01\x00\x00\x00" + len(data).to_bytes(4, "big") + data


def record(*, running: bool) -> dict[str, Any]:
    state = {"Status": "running" if running else "exited", "Running": running, "ExitCode": 0}
    state |= {"OOMKilled": False, "StartedAt": "", "FinishedAt": "", "Error": ""}
    return {"Id": CONTAINER, "Name": "/x", "State": state, "Config": {"Labels": None}}


@pytest.fixture
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="rt-") as folder:
        server = Server(str(Path(folder) / "s"))
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def engine(server: Server) -> Iterator[DockerEngine]:
    opened = DockerEngine(str(server.server_address))
    yield opened
    opened.close()


def test_output_that_follows_too_short_is_completed_without_repeats(
    server: Server, engine: DockerEngine
) -> None:
    server.table |= {
        f"GET /containers/{CONTAINER}/json": [says(200, record(running=True))],
        f"GET /containers/{CONTAINER}/logs": [
            streams(frame(b"one\n"), frame(b"two\n")),
            streams(frame(b"one\n"), frame(b"two\n"), frame(b"three")),
        ],
        f"POST /containers/{CONTAINER}/wait": [says(200, {"StatusCode": 0})],
    }
    assert [c.data for c in engine.logs(CONTAINER)] == [b"one\n", b"two\n", b"three"]
    assert server.asked.count(f"GET /containers/{CONTAINER}/logs") == 2


def test_output_of_a_container_that_is_removed_meanwhile_just_ends(
    server: Server, engine: DockerEngine
) -> None:
    gone = says(404, {"message": f"No such container: {CONTAINER}"})
    server.table |= {
        f"GET /containers/{CONTAINER}/json": [says(200, record(running=True))],
        f"GET /containers/{CONTAINER}/logs": [streams(frame(b"one\n")), gone],
        f"POST /containers/{CONTAINER}/wait": [gone],
    }
    assert [c.data for c in engine.logs(CONTAINER)] == [b"one\n"]
    server.table[f"GET /containers/{CONTAINER}/json"] = [gone]
    with pytest.raises(ContainerGone):
        next(engine.logs(CONTAINER))


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (streams(frame(b"one\n"), whole=False), "can't talk to the container engine"),
        (streams(frame(b"one\n"), frame(b"two\n")[:-1]), "broke off inside a record"),
    ],
)
def test_output_that_breaks_off_is_never_taken_for_the_end(
    server: Server, engine: DockerEngine, answer: Answer, what: str
) -> None:
    server.table |= {
        f"GET /containers/{CONTAINER}/json": [says(200, record(running=False))],
        f"GET /containers/{CONTAINER}/logs": [answer],
    }
    found = []
    with pytest.raises(EngineError, match=what):
        for chunk in engine.logs(CONTAINER):
            found.append(chunk.data)
    assert found == [b"one\n"]


def test_a_failed_start_removes_what_was_created_and_tells_the_first_error(
    server: Server, engine: DockerEngine
) -> None:
    no_driver = 'could not select device driver "nvidia" with capabilities: [[gpu]]'
    server.table |= {
        "POST /containers/create": [says(201, {"Id": CONTAINER})],
        f"POST /containers/{CONTAINER}/start": [says(500, {"message": no_driver})],
        f"DELETE /containers/{CONTAINER}": [says(500, {"message": "device or resource busy"})],
    }
    with pytest.raises(EngineError, match='no device driver "nvidia"'):
        engine.start(ContainerSpec(name="xx", image="i:1"), {})
    assert server.asked[-1] == f"DELETE /containers/{CONTAINER}"


def test_a_wait_on_a_silent_engine_does_not_look_like_a_long_run(
    server: Server, engine: DockerEngine
) -> None:
    release = threading.Event()
    server.table |= {
        f"POST /containers/{CONTAINER}/wait": [lambda _: bool(release.wait(30)) and None],
        f"GET /containers/{CONTAINER}/json": [
            says(200, record(running=True)),
            says(500, {"message": "engine is shutting down"}),
        ],
    }
    try:
        assert engine.wait(CONTAINER, 0.1) is None
        with pytest.raises(EngineError, match="engine is shutting down"):
            engine.wait(CONTAINER, 0.1)
    finally:
        release.set()


def test_what_is_no_engine_is_said_so(server: Server) -> None:
    server.table["GET /version"] = [says(200, {"hello": "world"})]
    with pytest.raises(EngineError, match="ApiVersion"):
        DockerEngine(str(server.server_address))
