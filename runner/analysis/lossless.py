"""Whether speculation changed the answers: greedy texts of a pair of cells, row by row.

A speculative server that verifies every draft gives the text that it would give without. Different
batch sizes change the last bits of numbers, and where two tokens are almost equally likely those
decide (a near-tie); from there on the texts differ. So a small share of different answers is
expected on GPUs, is reported, and is gated by a limit; a large share is a fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from os.path import commonprefix
from pathlib import Path

from runner.analysis.measured import MeasuredAttempt, MeasuredRun
from runner.analysis.outputs import RowTurn, read_outputs
from runner.analysis.speedup import Comparison
from runner.models.result import Verdict

LIMIT = 0.5
"""Least share of equal answers. Texts of hundreds of tokens meet near-ties often: at one in a
thousand tokens half of all answers of 700 tokens differ. Below it something else is wrong."""
SHOWN = 3


@dataclass(frozen=True)
class Divergence:
    """One answer that differs: where its texts part, counted in characters from 0."""

    row: str
    turn: int
    category: str | None
    at: int
    length: int


@dataclass(frozen=True)
class Agreement:
    """Answers of some rows on both sides: how many were compared and how many are equal."""

    compared: int
    equal: int

    @property
    def share(self) -> float | None:
        """Share of equal answers; None when nothing was compared."""
        return self.equal / self.compared if self.compared else None


@dataclass(frozen=True)
class LosslessCheck:
    """Answers of one condition against its baseline at one concurrency.

    `first` is the median over different answers of the share of the text before they part.
    """

    prompts: str
    configuration: str
    baseline: str
    concurrency: int
    verdict: Verdict
    message: str
    overall: Agreement | None = None
    categories: Mapping[str, Agreement] | None = None
    divergences: tuple[Divergence, ...] = ()
    first: float | None = None
    paths: tuple[str, ...] = ()


def check_lossless(
    run: MeasuredRun, comparisons: Iterable[Comparison]
) -> tuple[LosslessCheck, ...]:
    """One check for each load of each comparison whose both sides are in the figures."""
    return tuple(
        _check(run, comparison, load.concurrency, load.ours[0], load.theirs[0])
        for comparison in comparisons
        for load in comparison.loads
        if load.ours and load.theirs
    )


def _check(
    run: MeasuredRun,
    comparison: Comparison,
    concurrency: int,
    ours: MeasuredAttempt,
    theirs: MeasuredAttempt,
) -> LosslessCheck:
    names = (
        comparison.prompts,
        comparison.name,
        comparison.baseline.configuration,
        concurrency,
    )
    paths = (ours.path, theirs.path)
    if run.plan.sampling.temperature > 0:
        why = "answers are drawn at random: only greedy ones can be compared"
        return LosslessCheck(*names, Verdict.OK, f"not checked: {why}", paths=paths)
    mine, base = (_outputs(run.root, attempt.path) for attempt in (ours, theirs))
    if mine is None or base is None:
        lacking = ours if mine is None else theirs
        why = f"{lacking.cell.id} kept no texts of its answers"
        return LosslessCheck(*names, Verdict.WARN, f"not checked: {why}", paths=paths)
    category_of = {row.id: row.category for row in ours.cell.rows}
    keys = sorted(mine.keys() & base.keys())
    parted = tuple(
        Divergence(row, turn, category_of.get(row), *_parting(mine[row, turn], base[row, turn]))
        for row, turn in keys
        if mine[row, turn] != base[row, turn]
    )
    overall = Agreement(len(keys), len(keys) - len(parted))
    verdict, message = _judged(overall, len(mine.keys() ^ base.keys()))
    shares = sorted(one.at / one.length for one in parted if one.length)
    return LosslessCheck(
        *names,
        verdict,
        message,
        overall=overall,
        categories=_by_category(keys, parted, category_of),
        divergences=parted,
        first=shares[len(shares) // 2] if shares else None,
        paths=paths,
    )


@lru_cache(maxsize=4)
def _outputs(root: Path, path: str) -> Mapping[RowTurn, str] | None:
    return read_outputs(root / path / "load" / "aiperf")


def _parting(ours: str, theirs: str) -> tuple[int, int]:
    """Characters that both texts begin with, and the length of the longer one."""
    same = len(commonprefix([ours, theirs]))  # noqa: RUF071 (characters are what is compared)
    return same, max(len(ours), len(theirs))


def _judged(overall: Agreement, alone: int) -> tuple[Verdict, str]:
    share = overall.share
    if share is None:
        return Verdict.WARN, "no row has an answer on both sides"
    message = f"{overall.equal} of {overall.compared} answers are equal"
    if alone:
        message += f"; {alone} are on one side alone"
    if share < LIMIT:
        return Verdict.REFUSE, f"{message}, at least {100 * LIMIT:.0f} % are expected"
    return (Verdict.OK if share == 1 else Verdict.WARN), message


def _by_category(
    keys: Sequence[RowTurn], parted: Sequence[Divergence], category_of: Mapping[str, str | None]
) -> Mapping[str, Agreement]:
    different = {(one.row, one.turn) for one in parted}
    counts: dict[str, list[int]] = {}
    for key in keys:
        category = category_of.get(key[0])
        if category is not None:
            count = counts.setdefault(category, [0, 0])
            count[0] += 1
            count[1] += key not in different
    return {name: Agreement(*count) for name, count in sorted(counts.items())}
