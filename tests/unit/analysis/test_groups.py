"""Remarks on groups of cells; and a cell that is out of the figures is out of all of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from runner.analysis.conclusions import Conclusions, conclude
from runner.analysis.groups import GroupCheck, judge_groups
from runner.analysis.measured import measure_run
from runner.models.plan import PlannedRow
from runner.models.status import Reason, Status
from tests.unit.analysis.sweep import Request, Sweep, eagle, same

DRAFTED = (3, 3)
ROWS = [
    PlannedRow(id=f"rows/{i}", category="ab"[i % 2], prompt_tokens=1100 + 600 * (i % 2))
    for i in range(6)
]


def remarks(sweep: Sweep) -> list[GroupCheck]:
    return list(judge_groups(measure_run(sweep.write()).attempts))


def test_repeats_five_per_cent_apart_are_fine_and_six_are_not(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    # 9 tok/s and 9 / 1.04: 4 / 102 of their mean; 9 / 1.07: 7 / 103.5
    for prompts, latency in (("near", 1.04), ("far", 1.07)):
        sweep.cell("baseline", same(8), prompts=prompts)
        sweep.cell("baseline", same(8, latency_s=latency), prompts=prompts, repeat=2)
    (one,) = remarks(sweep)
    assert (one.subject, one.check.name) == ("baseline on far at 1", "repeat_spread")
    assert "2 repeats lie 6.76 % of their mean apart" in one.check.message
    assert one.paths == tuple(f"cells/baseline-far-c1-r{repeat}/attempt-1" for repeat in (1, 2))


def test_cells_that_differ_in_more_than_the_repeat_are_no_repeats(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.drafter()
    sweep.cell("baseline", same(8))
    sweep.cell("baseline", same(8, latency_s=3.0), prompts="other")
    sweep.cell("baseline", same(8, latency_s=3.0), 2)
    sweep.cell("drafter", same(8, latency_s=3.0, accepted=DRAFTED))
    assert remarks(sweep) == []


def test_a_failed_repeat_is_not_far_apart(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.cell("baseline", same(8))
    sweep.cell("baseline", [*same(7, latency_s=9.0), Request(row="rows/7", error="x")], repeat=2)
    assert remarks(sweep) == []


@pytest.mark.parametrize(("ttft", "queues"), [(1.0, False), (1.1, True)])
def test_a_second_to_the_first_token_is_where_a_queue_begins(
    tmp_path: Path, ttft: float, queues: bool
) -> None:
    sweep = Sweep(tmp_path)
    # ten times the lowest is 500 ms, so the limit is the second
    sweep.cell("baseline", same(8, ttft_s=0.05))
    sweep.cell("baseline", same(32, latency_s=2.0, ttft_s=ttft), 8)
    found = remarks(sweep)
    assert [one.subject for one in found] == (["baseline on code at 8"] if queues else [])
    if queues:
        assert "1100 ms, limit 1000 ms: the server queues" in found[0].check.message


def test_another_server_does_not_lower_the_limit(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.drafter()
    sweep.cell("baseline", same(8, ttft_s=0.05))
    # its only load: 10 x 1500 ms is far away
    sweep.cell("drafter", same(32, latency_s=2.0, ttft_s=1.5, accepted=DRAFTED), 8)
    assert remarks(sweep) == []


def errors(folder: Path) -> None:
    edit(folder, lambda number, line: line.update(error={"code": 500}) if number == 0 else None)


def cut(folder: Path) -> None:
    path = folder / "profile_export_aiperf.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "was_cancelled": True}))


def clock(folder: Path) -> None:
    """A latency of half of the time between start and end: two clocks that disagree."""

    def change(_: int, line: dict[str, Any]) -> None:
        line["metrics"]["request_latency"]["value"] /= 2
        line["metrics"]["time_to_first_token"]["value"] /= 2

    edit(folder, change)


def pieces(folder: Path) -> None:
    """Many more pieces than the steps of the records allow, each with a read of its own."""

    def change(_: int, line: dict[str, Any]) -> None:
        line["metrics"]["inter_chunk_latency"]["value"] = [1.0] * 20
        line["metrics"]["http_req_chunks_received"]["value"] = 21

    edit(folder, change)


def positions(folder: Path) -> None:
    """A histogram that holds fewer steps than there were."""
    edit(
        folder,
        lambda _, line: line["spec_decode_acceptance"].update(acceptance_histogram={"3": 1}),
    )


def edit(folder: Path, change: Callable[[int, dict[str, Any]], object]) -> None:
    path = folder / "profile_export.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for number, line in enumerate(lines):
        change(number, line)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


class Spoilt(Sweep):
    """A sweep in which the exports of one cell are spoilt before its verdict."""

    spoil: Callable[[Path], None] | None = None
    name = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        record = self.run.record

        def spoilt(cell, exports, **values):
            if cell.id == self.name and self.spoil is not None:
                self.spoil(exports)
            return record(cell, exports, **values)

        self.run.record = spoilt


def concluded(root: Path, spoil: Callable[[Path], None] | None, *, with_it: bool = True):
    """Three drafters and a baseline on MRCR rows with categories; one cell is much too good."""
    sweep = Spoilt(root)
    sweep.name, sweep.spoil = "drafter-mrcr-c4-r1", spoil
    sweep.drafter()
    sweep.run.server("longer", eagle(5))
    cells = [("baseline", 1, 2.0), ("baseline", 2, 2.4), ("baseline", 4, 3.0)]
    cells += [("drafter", 1, 1.0), ("drafter", 2, 1.5), ("drafter", 4, 0.2)]
    cells += [("longer", 1, 1.1), ("longer", 2, 1.8), ("longer", 4, 2.0)]
    for server, load, latency in cells:
        if (server, load) == ("drafter", 4) and not with_it:
            continue
        accepted = None if server == "baseline" else DRAFTED if load == 4 else (3, 1, 1)
        tokens = 9
        requests = [
            Request(
                row=row.id,
                latency_s=latency,
                ttft_s=latency / 5,
                tokens=tokens,
                accepted=accepted,
                k=5 if server == "longer" else 3,
                text="other" if load == 4 and server == "drafter" else "same",
            )
            for row in ROWS
        ]
        sweep.cell(server, requests, load, prompts="mrcr", rows=ROWS)
    return conclude(measure_run(sweep.write()))


def figures(found: Conclusions) -> dict[str, Any]:
    """All that is concluded, without what says that a cell is out and why."""
    comparisons = [
        [
            (load.concurrency, load.throughput, load.interactivity, load.ttft, load.paths)
            for load in one.loads
            if load.throughput.value is not None
        ]
        for one in found.comparisons
    ]
    long = [
        (one.configuration, one.concurrency, [each for each in one.bins if each.good])
        for one in found.long_context
    ]
    trade = [(one.ours, one.theirs, one.equal) for one in found.tradeoffs]
    pools = [
        (one.category, one.acceptance, one.measurements, one.spread, one.paths)
        for one in (*found.acceptance, *found.categories)
    ]
    return {
        "comparisons": comparisons,
        "long_context": [one for one in long if one[2]],
        "tradeoffs": trade,
        "pools": pools,
        "ratios": {name: one for name, one in found.ratios.items() if one.value is not None},
        **{
            one.name: getattr(found, one.name)
            for one in fields(found)
            if one.name in {"break_evens", "best_lengths", "lossless", "matrix", "groups"}
        },
    }


def outcome(found: Conclusions) -> tuple[Status, Reason | None, str]:
    (out,) = found.run.left_out
    assert out.cell.id == "drafter-mrcr-c4-r1"
    return out.status, out.reason, out.message.partition(":")[0]


@pytest.mark.parametrize(
    ("spoil", "status", "reason", "begins"),
    [
        (errors, Status.FAILED, Reason.REQUEST_ERRORS, "1 of 6 failed"),
        (cut, Status.FAILED, Reason.INCOMPLETE, None),
        (clock, Status.SUCCEEDED, Reason.CONFIGURATION_DIFFERS, "clock_steps"),
        (pieces, Status.SUCCEEDED, Reason.COUNTERS_DISAGREE, "client_steps"),
        (positions, Status.SUCCEEDED, Reason.COUNTERS_DISAGREE, "marginals"),
    ],
)
def test_a_cell_that_is_out_is_in_no_figure_curve_interval_or_bin(
    tmp_path: Path,
    spoil: Callable[[Path], None],
    status: Status,
    reason: Reason,
    begins: str | None,
) -> None:
    found = concluded(tmp_path / "with", spoil)
    told = outcome(found)
    assert told[:2] == (status, reason)
    if status is Status.SUCCEEDED:
        assert told[2] == f"refused by the rule {begins}"
    elif begins is not None:
        assert told[2].startswith(begins)
    without = concluded(tmp_path / "without", None, with_it=False)
    assert figures(found) == figures(without)


def test_the_same_cell_unspoilt_is_in_all_of_them(tmp_path: Path) -> None:
    """What the test above rests on: this cell would show everywhere."""
    whole, without = (
        figures(concluded(tmp_path / str(with_it), None, with_it=with_it))
        for with_it in (True, False)
    )
    same_in_both = {name for name, value in whole.items() if value == without[name]}
    # there is no SPEED-Bench category here, and groups remark on other things
    assert same_in_both == {"matrix", "groups"}
