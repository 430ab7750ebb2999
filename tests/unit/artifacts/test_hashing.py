"""The manifest lists every regular file, follows nothing, and finds every difference."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from runner.artifacts.hashing import ProblemKind, build_manifest, verify
from runner.models.manifest import FileEntry, Manifest

AT = "2026-12-01T10:15:00.000Z"


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    root = tmp_path / "run"
    for path, text in {
        "plan.json": "{}",
        "cells/b/attempt-1/result.json": "r",
        "cells/a/empty": "",
        "control/stop.json": "stop",
        "report/README.md": "later",
        "manifest.json": "old",
        "cells/report/x": "inside a cell it is a file like any other",
    }.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return root


def manifest_of(root: Path) -> Manifest:
    return build_manifest(root, "r1", "quick", AT)


def test_every_regular_file_sorted(run_dir: Path) -> None:
    manifest = manifest_of(run_dir)
    assert (manifest.run_id, manifest.job, manifest.created_at) == ("r1", "quick", AT)
    assert [entry.path for entry in manifest.files] == [
        "cells/a/empty",
        "cells/b/attempt-1/result.json",
        "cells/report/x",
        "plan.json",
    ]
    assert manifest.files[1] == FileEntry(
        path="cells/b/attempt-1/result.json",
        size_bytes=1,
        sha256=hashlib.sha256(b"r").hexdigest(),
    )
    assert verify(run_dir, manifest) == ()


def test_links_and_special_files_are_refused_by_name(run_dir: Path) -> None:
    (run_dir / "latest").symlink_to("/etc")
    (run_dir / "cells/plan").symlink_to("../plan.json")
    os.mkfifo(run_dir / "cells/pipe")
    (run_dir / os.fsdecode(b"caf\xe9")).write_text("x")
    manifest = manifest_of(run_dir)
    assert len(manifest.files) == 4
    assert manifest.refused == (
        "caf\\udce9 (name is not UTF-8)",
        "cells/pipe (pipe)",
        "cells/plan -> ../plan.json (symbolic link)",
        "latest -> /etc (symbolic link)",
    )


def test_every_kind_of_difference(run_dir: Path) -> None:
    manifest = manifest_of(run_dir)
    (run_dir / "plan.json").write_text("[]")
    (run_dir / "cells/a/empty").write_text("not")
    (run_dir / "cells/b/attempt-1/result.json").unlink()
    (run_dir / "cells/report/x").unlink()
    (run_dir / "cells/report/x").symlink_to("/etc/passwd")
    (run_dir / "cells/new").write_text("")
    problems = verify(run_dir, manifest)
    assert [(problem.path, problem.kind) for problem in problems] == [
        ("cells/a/empty", ProblemKind.SIZE),
        ("cells/b/attempt-1/result.json", ProblemKind.MISSING),
        ("cells/new", ProblemKind.EXTRA),
        ("cells/report/x", ProblemKind.NOT_A_FILE),
        ("plan.json", ProblemKind.HASH),
    ]
    assert [str(problem) for problem in problems] == [
        "cells/a/empty: expected 0 bytes, got 3",
        "cells/b/attempt-1/result.json: missing",
        "cells/new: not in the manifest",
        "cells/report/x: expected a regular file, found a symbolic link",
        f"plan.json: expected sha256 {hashlib.sha256(b'{}').hexdigest()}, "
        f"got {hashlib.sha256(b'[]').hexdigest()}",
    ]
