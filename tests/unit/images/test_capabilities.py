"""What an image can do: read from what a probe printed, kept by digest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runner.errors import EngineError
from runner.images.capabilities import (
    flags_of,
    probe_image,
    read_capabilities,
    read_probe,
    record_capabilities,
)
from runner.models.capability import ImageCapabilities
from runner.models.image import LockedImage

if TYPE_CHECKING:
    from tests.unit.images.conftest import PlayedEngine

HELP = (Path(__file__).parents[2] / "data" / "images" / "help-0.32.0.txt").read_text()
"""Parts of what `vllm serve --help=all` of vLLM 0.32.0 prints."""

DIGEST = f"sha256:{'a' * 64}"
IMAGE = LockedImage(name="vllm-cpu", reference="runner/vllm-cpu:1", digest=DIGEST, built_at="")


def printed(**found: object) -> str:
    whole = {
        "packages": {"vllm": "0.32.0+cpu", "torch": "2.13.0+cpu"},
        "architectures": ["x86_64"],
        "fields": ["method", "enable_adaptive_verification"],
        "methods": ["ngram", "eagle3"],
        "version": "0.32.0",
        "triton": False,
        "help": HELP,
        **found,
    }
    return f"some line of a library\n@@probe {json.dumps(whole)}\n"


def test_flags_are_those_in_the_column_of_options() -> None:
    flags = flags_of(HELP)
    assert "--per-request-spec-decode-metrics" in flags
    assert "--api-server-count" in flags
    # named in descriptions and examples, and no options themselves
    assert not {"--port", "--grpc-port", "--help=all"} & set(flags)
    assert flags == tuple(sorted(set(flags)))


def test_a_probe_becomes_capabilities() -> None:
    found = read_probe(printed(), digest=DIGEST, probed_at="now")
    assert (found.vllm_version, found.torch_version, found.problem) == (
        "0.32.0",
        "2.13.0+cpu",
        None,
    )
    assert found.methods == ("ngram", "eagle3")
    assert found.speculative_fields == ("method", "enable_adaptive_verification")
    assert (found.model_runner_v2, found.architectures) == (False, ("x86_64",))
    assert found.knows_flag("--per-request-spec-decode-metrics") is True
    assert found.knows_flag("--no-enable-log-requests") is True
    assert found.knows_flag("--made-up") is False


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("", "python3: not found\n", "the image could not be asked: python3: not found"),
        ("", "", "the image could not be asked: it printed nothing"),
        (
            '@@probe {"packages": {}, "problem": "ModuleNotFoundError: No module named torch"}\n',
            "",
            "ModuleNotFoundError: No module named torch",
        ),
    ],
)
def test_an_image_without_vllm_has_a_problem(text: str, error: str, words: str) -> None:
    found = read_probe(text, digest=DIGEST, probed_at="now", error=error)
    assert found.problem == words
    assert found.knows_flag("--dtype") is None


def test_the_probe_has_neither_network_nor_device(played: PlayedEngine) -> None:
    played.answer("run", stdout=printed())
    found = probe_image(played.connection, played.host, IMAGE, lambda _: None)
    assert found.digest == DIGEST
    (call,) = played.calls()
    assert call[:4] == ["run", "--rm", "--network", "none"]
    assert call[call.index("--entrypoint") + 1 :][:3] == ["python3", DIGEST, "-c"]
    assert not {"--device", "--privileged", "--volume"} & set(call)


def test_an_engine_that_refuses_is_an_error(played: PlayedEngine) -> None:
    played.answer("run", code=125, stderr="no such image")
    with pytest.raises(EngineError, match="no such image"):
        probe_image(played.connection, played.host, IMAGE, lambda _: None)


def test_answers_are_kept_by_digest(tmp_path: Path) -> None:
    assert read_capabilities(tmp_path) == {}
    first = ImageCapabilities(digest="sha256:1", probed_at="then", vllm_version="0.26.0")
    second = ImageCapabilities(digest="sha256:2", probed_at="then", vllm_version="0.32.0")
    for item in (first, second, first.model_copy(update={"probed_at": "now"})):
        record_capabilities(tmp_path, item)
    kept = read_capabilities(tmp_path)
    assert {digest: item.vllm_version for digest, item in kept.items()} == {
        "sha256:1": "0.26.0",
        "sha256:2": "0.32.0",
    }
    assert kept["sha256:1"].probed_at == "now"
    assert [path.name for path in tmp_path.iterdir()] == ["capabilities.json"]
    (tmp_path / "capabilities.json").write_text("{broken")
    assert read_capabilities(tmp_path) == {}, "everything in it can be asked again"
