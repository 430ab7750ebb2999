"""Reading request records: what is kept, what is dropped and counted."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.analysis.records import Outcome, RecordReader, read_records
from runner.errors import ArtifactError
from tests.fixtures.run_folder import exports_of


def records_file(name: str) -> Path:
    return exports_of(name) / "profile_export.jsonl"


def test_first_record_of_complete() -> None:
    first = next(iter(read_records(records_file("complete"))))
    assert first.id == "cd308ba3-8b84-4e10-9031-2eb8a44358f8"
    assert first.turn == 0
    assert first.end_ns - first.start_ns == 114771420
    assert first.latency_ms == pytest.approx(114.77142)
    assert first.output_tokens == 64
    # the server counted 41 prompt tokens (with the chat template), the client 31
    assert first.input_tokens == 41
    assert first.chunks == 1
    assert first.stream_gaps == 27
    assert first.itl_ms == 0.0
    assert first.outcome is Outcome.GOOD
    assert first.spec is not None
    assert (first.spec.steps, first.spec.accepted, first.spec.drafted) == (16, 37, 62)
    assert first.spec.histogram == {0: 2, 1: 4, 2: 3, 3: 1, 4: 6}
    assert sum(msgspec.json.decode(first.spec.per_step_accepted)) == 37
    assert first.spec.accepted_last == msgspec.json.decode(first.spec.per_step_accepted)[-1]
    assert sum(msgspec.json.decode(first.spec.per_step_drafted)) == 62


def test_error_record() -> None:
    first = next(iter(read_records(records_file("half_failed"))))
    assert first.outcome is Outcome.ERROR
    assert first.error is not None
    assert first.error.kind == "500 Internal Server Error"
    assert "EngineDeadError" in (first.error.message or "")
    assert first.output_tokens is None
    assert first.itl_ms is None
    assert first.spec is None


def test_torn_last_line_is_dropped_and_counted(tmp_path: Path) -> None:
    torn = tmp_path / "profile_export.jsonl"
    torn.write_bytes(records_file("interrupted").read_bytes()[:-700])
    reader = read_records(torn)
    assert len(list(reader)) == 27
    assert reader.torn_lines == 1
    assert len(list(reader)) == 27, "a second pass starts anew"
    assert reader.torn_lines == 1


def test_whole_last_line_without_newline_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "profile_export.jsonl"
    path.write_bytes(records_file("interrupted").read_bytes().rstrip(b"\n"))
    reader = read_records(path)
    assert len(list(reader)) == 28
    assert reader.torn_lines == 0


def test_warmup_is_counted_and_not_yielded(tmp_path: Path) -> None:
    lines = records_file("complete").read_text().splitlines()
    warmup = json.loads(lines[0])
    warmup["metadata"]["benchmark_phase"] = "warmup"
    path = tmp_path / "profile_export.jsonl"
    path.write_text("\n".join([json.dumps(warmup), *lines[1:]]) + "\n")
    reader = read_records(path)
    assert len(list(reader)) == 19
    assert reader.warmup_records == 1


def test_cancelled_and_empty_are_told_apart(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in records_file("complete").read_text().splitlines()[:2]]
    lines[0]["metadata"]["was_cancelled"] = True
    lines[1]["metrics"]["usage_completion_tokens"]["value"] = 0
    path = tmp_path / "profile_export.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines))
    assert [record.outcome for record in read_records(path)] == [Outcome.CANCELLED, Outcome.EMPTY]


@pytest.mark.parametrize(
    ("text", "gaps"), [("[]", 0), ("[1.5]", 1), ("[ 1, 2,3 ]", 3), ("1.5", None)]
)
def test_stream_gaps_are_counted(tmp_path: Path, text: str, gaps: int | None) -> None:
    path = tmp_path / "profile_export.jsonl"
    path.write_text(
        '{"metadata":{"conversation_id":"a"},"metrics":'
        f'{{"inter_chunk_latency":{{"value":{text},"unit":"ms"}}}}}}\n'
    )
    assert [record.stream_gaps for record in read_records(path)] == [gaps]


def test_missing_file_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="can't read the request records"):
        list(read_records(tmp_path / "profile_export.jsonl"))


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(block_bytes=st.integers(min_value=2, max_value=200_000))
def test_block_size_changes_nothing(block_bytes: int) -> None:
    path = records_file("complete")
    assert list(RecordReader(path, block_bytes=block_bytes)) == list(read_records(path))
