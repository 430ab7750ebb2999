"""The supervisor ends at any moment and starts again: nothing is lost, nothing measured twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.engine.base import LogChunk
from runner.journal.writer import Journal
from runner.models.event import Event, EventKind
from runner.models.status import Phase, Reason, Status
from runner.supervisor import __main__ as program
from runner.supervisor import context as context_module
from runner.supervisor.logs import LogPump
from tests.unit.supervisor.stage import Stage, staged

CHANGING = ("ensure_network", "connect", "start", "stop", "remove", "disconnect", "remove_network")
EVENTS = 22
"""Journal events of the small run below, when nothing goes wrong."""
CALLS = 17
"""Engine calls of the small run that change something."""


class Crash(BaseException):
    """The process ends here: nothing of the program may catch it."""


class Life:
    """One life of the supervisor, which ends at a chosen event or engine call."""

    def __init__(self, stage: Stage, monkeypatch: pytest.MonkeyPatch):
        self.stage, self.monkeypatch = stage, monkeypatch
        self.over = False
        self.events = self.calls = 0
        self.pumps: list[LogPump] = []

    def run(
        self,
        *,
        before_event: Callable[[int, EventKind, Phase | None], bool] = lambda *_: False,
        after_event: Callable[[int, EventKind, Phase | None], bool] = lambda *_: False,
        after_call: Callable[[int, str], bool] = lambda *_: False,
    ) -> None:
        """Supervise until one of the conditions holds, then be gone, threads included."""
        life = self

        class MortalJournal(Journal):
            def append(self, kind: EventKind, **values: Any) -> Event:
                life.events += 1
                number, phase = life.events, values.get("phase")
                if before_event(number, kind, phase):
                    raise Crash
                event = super().append(kind, **values)
                if after_event(number, kind, phase):
                    raise Crash
                return event

        def pump(*arguments: Any) -> LogPump:
            self.pumps.append(LogPump(*arguments))
            return self.pumps[-1]

        with self.monkeypatch.context() as patch:
            patch.setattr(program, "Journal", MortalJournal)
            patch.setattr(context_module, "LogPump", pump)
            try:
                self.stage.supervise(MortalEngine(self, after_call))  # type: ignore[arg-type]
            except Crash:
                self.over = True
        assert self.over, "the run ended before the crash"
        for started in self.pumps:
            started._thread.join(0.02)


class MortalEngine:
    """The fake engine through a connection that breaks when the life is over."""

    def __init__(self, life: Life, after_call: Callable[[int, str], bool]):
        self._life, self._after_call = life, after_call

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._life.stage.engine, name)
        if name not in CHANGING:
            return method

        def call(*arguments: Any, **options: Any) -> Any:
            result = method(*arguments, **options)
            self._life.calls += 1
            if self._after_call(self._life.calls, name):
                raise Crash
            return result

        return call

    def logs(self, container: str) -> Iterator[LogChunk]:
        for chunk in self._life.stage.engine.logs(container):
            if self._life.over:
                return
            yield chunk


@pytest.fixture
def small(tmp_path: Path, quick: None) -> Iterator[Stage]:
    """Two servers with one cell each."""
    with staged(tmp_path, {"baseline": (1,), "twin": (2,)}) as ready:
        yield ready


def assert_as_if_nothing_had_happened(stage: Stage) -> None:
    """Every cell has one verdict that counts, from the one load that it took."""
    stage.assert_closed()
    cells = {cell.id for cell in stage.plan.cells}
    assert stage.verdicts() == dict.fromkeys(cells, "SUCCEEDED completed")
    counting = [
        event.cell
        for event in stage.events
        if event.kind is EventKind.CELL_ENDED and event.reason is not Reason.SUPERVISOR_LOST
    ]
    assert Counter(counting) == dict.fromkeys(cells, 1)
    assert stage.loads_started() == dict.fromkeys(cells, 1)


def test_the_numbers_of_events_and_calls_are_right(
    small: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the tests below would leave the last ones out."""
    life = Life(small, monkeypatch)
    with pytest.raises(AssertionError, match="ended before the crash"):
        life.run()
    assert (life.events, life.calls) == (EVENTS, CALLS)
    assert_as_if_nothing_had_happened(small)


@pytest.mark.parametrize("number", range(1, EVENTS + 1))
@pytest.mark.parametrize("moment", ["before_event", "after_event"])
def test_a_crash_at_any_event(
    small: Stage, monkeypatch: pytest.MonkeyPatch, moment: str, number: int
) -> None:
    life = Life(small, monkeypatch)
    life.run(**{moment: lambda count, *_: count == number})  # type: ignore[arg-type]
    assert small.supervise() is Status.SUCCEEDED, small.log
    assert_as_if_nothing_had_happened(small)


@pytest.mark.parametrize("number", range(1, CALLS + 1))
def test_a_crash_after_any_engine_call(
    small: Stage, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    Life(small, monkeypatch).run(after_call=lambda count, _: count == number)
    assert small.supervise() is Status.SUCCEEDED, small.log
    assert_as_if_nothing_had_happened(small)
