"""Counters between two scrapes: grown, absent, restarted."""

from __future__ import annotations

import pytest

from runner.analysis.prometheus import (
    ACCEPTED_PER_POSITION,
    ACCEPTED_TOKENS,
    DRAFTS,
    Known,
    counter_delta,
    parse_metrics,
)
from runner.errors import ArtifactError
from tests.fixtures.run_folder import counters_text


def test_growth() -> None:
    before = parse_metrics(counters_text(1000, 4000, 2000))
    after = parse_metrics(counters_text(1705, 6740, 3398))
    drafts = counter_delta(before, after, DRAFTS)
    assert (drafts.state, drafts.value) == (Known.KNOWN, 705.0)
    assert counter_delta(before, after, ACCEPTED_TOKENS).value == 1398.0


def test_smaller_means_restarted() -> None:
    before = parse_metrics(counters_text(1000, 4000, 2000))
    after = parse_metrics(counters_text(50, 200, 100))
    drafts = counter_delta(before, after, DRAFTS)
    assert (drafts.state, drafts.value) == (Known.RESTARTED, None)
    assert drafts.note == "vllm:spec_decode_num_drafts fell from 1000 to 50"


def test_vanished_means_restarted_and_no_value() -> None:
    drafts = counter_delta(parse_metrics(counters_text(1000, 4000, 2000)), {}, DRAFTS)
    assert (drafts.state, drafts.value) == (Known.RESTARTED, None)


def test_absent_is_unknown_never_zero() -> None:
    drafts = counter_delta({}, {}, DRAFTS)
    assert (drafts.state, drafts.value) == (Known.UNKNOWN, None)


def test_engines_are_summed_and_a_new_one_is_noted() -> None:
    before = parse_metrics(counters_text(1000, 0, 0))
    after = parse_metrics(counters_text(1500, 0, 0) + counters_text(500, 0, 0, engine="1"))
    drafts = counter_delta(before, after, DRAFTS)
    assert drafts.value == 1000.0
    assert drafts.by("engine") == {"0": 500.0, "1": 500.0}
    assert drafts.note == "1 new series of vllm:spec_decode_num_drafts"


def test_created_anew_is_a_restart_although_the_count_grew() -> None:
    def scrape(value: float, created: float) -> str:
        name = "vllm:spec_decode_num_drafts"
        return (
            f'# TYPE {name}_total counter\n{name}_total{{engine="0"}} {value}\n'
            f'# TYPE {name}_created gauge\n{name}_created{{engine="0"}} {created}\n'
        )

    before = parse_metrics(scrape(100, 1.7e9))
    assert counter_delta(before, parse_metrics(scrape(500, 1.7e9)), DRAFTS).value == 400.0
    restarted = counter_delta(before, parse_metrics(scrape(500, 1.7e9 + 60)), DRAFTS)
    assert restarted.state is Known.RESTARTED


def test_positions() -> None:
    name = ACCEPTED_PER_POSITION
    text = f"# TYPE {name}_total counter\n" + "".join(
        f'{name}_total{{engine="{engine}",position="{position}"}} {10 - position}\n'
        for engine in range(2)
        for position in range(3)
    )
    delta = counter_delta({}, parse_metrics(text), name)
    assert delta.by("position") == {"0": 20.0, "1": 18.0, "2": 16.0}


def test_other_text_is_an_error() -> None:
    with pytest.raises(ArtifactError, match="not in the Prometheus text format"):
        parse_metrics("<html>502 Bad Gateway</html>\n")
