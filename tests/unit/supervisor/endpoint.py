"""A server's address on loopback: the stub server in this process, up while its container runs."""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from runner.engine.base import LogChunk
from runner.models.container import ContainerSpec
from runner.models.host import Role
from runner.models.plan import LABEL_ROLE, LABEL_SERVER
from tests.fixtures.fake_engine import FakeEngine, Program

_SPEC = importlib.util.spec_from_file_location(
    "stub_server", Path(__file__).parents[2] / "images" / "stub-server" / "stub_server.py"
)
assert _SPEC is not None and _SPEC.loader is not None
stub_server = importlib.util.module_from_spec(_SPEC)
sys.modules["stub_server"] = stub_server
_SPEC.loader.exec_module(stub_server)


class Endpoint:
    """One server's address. It answers while a container of that server runs, as vLLM would."""

    def __init__(self, engine: FakeEngine, server_id: str):
        self.engine, self.server_id = engine, server_id
        self.stub: Any = None
        self.boots = self.resets = 0
        self.chats: list[dict[str, Any]] = []
        self.scripted: dict[str, tuple[int, bytes]] = {}
        self.before_chat: Callable[[], None] = lambda: None
        self.wrong_name = False
        handler = type("Handler", (_Handler,), {"endpoint": self})
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.http.daemon_threads = True
        self.port = self.http.server_address[1]
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def up(self) -> bool:
        labels = {LABEL_SERVER: self.server_id, LABEL_ROLE: Role.SERVER.value}
        return bool(self.engine.list(labels, all_states=False))

    def boot(self, spec: ContainerSpec, secrets: Mapping[str, str]) -> None:
        """A container starts: counters begin at zero."""
        faults = replace(stub_server.Faults.from_environment(), wrong_name=self.wrong_name)
        self.stub = stub_server.Stub(stub_server.parse(list(spec.command)), faults)
        self.boots += 1

    def program(self, **changes: Any) -> Program:
        ready = (LogChunk("stdout", b"loading\n"), LogChunk("stderr", b"ready\n"))
        values = {"output": ready, "until_stopped": True, "on_start": self.boot}
        return Program(**{**values, "exit_codes": {"SIGTERM": 0}, **changes})

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()


class _Handler(stub_server.Requests):
    endpoint: Endpoint
    disable_nagle_algorithm = True

    @property
    def stub(self) -> Any:
        return self.endpoint.stub

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""

    def do_GET(self) -> None:
        self._answer(super().do_GET)

    def do_POST(self) -> None:
        endpoint, path = self.endpoint, self.path.partition("?")[0]
        if path == "/v1/chat/completions" and endpoint.up:
            endpoint.before_chat()
        endpoint.resets += path == "/reset_prefix_cache"
        self._answer(super().do_POST)

    def _chat(self, body: dict[str, Any]) -> None:
        self.endpoint.chats.append(body)
        super()._chat(body)

    def _answer(self, usual: Callable[[], None]) -> None:
        scripted = self.endpoint.scripted.get(self.path.partition("?")[0])
        if not self.endpoint.up:
            self.close_connection = True
        elif scripted is not None:
            self.close_connection = True
            self._send(*scripted, "application/json")
        else:
            usual()
