"""The supervisor's own requests: what is read, and how every failure is told."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from runner.supervisor.http import ServerClient, ServerUnreachable


class Answers:
    """Path -> (status, body, content type); `asked` holds method, path and body."""

    def __init__(self) -> None:
        self.scripted: dict[str, tuple[int, bytes, str]] = {}
        self.asked: list[tuple[str, str, Any]] = []

    def say(
        self, path: str, body: bytes, *, status: int = 200, kind: str = "application/json"
    ) -> None:
        self.scripted[path] = (status, body, kind)


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def client(answers: Answers) -> Iterator[ServerClient]:
    class Handler(BaseHTTPRequestHandler):
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self.answer()

        def do_POST(self) -> None:
            self.answer()

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            data = self.rfile.read(length)
            answers.asked.append((self.command, self.path, json.loads(data) if data else None))
            status, body, kind = answers.scripted.get(self.path, (404, b"{}", "application/json"))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield ServerClient(f"http://127.0.0.1:{server.server_address[1]}")
    server.shutdown()
    server.server_close()


@pytest.fixture
def nobody() -> ServerClient:
    """An address where nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return ServerClient(f"http://127.0.0.1:{probe.getsockname()[1]}")


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False), (404, False)])
def test_health(client: ServerClient, answers: Answers, status: int, healthy: bool) -> None:
    answers.say("/health", b"", status=status)
    assert client.healthy() is healthy


def test_nobody_is_not_healthy(nobody: ServerClient) -> None:
    assert nobody.healthy() is False


def test_an_alias_that_is_too_long_to_be_a_host_name_is_not_healthy() -> None:
    client = ServerClient(f"http://server-{'x' * 63}:8000")
    assert client.healthy() is False
    with pytest.raises(ServerUnreachable, match="/metrics did not answer"):
        client.metrics()


def test_a_json_object(client: ServerClient, answers: Answers) -> None:
    answers.say("/v1/models", b'{"data": [{"id": "tiny"}]}')
    assert client.get_json("/v1/models") == {"data": [{"id": "tiny"}]}


def test_404_is_none(client: ServerClient) -> None:
    assert client.get_json("/server_info") is None


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (500, b"boom", "/x answered 500: boom"),
        (200, b"<html>", "/x is not JSON"),
        (200, b"\xff\xfe\x80", "/x is not JSON"),
        (200, b"[1]", "/x is not a JSON object"),
    ],
)
def test_an_answer_that_is_not_as_expected(
    client: ServerClient, answers: Answers, status: int, body: bytes, message: str
) -> None:
    answers.say("/x", body, status=status)
    with pytest.raises(ServerUnreachable) as caught:
        client.get_json("/x")
    assert caught.value.what == message
    assert caught.value.where == client.base_url


def test_a_long_answer_is_cut(client: ServerClient, answers: Answers) -> None:
    answers.say("/x", b"y" * 10_000, status=502)
    with pytest.raises(ServerUnreachable) as caught:
        client.get_json("/x")
    assert caught.value.what == f"/x answered 502: {'y' * 300}"


def test_no_answer(nobody: ServerClient) -> None:
    with pytest.raises(ServerUnreachable, match="/metrics did not answer: ConnectionError"):
        nobody.metrics()


def test_metrics_are_utf8_whatever_the_header_says(client: ServerClient, answers: Answers) -> None:
    text = 'vllm:prompt_tokens_total{model_name="caf\u00e9"} 1.0\n'
    answers.say("/metrics", text.encode(), kind="text/plain; version=0.0.4")
    assert client.metrics() == text


def test_metrics_with_another_status(client: ServerClient) -> None:
    with pytest.raises(ServerUnreachable, match="/metrics answered 404"):
        client.metrics()


def test_chat_posts_the_body_and_returns_the_answer(client: ServerClient, answers: Answers) -> None:
    answers.say("/v1/chat/completions", b'{"usage": {"completion_tokens": 3}}')
    body = {"model": "tiny", "messages": []}
    assert client.chat(body, timeout_s=5) == {"usage": {"completion_tokens": 3}}
    assert answers.asked == [("POST", "/v1/chat/completions", body)]


def test_chat_tells_the_servers_own_words(client: ServerClient, answers: Answers) -> None:
    answers.say("/v1/chat/completions", b'{"error": "EngineDeadError"}', status=500)
    with pytest.raises(ServerUnreachable, match=r"answered 500: .*EngineDeadError"):
        client.chat({}, timeout_s=5)


def test_the_prefix_cache_is_reset_where_the_server_can(
    client: ServerClient, answers: Answers
) -> None:
    assert client.reset_prefix_cache() is False
    answers.say("/reset_prefix_cache", b"")
    assert client.reset_prefix_cache() is True
    assert answers.asked[-1] == ("POST", "/reset_prefix_cache", None)


def test_a_proxy_of_the_host_is_not_used(
    client: ServerClient, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    answers.say("/health", b"")
    assert client.healthy() is True
