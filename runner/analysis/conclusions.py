"""Everything that a measured run lets one say, worked out once for every form of the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runner.analysis.differences import ServerDifferences, server_differences
from runner.analysis.groups import GroupCheck, judge_groups
from runner.analysis.kv_cache import KvCache, kv_caches
from runner.analysis.loads import BestLength, BreakEven, best_lengths, break_even
from runner.analysis.long_context import LongContext, long_context
from runner.analysis.lossless import LosslessCheck, check_lossless
from runner.analysis.measured import MeasuredRun
from runner.analysis.measurements import Measurement
from runner.analysis.pairing import throughput_ratios
from runner.analysis.pooling import PooledAcceptance, pool_acceptance, pool_categories
from runner.analysis.speed_bench import MatrixRow, speed_bench_matrix
from runner.analysis.speedup import Comparison, compare_speed
from runner.analysis.tradeoff import Tradeoff, tradeoff


@dataclass(frozen=True)
class Conclusions:
    """One run, concluded. `ratios` are those of single cells, by cell id; `break_evens` stand in
    the order of `comparisons`."""

    run: MeasuredRun
    acceptance: tuple[PooledAcceptance, ...]
    categories: tuple[PooledAcceptance, ...]
    matrix: tuple[MatrixRow, ...]
    long_context: tuple[LongContext, ...]
    ratios: Mapping[str, Measurement]
    comparisons: tuple[Comparison, ...]
    tradeoffs: tuple[Tradeoff, ...]
    break_evens: tuple[BreakEven, ...]
    best_lengths: tuple[BestLength, ...]
    lossless: tuple[LosslessCheck, ...]
    kv_caches: Mapping[str, KvCache]
    differences: tuple[ServerDifferences, ...]
    groups: tuple[GroupCheck, ...]


def conclude(run: MeasuredRun) -> Conclusions:
    """What this run shows.

    Raises:
        ArtifactError: records or answers of the run can't be read.
    """
    comparisons = compare_speed(run)
    return Conclusions(
        run=run,
        acceptance=pool_acceptance(run.attempts),
        categories=pool_categories(run.attempts),
        matrix=speed_bench_matrix(run),
        long_context=long_context(run),
        ratios=throughput_ratios(run),
        comparisons=comparisons,
        tradeoffs=tuple(map(tradeoff, comparisons)),
        break_evens=tuple(map(break_even, comparisons)),
        best_lengths=best_lengths(comparisons),
        lossless=check_lossless(run, comparisons),
        kv_caches=kv_caches(run),
        differences=server_differences(run),
        groups=judge_groups(run.attempts),
    )
