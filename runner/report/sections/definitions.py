"""How each number is defined; tables link here."""

from __future__ import annotations

from runner.analysis.resampling import LEAST_REPEATS, RESAMPLES
from runner.report.document import Block, Paragraph, Section, Span, plain, text

_SUMS = (
    "Sums run over the good requests of the measured phase: no warm-up, no failed, cancelled or "
    "empty request. A cell whose checks refuse it is in no figure."
)
_DEFINED = (
    (
        "acceptance-length",
        "Acceptance length",
        " = 1 + Σ accepted drafts / Σ drafted steps, in tokens per step. A step counts only if it "
        "had a draft. At most k + 1. Accepted drafts that the output cap cut off are counted.",
    ),
    (
        "acceptance-of-requests",
        "Acceptance length of requests",
        ": 1 + accepted drafts / drafted steps of one request. Its mean weighs short answers like "
        "long ones and is not the pooled length.",
    ),
    (
        "acceptance-rate",
        "Draft acceptance rate",
        " = Σ accepted drafts / Σ drafted tokens.",
    ),
    (
        "acceptance-by-position",
        "Acceptance by position",
        ": the share of drafted steps that accepted at least i drafts; and the same among the "
        "steps that accepted at least i − 1.",  # noqa: RUF001
    ),
    (
        "drafting-coverage",
        "Drafting coverage",
        " = drafted steps / decode steps. Decode steps are not reported by the server: they are "
        "output tokens − 1 − accepted drafts, plus at most the accepted drafts of the last step, "  # noqa: RUF001
        "which may have been cut off. The figure in front counts the pieces of the stream where "
        "these fit those bounds, else the most steps there can have been; the bounds stand in "
        "brackets.",
    ),
    (
        "tokens-per-step",
        "Tokens per step",
        " = (output tokens − 1) / decode steps, over all decode steps, drafted or not; bounds as "  # noqa: RUF001
        "above.",
    ),
    (
        "throughput",
        "Output token throughput",
        " = Σ output tokens / (last request end − first request start), ramp-up and drain "  # noqa: RUF001
        "included; with repeats their mean.",
    ),
    (
        "throughput-ratio",
        "Throughput ratio",
        " = throughput / throughput of the baseline with the same prompts, concurrency and limits, "
        "both in the figures, on servers that differ in nothing but the drafter and what vLLM "
        "changes because of it. No pair, no ratio.",
    ),
    (
        "intervals",
        "Intervals",
        f" hold the middle 95 %. With {LEAST_REPEATS} or more repeats on both sides: a t "
        "interval of the logarithm of the ratio of means. Else a percentile bootstrap: the rows of "
        "the prompt set "
        f"are drawn with replacement {RESAMPLES:,} times, the same rows on both sides; it tells "
        "what other rows would change, not how a host varies from one run to the next. "
        "“No significant difference” means that the interval holds 1.",
    ),
    (
        "equal-points",
        "At equal interactivity or throughput",
        ": the measured points of a configuration, joined by straight lines in the order of "
        "concurrency; the best value that the line reaches at the other side's measured point. "
        "Only where both measured ranges hold it. The interval resamples every point.",
    ),
    (
        "interactivity-per-user",
        "Interactivity per user",
        " = 1000 / mean time between tokens in ms, which is (latency − time to first token) / "  # noqa: RUF001
        "(output tokens − 1) of each request. Not the throughput divided by the concurrency.",  # noqa: RUF001
    ),
    (
        "time-to-first-token",
        "Time to first token and latency",
        " are percentiles over the requests of one cell, interpolated linearly: among fewer than "
        "100 requests the 99th lies between the two slowest. The ratio is that of the means; above "
        "1 is slower.",
    ),
    (
        "net-speed-up",
        "Net speed-up",
        " = Σ latency of the baseline / Σ latency of the configuration over the rows that are good "
        "on both sides: it holds the prefill, which speculation does not shorten.",
    ),
    (
        "mrcr-score",
        "MRCR score",
        ": 0 unless the answer begins with the asked prefix, else the similarity "
        "(difflib.SequenceMatcher) of the rest to the expected text; the mean over answers.",
    ),
    (
        "equal-answers",
        "Equal answers",
        ": rows and turns whose whole text is the same on both sides, of those that both answered.",
    ),
)


def definitions_section() -> Section:
    """A paragraph for each number, with its anchor."""
    blocks: list[Block] = [Paragraph(plain(_SUMS))]
    for anchor, name, words in _DEFINED:
        blocks.append(Paragraph(text(Span(name, strong=True), words), anchor))
    return Section("How each number is defined", "definitions", tuple(blocks))
