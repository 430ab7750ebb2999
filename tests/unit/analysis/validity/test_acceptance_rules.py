"""Truncated answers, natural ends, marginals, and steps counted on three ways."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from runner.analysis.prometheus import Delta, Known
from runner.analysis.validity import acceptance_rules as rules
from runner.analysis.validity.evidence import CellEvidence
from runner.models.result import Verdict
from runner.models.status import Reason
from tests.unit.analysis.validity.cell_evidence import columns, grown, made, ngram, plain


@pytest.mark.parametrize(
    ("cut", "ignore_eos", "verdict"),
    [(2, False, Verdict.OK), (3, False, Verdict.WARN), (10, True, Verdict.OK)],
)
def test_answers_at_the_cap(cut: int, ignore_eos: bool, verdict: Verdict) -> None:
    # 2 of 10 are 20 %, which is the limit
    found = columns([(0.0, 1.0)] * 10, tokens=63)
    for place in range(cut):
        found.output_tokens[place] = 64
    check = rules.truncated(made(found, ignore_eos=ignore_eos))
    assert check.verdict is verdict
    assert check.message.startswith(
        f"{cut} of 10 answers reached the cap of 64 tokens, {10 * cut} %"
    )
    assert check.figures["share"] == cut / 10


@pytest.mark.parametrize(
    ("mode", "ignore_eos", "verdict"),
    [
        ("acceptance", True, Verdict.WARN),
        ("acceptance", False, Verdict.OK),
        ("speedup", True, Verdict.OK),
        (None, True, Verdict.OK),
    ],
)
def test_natural_end(mode: str | None, ignore_eos: bool, verdict: Verdict) -> None:
    check = rules.natural_end(plain(mode=mode, ignore_eos=ignore_eos))
    assert check.verdict is verdict
    assert ("ignore_eos on, wanted off" in check.message) == (verdict is Verdict.WARN)


def test_recorded_marginals() -> None:
    check = rules.marginals(ngram())
    assert check.verdict is Verdict.OK
    # 705 steps, 1398 accepted: 1 + 1398/705 on both sides
    assert check.message == ("records: length 2.983, 1 + Σ positions 2.983; limit 0.02 apart")
    assert check.figures["apart"] == pytest.approx(0, abs=1e-12)


def with_pool(**changes: object) -> CellEvidence:
    evidence = ngram()
    return replace(evidence, acceptance=replace(evidence.acceptance, **changes))


@pytest.mark.parametrize(("more", "verdict"), [(14, Verdict.OK), (15, Verdict.REFUSE)])
def test_length_and_histogram_contradict(more: int, verdict: Verdict) -> None:
    # 0.02 x 705 steps = 14.1 accepted drafts
    check = rules.marginals(with_pool(accepted=1398 + more))
    assert check.verdict is verdict
    assert check.figures["apart"] == pytest.approx(more / 705)


def test_histogram_of_other_steps() -> None:
    check = rules.marginals(with_pool(histogram=Counter({0: 700, 4: 4})))
    assert (check.verdict, check.reason) == (Verdict.REFUSE, Reason.COUNTERS_DISAGREE)
    assert check.message == "histogram of 704 steps, records of 705, limit 0 apart"


def by_position(*counts: float) -> dict[str, Delta]:
    series = {frozenset({("position", str(at))}): count for at, count in enumerate(counts)}
    known = Delta(Known.KNOWN, sum(counts), series)
    return {"vllm:spec_decode_num_accepted_tokens_per_pos": known}


@pytest.mark.parametrize(
    ("positions", "accepted", "verdict"),
    [
        ((80, 50, 20), 150, Verdict.OK),  # 1 + 150/100 = 1 + 0.8 + 0.5 + 0.2
        ((50, 80, 20), 150, Verdict.REFUSE),  # the second more often than the first
        ((80, 50, 20), 155, Verdict.REFUSE),  # 2.55 against 2.5
    ],
)
def test_marginals_of_counters(positions: tuple[int, ...], accepted: int, verdict: Verdict) -> None:
    deltas = {
        **grown(spec_decode_num_drafts=100, spec_decode_num_accepted_tokens=accepted),
        **by_position(*positions),
    }
    check = rules.marginals(replace(plain(), deltas=deltas))
    assert check.verdict is verdict
    assert f"counters: length {1 + accepted / 100:.3f}" in check.message


def test_no_positions_no_identity() -> None:
    assert rules.marginals(plain()).message == "not worked out: no acceptance by position"
    assert rules.marginals(with_pool(histogram=Counter())).verdict is Verdict.OK


def test_lumps_are_not_compared_but_told() -> None:
    evidence = replace(
        ngram(),
        deltas=grown(spec_decode_num_drafts=705, spec_decode_num_accepted_tokens=1398),
    )
    check = rules.client_steps(evidence)
    assert check.verdict is Verdict.OK
    # 40 answers of 63 tokens after the first: 2520 / 1237
    assert check.message == (
        "not compared: 40 of 40 streams arrived in lumps; 1237 pieces, 1122 to 1255 decode steps; "
        "acceptance length 2.983 in records, 2.983 in counters, client 2.037 tokens a piece"
    )


def streamed(pieces: int) -> CellEvidence:
    """Two requests of 10 tokens with 10 drafted steps; the records allow 100 to 200 steps."""
    found = columns([(0.0, 10.0)] * 2, tokens=10, ttft_ms=1.0)
    for place, gaps in enumerate((pieces // 2, pieces - pieces // 2)):
        found.steps[place] = 10
        found.gaps[place] = gaps
        found.reads[place] = gaps + 2
    evidence = made(found, speculative=True)
    pool = replace(evidence.acceptance, requests=2, decode_steps_low=100, decode_steps_high=200)
    return replace(evidence, acceptance=pool)


@pytest.mark.parametrize(
    ("pieces", "verdict", "reason", "words"),
    [
        (97, Verdict.WARN, None, "pieces were merged on the way"),
        (98, Verdict.OK, None, "98 pieces, 100 to 200 decode steps, limit 2 % outside"),
        (204, Verdict.OK, None, "204 pieces"),
        (205, Verdict.REFUSE, Reason.COUNTERS_DISAGREE, "more pieces"),
    ],
)
def test_pieces_against_steps(
    pieces: int, verdict: Verdict, reason: Reason | None, words: str
) -> None:
    check = rules.client_steps(streamed(pieces))
    assert (check.verdict, check.reason) == (verdict, reason)
    assert words in check.message
    assert f"client {18 / pieces:.3f} tokens a piece" in check.message
    assert "acceptance length 2.983 in records, unknown in counters" in check.message


def test_pieces_that_are_not_told() -> None:
    assert "no request tells its steps" in rules.client_steps(plain()).message
    evidence = streamed(120)
    evidence.requests.gaps[1] = -1
    assert "not every request tells its pieces" in rules.client_steps(evidence).message
