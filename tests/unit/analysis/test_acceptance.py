"""Acceptance figures against values worked out by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runner.analysis.acceptance import AcceptancePool, decode_steps, pool
from runner.analysis.records import RequestRecord, SpecRecord, read_records
from tests.fixtures.run_folder import exports_of, perfect_exports


def recorded(name: str) -> list[RequestRecord]:
    return list(read_records(exports_of(name) / "profile_export.jsonl"))


def test_complete_run() -> None:
    # AIPerf's own sums over the 20 requests: 351 steps, 719 accepted, 1364 drafted,
    # histogram 0: 87, 1: 81, 2: 45, 3: 4, 4: 134 (81 + 2*45 + 3*4 + 4*134 = 719)
    figures = pool(recorded("complete")).acceptance()
    assert (figures.steps, figures.accepted, figures.drafted) == (351, 719, 1364)
    assert figures.length == (351 + 719) / 351
    assert figures.rate == 719 / 1364
    assert figures.k == 4
    # at least 1: 351 - 87 = 264; 2: 264 - 81 = 183; 3: 183 - 45 = 138; 4: 138 - 4 = 134
    assert figures.positions == (264 / 351, 183 / 351, 138 / 351, 134 / 351)
    assert figures.conditional == (264 / 351, 183 / 264, 138 / 183, 134 / 138)
    assert abs(1 + sum(figures.positions) - figures.length) < 1e-12
    assert (figures.requests, figures.errors, figures.missing) == (20, 0, 0)


def test_decode_steps_of_complete_run() -> None:
    # 20 requests of 64 tokens: 20 * 63 = 1260 tokens after the first; 1260 - 719 = 541 steps at
    # least, 618 with the drafts of the last steps that may have been cut off; 605 pieces streamed
    figures = pool(recorded("complete")).acceptance()
    coverage, per_step = figures.coverage, figures.tokens_per_step
    assert coverage is not None and per_step is not None
    assert coverage.observed
    assert (coverage.value, coverage.low, coverage.high) == (351 / 605, 351 / 618, 351 / 541)
    assert (per_step.value, per_step.low, per_step.high) == (1260 / 605, 1260 / 618, 1260 / 541)


def test_decode_steps_of_one_request() -> None:
    # 64 tokens, 37 accepted, 4 of them in the last step: 63 - 37 = 26, at most 26 + 4 = 30
    first = recorded("complete")[0]
    assert first.spec is not None
    assert decode_steps(64, first.spec) == (26, 30)


def test_decode_steps_are_never_fewer_than_drafted_ones() -> None:
    # k = 3, 10 tokens in 3 steps of 3 accepted drafts each: 9 - 9 = 0, yet 3 steps drafted
    spec = SpecRecord(3, 9, 9, 3, {3: 3}, 10, (3, 3, 3), (3, 3, 3))
    assert decode_steps(10, spec) == (3, 3)


def test_decode_steps_without_step_details_use_the_largest_acceptance() -> None:
    spec = SpecRecord(2, 3, 8, 4, {1: 1, 2: 1}, 10)
    assert decode_steps(10, spec) == (6, 8)


def test_stream_outside_the_bounds_falls_back_on_the_most_steps() -> None:
    import msgspec

    records = [msgspec.structs.replace(record, stream_gaps=1) for record in recorded("complete")]
    coverage = pool(records).acceptance().coverage
    assert coverage is not None
    assert not coverage.observed
    assert coverage.value == coverage.low == 351 / 618


def test_perfect_drafter_is_exact(tmp_path) -> None:
    exports = perfect_exports(tmp_path / "perfect", k=3)
    figures = pool(read_records(exports / "profile_export.jsonl")).acceptance()
    assert figures.length == 4.0
    assert figures.rate == 1.0
    assert figures.positions == (1.0, 1.0, 1.0)
    assert figures.coverage is not None
    assert figures.coverage.value == 1.0


def test_failed_and_missing_are_counted_not_averaged() -> None:
    figures = pool(recorded("half_failed")).acceptance()
    assert (figures.requests, figures.errors, figures.missing) == (0, 6, 6)
    assert figures.length is None
    assert figures.rate is None
    assert figures.positions == ()
    assert figures.coverage is None


def test_requests_without_a_drafted_step_have_no_length() -> None:
    spec = SpecRecord(0, 0, 0, 4, {}, 8, (), ())
    record = RequestRecord("a", 0, 0, 1, 1.0, 0.5, 8, 4, 8, 7, None, False, spec)
    figures = pool([record]).acceptance()
    assert figures.length is None
    assert figures.coverage is not None
    assert figures.coverage.value == 0.0


def test_different_k_has_no_k() -> None:
    pools = [AcceptancePool(), AcceptancePool()]
    for one, k in zip(pools, (2, 4), strict=True):
        spec = SpecRecord(1, k, k, k, {k: 1}, 9)
        one.add(RequestRecord("a", 0, 0, 1, 1.0, 0.5, 9, 4, 8, 8, None, False, spec))
    pools[0].merge(pools[1])
    figures = pools[0].acceptance()
    assert figures.k is None
    # both steps accepted positions 1 and 2, one of two 3 and 4
    assert figures.positions == (1.0, 1.0, 0.5, 0.5)


@given(data=st.data())
def test_order_and_grouping_change_nothing(data: st.DataObject) -> None:
    records = recorded("complete") + recorded("half_failed")
    shuffled = data.draw(st.permutations(records))
    cut = data.draw(st.integers(min_value=0, max_value=len(records)))
    parts = [pool(shuffled[:cut]), pool(shuffled[cut:])]
    parts[0].merge(parts[1])
    assert parts[0].acceptance() == pool(records).acceptance()
