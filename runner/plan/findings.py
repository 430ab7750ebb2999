"""Short ways to say what planning noticed."""

from __future__ import annotations

from runner.models.plan import Finding, FindingLevel


def error(subject: str, message: str, next_step: str | None = None) -> Finding:
    """A finding that stops `submit`."""
    return Finding(level=FindingLevel.ERROR, subject=subject, message=message, next_step=next_step)


def warning(subject: str, message: str, next_step: str | None = None) -> Finding:
    """A finding that goes into the report beside the numbers."""
    return Finding(
        level=FindingLevel.WARNING, subject=subject, message=message, next_step=next_step
    )


def note(subject: str, message: str, next_step: str | None = None) -> Finding:
    """A finding to know about; nothing is wrong."""
    return Finding(level=FindingLevel.NOTE, subject=subject, message=message, next_step=next_step)
