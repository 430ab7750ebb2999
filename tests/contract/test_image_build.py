"""Building images with a real engine, from recipes small enough for a few seconds."""

from __future__ import annotations

import json
import subprocess
import uuid
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from runner.errors import EngineError
from runner.images import (
    BuildOptions,
    Catalogue,
    build_image,
    find_image,
    load_catalogue,
    recipe_for,
)
from runner.models.host import ConnectionKind, EngineAccess, Host, Role
from runner.models.image import LockedImage
from runner.transport.local import LocalConnection

pytestmark = pytest.mark.engine

STUB = Path(__file__).parents[1] / "images" / "stub-server"
PEM = "-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n"
DOCKERFILE = """
ARG BASE_IMAGE
FROM ${BASE_IMAGE} AS build
LABEL runner.test=@NAME@
ARG WORD_VERSION
ARG PIP_INDEX_URL
COPY wheels/ /tmp/wheels/
RUN python3 -m venv /opt/venv \\
 && /opt/venv/bin/pip install --no-index --find-links /tmp/wheels planted
FROM ${BASE_IMAGE}
ARG WORD_VERSION
COPY ca/ /usr/local/share/ca-certificates/
COPY --from=build /opt/venv /opt/venv
RUN echo "word ${WORD_VERSION}" > /word
"""


@dataclass
class Bench:
    """A catalogue of one recipe whose name no one else uses."""

    host: Host
    base: str
    name: str
    folder: Path
    connection: LocalConnection = field(default_factory=lambda: LocalConnection("box"))

    @property
    def catalogue(self) -> Catalogue:
        return load_catalogue(self.folder.parent)

    def build(self, options: BuildOptions) -> tuple[LockedImage, list[str]]:
        said: list[str] = []
        recipe = self.catalogue.recipe(self.name)
        made = build_image(self.connection, self.host, self.catalogue, recipe, options, said.append)
        return made, said

    def docker(self, *words: str) -> str:
        argv = ["docker", "-H", f"unix://{self.host.engine.socket}", *words]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def bench(engine_socket: str, base_image: str, tmp_path: Path) -> Iterator[Bench]:
    name = f"rt-{uuid.uuid4().hex[:10]}"
    folder = tmp_path / "images" / name
    folder.mkdir(parents=True)
    (folder / "Dockerfile").write_text(DOCKERFILE.replace("@NAME@", name))
    (folder / "image.yaml").write_text(
        "description: x\nroles: [server]\nbase: rt.invalid/nothing:1\n"
        "versions: {word: '7'}\nentrypoint: [cat, /word]\n"
    )
    host = Host(
        name="box",
        connection=ConnectionKind.LOCAL,
        engine=EngineAccess(socket=engine_socket),
        images={Role.SERVER: name},
    )
    made = Bench(host, base_image, name, folder)
    yield made
    # the finished images by name, the stages they were copied from by label
    for chosen in ([f"runner/{name}"], ["--filter", f"label=runner.test={name}"]):
        for image in made.docker("images", "--quiet", *chosen).split():
            made.docker("rmi", "--force", image)


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A folder with one wheel, made by hand, so that no index is asked."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    info = "planted-1.dist-info"
    with zipfile.ZipFile(folder / "planted-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("planted.py", "VALUE = 1\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: planted\nVersion: 1\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return folder


def test_an_image_is_built_from_a_stream_and_found_again(
    bench: Bench, wheels: Path, tmp_path: Path
) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(PEM.format(body="cGxhbnRlZA=="))
    options = BuildOptions(
        base=bench.base,
        wheels=wheels,
        ca_bundle=bundle,
        pip_index="https://ann:s3cret@index.invalid/simple",
    )
    made, said = bench.build(options)
    assert made.reference == f"runner/{bench.name}:7"
    assert any(line.startswith("Step ") or "#" in line for line in said)

    found = find_image(
        bench.connection, bench.host, recipe_for(bench.host, Role.SERVER, bench.catalogue)
    )
    assert (found.digest, found.size_bytes) == (made.digest, made.size_bytes)
    assert made.digest.startswith("sha256:")

    show = "cat /word /usr/local/share/ca-certificates/extra-ca.crt; ls /tmp"
    output = bench.docker("run", "--rm", made.reference, "sh", "-c", show)
    assert output == "word 7\n" + bundle.read_text()
    imported = bench.docker(
        "run", "--rm", made.reference, "/opt/venv/bin/python", "-c", "import planted; print(1)"
    )
    assert imported == "1\n"

    history = bench.docker("history", "--no-trunc", made.reference)
    config = json.dumps(json.loads(bench.docker("image", "inspect", made.reference)))
    assert "s3cret" not in history + config + "\n".join(said)
    assert "/tmp/wheels" not in history


def test_the_same_content_gives_the_same_image(bench: Bench, wheels: Path) -> None:
    options = BuildOptions(base=bench.base, wheels=wheels)
    first, _ = bench.build(options)
    again, _ = bench.build(options)
    assert again.digest == first.digest
    assert again.recipe_sha256 == first.recipe_sha256
    other, _ = bench.build(
        BuildOptions(base=bench.base, wheels=wheels, arguments={"WORD_VERSION": "8"})
    )
    assert other.reference == f"runner/{bench.name}:8"
    assert other.digest != first.digest


def test_a_failing_step_is_told(bench: Bench) -> None:
    (bench.folder / "Dockerfile").write_text(
        "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nRUN echo planted words >&2 && exit 9\n"
    )
    with pytest.raises(EngineError) as caught:
        bench.build(BuildOptions(base=bench.base))
    assert "planted words" in caught.value.what
    assert "9" in caught.value.what.splitlines()[-1]


def test_a_base_that_can_not_be_had_gives_the_choice(bench: Bench) -> None:
    with pytest.raises(EngineError) as caught:
        bench.build(BuildOptions())
    assert "'rt.invalid/nothing:1' is not there and can't be pulled" in caught.value.what
    assert "--bootstrap-base" in str(caught.value.next_step)


def test_the_stub_server_serves_in_a_container(bench: Bench) -> None:
    for file in STUB.iterdir():
        (bench.folder / file.name).write_bytes(file.read_bytes())
    made, _ = bench.build(BuildOptions(base=bench.base))
    ask = (
        "import json, time, urllib.request as r\n"
        "for _ in range(100):\n"
        "    try: found = json.load(r.urlopen('http://127.0.0.1:8000/v1/models')); break\n"
        "    except OSError: time.sleep(0.1)\n"
        "print(found['data'][0]['id'])"
    )
    container = bench.docker(
        *("run", "--detach", "--entrypoint", "vllm", made.reference),
        *("serve", "/m", "--served-model-name", "named", "--port", "8000"),
    ).strip()
    try:
        assert bench.docker("exec", container, "python3", "-c", ask) == "named\n"
        bench.docker("stop", "--time", "20", container)
        code = bench.docker("inspect", "--format", "{{.State.ExitCode}}", container)
        assert code == "0\n"
    finally:
        bench.docker("rm", "--force", container)
