"""One attempt of a server: start, wait until it is ready, prove it, end it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from runner.errors import ContainerGone, EngineError
from runner.journal.writer import utc_now
from runner.models.event import EventKind
from runner.models.layout import ServerLayout
from runner.models.plan import ServerPlan, for_attempt
from runner.models.result import Check, ServerResult, Verdict
from runner.models.status import Phase, Reason, Status
from runner.supervisor import effective
from runner.supervisor.causes import explain, refusal
from runner.supervisor.conclude import conclude_server
from runner.supervisor.context import RunContext
from runner.supervisor.http import ServerClient, ServerUnreachable
from runner.supervisor.interrupt import StopRequested
from runner.supervisor.logs import LogPump

READY_AFTER_S = "ready_after_s"
"""In the data of the event that says a server is ready."""

_POLL_S = 0.25
_CPU_EVERY_S = 5.0
_DEATH_NOTICE_S = 2.0
"""How long the engine may take to see the end of a process whose connections have broken."""


class ServerFailed(Exception):
    """A server attempt ended without becoming ready."""

    def __init__(self, reason: Reason, message: str):
        super().__init__(message)
        self.reason = reason
        self.message = message


@dataclass
class RunningServer:
    """A server attempt that has a container."""

    context: RunContext
    plan: ServerPlan
    attempt: int
    layout: ServerLayout
    container: str
    pump: LogPump
    client: ServerClient
    started_at: str
    ready_after_s: float | None = None
    checks: list[Check] = field(default_factory=list)

    def alive(self) -> bool:
        """True while the container runs."""
        try:
            return self.context.engine.state(self.container).running
        except ContainerGone:
            return False

    def gone(self) -> bool:
        """For a server that does not answer: True when its container has ended, or is ending."""
        try:
            return self.context.engine.wait(self.container, _DEATH_NOTICE_S) is not None
        except ContainerGone:
            return True

    def ended_by_itself(self) -> bool:
        """True when the process chose its end: no signal, not for want of memory."""
        try:
            state = self.context.engine.state(self.container)
        except ContainerGone:
            return False
        return not state.oom_killed and state.exit_code is not None and 0 < state.exit_code < 128

    def ending(self) -> str:
        """How the container ended, in words."""
        try:
            state = self.context.engine.state(self.container)
        except ContainerGone:
            return "was removed by somebody else"
        killed = ", killed by the kernel for memory" if state.oom_killed else ""
        return f"ended with exit code {state.exit_code}{killed}"

    def end(self, status: Status, reason: Reason, message: str) -> None:
        """Tear down, keep inspect output and log, write the verdict."""
        context, spec = self.context, self.plan.container
        exit_code = None
        try:
            context.engine.stop(self.container, signal=spec.stop_signal, grace_s=spec.stop_grace_s)
            exit_code = context.engine.state(self.container).exit_code
        except EngineError as error:
            context.log.say(f"server {self.plan.id}: could not be stopped: {error.what}")
        self.pump.finish()
        context.save_inspect(self.container, self.layout.inspect)
        context.discard(self.container, signal=spec.stop_signal, grace_s=spec.stop_grace_s)
        result = ServerResult(
            server=self.plan.id,
            attempt=self.attempt,
            status=status,
            reason=reason,
            message=message,
            started_at=self.started_at,
            ended_at=utc_now(),
            ready_after_s=self.ready_after_s,
            exit_code=exit_code,
            checks=tuple(self.checks),
        )
        conclude_server(context, result)
        context.log.say(f"server {self.plan.id} ended: {status} ({reason}) {message}")


def start_server(context: RunContext, plan: ServerPlan, attempt: int) -> RunningServer:
    """Start a server and return it ready and proven.

    Raises:
        ServerFailed: it did not become ready; log, inspect output and verdict are on disk.
        StopRequested: the run shall end; the server is gone.
    """
    layout = context.layout.server(plan.id, attempt)
    spec = for_attempt(plan.container, attempt)
    context.journal.append(EventKind.SERVER_STARTED, server=plan.id, attempt=attempt)
    context.log.say(f"server {plan.id}: starting (attempt {attempt})")
    context.write_json(layout.spec, spec)
    started_at = utc_now()
    try:
        container = context.engine.start(spec, context.secrets_of(spec))
    except EngineError as error:
        context.log.say(f"server {plan.id}: could not be started: {error}")
        _end_unstarted(context, plan, attempt, started_at, error.what)
        raise ServerFailed(Reason.SERVER_START_FAILED, error.what) from error
    _phase(context, plan, attempt, Phase.SERVE)
    server = RunningServer(
        context,
        plan,
        attempt,
        layout,
        container,
        context.capture(container, layout.log),
        ServerClient(_base_url(context, container, plan)),
        started_at,
    )
    try:
        _make_ready(server)
    except ServerFailed as failure:
        unavailable = failure.reason is Reason.SERVER_REFUSED
        status = Status.UNAVAILABLE if unavailable else Status.FAILED
        server.end(status, failure.reason, failure.message)
        raise
    except StopRequested:
        server.end(Status.STOPPED, Reason.STOPPED_BY_USER, "stopped while starting")
        raise
    return server


def adopt_server(
    context: RunContext,
    plan: ServerPlan,
    attempt: int,
    container: str,
    started_at: str,
    ready_after_s: float | None,
) -> RunningServer:
    """Take over a ready server that an earlier life of the supervisor started."""
    layout = context.layout.server(plan.id, attempt)
    context.log.say(f"server {plan.id}: adopted, still running")
    return RunningServer(
        context,
        plan,
        attempt,
        layout,
        container,
        context.capture(container, layout.log, replayed=True),
        ServerClient(_base_url(context, container, plan)),
        started_at,
        ready_after_s,
        _recorded_checks(layout, plan),
    )


def _make_ready(server: RunningServer) -> None:
    context, plan = server.context, server.plan
    began = time.monotonic()
    _wait_healthy(server)
    try:
        _prove(server)
    except ServerUnreachable as error:
        if server.gone():
            raise _start_failed(server) from error
        raise ServerFailed(Reason.SERVER_NOT_READY, error.what) from error
    refused = [check for check in server.checks if check.verdict is Verdict.REFUSE]
    if refused:
        raise _refused_by_check(plan, refused[0])
    server.ready_after_s = round(time.monotonic() - began, 3)
    context.journal.append(
        EventKind.SERVER_PHASE,
        server=plan.id,
        attempt=server.attempt,
        phase=Phase.READY,
        data={READY_AFTER_S: server.ready_after_s},
    )
    context.log.say(f"server {plan.id}: ready after {server.ready_after_s:.1f} s")


def _wait_healthy(server: RunningServer) -> None:
    """Wait while there is progress (log or CPU), up to the hard limit."""
    context, limits = server.context, server.plan.readiness
    began = progressed = time.monotonic()
    seen, cpu_at, cpu_used = 0, began, 0.0
    while not server.client.healthy():
        context.stop.sleep(_POLL_S)
        if not server.alive():
            raise _start_failed(server)
        now = time.monotonic()
        if server.pump.size_bytes > seen:
            seen, progressed = server.pump.size_bytes, now
        if now - cpu_at >= _CPU_EVERY_S:
            used = context.engine.cpu_seconds(server.container) or 0.0
            if used - cpu_used > 0.1 * (now - cpu_at):
                progressed = now
            cpu_at, cpu_used = now, used
        last = server.pump.tail_lines(1)
        where = f"; last line: {last[0][:200]}" if last else ""
        if now - progressed > limits.quiet_s:
            raise ServerFailed(
                Reason.SERVER_NOT_READY,
                f"no log line and no CPU use for {limits.quiet_s:.0f} s{where}",
            )
        if now - began > limits.hard_s:
            raise ServerFailed(
                Reason.SERVER_NOT_READY, f"not ready within {limits.hard_s:.0f} s{where}"
            )


def _start_failed(server: RunningServer) -> ServerFailed:
    """Why a server ended before it was ready. An optional one that ended by itself, neither killed
    nor out of memory, has refused what it was asked for, in its own words."""
    server.pump.finish()
    words = refusal(server.pump.tail_text)
    if server.plan.optional and words is not None and server.ended_by_itself():
        return ServerFailed(Reason.SERVER_REFUSED, words)
    message = f"it {server.ending()}; {explain(server.pump.tail_text)}"
    return ServerFailed(Reason.SERVER_START_FAILED, message)


def _refused_by_check(plan: ServerPlan, check: Check) -> ServerFailed:
    """A server that came up as something else than was asked for."""
    if plan.optional and check.name == effective.SPECULATION:
        return ServerFailed(
            Reason.SERVER_REFUSED, f"the server started without it: {check.message}"
        )
    return ServerFailed(check.reason or Reason.CONFIGURATION_DIFFERS, check.message)


def _prove(server: RunningServer) -> None:
    """Identity, effective configuration, one real request, counters."""
    context, plan, client, layout = server.context, server.plan, server.client, server.layout
    models = client.get_json("/v1/models")
    context.write_json(layout.models, models or {})
    server.checks.append(effective.check_served_name(models, plan))
    if server.checks[-1].verdict is Verdict.REFUSE:
        return
    info = client.get_json("/server_info?config_format=json", timeout_s=120)
    if info is not None:
        context.write_json(layout.server_info, info)
    server.checks += _configuration_checks(server.layout, info, plan)
    body = proof_body(plan)
    answer = client.chat(body, timeout_s=300)
    context.write_json(layout.proof, {"request": body, "response": dict(answer)})
    server.checks += effective.check_proof(answer, plan)
    metrics = client.metrics()
    context.write(layout.metrics_ready, metrics)
    server.checks.append(effective.check_counters(metrics, plan))


def _configuration_checks(
    layout: ServerLayout, info: Mapping[str, Any] | None, plan: ServerPlan
) -> list[Check]:
    """What the server says of itself, and what its log said on the way up."""
    with Path(layout.log).open(encoding="utf-8", errors="replace") as lines:
        return [
            effective.check_speculation(info, plan),
            effective.check_synthetic(info),
            effective.check_expected(info, plan),
            effective.check_fallback(lines, plan),
        ]


def _recorded_checks(layout: ServerLayout, plan: ServerPlan) -> list[Check]:
    """The checks of `_prove`, from what it kept."""
    info = _read_json(layout.server_info)
    answer = (_read_json(layout.proof) or {}).get("response") or {}
    metrics = Path(layout.metrics_ready).read_text(encoding="utf-8")
    return [
        effective.check_served_name(_read_json(layout.models), plan),
        *_configuration_checks(layout, info, plan),
        *effective.check_proof(answer, plan),
        effective.check_counters(metrics, plan),
    ]


def _read_json(path: PurePosixPath) -> dict[str, Any] | None:
    file = Path(path)
    value: dict[str, Any] | None = json.loads(file.read_bytes()) if file.exists() else None
    return value


def proof_body(plan: ServerPlan) -> dict[str, Any]:
    """A chat request with the warm-up prompt, which is in no measured set."""
    return {
        "model": plan.served_name,
        "messages": [{"role": "user", "content": plan.warmup.prompt}],
        "max_completion_tokens": plan.warmup.output_tokens,
        "temperature": 0,
    }


def _base_url(context: RunContext, container: str, plan: ServerPlan) -> str:
    """The container's own address, so that an answer can only come from this container."""
    networks = context.engine.inspect(container).get("NetworkSettings", {}).get("Networks", {})
    addresses = [net.get("IPAddress") for net in networks.values() if net.get("IPAddress")]
    # a container that ended at once has no address; its alias then resolves to nothing
    host = addresses[0] if addresses else plan.container.network_aliases[0]
    return f"http://{host}:{plan.port}"


def _phase(context: RunContext, plan: ServerPlan, attempt: int, phase: Phase) -> None:
    context.journal.append(EventKind.SERVER_PHASE, server=plan.id, attempt=attempt, phase=phase)


def _end_unstarted(
    context: RunContext,
    plan: ServerPlan,
    attempt: int,
    started_at: str,
    message: str,
) -> None:
    conclude_server(
        context,
        ServerResult(
            server=plan.id,
            attempt=attempt,
            status=Status.FAILED,
            reason=Reason.SERVER_START_FAILED,
            message=message,
            started_at=started_at,
            ended_at=utc_now(),
        ),
    )
