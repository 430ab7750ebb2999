"""What is passed on: a report with raw files, and no prompt that a licence keeps private."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from runner.client.report import share_run
from runner.errors import ArtifactError
from tests.fixtures.run_folder import build_demo_run

SECRET = "a prompt that must not be passed on"


@pytest.fixture
def restricted_run(tmp_path: Path) -> Path:
    """The demo run with `code` restricted, its prompt planted wherever one may stand."""
    root = build_demo_run(tmp_path / "run")
    plan = json.loads((root / "plan.json").read_text())
    for item in plan["prompts"]:
        item["restricted"] = item["name"] == "code"
    (root / "plan.json").write_text(json.dumps(plan))
    inputs = root / "inputs"
    inputs.mkdir()
    for name in ("code.jsonl", "code.answers.jsonl"):
        (inputs / name).write_text(SECRET)
    (inputs / "chat.jsonl").write_text("a prompt for everyone")
    for cell in root.glob("cells/*-code-*/attempt-*"):
        exports = cell / "load" / "aiperf"
        exports.mkdir(parents=True, exist_ok=True)
        (exports / "inputs.json").write_text(SECRET)
        (exports / "logs").mkdir()
        (exports / "logs" / "aiperf.log").write_text(SECRET)
        (cell / "load" / "output.log").write_text(SECRET)
    log = root / "servers" / "ngram" / "attempt-1" / "output.log"
    log.parent.mkdir(parents=True)
    log.write_text(SECRET)
    return root


def test_restricted_prompts_stay_here(restricted_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "bundle"
    _, left_out = share_run(restricted_run, out)
    holding = [path for path in out.rglob("*") if path.is_file() and SECRET.encode() in
               path.read_bytes()]  # fmt: skip
    assert holding == []
    assert (out / "raw" / "inputs" / "chat.jsonl").exists()
    assert (out / "raw" / "cells/ngram-code-c4-r1/attempt-1/result.json").exists()
    load = out / "raw" / "cells/ngram-code-c4-r1/attempt-1/load"
    assert not [path for path in load.rglob("*") if path.is_file()]
    listed = (out / "LEFT_OUT.md").read_text()
    assert len(left_out) == listed.count("prompt set code: its licence keeps its prompts private")
    assert "inputs/code.answers.jsonl" in listed
    assert "servers/ngram/attempt-1/output.log" in listed


def test_a_bundle_stands_alone(restricted_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "bundle"
    written, _ = share_run(restricted_run, out)
    moved = tmp_path / "elsewhere"
    out.rename(moved)
    targets = set(re.findall(r"\]\(([^)#]+)\)", (moved / written.readme.name).read_text()))
    assert "raw/cells/ngram-code-c4-r1/attempt-1/" in targets
    for target in targets:
        assert (moved / target).exists(), target
    hrefs = set(re.findall(r'href="([^"#:]+)"', (moved / "page.html").read_text()))
    assert len(hrefs) > 5
    for href in hrefs - {"data"}:
        assert (moved / href).exists(), href


def test_another_bundle_is_not_overwritten(restricted_run: Path, tmp_path: Path) -> None:
    share_run(restricted_run, tmp_path / "bundle")
    with pytest.raises(ArtifactError, match="holds the raw files of another bundle"):
        share_run(restricted_run, tmp_path / "bundle")


def test_nothing_restricted_nothing_left_out(tmp_path: Path) -> None:
    root = build_demo_run(tmp_path / "run")
    _, left_out = share_run(root, tmp_path / "bundle")
    assert left_out == ()
    assert (tmp_path / "bundle" / "LEFT_OUT.md").read_text().endswith("Nothing.\n")
    originals = sorted(p.relative_to(root) for p in root.rglob("*") if p.is_file())
    raw = tmp_path / "bundle" / "raw"
    assert sorted(p.relative_to(raw) for p in raw.rglob("*") if p.is_file()) == originals
