"""Building: what the engine is told, which base is taken, and what is recorded."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runner.errors import EngineError, ImageMissing, UsageError
from runner.images import BuildOptions, Catalogue, build_image, find_image, load_catalogue
from runner.images.build import is_current
from runner.images.catalogue import ImageChoice
from runner.models.host import Role
from runner.models.image import LockedImage

if TYPE_CHECKING:
    from tests.unit.images.conftest import PlayedEngine

RECIPE = """description: x
roles: [server]
base: some/base:1
versions: {vllm: "1.2", torch: "2.0+cpu"}
arguments: {EXTRA: "e"}
entrypoint: [vllm, serve]
environment: {A: "1"}
"""


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    folder = tmp_path / "images" / "one"
    folder.mkdir(parents=True)
    (folder / "image.yaml").write_text(RECIPE)
    (folder / "Dockerfile").write_text("FROM x\n")
    return load_catalogue(tmp_path / "images")


def _build(
    played: PlayedEngine, catalogue: Catalogue, options: BuildOptions
) -> tuple[LockedImage, list[str]]:
    said: list[str] = []
    recipe = catalogue.recipe("one")
    made = build_image(played.connection, played.host, catalogue, recipe, options, said.append)
    return made, said


def test_the_context_is_streamed_and_the_result_recorded(
    played: PlayedEngine, catalogue: Catalogue
) -> None:
    played.has_image("some/base:1", "sha256:base")
    played.has_image("runner/one:1.2", "sha256:made", 123)
    played.answer("build", stdout="Step 1/1 : FROM x\n")
    options = BuildOptions(
        pip_index="https://ann:s3cret@index.test/simple",
        pip_extra_index="https://more.test",
        arguments={"EXTRA": "f"},
        no_cache=True,
        network="host",
    )
    made, said = _build(played, catalogue, options)
    assert played.socket() == ["-H", "unix:///run/engine.sock"]
    assert [call for call in played.calls() if call[0] == "build"] == [
        [
            *("build", "--tag", "runner/one:1.2", "--force-rm"),
            *("--build-arg", "VLLM_VERSION=1.2", "--build-arg", "TORCH_VERSION=2.0+cpu"),
            *("--build-arg", "EXTRA=f", "--build-arg", "BASE_IMAGE=some/base:1"),
            *("--build-arg", "PIP_INDEX_URL=https://ann:s3cret@index.test/simple"),
            *("--build-arg", "PIP_EXTRA_INDEX_URL=https://more.test"),
            *("--no-cache", "--network", "host", "-"),
        ]
    ]
    with tarfile.open(played.stdin) as archive:
        assert archive.getnames() == ["Dockerfile", "ca", "wheels"]
    assert said == ["building runner/one:1.2 on box from some/base:1", "Step 1/1 : FROM x"]
    assert made.model_dump(exclude={"built_at", "recipe_sha256"}) == {
        "name": "one",
        "reference": "runner/one:1.2",
        "digest": "sha256:made",
        "base": "some/base:1",
        "base_digest": "sha256:base",
        "arguments": {"VLLM_VERSION": "1.2", "TORCH_VERSION": "2.0+cpu", "EXTRA": "f"},
        "size_bytes": 123,
        "entrypoint": ("vllm", "serve"),
        "environment": {"A": "1"},
        "versions": {"vllm": "1.2", "torch": "2.0+cpu"},
    }
    assert "index.test" not in made.model_dump_json()


def test_a_failing_build_shows_its_last_lines_and_the_next_command(
    played: PlayedEngine, catalogue: Catalogue
) -> None:
    played.has_image("some/base:1", "sha256:base")
    played.answer("build", stdout="Step 1/2\n", stderr="ERROR: no such wheel\n", code=1)
    with pytest.raises(EngineError) as caught:
        _build(played, catalogue, BuildOptions())
    text = str(caught.value)
    assert text.startswith("box: building image 'one' failed; its last lines:\n")
    assert "ERROR: no such wheel" in text
    assert "runner images build one --host box" in text
    assert caught.value.exit_code == 4


def test_a_base_that_is_not_there_is_pulled(played: PlayedEngine, catalogue: Catalogue) -> None:
    played.answer("pull", stderr="no route to registry\n", code=1)
    with pytest.raises(EngineError) as caught:
        _build(played, catalogue, BuildOptions())
    assert [call[0] for call in played.calls()] == ["image", "pull"]
    assert "base image 'some/base:1' is not there and can't be pulled" in caught.value.what
    assert "no route to registry" in caught.value.what
    assert caught.value.next_step is not None
    assert "--base IMAGE" in caught.value.next_step
    assert "--bootstrap-base" in caught.value.next_step


def test_another_base_may_be_named(played: PlayedEngine, catalogue: Catalogue) -> None:
    played.has_image("own/base:2", "sha256:own")
    played.has_image("runner/one:1.2", "sha256:made")
    played.answer("build")
    made, _ = _build(played, catalogue, BuildOptions(base="own/base:2"))
    assert (made.base, made.base_digest) == ("own/base:2", "sha256:own")


def test_a_bootstrapped_base_that_is_there_is_used_again(
    played: PlayedEngine, catalogue: Catalogue
) -> None:
    played.has_image("runner/base:bookworm", "sha256:debian")
    played.has_image("runner/one:1.2", "sha256:made")
    played.answer("build")
    made, _ = _build(played, catalogue, BuildOptions(bootstrap_base=True))
    assert made.base == "runner/base:bookworm"
    assert [call[0] for call in played.calls()] == ["image", "build", "image"]


def test_two_bases_contradict() -> None:
    with pytest.raises(UsageError, match="not both"):
        BuildOptions(base="x", bootstrap_base=True)


def test_an_image_that_is_there_is_found(played: PlayedEngine, catalogue: Catalogue) -> None:
    choice = ImageChoice(Role.SERVER, "runner/one:1.2", catalogue.recipe("one"))
    with pytest.raises(ImageMissing) as caught:
        find_image(played.connection, played.host, choice)
    assert caught.value.next_step == "runner images build one --host box"
    played.has_image("runner/one:1.2", "sha256:made", 7)
    found = find_image(played.connection, played.host, choice)
    assert (found.name, found.digest, found.size_bytes) == ("one", "sha256:made", 7)
    assert found.entrypoint == ("vllm", "serve")


def test_a_build_is_current_until_its_sources_change(
    played: PlayedEngine, catalogue: Catalogue
) -> None:
    played.has_image("some/base:1", "sha256:base")
    played.has_image("runner/one:1.2", "sha256:made")
    played.answer("build")
    made, _ = _build(played, catalogue, BuildOptions(arguments={"EXTRA": "f"}))
    assert is_current(catalogue, made) is True
    (catalogue.root / "one" / "Dockerfile").write_text("FROM y\n")
    assert is_current(catalogue, made) is False


def test_what_was_not_built_here_is_neither_current_nor_not(
    played: PlayedEngine, catalogue: Catalogue
) -> None:
    played.has_image("runner/one:1.2", "sha256:made")
    found = find_image(
        played.connection,
        played.host,
        ImageChoice(Role.SERVER, "runner/one:1.2", catalogue.recipe("one")),
    )
    assert is_current(catalogue, found) is None
    built = found.model_copy(update={"recipe_sha256": "0" * 64})
    assert is_current(catalogue, built.model_copy(update={"name": "gone"})) is None
    (catalogue.root / "one" / "Dockerfile").unlink()
    assert is_current(catalogue, built) is None


def test_a_reference_without_a_recipe_brings_its_own_entrypoint(played: PlayedEngine) -> None:
    choice = ImageChoice(Role.SERVER, "team/vllm:1", None)
    with pytest.raises(ImageMissing) as caught:
        find_image(played.connection, played.host, choice)
    assert caught.value.next_step is not None
    assert caught.value.next_step.endswith(
        "docker pull team/vllm:1; then: runner images build --host box"
    )
    record = '[{"Id": "sha256:t", "Config": {"Entrypoint": ["python3", "serve.py"]}}]'
    played.answer("image", "inspect", "team/vllm:1", stdout=record)
    found = find_image(played.connection, played.host, choice)
    assert (found.name, found.entrypoint) == ("team/vllm:1", ("python3", "serve.py"))
