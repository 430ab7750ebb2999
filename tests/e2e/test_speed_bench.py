"""Our SPEED-Bench matrix beside that of AIPerf's own tool, from the same counters."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from runner.analysis.measured import measure_run
from runner.analysis.speed_bench import matrix_csv, speed_bench_matrix
from tests.e2e.world import World
from tests.fixtures.run_folder import exports_of
from tests.unit.analysis.test_server_figures import matrix_run

pytestmark = pytest.mark.e2e

RECORDED = exports_of("coalesced_ngram_c4")
COUNTERS = {
    "drafts": "vllm:spec_decode_num_drafts",
    "drafted": "vllm:spec_decode_num_draft_tokens",
    "accepted": "vllm:spec_decode_num_accepted_tokens",
}
COUNTS = {"writing": (705, 2740, 1398), "coding": (80, 240, 100), "qa": (31, 93, 57)}


def aiperf_run(folder: Path, category: str, counts: tuple[int, int, int]) -> None:
    """Recorded exports whose counters grew by these numbers, as a run on one category."""
    shutil.copytree(RECORDED, folder)
    path = folder / "profile_export_aiperf.json"
    profile = json.loads(path.read_text())
    profile["input_config"]["datasets"][0]["format"] = f"speed_bench_{category}"
    profile["input_config"]["models"]["items"][0]["name"] = "drafter"
    path.write_text(json.dumps(profile))
    path = folder / "server_metrics_export.json"
    metrics = json.loads(path.read_text())
    for name, count in zip(COUNTERS.values(), counts, strict=True):
        (series,) = metrics["metrics"][name]["series"]
        series["stats"]["total"] = float(count)
    path.write_text(json.dumps(metrics))


@pytest.mark.parametrize(
    ("metric", "theirs"), [("length", "accept_length"), ("rate", "accept_rate")]
)
def test_both_write_the_same_csv(
    world: World, quickstart, tmp_path: Path, metric: str, theirs: str
) -> None:
    assert quickstart.run_id, "its images are used here"
    exports = world.root / f"speed-bench-{metric}"
    for category, counts in COUNTS.items():
        aiperf_run(exports / category, category, counts)
    world.docker(
        *("run", "--rm", "--volume", f"{exports}:/runs", "--entrypoint", "aiperf"),
        *("runner/aiperf:0.13.0", "speed-bench-report", "/runs", "--metric", theirs),
        *("--format", "csv", "--output", "/runs/out.csv"),
    )
    ours = matrix_csv(speed_bench_matrix(measure_run(matrix_run(tmp_path, COUNTS))), metric)
    assert ours == (exports / "out.csv").read_bytes().decode()
