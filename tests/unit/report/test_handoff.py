"""The hand-off: keys that machines read, every word from what really ran."""

from __future__ import annotations

import json
from pathlib import Path

from runner.client.report import report_run
from tests.fixtures.run_folder import build_demo_run


def test_keys_and_words(tmp_path: Path) -> None:
    report = report_run(build_demo_run(tmp_path))
    handoff = json.loads((report.folder / "handoff.json").read_text())
    assert list(handoff) == [
        "salientSummary",
        "whatWasImplemented",
        "whatWasLeftUndone",
        "verification",
        "tests",
        "discoveredIssues",
    ]
    assert list(handoff["verification"]) == ["commandsRun", "interactiveChecks"]
    assert handoff["tests"] == {"added": []}
    summary = handoff["salientSummary"]
    assert summary.startswith("6 of 9 cells succeeded and are in the figures; 3 left out.")
    assert "ngram on code: acceptance length 3.00, draft acceptance rate 51.6 %" in summary
    assert "ngram on code at 4: throughput 1.80 times that of baseline (above 1)" in summary
    assert "9 cell attempts ran of 9 planned cells" in handoff["whatWasImplemented"]
    assert handoff["whatWasLeftUndone"] == "baseline-code-c2-r1: PENDING: never started"


def test_commands_tell_their_exit_code_and_their_verdict(tmp_path: Path) -> None:
    report = report_run(build_demo_run(tmp_path))
    handoff = json.loads((report.folder / "handoff.json").read_text())
    commands = handoff["verification"]["commandsRun"]
    assert {tuple(one) for one in commands} == {("command", "exitCode", "observation")}
    (half,) = [one for one in commands if "ngram-chat-c1-r1" in one["observation"]]
    # an exit code is no verdict: AIPerf ended with 0 though half of the requests failed
    assert half["exitCode"] == 0
    assert "FAILED, in no figure: 6 of 12 failed" in half["observation"]
    (good,) = [one for one in commands if "ngram-code-c4-r1" in one["observation"]]
    assert good["command"] == "aiperf profile --model tiny --concurrency 4"
    assert "1,001 output tokens/s; acceptance length 2.98" in good["observation"]
    checks = handoff["verification"]["interactiveChecks"]
    ran = [one["observed"] for one in checks if one["action"] == "Checked drafter_ran of "
           "ngram-code-c4-r1"]  # fmt: skip
    assert ran == ["ngram drafted, k = 4"]
    issues = "\n".join(handoff["discoveredIssues"])
    assert "ngram-code-c2-r1, attempt 1: server_died: the server ended with 137" in issues
