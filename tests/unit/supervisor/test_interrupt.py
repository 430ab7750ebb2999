"""A stop request is seen and stays seen."""

import pytest

from runner.supervisor.interrupt import StopRequested, StopSignal


def test_stop_is_seen_and_stays(tmp_path):
    signal = StopSignal(tmp_path / "stop.json")
    assert not signal.requested
    signal.check()
    (tmp_path / "stop.json").write_text("{}")
    assert signal.requested
    (tmp_path / "stop.json").unlink()
    with pytest.raises(StopRequested):
        signal.sleep(60)
