"""The plan of a staged run, with the container specs that planning makes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from runner.models.host import Accelerator, ConnectionKind, EngineAccess, Host, Role
from runner.models.image import LockedImage
from runner.models.job import Sampling, Speculative, SpeculativeMethod
from runner.models.layout import RunLayout
from runner.models.plan import (
    CellPlan,
    Plan,
    PlannedHost,
    PlannedRow,
    PromptFile,
    ServerPlan,
    WarmupPlan,
)
from runner.plan.accelerators import AcceleratorOptions
from runner.plan.containers import (
    RunFrame,
    load_container,
    server_alias,
    server_container,
    supervisor_container,
)

RUN_ID = "20261201T101500Z-demo-3f9a"
IMAGES: Mapping[Role | str, str] = {
    role: f"sha256:{number * 64}" for role, number in zip(Role, "123", strict=True)
}
ROWS = tuple(PlannedRow(id=f"chat/{number}") for number in range(4))
OUTPUT_TOKENS = 9
TWIN = Speculative(method=SpeculativeMethod.DRAFT_MODEL, num_speculative_tokens=3, model="/m/tiny")
SERVERS: Mapping[str, Speculative | None] = {"baseline": None, "twin": TWIN}


def plan_run(root: Path, ports: Mapping[str, int], cells: Mapping[str, tuple[int, ...]]) -> Plan:
    """A plan for `root`; `cells` gives the concurrencies per server of `SERVERS`."""
    socket = root / "engine.sock"
    socket.touch()
    host = Host(
        name="here", connection=ConnectionKind.LOCAL, engine=EngineAccess(socket=str(socket))
    )
    run_dir = root / "runs" / "demo" / RUN_ID
    frame = RunFrame(RUN_ID, "demo", RunLayout(PurePosixPath(run_dir)), host, None, None)
    images = {role: _image(role) for role in Role}
    return Plan(
        runner_version="0.1.0",
        run_id=RUN_ID,
        job="demo",
        created_at="2026-12-01T10:15:00.000Z",
        host=PlannedHost(
            name="here",
            connection=ConnectionKind.LOCAL,
            accelerator=Accelerator(),
            engine_socket=str(socket),
        ),
        run_dir=str(run_dir),
        network=frame.network,
        images={role.value: image for role, image in images.items()},
        supervisor=supervisor_container(frame, images[Role.SUPERVISOR], ("HF_TOKEN",)),
        servers=tuple(_server(frame, name, ports[name]) for name in cells),
        cells=tuple(
            _cell(frame, name, concurrency)
            for name, all_of in cells.items()
            for concurrency in all_of
        ),
        prompts=(PromptFile(name="chat", sha256="0" * 64, rows=4, source="chat.jsonl"),),
        sampling=Sampling(),
        secrets=("HF_TOKEN",),
    )


def _image(role: Role) -> LockedImage:
    return LockedImage(name=role.value, reference=role.value, digest=IMAGES[role], built_at="")


def _server(frame: RunFrame, name: str, port: int) -> ServerPlan:
    speculative = SERVERS[name]
    served = f"tiny-{name}-3f9a"
    command = ["serve", "/m/tiny", "--served-model-name", served, "--port", str(port)]
    if speculative is not None:
        command += ["--speculative-config", speculative.model_dump_json(exclude_none=True)]
        command += ["--per-request-spec-decode-metrics", "detailed"]
    return ServerPlan(
        per_request_metrics=speculative is not None,
        id=name,
        configuration=name,
        served_name=served,
        model="/m/tiny",
        port=port,
        speculative=speculative,
        container=server_container(
            frame,
            name,
            _image(Role.SERVER),
            command=tuple(command),
            environment={},
            secrets=("HF_TOKEN",),
            mounts=(),
            accelerator=AcceleratorOptions(),
        ),
        warmup=WarmupPlan(prompt="Say hello.", requests=2, output_tokens=5),
    )


def _cell(frame: RunFrame, server: str, concurrency: int) -> CellPlan:
    name = f"{server}-chat-c{concurrency}-r1"
    url = f"http://{server_alias(server)}:8000"
    return CellPlan(
        id=name,
        server=server,
        prompts="chat",
        concurrency=concurrency,
        repeat=1,
        rows=ROWS,
        output_tokens=OUTPUT_TOKENS,
        requests=len(ROWS),
        timeout_s=60,
        container=load_container(
            frame, name, server, _image(Role.LOAD), command=("profile", "--url", url), mounts=()
        ),
    )
