"""Room for tokens in a server's KV cache: which file tells, and which start counts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from runner.analysis.kv_cache import KvCache, kv_caches
from runner.analysis.measured import measure_run
from tests.unit.analysis.sweep import Request, Sweep, same

VLLM = Path(__file__).parents[2] / "data" / "vllm"
LOG = (
    "(EngineCore pid=61) INFO 12-01 10:15:02 [kv_cache_utils.py:2322] {} KV cache size: {} tokens\n"
)
CELL = "cells/baseline-code-c1-r{}/attempt-1"


def run_with(tmp_path: Path, repeats: int = 1) -> Path:
    """A baseline with so many cells, each measured on a start of its own."""
    sweep = Sweep(tmp_path)
    for repeat in range(1, repeats + 1):
        sweep.cell("baseline", same(5), repeat=repeat)
    root = sweep.write()
    for repeat in range(1, repeats + 1):
        path = root / CELL.format(repeat) / "result.json"
        result = json.loads(path.read_text())
        path.write_text(json.dumps({**result, "server_attempt": repeat}))
    return root


def start(root: Path, number: int = 1) -> Path:
    folder = root / f"servers/baseline/attempt-{number}"
    folder.mkdir(parents=True)
    return folder


def scrape(root: Path, text: str, repeat: int = 1) -> None:
    folder = root / CELL.format(repeat) / "server"
    folder.mkdir()
    (folder / "metrics_before.prom").write_text(text)


def cache_info(*tokens: str) -> str:
    name = "vllm:cache_config_info"
    lines = [
        f'{name}{{block_size="16",engine="{engine}",kv_cache_size_tokens="{size}"}} 1.0'
        for engine, size in enumerate(tokens)
    ]
    return "\n".join([f"# HELP {name} Info.", f"# TYPE {name} gauge", *lines, ""])


def test_the_smallest_of_several_starts_counts(tmp_path: Path) -> None:
    root = run_with(tmp_path, repeats=3)
    shutil.copy(VLLM / "server_info_baseline.json", start(root, 1) / "server_info.json")
    shutil.copy(VLLM / "server_info_draft.json", start(root, 2) / "server_info.json")
    (start(root, 3) / "output.log").write_text(LOG.format("GPU", "200,000"))
    # 262,144 and 131,072 as recorded, 200,000 in a log
    assert kv_caches(measure_run(root)) == {
        "baseline": KvCache(131072, "servers/baseline/attempt-2/server_info.json")
    }


def test_a_start_that_no_cell_was_measured_on_does_not_count(tmp_path: Path) -> None:
    root = run_with(tmp_path)
    shutil.copy(VLLM / "server_info_baseline.json", start(root, 1) / "server_info.json")
    shutil.copy(VLLM / "server_info_draft.json", start(root, 2) / "server_info.json")
    assert kv_caches(measure_run(root))["baseline"].tokens == 262144


def test_server_info_comes_before_the_log_and_the_log_before_a_scrape(tmp_path: Path) -> None:
    root = run_with(tmp_path)
    folder = start(root)
    scrape(root, cache_info("1000"))
    assert kv_caches(measure_run(root)) == {
        "baseline": KvCache(1000, f"{CELL.format(1)}/server/metrics_before.prom")
    }
    (folder / "output.log").write_text("INFO starting\n" + LOG.format("GPU", "1,234,567"))
    assert kv_caches(measure_run(root)) == {
        "baseline": KvCache(1234567, "servers/baseline/attempt-1/output.log")
    }
    shutil.copy(VLLM / "server_info.json", folder / "server_info.json")
    assert kv_caches(measure_run(root)) == {
        "baseline": KvCache(262144, "servers/baseline/attempt-1/server_info.json")
    }


def test_a_server_info_that_does_not_tell_leaves_it_to_the_log(tmp_path: Path) -> None:
    root = run_with(tmp_path)
    folder = start(root)
    (folder / "output.log").write_text(LOG.format("CPU", "4,096"))
    recorded = json.loads((VLLM / "server_info.json").read_text())
    recorded["vllm_config"]["cache_config"]["kv_cache_size_tokens"] = None
    for text in (json.dumps(recorded), '{"vllm_config": "one text"}', '{"vllm_config": {', "[]"):
        (folder / "server_info.json").write_text(text)
        assert kv_caches(measure_run(root))["baseline"].tokens == 4096


def test_engines_of_a_scrape_are_added_up(tmp_path: Path) -> None:
    root = run_with(tmp_path)
    scrape(root, cache_info("544000", "544000"))
    assert kv_caches(measure_run(root))["baseline"].tokens == 1088000


def test_nothing_told_is_left_out(tmp_path: Path) -> None:
    root = run_with(tmp_path)
    (start(root) / "output.log").write_text("INFO the server has no word about its cache\n")
    assert kv_caches(measure_run(root)) == {}
    # an engine that does not know its cache writes None; older ones have no such label
    scrape(root, cache_info("None"))
    assert kv_caches(measure_run(root)) == {}
    path = root / CELL.format(1) / "server/metrics_before.prom"
    path.write_text('# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{a="1"} 1.0\n')
    assert kv_caches(measure_run(root)) == {}
    path.write_text('vllm:cache_config_info{kv_cache_size_tokens="9" 1.0\n')
    assert kv_caches(measure_run(root)) == {}


def test_the_server_of_a_failed_cell_is_not_asked(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.cell("baseline", [*same(4), Request(row="rows/4", error="out of memory")])
    root = sweep.write()
    shutil.copy(VLLM / "server_info.json", start(root) / "server_info.json")
    assert kv_caches(measure_run(root)) == {}
