"""The stub server speaks like vLLM, and fails when it is asked to."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

STUB = Path(__file__).parents[2] / "images" / "stub-server" / "stub_server.py"
DRAFTING = (
    *("--speculative-config", '{"method":"draft_model","model":"/m","num_speculative_tokens":3}'),
    *("--per-request-spec-decode-metrics", "detailed"),
)

Start = Callable[..., "Server"]


class Server:
    """One process of the stub; requests wait until it answers."""

    def __init__(self, process: subprocess.Popen[bytes], port: int):
        self.process, self.port = process, port

    def request(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        data = None if body is None else json.dumps(body).encode()
        for _ in range(200):
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
            try:
                connection.request(method, path, data)
                response = connection.getresponse()
                return response.status, response.read()
            except ConnectionRefusedError:
                assert self.process.poll() is None, "the stub ended"
                time.sleep(0.05)
            finally:
                connection.close()
        pytest.fail("the stub does not answer")

    def get(self, path: str) -> Any:
        return json.loads(self.request("GET", path)[1])

    def chat(self, tokens: int = 10, **more: object) -> tuple[int, bytes]:
        message = {"role": "user", "content": "two words"}
        body = {"model": "named", "messages": [message], "max_completion_tokens": tokens, **more}
        return self.request("POST", "/v1/chat/completions", body)

    def counter(self, name: str, **labels: str) -> float | None:
        text = self.request("GET", "/metrics")[1].decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == f"vllm:{name}_total" and labels.items() <= sample.labels.items():
                    assert family.type == "counter"
                    return float(sample.value)
        return None


@pytest.fixture
def start() -> Iterator[Start]:
    running: list[subprocess.Popen[bytes]] = []

    def begin(*arguments: str, **environment: str) -> Server:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        argv = [sys.executable, str(STUB), "serve", "/m", "--host", "127.0.0.1"]
        argv += ["--port", str(port), "--served-model-name", "named", "--enforce-eager"]
        process = subprocess.Popen(
            [*argv, "--dtype", "float32", *arguments],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        running.append(process)
        return Server(process, port)

    yield begin
    for process in running:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_it_tells_what_vllm_tells(start: Start) -> None:
    server = start()
    assert server.request("GET", "/health") == (200, b"")
    assert [model["id"] for model in server.get("/v1/models")["data"]] == ["named"]
    assert server.get("/version") == {"version": "0.32.0"}
    assert (
        server.get("/server_info?config_format=json")["vllm_config"]["speculative_config"] is None
    )
    assert server.request("POST", "/reset_prefix_cache") == (200, b"")
    assert server.request("GET", "/v1/none")[0] == 404


def test_without_speculation_there_are_no_speculative_numbers(start: Start) -> None:
    server = start()
    answer = json.loads(server.chat()[1])
    assert answer["usage"]["completion_tokens"] == 10
    assert answer["metrics"] is None
    assert server.counter("spec_decode_num_drafts") is None
    assert server.counter("generation_tokens") == 10
    assert server.counter("request_success", finished_reason="length") == 1


def test_drafts_are_all_accepted_and_counted_alike_in_answers_and_counters(start: Start) -> None:
    server = start(*DRAFTING)
    _, stream = server.chat(stream=True, stream_options={"include_usage": True})
    events = [line[6:] for line in stream.decode().splitlines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    words = [it["delta"].get("content", "") for chunk in chunks for it in chunk["choices"]]
    assert [word.count("word") for word in words] == [0, 1, 4, 4, 1]
    assert (chunks[-1]["choices"], chunks[-1]["usage"]["completion_tokens"]) == ([], 10)
    assert chunks[-1]["metrics"]["speculative_decoding"] == {
        "mean_acceptance_length": 4.0,
        "draft_acceptance_rate": 1.0,
        "acceptance_histogram": [0, 0, 0, 3],
        "num_spec_steps": 3,
        "num_accepted_draft_tokens": 9,
        "num_draft_tokens": 9,
        "num_spec_tokens": 3,
        "per_step_accepted": [3, 3, 3],
        "per_step_drafted": [3, 3, 3],
    }
    assert server.counter("spec_decode_num_drafts") == 3
    assert server.counter("spec_decode_num_accepted_tokens_per_pos", position="2") == 3
    speculative = server.get("/server_info")["vllm_config"]["speculative_config"]
    assert (speculative["method"], speculative["enable_adaptive_verification"]) == (
        "draft_model",
        False,
    )


def test_fewer_may_be_accepted(start: Start) -> None:
    server = start(*DRAFTING, STUB_ACCEPTED="1")
    numbers = json.loads(server.chat(tokens=5)[1])["metrics"]["speculative_decoding"]
    assert (numbers["mean_acceptance_length"], numbers["num_draft_tokens"]) == (2.0, 6)


def test_every_second_request_fails_after_the_first_ones(start: Start) -> None:
    server = start(STUB_FAIL_EVERY="2", STUB_FAIL_AFTER="2")
    assert [server.chat(tokens=1)[0] for _ in range(6)] == [200, 200, 200, 500, 200, 500]
    assert server.counter("request_success", finished_reason="length") == 4


def test_the_wrong_name_is_served(start: Start) -> None:
    server = start(STUB_WRONG_NAME="1")
    assert [model["id"] for model in server.get("/v1/models")["data"]] == ["somebody-elses-model"]
    assert server.chat()[0] == 200


def test_another_model_is_not_known(start: Start) -> None:
    assert start().chat(model="other")[0] == 404


def test_it_dies_at_start_and_later(start: Start) -> None:
    early = start(STUB_DIE_AT_START="1")
    assert early.process.wait(20) == 1
    assert early.process.stdout is not None
    assert b"RuntimeError: stub fault: died at start" in early.process.stdout.read()
    assert start(STUB_EXIT_AFTER_S="0.2").process.wait(20) == 3


def test_a_signal_ends_it_well(start: Start) -> None:
    server = start()
    server.request("GET", "/health")
    server.process.terminate()
    assert server.process.wait(20) == 0


def test_the_port_may_stay_closed_for_ever(start: Start) -> None:
    server = start(STUB_NEVER_READY="1")
    assert server.process.stdout is not None
    while server.process.stdout.readline() != b"loading for ever\n":
        assert server.process.poll() is None
    with (
        pytest.raises(ConnectionRefusedError),
        socket.create_connection(("127.0.0.1", server.port)),
    ):
        pass


def test_its_log_may_hold_secrets_and_garbage(start: Start) -> None:
    server = start(STUB_PRINT_ENV="1", STUB_GARBAGE_LOG="1", STUB_SECRET="hf_planted")
    server.request("GET", "/health")
    server.process.terminate()
    output = server.process.communicate()[0]
    assert b"\nSTUB_SECRET=hf_planted\n" in output
    assert "caf\u00e9 and \u20ac\nload 10 %\rload 100 %\r\n".encode() in output
    assert b"not text: \xff\xfe\n" in output
