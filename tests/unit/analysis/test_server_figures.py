"""Figures that servers tell: KV cache, the SPEED-Bench matrix; and groups of cells."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from runner.analysis.conclusions import conclude
from runner.analysis.kv_cache import KvCache, kv_caches
from runner.analysis.measured import measure_run
from runner.analysis.pooling import pool_acceptance, pool_categories
from runner.analysis.speed_bench import matrix_csv, speed_bench_matrix
from runner.models.plan import PlannedRow
from tests.fixtures.run_folder import counters_text
from tests.unit.analysis.sweep import Request, Sweep, same

VLLM = Path(__file__).parents[2] / "data" / "vllm"
DRAFTED = (3, 3)


def swept(tmp_path: Path) -> Path:
    sweep = Sweep(tmp_path)
    sweep.drafter()
    sweep.cell("baseline", same(8, latency_s=2.0))
    sweep.cell("drafter", same(8, accepted=DRAFTED))
    return sweep.write()


def server(root: Path, name: str) -> Path:
    folder = root / "servers" / name / "attempt-1"
    folder.mkdir(parents=True)
    return folder


def test_kv_cache_of_both_sides_from_each_source(tmp_path: Path) -> None:
    root = swept(tmp_path)
    info = {"vllm_config": {"cache_config": {"kv_cache_size_tokens": 262144}}}
    (server(root, "baseline") / "server_info.json").write_text(json.dumps(info))
    line = "(EngineCore pid=1) INFO [kv_cache_utils.py:2327] CPU KV cache size: 1,048,576 tokens, M"
    (server(root, "drafter") / "output.log").write_text(f"starting\n{line}\n")
    found = kv_caches(measure_run(root))
    assert found == {
        "baseline": KvCache(262144, "servers/baseline/attempt-1/server_info.json"),
        "drafter": KvCache(1048576, "servers/drafter/attempt-1/output.log"),
    }


def test_kv_cache_from_a_scrape_where_nothing_else_tells(tmp_path: Path) -> None:
    root = swept(tmp_path)
    scrape = root / "cells/drafter-code-c1-r1/attempt-1/server/metrics_before.prom"
    scrape.parent.mkdir()
    scrape.write_text(
        "# TYPE vllm:cache_config_info gauge\n"
        'vllm:cache_config_info{block_size="16",kv_cache_size_tokens="544000"} 1.0\n'
    )
    found = kv_caches(measure_run(root))
    assert found["drafter"].tokens == 544000
    assert "baseline" not in found


def test_kv_cache_of_several_engines_and_starts(tmp_path: Path) -> None:
    root = swept(tmp_path)
    line = "INFO [kv_cache_utils.py:2327] GPU KV cache size: 1,000 tokens, Maximum\n"
    (server(root, "drafter") / "output.log").write_text(line * 2)
    assert kv_caches(measure_run(root))["drafter"].tokens == 2000


def test_recorded_server_info_tells_its_cache(tmp_path: Path) -> None:
    root = swept(tmp_path)
    (recorded,) = VLLM.glob("**/server_info.json")
    shutil.copy(recorded, server(root, "baseline") / "server_info.json")
    assert kv_caches(measure_run(root))["baseline"].tokens == 262144


def positions(*counts: int) -> str:
    name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    lines = [f'{name}{{position="{place}"}} {count}' for place, count in enumerate(counts)]
    return "\n".join([f"# TYPE {name} counter", *lines, ""])


def matrix_run(tmp_path: Path, counts: dict[str, tuple[int, int, int]]) -> Path:
    """A cell for each category whose counters grow by (drafts, drafted, accepted)."""
    sweep = Sweep(tmp_path)
    sweep.drafter()
    for category in counts:
        sweep.cell(
            "drafter",
            same(8, accepted=DRAFTED),
            prompts=f"acceptance-{category}",
            dataset=f"speed-bench-qualitative-{category}",
            mode="acceptance",
        )
    root = sweep.write()
    for category, (drafts, drafted, accepted) in counts.items():
        folder = root / f"cells/drafter-acceptance-{category}-c1-r1/attempt-1/server"
        folder.mkdir()
        before = counters_text(10, 40, 20) + positions(0, 0)
        after = counters_text(10 + drafts, 40 + drafted, 20 + accepted)
        # accepted first drafts and second ones: together what was accepted
        after += positions(-(-accepted // 2), accepted // 2)
        (folder / "metrics_before.prom").write_text(before)
        (folder / "metrics_after.prom").write_text(after)
    return root


def test_the_matrix_has_the_layout_of_aiperfs_own(tmp_path: Path) -> None:
    # coding: 1 + 1398 / 705 = 2.9830, math: 1 + 100 / 80 = 2.25; mean 2.6165
    counts = {"math": (80, 240, 100), "coding": (705, 2740, 1398)}
    (row,) = rows = speed_bench_matrix(measure_run(matrix_run(tmp_path, counts)))
    assert matrix_csv(rows) == "Model,coding,math,Overall\r\ndrafter,2.98,2.25,2.62\r\n"
    # 1398 / 2740 = 0.5102, 100 / 240 = 0.4167; mean 0.4634
    assert matrix_csv(rows, "rate") == "Model,coding,math,Overall\r\ndrafter,0.51,0.42,0.46\r\n"
    assert row.overall_length == pytest.approx((1 + 1398 / 705 + 2.25) / 2)


def test_the_matrix_and_the_pooled_figure_are_never_mixed(tmp_path: Path) -> None:
    run = measure_run(matrix_run(tmp_path, {"coding": (705, 2740, 1398), "qa": (80, 240, 100)}))
    pooled = {one.prompts: one.acceptance.length for one in pool_acceptance(run.attempts)}
    # requests: 16 steps of 3 accepted each
    assert pooled == {"acceptance-coding": 4.0, "acceptance-qa": 4.0}
    (row,) = speed_bench_matrix(run)
    assert row.overall_length == pytest.approx((1 + 1398 / 705 + 2.25) / 2)


def test_a_category_without_counters_has_no_entry(tmp_path: Path) -> None:
    root = matrix_run(tmp_path, {"coding": (705, 2740, 1398), "qa": (80, 240, 100)})
    (root / "cells/drafter-acceptance-qa-c1-r1/attempt-1/server/metrics_after.prom").unlink()
    rows = speed_bench_matrix(measure_run(root))
    assert matrix_csv(rows) == "Model,coding,qa,Overall\r\ndrafter,2.98,,2.98\r\n"


def test_acceptance_by_category_with_its_interval(tmp_path: Path) -> None:
    rows = [PlannedRow(id=f"r{i}", category="code" if i < 6 else "chat") for i in range(12)]
    sweep = Sweep(tmp_path)
    sweep.drafter()
    requests = [
        Request(row=f"r{i}", accepted=[3, 3] if i < 6 else [i % 2] * 2, tokens=9 if i < 6 else 5)
        for i in range(12)
    ]
    for repeat in (1, 2):
        sweep.cell("drafter", requests, rows=rows, repeat=repeat)
    found = {one.category: one for one in pool_categories(measure_run(sweep.write()).attempts)}
    # chat: of rows 6 to 11 every other one accepts 1 in both of its steps
    assert found["code"].acceptance.length == 4.0
    assert found["chat"].acceptance.length == 1.5
    assert found["chat"].acceptance.requests == 12
    length = found["chat"].measurements[0]
    assert length.metric == "acceptance_length" and length.interval is not None
    assert 1.0 <= length.interval.low < 1.5 < length.interval.high <= 2.0
    # a row is drawn once for all its repeats
    assert length.interval.method == "bootstrap over 6 rows"
    spread = found["chat"].spread
    assert spread is not None
    assert (spread.requests, spread.mean, spread.p50) == (12, 1.5, 1.5)


def test_repeats_far_apart_and_a_queue_are_said(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    for repeat, latency in ((1, 1.0), (2, 1.2)):
        sweep.cell("baseline", same(8, latency_s=latency), repeat=repeat)
    slow = same(80, latency_s=4.0, ttft_s=3.0)
    sweep.cell("baseline", slow, 16)
    remarks = {one.check.name: one for one in conclude(measure_run(sweep.write())).groups}
    # 9 and 7.5 tok/s: 1.5 / 8.25 = 18.2 %
    assert "2 repeats lie 18.2 % of their mean apart" in remarks["repeat_spread"].check.message
    assert remarks["repeat_spread"].subject == "baseline on code at 1"
    # lowest 200 ms: the limit is 10 x 200 = 2000 ms
    assert "3000 ms, limit 2000 ms: the server queues" in remarks["queueing"].check.message
    assert remarks["queueing"].subject == "baseline on code at 16"
