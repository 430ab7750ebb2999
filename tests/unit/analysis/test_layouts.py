"""Which layout an AIPerf version is read with, and what records of older versions give."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from runner.analysis.layouts.catalogue import Layout, Place, layout_for, layouts, release
from runner.analysis.layouts.wire import wire_of
from runner.analysis.records import (
    ErrorRecord,
    Outcome,
    RecordReader,
    RequestRecord,
    SpecRecord,
    read_records,
)
from runner.errors import ArtifactError
from tests.fixtures.run_folder import exports_of

OLDER = Path(__file__).parent / "records_by_version"
RECORDED = exports_of("complete") / "profile_export.jsonl"


def older(version: str) -> tuple[list[RequestRecord], RecordReader]:
    reader = read_records(OLDER / f"aiperf-{version}.jsonl", version)
    return list(reader), reader


def test_ranges_leave_no_gap() -> None:
    known = layouts()
    assert [layout.before for layout in known] == [*(one.first for one in known[1:]), None]
    assert [layout.first for layout in known] == ["0.2", "0.3", "0.5", "0.13"]


@pytest.mark.parametrize(
    ("version", "first"),
    [
        ("0.2.0", "0.2"),
        ("0.3.0", "0.3"),
        ("0.4.0", "0.3"),
        ("0.5.0", "0.5"),
        ("0.6.0.post1", "0.5"),
        ("0.12.0.dev20260821", "0.5"),
        ("0.13.0", "0.13"),
        ("0.13.0.dev20261023", "0.13"),
        ("v0.13", "0.13"),
        ("7.1", "0.13"),
        ("unknown", "0.13"),
        (None, "0.13"),
    ],
)
def test_layout_of_a_version(version: str | None, first: str) -> None:
    assert layout_for(version).first == first


def test_a_version_before_every_layout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError) as caught:
        read_records(tmp_path / "profile_export.jsonl", "0.1.1")
    text = str(caught.value)
    assert "AIPerf 0.1.1" in text
    assert "0.2 to below 0.3, 0.3 to below 0.5, 0.5 to below 0.13, 0.13 and newer" in text
    assert str(tmp_path) in text
    assert "next: " in text


def test_release_numbers() -> None:
    assert release("0.13.0.dev3") == release("v0.13") == (0, 13)
    assert release("10.0") == (10,)
    assert release("main") is None


@pytest.mark.parametrize("version", ["0.2.0", "0.4.0", "0.12.0"])
def test_records_of_older_versions(version: str) -> None:
    records, reader = older(version)
    assert (reader.torn_lines, reader.warmup_records) == (0, 1)
    assert [record.outcome for record in records] == [Outcome.GOOD, Outcome.GOOD, Outcome.ERROR]
    now = list(read_records(RECORDED))[1:3]
    for then, recorded in zip(records, now, strict=False):
        assert (then.id, then.turn) == (recorded.id, recorded.turn)
        assert (then.start_ns, then.end_ns) == (recorded.start_ns, recorded.end_ns)
        assert (then.latency_ms, then.ttft_ms) == (recorded.latency_ms, recorded.ttft_ms)
        assert (then.output_tokens, then.stream_gaps) == (64, recorded.stream_gaps)
        assert then.spec is None
    assert records[2].error is not None
    assert records[2].error.kind == "500 Internal Server Error"


def test_what_older_versions_did_not_write_is_none() -> None:
    # 0.2 counted tokens itself; 0.3 has usage; 0.5 the time of the credit and socket reads
    figures = {}
    for version in ("0.2.0", "0.4.0", "0.12.0"):
        first = older(version)[0][0]
        figures[version] = (first.input_tokens, first.credit_ns is not None, first.chunks)
    assert figures["0.2.0"] == (31, False, None)
    assert figures["0.4.0"] == (41, False, None)
    assert figures["0.12.0"] == (41, True, 1)


def renamed_layout() -> Layout:
    """A future layout: other names, other units, second names for several fields."""
    newest = msgspec.to_builtins(layouts()[-1])
    newest["parts"] = {
        "metadata": "about",
        "metrics": "figures",
        "metric_value": "v",
        "error": "failure",
        "spec": "speculation",
    }
    newest["metadata"]["id"] = {"names": ["row", "conversation_id"]}
    newest["metadata"]["start_ns"] = {"names": ["start"], "unit": "us"}
    newest["metrics"]["latency_ms"] = {"names": ["latency"], "unit": "s"}
    newest["metrics"]["chunks"] = {"names": ["reads", "old_reads", "older_reads"]}
    newest["spec"] = {
        "steps": "rounds",
        "accepted": "num_accepted_draft_tokens",
        "drafted": "num_draft_tokens",
    }
    newest["error"]["type"] = "kind"
    return msgspec.convert(newest, Layout)


def test_a_new_layout_is_data_alone(tmp_path: Path) -> None:
    line = {
        "about": {"conversation_id": "a", "start": 2_000, "request_end_ns": 5_000_000},
        "figures": {"latency": {"v": 0.25}, "older_reads": {"v": 7}},
        "speculation": {
            "rounds": 3,
            "num_accepted_draft_tokens": 4,
            "num_draft_tokens": 9,
            "completion_tokens": 8,
        },
        "failure": {"code": 500, "kind": "Down"},
    }
    path = tmp_path / "profile_export.jsonl"
    path.write_text(json.dumps(line) + "\n")
    (record,) = RecordReader(path, layout=renamed_layout())
    assert (record.id, record.start_ns, record.end_ns) == ("a", 2_000_000, 5_000_000)
    assert (record.latency_ms, record.chunks) == (250.0, 7)
    assert isinstance(record.spec, SpecRecord)
    assert (record.spec.steps, record.spec.accepted, record.spec.drafted) == (3, 4, 9)
    assert record.spec.completion_tokens is None, "the layout does not name it"
    assert record.error is not None
    assert record.error.kind == "500 Down"


def test_a_record_without_its_id_is_no_whole_record(tmp_path: Path) -> None:
    path = tmp_path / "profile_export.jsonl"
    path.write_text('{"metadata":{},"metrics":{}}\n{"metadata":{"conversation_id":null}}\n')
    reader = read_records(path)
    assert list(reader) == []
    assert reader.torn_lines == 2


@pytest.mark.parametrize(
    ("part", "field", "place", "message"),
    [
        ("metrics", "speed", Place(("x",)), "there is no field speed"),
        ("metrics", "latency_ms", Place(("x",), "hours"), "can't be in hours"),
        ("metrics", "latency_ms", Place(("x",)), "can't be in None"),
        ("metrics", "chunks", Place(("x",), "ms"), "can't be in ms"),
        ("metadata", "id", Place(()), "has no name"),
    ],
)
def test_a_wrong_layout_is_refused(part: str, field: str, place: Place, message: str) -> None:
    newest = layouts()[-1]
    places = {**getattr(newest, part), field: place}
    wrong = msgspec.structs.replace(newest, **{part: places})
    with pytest.raises(ValueError, match=message):
        wire_of(wrong, SpecRecord, ErrorRecord)
