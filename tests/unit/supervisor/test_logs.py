"""Container output on disk: bytes unchanged, offsets tied to time, replays not doubled."""

from runner.engine.base import LogChunk
from runner.errors import EngineError
from runner.supervisor.logs import LogPump, RunLog, TimedLog
from runner.supervisor.redact import Redactor

NOTHING = Redactor([])


def test_bytes_are_kept_unchanged(tmp_path):
    data = [b"caf\xc3", b"\xa9\n", b"\xfe\xff not utf-8\n", b"\r50%\r60%", b"last"]
    log = TimedLog(tmp_path / "a" / "output.log", NOTHING)
    LogPump([LogChunk("stdout", part) for part in data], log).finish()
    assert (tmp_path / "a" / "output.log").read_bytes() == b"".join(data)


def test_the_sidecar_holds_offsets(tmp_path):
    log = TimedLog(tmp_path / "output.log", NOTHING)
    log.write(b"12345")
    log.close()
    stamp, offset = (tmp_path / "output.log.times").read_text().split()
    assert int(stamp) > 1_600_000_000_000
    assert offset == "0"


def test_a_replayed_stream_is_not_written_twice(tmp_path):
    path = tmp_path / "output.log"
    first = TimedLog(path, NOTHING)
    first.write(b"one\ntw")
    first.close()
    again = TimedLog(path, NOTHING, replayed=True)
    for part in (b"one", b"\ntwo\n", b"three\n"):
        again.write(part)
    again.close()
    assert path.read_bytes() == b"one\ntwo\nthree\n"


def test_an_engine_that_fails_is_noted_in_the_log(tmp_path):
    def chunks():
        yield LogChunk("stdout", b"x\n")
        raise EngineError("gone")

    LogPump(chunks(), TimedLog(tmp_path / "output.log", NOTHING)).finish()
    assert b"log capture ended early: gone" in (tmp_path / "output.log").read_bytes()


def test_run_log_masks_and_indents(tmp_path):
    log = RunLog(tmp_path / "supervisor.log", Redactor(["hf_planted"]))
    log.say("first hf_planted\nsecond")
    log.close()
    line, second = (tmp_path / "supervisor.log").read_text().splitlines()
    assert line.endswith("Z first ***")
    assert second == "    second"
