"""Reading and aggregating request records, beside pandas on the same file in the same run.

    python tests/bench/bench_records.py [N] [ROUNDS]

N records (default 100,000) are made from recorded lines. Every reader runs in a process of its
own, one after the other, in ROUNDS rounds (default 3); the least time and the largest memory of
each count. Timed is everything from opening the file to the figures of acceptance and speed;
imports are not, the start of runner's worker processes is. Memory is the peak of the process
plus, for runner, as many times the largest peak of a child as there are children.

pandas reads in chunks of 100,000 lines: `read_json(lines=True)` of 1,000,000 records as a whole
would need about 35 GB. It works out the same figures: sums of acceptance, the histogram,
throughput, distributions of latency and TTFT, times between tokens, bounds on decode steps. CPU
seconds (of all processes) tell what a machine that others use at the same time makes of it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "tests" / "data" / "aiperf" / "complete" / "profile_export.jsonl"
LINES_A_WRITE = 1000
ID = re.compile(rb'"conversation_id":"[^"]*"')

MEASURE = """
import json, resource, sys, time
from pathlib import Path
{imports}
path = Path(sys.argv[1])
started, cpu_started = time.perf_counter(), time.process_time()
{body}
elapsed_s, cpu_s = time.perf_counter() - started, time.process_time() - cpu_started
children = resource.getrusage(resource.RUSAGE_CHILDREN)
cpu_s += children.ru_utime + children.ru_stime
peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
# children: the workers, and the one that tracks the resources of multiprocessing
peak_kib += (workers + 1 if workers > 1 else 0) * children.ru_maxrss
print(json.dumps([elapsed_s, cpu_s, peak_kib * 1024, figures]))
"""

RUNNER_IMPORTS = """
from runner.analysis.parallel import MOST_WORKERS, measure_records, usable_cpus
from runner.analysis.speed import pool_columns
"""
RUNNER = """
workers = {workers} or min(usable_cpus(), MOST_WORKERS)
measured = measure_records(path, workers=workers)
acceptance, pool = measured.acceptance.acceptance(), pool_columns(measured.columns)
speed = pool.speed()
figures = [
    len(measured.columns), acceptance.length, speed.output_token_throughput,
    speed.latency_ms.p99, measured.acceptance.histogram[4], sum(pool.itls),
    pool.coalesced, measured.acceptance.decode_steps_seen,
]
"""

PANDAS_IMPORTS = "import pandas as pd"
PANDAS = """
workers = 0
sums, histogram, ks, columns = [], pd.Series(dtype=float), set(), []
tags = ("request_latency", "time_to_first_token", "usage_completion_tokens",
        "usage_prompt_tokens", "http_req_chunks_received")
for frame in pd.read_json(path, lines=True, chunksize=100_000):
    kept = pd.DataFrame(frame["metadata"].tolist())
    good = (kept["benchmark_phase"] == "profiling") & ~kept["was_cancelled"]
    kept = kept[["conversation_id", "turn_index", "request_start_ns", "request_end_ns",
                 "credit_issued_ns"]].copy()
    for tag in tags:
        kept[tag] = frame["metrics"].map(lambda metrics, tag=tag: metrics[tag]["value"]).array
    chunks = frame["metrics"].map(lambda metrics: metrics["inter_chunk_latency"]["value"])
    kept["gaps"] = chunks.map(len).array
    spec = pd.DataFrame(frame["spec_decode_acceptance"].tolist())
    for name in ("num_accepted_draft_tokens", "num_draft_tokens", "num_spec_steps"):
        kept[name] = spec[name]
    least = spec["completion_tokens"] - 1 - spec["num_accepted_draft_tokens"]
    most = least + spec["per_step_accepted"].map(lambda steps: steps[-1] if steps else 0)
    kept["low"] = least.clip(lower=spec["num_spec_steps"])
    kept["high"] = most.clip(lower=spec["num_spec_steps"])
    counts = pd.DataFrame(spec["acceptance_histogram"].tolist()).sum()
    histogram = histogram.add(counts, fill_value=0)
    ks |= set(spec["num_spec_tokens"])
    columns.append(kept[good])
table = pd.concat(columns)
total = table[["num_accepted_draft_tokens", "num_draft_tokens", "num_spec_steps", "low",
               "high"]].sum()
seen = table["gaps"].where((table["gaps"] >= table["low"]) & (table["gaps"] <= table["high"]))
waited = (table["request_start_ns"] - table["credit_issued_ns"]) / 1e6
tokens = table["usage_completion_tokens"]
itl = (table["request_latency"] - table["time_to_first_token"]) / (tokens - 1)
lumps = (itl <= 0) | (table["http_req_chunks_received"] < 0.5 * (table["gaps"] + 1))
window_s = (table["request_end_ns"].max() - table["request_start_ns"].min()) / 1e9
latency = table["request_latency"].quantile([0.5, 0.9, 0.99])
first = table["time_to_first_token"].quantile([0.5, 0.9, 0.99])
figures = [
    len(table), 1 + float(total["num_accepted_draft_tokens"] / total["num_spec_steps"]),
    float(tokens.sum() / window_s), float(latency[0.99]), int(histogram["4"]), float(itl.sum()),
    int(lumps.sum()), float(seen.sum()),
]
"""

READERS = {
    "runner, one process": (RUNNER_IMPORTS, RUNNER.format(workers=1)),
    "runner": (RUNNER_IMPORTS, RUNNER.format(workers=0)),
    "pandas, in chunks": (PANDAS_IMPORTS, PANDAS),
}
Row = tuple[float, float, int, list[float]]


def generate(path: Path, count: int) -> None:
    """Write `count` lines, the recorded ones over and over, each with a row id of its own."""
    lines = [ID.split(line) for line in SOURCE.read_bytes().splitlines(keepends=True)]
    with path.open("wb") as file:
        for first in range(0, count, LINES_A_WRITE):
            last = min(first + LINES_A_WRITE, count)
            file.write(
                b"".join(
                    (b'"conversation_id":"rows/%d"' % index).join(lines[index % len(lines)])
                    for index in range(first, last)
                )
            )


def measure(imports: str, body: str, path: Path) -> Row:
    """Seconds, CPU seconds of all processes, peak bytes and figures of one reader."""
    ran = subprocess.run(
        [sys.executable, "-c", MEASURE.format(imports=imports, body=body), str(path)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=ROOT,
    )
    elapsed_s, cpu_s, peak, figures = json.loads(ran.stdout)
    return elapsed_s, cpu_s, peak, figures


def agree(one: list[float], other: list[float]) -> bool:
    """Whether the figures are the same, but for the order in which floats were added."""
    return all(abs(a - b) <= 1e-9 * abs(b) for a, b in zip(one, other, strict=True))


def table(rows: dict[str, Row], count: int) -> None:
    """Print what was measured and the ratios to pandas."""
    theirs = rows["pandas, in chunks"]
    head = f"{'records/s':>12}{'peak MB':>9}{'length':>8}{'tokens/s':>12}{'times':>7}"
    print(f"{'reader':<20}{'seconds':>8}{'CPU s':>8}{head}{'CPU':>6}")
    for name, (elapsed_s, cpu_s, peak, figures) in rows.items():
        print(
            f"{name:<20}{elapsed_s:>8.2f}{cpu_s:>8.2f}{count / elapsed_s:>12,.0f}"
            f"{peak / 1e6:>9.0f}{figures[1]:>8.4f}{figures[2]:>12.1f}"
            f"{theirs[0] / elapsed_s:>7.1f}{theirs[1] / cpu_s:>6.1f}"
        )


def main() -> int:
    """Print a table; 1 when the readers disagree."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    rows: dict[str, Row] = {}
    print("load average before:", *(f"{load:.2f}" for load in os.getloadavg()))
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        path = Path(folder) / "profile_export.jsonl"
        generate(path, count)
        print(f"{count:,} records, {path.stat().st_size / 1e6:,.0f} MB, {rounds} rounds")
        for _ in range(rounds):
            for name, (imports, body) in READERS.items():
                row = measure(imports, body, path)
                old = rows.get(name, row)
                least = min(row[0], old[0]), min(row[1], old[1])
                rows[name] = *least, max(row[2], old[2]), row[3]
                load = os.getloadavg()[0]
                print(f"  {name}: {row[0]:.2f} s, CPU {row[1]:.2f} s (load {load:.2f})", flush=True)
    print("load average after:", *(f"{load:.2f}" for load in os.getloadavg()))
    table(rows, count)
    theirs = rows["pandas, in chunks"]
    same = all(agree(row[3], theirs[3]) for row in rows.values())
    print("the readers agree" if same else f"the readers DISAGREE: {rows}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
