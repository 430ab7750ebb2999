"""Reading and aggregating request records, beside pandas on the same file in the same run.

    python tests/bench/bench_records.py [N]

N records (default 100,000) are made from recorded lines. Each reader runs in a process of its
own, one after the other, so that its peak memory is its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "tests" / "data" / "aiperf" / "complete" / "profile_export.jsonl"
LINES_A_WRITE = 1000

MEASURE = """
import json, resource, sys, time
from pathlib import Path
{imports}
path = Path(sys.argv[1])
started = time.perf_counter()
{body}
elapsed_s = time.perf_counter() - started
peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([elapsed_s, peak_kib * 1024, length, throughput]))
"""

RUNNER_IMPORTS = """
from runner.analysis.acceptance import AcceptancePool
from runner.analysis.records import read_records
from runner.analysis.speed import SpeedPool
"""
RUNNER = """
pool, speed = AcceptancePool(), SpeedPool()
for record in read_records(path):
    pool.add(record)
    speed.add(record)
length = pool.acceptance().length
throughput = speed.speed().output_token_throughput
"""

PANDAS_IMPORTS = "import pandas as pd"
PANDAS = """
frame = pd.read_json(path, lines=True)
spec = pd.DataFrame(frame["spec_decode_acceptance"].tolist())
length = 1 + spec["num_accepted_draft_tokens"].sum() / spec["num_spec_steps"].sum()
metadata = pd.DataFrame(frame["metadata"].tolist())
tokens = frame["metrics"].map(lambda m: m["usage_completion_tokens"]["value"]).sum()
window = metadata["request_end_ns"].max() - metadata["request_start_ns"].min()
throughput = float(tokens / (window / 1e9))
"""


def generate(path: Path, count: int) -> None:
    """Write `count` lines, the recorded ones over and over."""
    lines = SOURCE.read_bytes().splitlines(keepends=True)
    with path.open("wb") as file:
        for first in range(0, count, LINES_A_WRITE):
            last = min(first + LINES_A_WRITE, count)
            file.write(b"".join(lines[index % len(lines)] for index in range(first, last)))


def measure(imports: str, body: str, path: Path) -> tuple[float, int, float, float]:
    """Seconds, peak bytes, acceptance length and throughput of one reader."""
    ran = subprocess.run(
        [sys.executable, "-c", MEASURE.format(imports=imports, body=body), str(path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    elapsed_s, peak, length, throughput = json.loads(ran.stdout)
    return elapsed_s, peak, length, throughput


def main() -> int:
    """Print a table; 1 when the two readers disagree."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "profile_export.jsonl"
        generate(path, count)
        print(f"{count:,} records, {path.stat().st_size / 1e6:,.0f} MB")
        ours = measure(RUNNER_IMPORTS, RUNNER, path)
        theirs = measure(PANDAS_IMPORTS, PANDAS, path)
    print(f"{'reader':<24}{'seconds':>10}{'peak MiB':>12}{'length':>10}{'tokens/s':>14}")
    for name, row in (("runner.analysis", ours), ("pandas.read_json(lines)", theirs)):
        print(f"{name:<24}{row[0]:>10.2f}{row[1] / 2**20:>12.0f}{row[2]:>10.4f}{row[3]:>14.1f}")
    print(f"{theirs[0] / ours[0]:.1f} times faster, {theirs[1] / ours[1]:.1f} times less memory")
    same = abs(ours[2] - theirs[2]) < 1e-9 and abs(ours[3] / theirs[3] - 1) < 1e-9
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
