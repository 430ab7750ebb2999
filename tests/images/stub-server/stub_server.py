"""A server that looks like vLLM to the supervisor and to AIPerf, with faults on request.

    stub_server.py [serve] MODEL --host H --port P --served-model-name NAME
                   [--speculative-config JSON] [--per-request-spec-decode-metrics LEVEL] …

Other flags are ignored. Every drafted step accepts all its tokens, or STUB_ACCEPTED of them.

    STUB_FAIL_EVERY=2, STUB_FAIL_AFTER=N   after N requests, every second one gets HTTP 500
    STUB_EXIT_AFTER_S=S                    the process ends with code 3, S seconds after it is ready
    STUB_SLOW_READY_S=S                    the port opens S seconds late
    STUB_NEVER_READY=1                     the port never opens
    STUB_WRONG_NAME=1                      another server's name in /v1/models and in answers
    STUB_DIE_AT_START=1                    a traceback, then code 1
    STUB_TOKEN_DELAY_MS=MS                 pause before each step of an answer
    STUB_PRINT_ENV=1                       the environment on stdout
    STUB_GARBAGE_LOG=1                     split characters, carriage returns and bytes that are no
                                           UTF-8 on stdout
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WRONG_NAME = "somebody-elses-model"
VERSION = "0.32.0"


@dataclass(frozen=True)
class Faults:
    """What goes wrong, from the environment."""

    fail_every: int
    fail_after: int
    exit_after_s: float
    slow_ready_s: float
    token_delay_s: float
    accepted: int | None
    never_ready: bool
    wrong_name: bool
    die_at_start: bool
    print_env: bool
    garbage_log: bool

    @classmethod
    def from_environment(cls) -> Faults:
        def number(name: str) -> float:
            return float(os.environ.get(name) or 0)

        def switch(name: str) -> bool:
            return os.environ.get(name, "") not in ("", "0")

        accepted = os.environ.get("STUB_ACCEPTED")
        return cls(
            fail_every=int(number("STUB_FAIL_EVERY")),
            fail_after=int(number("STUB_FAIL_AFTER")),
            exit_after_s=number("STUB_EXIT_AFTER_S"),
            slow_ready_s=number("STUB_SLOW_READY_S"),
            token_delay_s=number("STUB_TOKEN_DELAY_MS") / 1000,
            accepted=int(accepted) if accepted else None,
            never_ready=switch("STUB_NEVER_READY"),
            wrong_name=switch("STUB_WRONG_NAME"),
            die_at_start=switch("STUB_DIE_AT_START"),
            print_env=switch("STUB_PRINT_ENV"),
            garbage_log=switch("STUB_GARBAGE_LOG"),
        )


@dataclass
class Counters:
    """What /metrics shows, counted over all requests."""

    prompt_tokens: int = 0
    generation_tokens: int = 0
    successes: int = 0
    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    per_position: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Answer:
    """One answer as steps: how many tokens each step delivers, and what was drafted."""

    prompt_tokens: int
    steps: tuple[int, ...]
    accepted: tuple[int, ...]
    drafted: int

    @property
    def tokens(self) -> int:
        return sum(self.steps)


class Stub:
    """State shared by all requests."""

    def __init__(self, options: argparse.Namespace, faults: Faults):
        self.options = options
        self.faults = faults
        self.name = WRONG_NAME if faults.wrong_name else options.served_model_name
        self.speculative: dict[str, Any] | None = None
        if options.speculative_config:
            self.speculative = json.loads(options.speculative_config)
        k = self.draft_tokens
        self.accepted_per_step = k if faults.accepted is None else min(faults.accepted, k)
        self.counters = Counters(per_position=[0] * k)
        self.lock = threading.Lock()
        self.requests = 0

    @property
    def draft_tokens(self) -> int:
        return int(self.speculative["num_speculative_tokens"]) if self.speculative else 0

    def fails_now(self) -> bool:
        """Count a request, and tell whether it is one that fails."""
        with self.lock:
            self.requests += 1
            past = self.requests - self.faults.fail_after
        return bool(self.faults.fail_every) and past > 0 and past % self.faults.fail_every == 0

    def answer(self, body: dict[str, Any]) -> Answer:
        """The first token comes from the prompt; each step then gives its accepted drafts + 1."""
        wanted = int(body.get("max_completion_tokens") or body.get("max_tokens") or 16)
        words = sum(len(str(message.get("content")).split()) for message in body["messages"])
        steps, accepted = [1], []
        while sum(steps) < wanted:
            steps.append(min(self.accepted_per_step + 1, wanted - sum(steps)))
            if self.speculative:
                accepted.append(self.accepted_per_step)
        return Answer(words + 1, tuple(steps), tuple(accepted), self.draft_tokens * len(accepted))

    def count(self, answer: Answer) -> None:
        """Add a finished answer to what /metrics shows."""
        with self.lock:
            counters = self.counters
            counters.prompt_tokens += answer.prompt_tokens
            counters.generation_tokens += answer.tokens
            counters.successes += 1
            counters.drafts += len(answer.accepted)
            counters.draft_tokens += answer.drafted
            counters.accepted_tokens += sum(answer.accepted)
            for accepted in answer.accepted:
                for position in range(accepted):
                    counters.per_position[position] += 1

    def usage(self, answer: Answer) -> dict[str, Any]:
        return {
            "prompt_tokens": answer.prompt_tokens,
            "completion_tokens": answer.tokens,
            "total_tokens": answer.prompt_tokens + answer.tokens,
            "prompt_tokens_details": {"cached_tokens": 0},
        }

    def request_metrics(self, answer: Answer) -> dict[str, Any] | None:
        """`metrics` of an answer; None when it would be absent in vLLM."""
        level = self.options.per_request_spec_decode_metrics
        if self.speculative is None or level == "none":
            return None
        steps, total, k = len(answer.accepted), sum(answer.accepted), self.draft_tokens
        histogram = [answer.accepted.count(number) for number in range(k + 1)]
        values: dict[str, Any] = {
            "mean_acceptance_length": 1 + total / steps if steps else 1.0,
            "draft_acceptance_rate": total / answer.drafted if answer.drafted else 0.0,
            "acceptance_histogram": histogram,
            "num_spec_steps": steps,
            "num_accepted_draft_tokens": total,
            "num_draft_tokens": answer.drafted,
            "num_spec_tokens": k,
        }
        if level == "detailed":
            values["per_step_accepted"] = list(answer.accepted)
            values["per_step_drafted"] = [k] * steps
        return {"speculative_decoding": values}

    def prometheus(self) -> str:
        """The text of /metrics."""
        labels = f'engine="0",model_name="{self.name}"'
        with self.lock:
            c = self.counters
            rows: list[tuple[str, str, float]] = [
                ("prompt_tokens", "", c.prompt_tokens),
                ("generation_tokens", "", c.generation_tokens),
                ("request_success", ',finished_reason="length"', c.successes),
                ("prefix_cache_queries", "", c.prompt_tokens),
                ("prefix_cache_hits", "", 0),
            ]
            if self.speculative:
                rows += [
                    ("spec_decode_num_drafts", "", c.drafts),
                    ("spec_decode_num_draft_tokens", "", c.draft_tokens),
                    ("spec_decode_num_accepted_tokens", "", c.accepted_tokens),
                ]
                rows += [
                    ("spec_decode_num_accepted_tokens_per_pos", f',position="{place}"', count)
                    for place, count in enumerate(c.per_position)
                ]
        lines: list[str] = []
        for name, more, value in rows:
            kind = f"# TYPE vllm:{name}_total counter"
            lines += [kind] if kind not in lines else []
            lines.append(f"vllm:{name}_total{{{labels}{more}}} {float(value)}")
        return "\n".join(lines) + "\n"

    def server_info(self) -> dict[str, Any]:
        """The part of the effective configuration that is compared with a plan."""
        speculative = None
        if self.speculative:
            speculative = {"enable_adaptive_verification": False, **self.speculative}
        return {
            "vllm_config": {
                "model_config": {
                    "model": self.options.model,
                    "served_model_name": self.name,
                    "max_model_len": self.options.max_model_len,
                },
                "cache_config": {"enable_prefix_caching": False, "kv_cache_size_tokens": 8192},
                "speculative_config": speculative,
            },
            "vllm_env": {},
            "system_env": {"vllm_version": f"{VERSION}+stub"},
        }


class Requests(BaseHTTPRequestHandler):
    """Routes of one connection; `stub` is set on the class by `main`."""

    protocol_version = "HTTP/1.1"
    stub: Stub

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        stub = self.stub
        if path in ("/health", "/ping"):
            self._send(200, b"", "text/plain")
        elif path == "/v1/models":
            card = {"id": stub.name, "object": "model", "created": 0, "owned_by": "stub"}
            card |= {"root": stub.options.model, "max_model_len": stub.options.max_model_len}
            self._json(200, {"object": "list", "data": [card]})
        elif path == "/version":
            self._json(200, {"version": VERSION})
        elif path == "/metrics":
            self._send(200, stub.prometheus().encode(), "text/plain; version=0.0.4; charset=utf-8")
        elif path == "/server_info":
            self._json(200, stub.server_info())
        else:
            self._json(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        if path == "/reset_prefix_cache":
            self._send(200, b"", "text/plain")
        elif path == "/v1/chat/completions":
            self._chat(json.loads(data))
        else:
            self._json(404, {"detail": "Not Found"})

    def _chat(self, body: dict[str, Any]) -> None:
        stub = self.stub
        if body.get("model") != stub.name and not stub.faults.wrong_name:
            message = f"The model `{body.get('model')}` does not exist."
            self._json(404, {"error": {"message": message, "type": "NotFoundError", "code": 404}})
            return
        if stub.fails_now():
            error = {"message": "stub fault", "type": "InternalServerError", "code": 500}
            self._json(500, {"error": error})
            return
        answer = stub.answer(body)
        # before the last byte, so that a scrape that follows an answer finds it counted
        stub.count(answer)
        if body.get("stream"):
            self._stream(body, answer)
        else:
            self._whole(answer)

    def _head(self, kind: str) -> dict[str, Any]:
        number = self.headers.get("X-Request-Id") or f"{time.monotonic_ns():x}"
        made = {"id": f"chatcmpl-{number}", "object": kind, "created": int(time.time())}
        return {**made, "model": self.stub.name}

    def _whole(self, answer: Answer) -> None:
        time.sleep(self.stub.faults.token_delay_s * len(answer.steps))
        message = {"role": "assistant", "content": " word" * answer.tokens}
        choice = {"index": 0, "message": message, "finish_reason": "length"}
        self._json(
            200,
            {
                **self._head("chat.completion"),
                "choices": [choice],
                "usage": self.stub.usage(answer),
                "metrics": self.stub.request_metrics(answer),
            },
        )

    def _stream(self, body: dict[str, Any], answer: Answer) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        head = self._head("chat.completion.chunk")
        self._event({**head, "choices": [_delta({"role": "assistant", "content": ""})]})
        for number, tokens in enumerate(answer.steps):
            time.sleep(self.stub.faults.token_delay_s)
            last = number == len(answer.steps) - 1
            delta = _delta({"content": " word" * tokens}, "length" if last else None)
            self._event({**head, "choices": [delta]})
        if (body.get("stream_options") or {}).get("include_usage"):
            final = {**head, "choices": [], "usage": self.stub.usage(answer)}
            metrics = self.stub.request_metrics(answer)
            self._event({**final, "metrics": metrics} if metrics else final)
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _event(self, value: dict[str, Any]) -> None:
        self._chunk(b"data: " + json.dumps(value).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _json(self, status: int, value: object) -> None:
        self._send(status, json.dumps(value).encode(), "application/json")

    def _send(self, status: int, data: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _delta(delta: dict[str, str], finish_reason: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": finish_reason}


def write_garbage() -> None:
    """A character split over two writes, a progress bar, and bytes that are no UTF-8."""
    for data in (b"caf\xc3", b"\xa9 and \xe2\x82", b"\xac\n", b"load 10 %\r", b"load 100 %\r\n"):
        os.write(1, data)
        time.sleep(0.05)
    os.write(1, b"not text: \xff\xfe\n")


def parse(argv: list[str]) -> argparse.Namespace:
    """Options that matter here; the rest is ignored."""
    parser = argparse.ArgumentParser(prog="vllm serve", allow_abbrev=False)
    parser.add_argument("model")
    parser.add_argument("--host", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--served-model-name")
    parser.add_argument("--speculative-config")
    parser.add_argument("--per-request-spec-decode-metrics", default="none")
    parser.add_argument("--max-model-len", type=int, default=4096)
    options, _ignored = parser.parse_known_args(argv[1:] if argv[:1] == ["serve"] else argv)
    options.served_model_name = options.served_model_name or options.model
    return options


def main(argv: list[str]) -> int:
    """Serve until a signal comes; 1 or 3 where a fault asks for it."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    options, faults = parse(argv), Faults.from_environment()
    print(f"stub server {VERSION}: {' '.join(argv)}", flush=True)
    if faults.print_env:
        for name, value in sorted(os.environ.items()):
            print(f"{name}={value}", flush=True)
    if faults.garbage_log:
        write_garbage()
    if faults.die_at_start:
        raise RuntimeError("stub fault: died at start")
    if faults.never_ready:
        print("loading for ever", flush=True)
        threading.Event().wait()
    time.sleep(faults.slow_ready_s)
    Requests.stub = Stub(options, faults)
    server = ThreadingHTTPServer((options.host, options.port), Requests)
    server.daemon_threads = True
    print(f"ready on {options.host}:{options.port}", flush=True)
    if faults.exit_after_s:
        threading.Timer(faults.exit_after_s, os._exit, [3]).start()
    server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
