"""One life of the supervisor, ended at a chosen moment as if its process had been killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runner.engine.base import LogChunk
from runner.journal.writer import Journal
from runner.models.event import Event, EventKind
from runner.models.status import Phase
from runner.supervisor import __main__ as program
from runner.supervisor import context as context_module
from runner.supervisor.logs import LogPump
from tests.unit.supervisor.stage import Stage

CHANGING = ("ensure_network", "connect", "start", "stop", "remove", "disconnect", "remove_network")
"""Engine calls that change something."""


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
                self.stage.supervise(MortalEngine(self, after_call))
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
