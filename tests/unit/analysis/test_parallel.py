"""Reading a file in parts changes nothing."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.analysis import parallel
from runner.analysis.parallel import (
    MeasuredRecords,
    line_parts,
    measure_part,
    measure_records,
    merged,
)
from runner.errors import ArtifactError
from tests.fixtures.run_folder import exports_of

RECORDED = [
    *(exports_of("complete") / "profile_export.jsonl").read_bytes().splitlines()[:6],
    *(exports_of("half_failed") / "profile_export.jsonl").read_bytes().splitlines()[:2],
    *(exports_of("pinned_base_c4") / "profile_export.jsonl").read_bytes().splitlines()[:2],
]
ODD = [b"", b'{"metadata":{"conver', b"null", b"\xff\xfe", b"{}{}"]


def changed(line: bytes, **metadata: object) -> bytes:
    record = json.loads(line)
    record["metadata"].update(metadata)
    if "spec_decode_acceptance" in record:
        # counted zero times, and above k
        record["spec_decode_acceptance"]["acceptance_histogram"]["9"] = 0
        record["spec_decode_acceptance"].pop("num_spec_tokens")
    return json.dumps(record).encode()


LINES = [
    *RECORDED,
    *ODD,
    changed(RECORDED[0], benchmark_phase="warmup"),
    changed(RECORDED[1], was_cancelled=True),
    changed(RECORDED[2], conversation_id="another"),
    changed(RECORDED[3], request_start_ns=5),
]


def same(one: MeasuredRecords, other: MeasuredRecords) -> None:
    assert one.acceptance == other.acceptance
    # a counter compares a missing count with zero as equal; what it holds must be equal too
    assert dict(one.acceptance.histogram) == dict(other.acceptance.histogram)
    assert one.acceptance.acceptance() == other.acceptance.acceptance()
    assert one.columns == other.columns
    assert one[2:] == other[2:]
    for name in parallel.RequestColumns.__dataclass_fields__:
        mine, theirs = getattr(one.columns, name), getattr(other.columns, name)
        if name.endswith("_ms"):  # a value that is not recorded is NaN, which is not itself
            mine, theirs = ([str(value) for value in column] for column in (mine, theirs))
        assert mine == theirs, name


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    lines=st.lists(st.sampled_from(LINES), max_size=12),
    last_newline=st.booleans(),
    part_bytes=st.integers(min_value=1, max_value=9_000),
)
def test_splitting_a_file_changes_nothing(
    tmp_path: Path, lines: list[bytes], last_newline: bool, part_bytes: int
) -> None:
    path = tmp_path / "profile_export.jsonl"
    path.write_bytes(b"\n".join(lines) + (b"\n" if last_newline else b""))
    parts = list(line_parts(path, part_bytes))
    assert [first for first, _ in parts] == [0, *(end for _, end in parts)][: len(parts)]
    assert not parts or parts[-1][1] == path.stat().st_size
    whole = measure_records(path, workers=1)
    same(merged(measure_part(path, None, part) for part in parts), whole)


def test_processes_read_what_one_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "profile_export.jsonl"
    path.write_bytes(b"\n".join(LINES * 4))
    whole = measure_records(path)
    assert len(whole.columns) > 20
    assert whole.torn_lines == 16
    monkeypatch.setattr(parallel, "SPLIT_ABOVE_BYTES", 0)
    monkeypatch.setattr(parallel, "PART_BYTES", 20_000)
    same(measure_records(path, workers=2), whole)


def test_columns_travel_as_bytes() -> None:
    path = exports_of("complete") / "profile_export.jsonl"
    one = measure_records(path)
    many = merged([one] * 50)
    assert len(many.columns) == 1000
    # 70 bytes of columns and an id of 36 for each request; lists take several times that
    assert len(pickle.dumps(many)) < 1000 * (70 + 37) + 4_000


def test_absent_values_stay_absent() -> None:
    measured = measure_records(exports_of("pinned_base_c4") / "profile_export.jsonl")
    assert set(measured.columns.steps) == {-1}
    assert measured.acceptance.missing == len(measured.columns) > 0
    assert not any(math.isnan(value) for value in measured.columns.latency_ms)


def test_errors_come_back_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "profile_export.jsonl"
    with pytest.raises(ArtifactError, match="can't read the request records"):
        measure_records(path)
    with pytest.raises(ArtifactError, match=r"AIPerf 0\.1\.0"):
        measure_records(path, "0.1.0")
