"""Results of a rule: passed, to be told beside the figure, or in no average."""

from __future__ import annotations

from runner.models.result import Check, Verdict
from runner.models.status import Reason

Figure = float | int | str | None


def ok(name: str, message: str, **figures: Figure) -> Check:
    """Nothing to tell, or nothing known; the message says which."""
    return Check(name=name, verdict=Verdict.OK, message=message, figures=figures)


def warn(name: str, message: str, **figures: Figure) -> Check:
    """The cell counts, and its figures are shown with this message."""
    return Check(name=name, verdict=Verdict.WARN, message=message, figures=figures)


def refuse(name: str, reason: Reason, message: str, **figures: Figure) -> Check:
    """The cell is in no average."""
    return Check(name=name, verdict=Verdict.REFUSE, message=message, reason=reason, figures=figures)


def judged(name: str, bad: bool, message: str, **figures: Figure) -> Check:
    """A warning where `bad`, else all is well; the same message and figures for both."""
    return (warn if bad else ok)(name, message, **figures)


def percent(share: float) -> str:
    """0.0512 as `5.12 %`."""
    return f"{100 * share:.3g} %"
