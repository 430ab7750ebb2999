"""Whether speculation changed the answers: greedy texts of a pair of cells, row by row.

A speculative server that verifies every draft gives the text that it would give without. Different
batch sizes change the last bits of numbers, and where two tokens are almost equally likely those
decide (a near-tie); from there on the texts differ. So a small share of different answers is
expected on GPUs, is reported, and is gated by a limit; a large share is a fault.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os.path import commonprefix
from statistics import median

from runner.analysis.measured import MeasuredAttempt, MeasuredRun
from runner.analysis.outputs import RowTurn, read_outputs
from runner.analysis.speedup import Comparison
from runner.models.result import Verdict

LIMIT = 0.5
"""Least share of equal answers. Texts of hundreds of tokens meet near-ties often: at one in a
thousand tokens half of all answers of 700 tokens differ. Below it something else is wrong."""
SHOWN = 3
EXPORTS = "load/aiperf"


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
    """One check for each load of each comparison whose both sides are in the figures: every repeat
    that both have, put together."""
    found = []
    for comparison in comparisons:
        for load in comparison.loads:
            theirs = {one.cell.repeat: one for one in load.theirs}
            pairs = [(one, theirs[one.cell.repeat]) for one in load.ours
                     if one.cell.repeat in theirs]  # fmt: skip
            if not pairs and load.ours and load.theirs:
                pairs = [(load.ours[0], load.theirs[0])]
            if pairs:
                found.append(_check(run, comparison, load.concurrency, pairs))
    return tuple(found)


def _check(
    run: MeasuredRun,
    comparison: Comparison,
    concurrency: int,
    pairs: Sequence[tuple[MeasuredAttempt, MeasuredAttempt]],
) -> LosslessCheck:
    names = (comparison.prompts, comparison.name, comparison.baseline.configuration, concurrency)
    paths = tuple(one.path for pair in pairs for one in pair)
    if run.plan.sampling.temperature > 0:
        why = "answers are drawn at random: only greedy ones can be compared"
        return LosslessCheck(*names, Verdict.OK, f"not checked: {why}", paths=paths)
    category_of = {row.id: row.category for row in pairs[0][0].cell.rows}
    compared: list[RowTurn] = []
    parted: list[Divergence] = []
    alone = 0
    for ours, theirs in pairs:
        mine, base = (read_outputs(run.root / one.path / EXPORTS) for one in (ours, theirs))
        if mine is None or base is None:
            lacking = ours if mine is None else theirs
            why = f"{lacking.cell.id} kept no texts of its answers"
            return LosslessCheck(*names, Verdict.WARN, f"not checked: {why}", paths=paths)
        both = sorted(mine.keys() & base.keys())
        alone += len(mine.keys() ^ base.keys())
        compared += both
        parted += [
            Divergence(*key, category_of.get(key[0]), *_parting(mine[key], base[key]))
            for key in both
            if mine[key] != base[key]
        ]
    overall = Agreement(len(compared), len(compared) - len(parted))
    verdict, message = _judged(overall, alone)
    shares = [one.at / one.length for one in parted if one.length]
    return LosslessCheck(
        *names,
        verdict,
        message,
        overall=overall,
        categories=_by_category(compared, parted, category_of),
        divergences=tuple(parted),
        first=median(shares) if shares else None,
        paths=paths,
    )


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
    compared: Sequence[RowTurn],
    parted: Sequence[Divergence],
    category_of: Mapping[str, str | None],
) -> Mapping[str, Agreement]:
    of = Counter(category_of.get(row) for row, _ in compared)
    different = Counter(one.category for one in parted)
    names = sorted(name for name in of if name is not None)
    return {name: Agreement(of[name], of[name] - different[name]) for name in names}
