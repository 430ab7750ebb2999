"""Evidence of recorded and of hand-made cells."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import nan

from runner.analysis.acceptance import AcceptancePool, pool
from runner.analysis.prometheus import Delta, Known
from runner.analysis.records import read_records
from runner.analysis.requests import RequestColumns
from runner.analysis.validity.evidence import CellEvidence, read_gauges
from runner.models.job import Speculative
from tests.fixtures.run_folder import NGRAM, cell_plan, exports_of, server_plan

MS = 1_000_000


def recorded(
    name: str, concurrency: int, speculative: Speculative | None = None, **cell: object
) -> CellEvidence:
    """Evidence of recorded exports; plan fields may be set by name."""
    exports = exports_of(name)
    records = list(read_records(exports / "profile_export.jsonl"))
    columns = RequestColumns()
    for record in records:
        columns.add(record)
    plan = cell_plan("s", "code", concurrency, exports).model_copy(update=cell)
    return CellEvidence(
        cell=plan,
        server=server_plan("s", speculative),
        requests=columns,
        acceptance=pool(records) if speculative else AcceptancePool(),
        deltas={},
        gauges=read_gauges(exports),
        settings={},
    )


def ngram() -> CellEvidence:
    """The recorded n-gram cell."""
    return recorded("coalesced_ngram_c4", 4, NGRAM)


def plain(**cell: object) -> CellEvidence:
    """The recorded pinned baseline at concurrency 1: 16 requests of 64 tokens."""
    evidence = recorded("pinned_base_c1", 1)
    return replace(evidence, cell=evidence.cell.model_copy(update=cell))


def columns(
    spans_ms: Sequence[tuple[float, float]],
    *,
    tokens: int = 10,
    ttft_ms: float = 0.0,
    waited_ms: float = nan,
) -> RequestColumns:
    """Requests from start to end, each a row of its own; latency = span."""
    count = len(spans_ms)
    starts, ends = zip(*spans_ms, strict=True)
    absent = array("i", [-1] * count)
    return RequestColumns(
        ids=bytearray("".join(f"r{number}\n" for number in range(count)).encode()),
        turn=array("i", [0] * count),
        start_ns=array("q", [round(at * MS) for at in starts]),
        end_ns=array("q", [round(at * MS) for at in ends]),
        waited_ms=array("f", [waited_ms] * count),
        latency_ms=array("d", [end - start for start, end in spans_ms]),
        ttft_ms=array("d", [ttft_ms] * count),
        output_tokens=array("i", [tokens] * count),
        input_tokens=absent[:],
        steps=absent[:],
        accepted=absent[:],
        drafted=absent[:],
        gaps=absent[:],
        reads=absent[:],
    )


def made(
    requests: RequestColumns, concurrency: int = 1, *, speculative: bool = False, **cell: object
) -> CellEvidence:
    """Evidence with hand-made requests."""
    base = ngram() if speculative else plain()
    plan = base.cell.model_copy(update={"concurrency": concurrency, **cell})
    return replace(base, cell=plan, requests=requests)


def grown(**values: float) -> Mapping[str, Delta]:
    """Known growth of counters, named without `vllm:`."""
    return {f"vllm:{name}": Delta(Known.KNOWN, value) for name, value in values.items()}


def empty(concurrency: int = 4) -> CellEvidence:
    """A cell of which nothing at all was recorded."""
    return CellEvidence(
        cell=ngram().cell.model_copy(update={"concurrency": concurrency}),
        server=server_plan("s", NGRAM),
        requests=RequestColumns(),
        acceptance=AcceptancePool(),
        deltas={},
        gauges={},
        settings={},
    )
