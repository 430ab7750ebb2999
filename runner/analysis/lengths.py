"""How long the answers of both sides of a pair are: whether they did the same work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runner.analysis.checked import refuse
from runner.analysis.measured import MeasuredAttempt
from runner.analysis.validity.group_rules import output_lengths
from runner.models.result import Check
from runner.models.status import Reason

RowTurn = tuple[str, int]


def compare_lengths(ours: Sequence[MeasuredAttempt], theirs: Sequence[MeasuredAttempt]) -> Check:
    """Summed output tokens over the rows and turns that both sides answered, means over repeats.

    It refuses a pair without a row in common: its sides did nothing that can be compared.
    """
    mine, base = answer_tokens(ours), answer_tokens(theirs)
    both = mine.keys() & base.keys()
    if not both:
        return refuse(
            "output_lengths", Reason.CONFIGURATION_DIFFERS, "no row was answered on both sides"
        )
    return output_lengths(*(round(sum(side[key] for key in both)) for side in (mine, base)))


def answer_tokens(attempts: Sequence[MeasuredAttempt]) -> Mapping[RowTurn, float]:
    """Output tokens by row and turn, the mean over attempts."""
    found: dict[RowTurn, list[int]] = {}
    for attempt in attempts:
        columns = attempt.requests
        row, names = columns.row, columns.row_ids
        for place, tokens in enumerate(columns.output_tokens):
            found.setdefault((names[row[place]], columns.turn[place]), []).append(tokens)
    return {key: sum(values) / len(values) for key, values in found.items()}
