"""Rules about answers and drafts: are they those of the model, and does all that counts agree."""

from __future__ import annotations

from itertools import pairwise
from math import fsum

from runner.analysis.checked import judged, ok, percent, refuse, warn
from runner.analysis.prometheus import ACCEPTED_PER_POSITION, ACCEPTED_TOKENS, DRAFTS
from runner.analysis.requests import ABSENT
from runner.analysis.speed import COALESCED_LIMIT
from runner.analysis.validity.evidence import CellEvidence
from runner.analysis.validity.load_rules import lumps
from runner.models.result import Check
from runner.models.status import Reason

ACCEPTANCE_MODE = "acceptance"
TRUNCATED_SHARE = 0.20
"""Above it, the length of many answers is that of the cap, and lengths of a pair can't differ."""
IDENTITY_TOLERANCE = 0.02
"""specdec_bench's check of AL = 1 + Σ marginals, in tokens per step."""
STEPS_TOLERANCE = 0.02
"""Of the bounds on decode steps: that of the counters against the records."""

_ROUNDING = 1e-9


def truncated(evidence: CellEvidence) -> Check:
    """Most answers end by themselves before the cap on their length."""
    name, cell, lengths = "truncated", evidence.cell, evidence.requests.output_tokens
    if not len(lengths):
        return ok(name, "not worked out: no good request")
    cut = sum(1 for length in lengths if length >= cell.output_tokens)
    share = cut / len(lengths)
    message = f"{cut} of {len(lengths)} answers reached the cap of {cell.output_tokens} tokens, "
    message += percent(share)
    if cell.ignore_eos:
        return ok(name, f"{message}; every answer was to", share=share)
    message += f", limit {percent(TRUNCATED_SHARE)}"
    return judged(name, share > TRUNCATED_SHARE, message, share=share)


def natural_end(evidence: CellEvidence) -> Check:
    """Acceptance is that of answers which end where the model ends them.

    No share is allowed: text after its natural end is not what a drafter is for, and how much of
    it there is can't be told.
    """
    name, cell = "natural_end", evidence.cell
    if cell.mode != ACCEPTANCE_MODE:
        return ok(name, f"not an acceptance cell (mode {cell.mode or 'not given'})")
    if cell.ignore_eos:
        message = (
            f"ignore_eos on, wanted off: answers go on after their end up to {cell.output_tokens} "
            "tokens, and their acceptance is part of the figure"
        )
        return warn(name, message)
    return ok(name, "answers end where the model ends them")


def marginals(evidence: CellEvidence) -> Check:
    """Acceptance length = 1 + Σ acceptance by position, in the records and in the counters; no
    position is accepted more often than the one before."""
    name, pool = "marginals", evidence.acceptance
    histogram = pool.histogram.total()
    if histogram and histogram != pool.steps:
        message = f"histogram of {histogram} steps, records of {pool.steps}, limit 0 apart"
        return refuse(name, Reason.COUNTERS_DISAGREE, message, histogram=histogram)
    recorded, counted = pool.acceptance(), _counted(evidence)
    sources = [("records", recorded.length, recorded.positions)] if recorded.positions else []
    sources += [("counters", *counted)] if counted is not None and counted[1] else []
    known = [(word, value, shares) for word, value, shares in sources if value is not None]
    if not known:
        return ok(name, "not worked out: no acceptance by position")
    parts, bad, worst = [], False, 0.0
    for word, length, positions in known:
        summed = 1 + fsum(positions)
        worst = max(worst, abs(length - summed))
        rising = any(after > before + _ROUNDING for before, after in pairwise(positions))
        bad = bad or rising
        parts.append(f"{word}: length {length:.3f}, 1 + Σ positions {summed:.3f}")
        parts += [f"{word}: a later position is accepted more often"] if rising else []
    message = f"{'; '.join(parts)}; limit {IDENTITY_TOLERANCE:g} apart"
    if bad or worst > IDENTITY_TOLERANCE + _ROUNDING:
        return refuse(name, Reason.COUNTERS_DISAGREE, message, apart=worst)
    return ok(name, message, apart=worst)


def _counted(evidence: CellEvidence) -> tuple[float, tuple[float, ...]] | None:
    """Acceptance length and positions by the server's counters; None where they do not tell."""
    drafts = evidence.delta(DRAFTS).value
    accepted = evidence.delta(ACCEPTED_TOKENS).value
    if not drafts or accepted is None:
        return None
    by = evidence.delta(ACCEPTED_PER_POSITION).by("position")
    ordered = sorted((int(name), count) for name, count in by.items() if name.isdecimal())
    return 1 + accepted / drafts, tuple(count / drafts for _, count in ordered)


def client_steps(evidence: CellEvidence) -> Check:
    """Pieces that the client saw fit the decode steps that the records allow.

    More pieces than steps: something else counts. Fewer: vLLM merges pieces for a slow client,
    and times between them are not those of steps.
    """
    name, pool, requests = "client_steps", evidence.acceptance, evidence.requests
    places = [place for place, steps in enumerate(requests.steps) if steps != ABSENT]
    if not places:
        return ok(name, "not compared: no request tells its steps")
    gaps = [requests.gaps[place] for place in places]
    if ABSENT in gaps or not sum(gaps) or len(places) != pool.requests:
        return ok(name, "not compared: not every request tells its pieces")
    pieces, low, high = sum(gaps), pool.decode_steps_low, pool.decode_steps_high
    tokens = sum(requests.output_tokens[place] - 1 for place in places)
    numbers = f"{_lengths(evidence)}, client {tokens / pieces:.3f} tokens a piece"
    steps = f"{pieces} pieces, {low} to {high} decode steps"
    figures = {"pieces": pieces, "low": low, "high": high, "tokens_per_piece": tokens / pieces}
    lumped, judgeable = lumps(requests)
    if lumped > COALESCED_LIMIT * judgeable:
        message = (
            f"not compared: {lumped} of {judgeable} streams arrived in lumps; {steps}; {numbers}"
        )
        return ok(name, message, **figures)
    message = f"{steps}, limit {percent(STEPS_TOLERANCE)} outside; {numbers}"
    if pieces > high * (1 + STEPS_TOLERANCE):
        return refuse(name, Reason.COUNTERS_DISAGREE, f"more pieces: {message}", **figures)
    if pieces < low * (1 - STEPS_TOLERANCE):
        return warn(name, f"pieces were merged on the way: {message}", **figures)
    return ok(name, message, **figures)


def _lengths(evidence: CellEvidence) -> str:
    recorded, counted = evidence.acceptance.acceptance().length, _counted(evidence)
    records = "unknown" if recorded is None else f"{recorded:.3f}"
    counters = "unknown" if counted is None else f"{counted[0]:.3f}"
    return f"acceptance length {records} in records, {counters} in counters"
