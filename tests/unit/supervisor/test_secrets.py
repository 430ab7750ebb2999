"""A secret that a server sees is in no file of the run."""

from __future__ import annotations

import json
import os
from pathlib import Path

from runner.engine.base import LogChunk
from runner.errors import EngineError
from tests.unit.supervisor.stage import PLANTED, Stage
from tests.unit.supervisor.words import (
    C1,
    TWIN_C1,
)


def test_a_planted_secret_is_nowhere(stage: Stage) -> None:
    endpoint = stage.endpoints["baseline"]
    output = (
        LogChunk("stdout", f"HF_TOKEN={PLANTED[:7]}".encode()),
        LogChunk("stdout", f"{PLANTED[7:]}\n".encode()),
    )
    stage.engine.program(stage.server_name("baseline", "*"), endpoint.program(output=output))
    info = {"vllm_config": {"model_config": {"hf_token": PLANTED}, "speculative_config": None}}
    endpoint.scripted["/server_info"] = (200, json.dumps(info).encode())
    seen: list[int] = []

    def fail_after_the_proof() -> None:
        seen.append(1)
        if len(seen) == 2:
            endpoint.scripted["/v1/chat/completions"] = (500, f"bad token {PLANTED}".encode())

    endpoint.before_chat = fail_after_the_proof
    # what the engine says may quote the environment, too
    refused = EngineError(f"invalid environment: HF_TOKEN={PLANTED}")
    stage.engine.program(
        stage.server_name("twin", "*"), stage.endpoints["twin"].program(refused=refused)
    )
    stage.supervise()
    stage.assert_closed()
    server = stage.layout.server("baseline", 1)
    assert Path(server.log).read_bytes() == b"HF_TOKEN=***\n"
    assert "HF_TOKEN=***" in Path(server.inspect).read_text()
    assert '"hf_token": "***"' in Path(server.server_info).read_text()
    assert stage.result(C1).message.endswith("bad token ***")
    assert stage.result(TWIN_C1).message.endswith("HF_TOKEN=***")
    holding = [
        os.fspath(path)
        for path in stage.run_dir.rglob("*")
        if path.is_file() and PLANTED.encode() in path.read_bytes()
    ]
    assert holding == []
