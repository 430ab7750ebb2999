"""The build context: what is in it, and that it depends on the content alone."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from runner.errors import SpecError, UsageError
from runner.images.context import content_sha256, context_entries, tar_stream

PEM = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "images" / "one"
    (made / "__pycache__").mkdir(parents=True)
    (made / "Dockerfile").write_text("FROM x\n")
    (made / "image.yaml").write_text("description: x\n")
    (made / "entry.sh").write_text("#!/bin/sh\n")
    (made / "entry.sh").chmod(0o700)
    (made / ".hidden").write_text("")
    (made / "__pycache__" / "a.pyc").write_bytes(b"")
    return made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    package = tmp_path / "runner" / "models"
    package.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (tmp_path / "runner" / "__init__.py").write_text('__version__ = "1"\n')
    (package / "host.py").write_text("")
    (package / "host.pyc").write_bytes(b"")
    return tmp_path


def _archive(*parts: bytes) -> tarfile.TarFile:
    return tarfile.open(fileobj=io.BytesIO(b"".join(parts)))


def test_the_archive_holds_the_folder_and_two_empty_folders(folder: Path) -> None:
    archive = _archive(*tar_stream(context_entries(folder)))
    members = archive.getmembers()
    assert [member.name for member in members] == ["Dockerfile", "ca", "entry.sh", "wheels"]
    assert [member.mode for member in members] == [0o644, 0o755, 0o755, 0o755]
    assert {(member.uid, member.gid, member.mtime) for member in members} == {(0, 0, 1580601600)}
    content = archive.extractfile("Dockerfile")
    assert content is not None
    assert content.read() == b"FROM x\n"


def test_the_archive_depends_on_the_content_alone(folder: Path) -> None:
    before = b"".join(tar_stream(context_entries(folder)))
    os.utime(folder / "Dockerfile", (1, 1))
    (folder / "entry.sh").chmod(0o755)
    assert b"".join(tar_stream(context_entries(folder))) == before
    assert len(before) % tarfile.RECORDSIZE == 0
    (folder / "Dockerfile").write_text("FROM y\n")
    assert b"".join(tar_stream(context_entries(folder))) != before


def test_certificates_wheels_and_source_go_to_their_places(
    folder: Path, project: Path, tmp_path: Path
) -> None:
    bundle, wheels = tmp_path / "bundle.pem", tmp_path / "w"
    bundle.write_bytes(PEM)
    wheels.mkdir()
    (wheels / "a-1-py3-none-any.whl").write_bytes(b"x" * 3_000_000)
    (wheels / "notes.txt").write_text("")
    entries = context_entries(folder, source=project, ca_bundle=bundle, wheels=wheels)
    archive = _archive(*tar_stream(entries))
    assert archive.getnames() == [
        "Dockerfile",
        "ca",
        "ca/extra-ca.crt",
        "entry.sh",
        "source",
        "source/README.md",
        "source/pyproject.toml",
        "source/runner",
        "source/runner/__init__.py",
        "source/runner/models",
        "source/runner/models/host.py",
        "wheels",
        "wheels/a-1-py3-none-any.whl",
    ]
    assert archive.getmember("wheels/a-1-py3-none-any.whl").size == 3_000_000
    assert max(len(part) for part in tar_stream(entries)) == 1 << 20


def test_the_hash_follows_recipe_source_and_arguments_but_not_the_machine(
    folder: Path, project: Path, tmp_path: Path
) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_bytes(PEM)
    plain = content_sha256(context_entries(folder, source=project), {"A": "1"})
    with_bundle = context_entries(folder, source=project, ca_bundle=bundle)
    assert content_sha256(with_bundle, {"A": "1"}) == plain
    assert content_sha256(with_bundle, {"A": "2"}) != plain
    (project / "runner" / "models" / "host.py").write_text("changed = 1\n")
    assert content_sha256(context_entries(folder, source=project), {"A": "1"}) != plain


def test_a_file_that_shrinks_while_it_is_sent_is_an_error(folder: Path) -> None:
    big = folder / "big"
    big.write_bytes(b"x" * 3_000_000)
    with pytest.raises(UsageError, match="shrank while it was sent"):
        for part in tar_stream(context_entries(folder)):
            if len(part) == 1 << 20:
                os.truncate(big, 1_500_000)


def test_what_can_not_be_sent_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="there is no Dockerfile"):
        context_entries(tmp_path)
    with pytest.raises(UsageError, match="can't be read"):
        context_entries(folder, ca_bundle=tmp_path / "absent.pem")
    with pytest.raises(UsageError, match="holds no certificate"):
        context_entries(folder, ca_bundle=folder / "Dockerfile")
    with pytest.raises(UsageError, match="does not exist"):
        context_entries(folder, wheels=tmp_path / "absent")
    with pytest.raises(UsageError, match=r"holds no \.whl"):
        context_entries(folder, wheels=folder)
    with pytest.raises(SpecError, match=r"'pyproject\.toml' is missing"):
        context_entries(folder, source=tmp_path / "absent")
