"""Logs by byte offset: live, over broken connections, from a point in time. No line twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.client.log_position import (
    first_write_since,
    offset_of_tail,
    offset_since,
    parse_since,
)
from runner.client.logs import LogChoice, LogReader, LogSource
from runner.errors import (
    ConnectionLost,
    FileMissing,
    HostError,
    HostKeyChanged,
    HostUnreachable,
    UsageError,
)
from runner.models.status import Status
from runner.transport.local import LocalConnection
from tests.fixtures.host_folder import FolderHost, RunFolder

CELL = "plain-chat-c1-r1"


class Flaky(LocalConnection):
    """Breaks at the given reads (counted from 1)."""

    def __init__(self, breaks: set[int]):
        super().__init__("box")
        self.reads = 0
        self.breaks = breaks

    def get(self, path: str, *, offset: int = 0, limit_bytes: int | None = None) -> bytes:
        self.reads += 1
        if self.reads in self.breaks:
            raise ConnectionLost("the connection broke", where="box")
        return super().get(path, offset=offset, limit_bytes=limit_bytes)


class Clock:
    """Time that passes only by sleeping; `script` holds what happens at each sleep."""

    def __init__(self, script: Iterator[Callable[[], object]] | None = None):
        self.now = 0.0
        self.script = script

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.script is not None:
            next(self.script, lambda: None)()

    def time(self) -> float:
        return self.now


def log_reader(
    box: FolderHost, run: RunFolder, choice: LogChoice, clock: Clock | None = None
) -> LogReader:
    clock = clock or Clock()
    return LogReader(
        box.reader(run), choice, reconnect=box.connect, sleep=clock.sleep, clock=clock.time
    )


def texts(reader: LogReader) -> list[str]:
    return [line.text for line in reader.lines()]


def test_the_supervisor_log_is_the_default(box: FolderHost) -> None:
    run = box.add_run()
    run.say("one")
    run.say("two")
    assert texts(log_reader(box, run, LogChoice())) == ["one", "two"]


def test_a_log_that_does_not_exist_yet_is_empty(box: FolderHost) -> None:
    assert texts(log_reader(box, box.add_run(), LogChoice())) == []


def test_following_ends_with_the_run_and_shows_its_last_lines(box: FolderHost) -> None:
    run = box.add_run()

    def script() -> Iterator[Callable[[], object]]:
        yield lambda: run.say("two")
        yield lambda: run.log(run.layout.supervisor_log, b"thr")
        yield lambda: run.log(run.layout.supervisor_log, b"ee\n")
        yield lambda: run.end(manifest=False)
        yield lambda: run.log(run.layout.supervisor_log, b"written after the end")
        yield lambda: Path(run.layout.manifest).write_text("{}")

    run.say("one")
    clock = Clock(script())
    shown = texts(log_reader(box, run, LogChoice(follow=True), clock))
    assert shown == ["one", "two", "three", "written after the end"]
    assert clock.now < 5


def test_a_line_is_shown_within_one_poll(box: FolderHost) -> None:
    run = box.add_run()
    clock = Clock(iter([lambda: run.say("now"), run.end]))
    lines = log_reader(box, run, LogChoice(follow=True), clock).lines()
    assert next(lines).text == "now"
    assert clock.now <= 0.5
    assert list(lines) == []


def test_following_does_not_wait_for_a_manifest_for_ever(box: FolderHost) -> None:
    run = box.add_run()
    run.say("one")
    run.end(manifest=False)
    clock = Clock()
    assert texts(log_reader(box, run, LogChoice(follow=True), clock)) == ["one"]
    assert clock.now < 30


def test_following_a_lost_run_ends_with_the_next_step(box: FolderHost) -> None:
    run = box.add_run()
    run.say("one")
    run.supervisor(False)
    lines = log_reader(box, run, LogChoice(follow=True)).lines()
    assert next(lines).text == "one"
    with pytest.raises(HostError, match="is LOST") as caught:
        next(lines)
    assert caught.value.next_step == f"runner resume {run.ref.run_id}"


def test_the_engine_is_not_asked_while_lines_come(box: FolderHost) -> None:
    run = box.add_run()
    said = [lambda n=n: run.say(str(n)) for n in range(60)]
    clock = Clock(iter([*said, run.end]))
    assert texts(log_reader(box, run, LogChoice(follow=True), clock)) == [str(n) for n in range(60)]
    assert clock.now > 15
    assert box.calls() == []


def test_the_engine_is_asked_when_no_line_comes(box: FolderHost) -> None:
    run = box.add_run()
    silence = [lambda: None for _ in range(60)]
    clock = Clock(iter([*silence, run.end]))
    assert texts(log_reader(box, run, LogChoice(follow=True), clock)) == []
    asked = [call.split()[0] for call in box.calls()]
    assert asked == ["inspect"] * 3


def test_a_supervisor_that_is_being_restarted_is_waited_for(box: FolderHost) -> None:
    run = box.add_run()
    run.supervisor(False)

    def script() -> Iterator[Callable[[], object]]:
        yield lambda: None
        yield lambda: run.supervisor(True)
        for _ in range(60):
            yield lambda: None
        yield lambda: run.say("resumed")
        yield run.end

    assert texts(log_reader(box, run, LogChoice(follow=True), Clock(script()))) == ["resumed"]


@settings(deadline=None, max_examples=40)
@given(st.sets(st.integers(1, 60), max_size=25))
def test_broken_connections_lose_and_repeat_nothing(
    tmp_path_factory: pytest.TempPathFactory, breaks: set[int]
) -> None:
    from tests.fixtures import host_folder

    make = host_folder.box.__wrapped__  # the fixture's function: a fresh host for every example
    box = next(make(tmp_path_factory.mktemp("flaky")))
    run = box.add_run()
    flaky = Flaky(breaks)

    def script() -> Iterator[Callable[[], object]]:
        for number in range(12):
            raw = f"line {number} é\n".encode()
            yield lambda raw=raw: run.log(run.layout.supervisor_log, raw[:-2])
            yield lambda raw=raw: run.log(run.layout.supervisor_log, raw[-2:])
        yield run.end

    clock = Clock(script())
    reader = box.reader(run)
    plan = reader.plan
    assert plan.run_id == run.ref.run_id
    reader.connection = flaky
    log = LogReader(
        reader,
        LogChoice(follow=True),
        reconnect=lambda: flaky,
        sleep=clock.sleep,
        clock=clock.time,
    )
    if 1 in breaks or 2 in breaks:  # before anything is followed, a break is an error
        flaky.breaks = breaks - {1, 2}
    assert texts(log) == [f"line {number} é" for number in range(12)]


def test_reconnecting_says_so_and_backs_off(box: FolderHost) -> None:
    run = box.add_run()
    run.say("one")
    flaky = Flaky({4})
    answers: list[Exception | None] = [
        HostUnreachable("no answer"),
        ConnectionLost("broke again"),
        None,
    ]
    notes: list[str] = []
    waits: list[float] = []

    def reconnect() -> LocalConnection:
        answer = answers.pop(0)
        if answer is not None:
            raise answer
        run.end()
        return LocalConnection("box")

    reader = box.reader(run)
    assert reader.plan.job == "demo"
    reader.connection = flaky
    log = LogReader(
        reader,
        LogChoice(follow=True),
        reconnect=reconnect,
        note=notes.append,
        sleep=waits.append,
        clock=lambda: sum(waits),
    )
    assert texts(log) == ["one"]
    assert notes[0] == "the connection broke; the run goes on, connecting again"
    assert notes[-1] == "connected again"
    assert [wait for wait in waits if wait != 0.25] == [0.5, 1.0, 2.0]


def test_a_changed_host_key_ends_the_waiting(box: FolderHost) -> None:
    run = box.add_run()

    def reconnect() -> LocalConnection:
        raise HostKeyChanged("another key", where="box")

    reader = box.reader(run)
    assert reader.plan.job == "demo"
    reader.connection = Flaky({3})
    log = LogReader(reader, LogChoice(follow=True), reconnect=reconnect, sleep=lambda _: None)
    with pytest.raises(HostKeyChanged):
        texts(log)


def test_a_host_that_stays_away_is_given_up(box: FolderHost) -> None:
    run = box.add_run()
    clock = Clock()

    def reconnect() -> LocalConnection:
        raise HostUnreachable("no answer", where="box")

    reader = box.reader(run)
    assert reader.plan.job == "demo"
    reader.connection = Flaky(set(range(3, 100)))
    log = LogReader(
        reader, LogChoice(follow=True), reconnect=reconnect, sleep=clock.sleep, clock=clock.time
    )
    with pytest.raises(ConnectionLost, match="no connection for 300 s") as caught:
        texts(log)
    assert caught.value.next_step == f"runner logs {run.ref.run_id} -f"


def test_a_cell_means_its_load_log_and_its_servers_log(box: FolderHost) -> None:
    run = box.add_run()
    run.start_server("plain")
    run.start_cell(CELL)
    run.start_server("ngram")
    run.log(run.layout.attempt(CELL, 1).load_log, b"load\n")
    run.log(run.layout.server("plain", 1).log, b"server\n")
    run.log(run.layout.server("ngram", 1).log, b"another\n")
    load = log_reader(box, run, LogChoice(cell=CELL))
    assert texts(load) == ["load"]
    assert not load.several
    server = log_reader(box, run, LogChoice(cell=CELL, source=LogSource.SERVER))
    assert texts(server) == ["server"]


def test_several_logs_carry_their_names_and_attempts(box: FolderHost) -> None:
    run = box.add_run()
    run.start_server("plain")
    run.start_server("plain", 2)
    run.log(run.layout.server("plain", 1).log, b"first\n")
    run.log(run.layout.server("plain", 2).log, b"second\n")
    reader = log_reader(box, run, LogChoice(source=LogSource.SERVER))
    assert [(line.name, line.text) for line in reader.lines()] == [
        ("plain", "first"),
        ("plain#2", "second"),
    ]
    assert reader.several
    assert reader.names == len("plain#2")


def test_following_takes_up_logs_that_begin_later(box: FolderHost) -> None:
    run = box.add_run()

    def second() -> None:
        run.start_cell("ngram-chat-c1-r1")
        run.log(run.layout.attempt("ngram-chat-c1-r1", 1).load_log, b"b1\nb2\n")

    def script() -> Iterator[Callable[[], object]]:
        yield lambda: run.start_cell(CELL)
        yield lambda: run.log(run.layout.attempt(CELL, 1).load_log, b"a1\n")
        yield second
        yield run.end

    choice = LogChoice(source=LogSource.LOAD, follow=True, tail=1)
    reader = log_reader(box, run, choice, Clock(script()))
    assert [(line.name, line.text) for line in reader.lines()] == [
        (CELL, "a1"),
        ("ngram-chat-c1-r1", "b1"),
        ("ngram-chat-c1-r1", "b2"),
    ]


def test_an_unknown_cell_names_the_near_one(box: FolderHost) -> None:
    run = box.add_run()
    with pytest.raises(UsageError, match=f"did you mean '{CELL}'"):
        texts(log_reader(box, run, LogChoice(cell="plain-chat-c1-r11")))


def test_a_cell_has_no_supervisor_log(box: FolderHost) -> None:
    run = box.add_run()
    with pytest.raises(UsageError, match="--cell picks"):
        texts(log_reader(box, run, LogChoice(cell=CELL, source=LogSource.SUPERVISOR)))


@pytest.mark.parametrize(
    ("tail", "shown"),
    [(0, []), (1, ["three"]), (2, ["two", "three"]), (3, ["one", "two", "three"]), (9, None)],
)
def test_tail(box: FolderHost, tail: int, shown: list[str] | None) -> None:
    run = box.add_run()
    for text in ("one", "two", "three"):
        run.say(text)
    expected = ["one", "two", "three"] if shown is None else shown
    assert texts(log_reader(box, run, LogChoice(tail=tail))) == expected


def test_tail_counts_a_last_line_without_newline(box: FolderHost) -> None:
    run = box.add_run()
    run.log(run.layout.supervisor_log, b"one\ntwo\nthree")
    assert texts(log_reader(box, run, LogChoice(tail=2))) == ["two", "three"]


def test_tail_of_nothing_follows_only_what_is_new(box: FolderHost) -> None:
    run = box.add_run()
    run.say("old")
    clock = Clock(iter([lambda: run.say("new"), run.end]))
    assert texts(log_reader(box, run, LogChoice(tail=0, follow=True), clock)) == ["new"]


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(0, 50_000).map(lambda size: b"x" * size), max_size=8),
    st.integers(1, 9),
    st.booleans(),
)
def test_tail_begins_where_the_last_lines_begin(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], tail: int, ended: bool
) -> None:
    path = tmp_path_factory.mktemp("tail") / "log"
    data = b"\n".join(lines) + (b"\n" if ended and lines else b"")
    path.write_bytes(data)
    found = offset_of_tail(LocalConnection("box"), str(path), tail)
    assert data[found:] == b"".join(data.splitlines(keepends=True)[-tail:])


NOW_MS = 1_796_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10m", NOW_MS - 600_000),
        ("90s", NOW_MS - 90_000),
        ("1h30m", NOW_MS - 5_400_000),
        ("1.5d", NOW_MS - 129_600_000),
        ("2026-12-01T10:00:00Z", 1_796_119_200_000),
        ("2026-12-01T10:00:00", 1_796_119_200_000),
        ("2026-12-01T12:00:00.500+02:00", 1_796_119_200_500),
    ],
)
def test_since(text: str, expected: int) -> None:
    assert parse_since(text, NOW_MS) == expected


@pytest.mark.parametrize("text", ["", "soon", "10", "10 m", "m10", "10mm", "10m!"])
def test_since_refuses_other_texts(text: str) -> None:
    with pytest.raises(UsageError, match="neither a duration"):
        parse_since(text, NOW_MS)


def test_first_write_since_takes_the_grain_of_the_index_into_account() -> None:
    index = b"1000 0\n1500 10\n2000 20\n99"
    assert first_write_since(index, 0) == 0
    assert first_write_since(index, 1500) == 10
    assert first_write_since(index, 1700) == 10  # writes up to 200 ms later have no mark
    assert first_write_since(index, 1701) == 20
    assert first_write_since(index, 9000) is None


def test_since_begins_with_the_line_that_was_being_written(box: FolderHost) -> None:
    run = box.add_run()
    log = run.log(run.layout.supervisor_log, b"one\ntwo\nthree\n", (1000, 0), (2000, 6), (3000, 8))
    connection = box.connect()
    assert offset_since(connection, str(log), 2200) == 4  # the write began inside "two"
    assert offset_since(connection, str(log), 3000) == 8
    assert offset_since(connection, str(log), 9000) == 14


def test_since_without_an_index_shows_everything(box: FolderHost) -> None:
    run = box.add_run()
    run.say("one")
    assert texts(log_reader(box, run, LogChoice(since="1s"))) == ["one"]


def test_since_and_tail_together_take_the_later_beginning(box: FolderHost) -> None:
    run = box.add_run()
    run.log(run.layout.supervisor_log, b"one\ntwo\nthree\n", (1000, 0), (2000, 4))
    since = "1970-01-01T00:00:02Z"
    assert texts(log_reader(box, run, LogChoice(since=since))) == ["two", "three"]
    assert texts(log_reader(box, run, LogChoice(since=since, tail=1))) == ["three"]
    assert texts(log_reader(box, run, LogChoice(since=since, tail=3))) == ["two", "three"]


def test_a_log_larger_than_one_read_is_whole(box: FolderHost) -> None:
    run = box.add_run()
    expected = [f"{number:063d}" for number in range(9000)]  # 576 000 bytes
    run.log(run.layout.supervisor_log, "".join(f"{line}\n" for line in expected).encode())
    assert texts(log_reader(box, run, LogChoice())) == expected


def test_a_run_that_was_never_uploaded_has_no_logs(box: FolderHost) -> None:
    run = box.add_run(started=False)
    Path(run.layout.plan).unlink()
    with pytest.raises(FileMissing, match="nothing was started"):
        texts(log_reader(box, run, LogChoice(follow=True)))


def test_the_state_after_following_is_final(box: FolderHost) -> None:
    run = box.add_run()
    clock = Clock(iter([lambda: run.end(Status.FAILED)]))
    reader = log_reader(box, run, LogChoice(follow=True), clock)
    assert texts(reader) == []
    assert reader.reader.state().status is Status.FAILED
