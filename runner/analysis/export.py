"""AIPerf's summary and its ready marker: what it says about the run as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from runner.models.base import Record

SUMMARY_NAME = "profile_export_aiperf.json"
MARKER_NAME = ".aiperf_results_ready.json"


class _Model(Record):
    name: str


class _Models(Record):
    items: tuple[_Model, ...] = ()


class _InputConfig(Record):
    models: _Models = _Models()


class ExportSummary(Record):
    """The flags of `profile_export_aiperf.json`; its figures are worked out from the records."""

    schema_version: str | None = None
    aiperf_version: str | None = None
    was_cancelled: bool = False
    is_complete: bool = True
    incomplete_reason: str | None = None
    error_summary: tuple[Mapping[str, Any], ...] = ()
    input_config: _InputConfig = _InputConfig()

    @property
    def models(self) -> tuple[str, ...]:
        """Served names that the load was sent to."""
        return tuple(model.name for model in self.input_config.models.items)


class ReadyMarker(Record):
    """`.aiperf_results_ready.json`: written when the exports are whole."""

    ready: bool = False
    was_cancelled: bool = False
    partial: bool = False


_Read = TypeVar("_Read", bound=Record)


def read_summary(exports: Path) -> ExportSummary | None:
    """The summary in this folder; None when AIPerf left none or only part of one."""
    return _read(exports / SUMMARY_NAME, ExportSummary)


def written_by(exports: Path) -> str | None:
    """The AIPerf version that wrote these exports; None where no summary tells."""
    summary = read_summary(exports)
    return None if summary is None else summary.aiperf_version


def read_marker(exports: Path) -> ReadyMarker | None:
    """The ready marker in this folder; None when there is none that can be read."""
    return _read(exports / MARKER_NAME, ReadyMarker)


def _read(path: Path, model: type[_Read]) -> _Read | None:
    try:
        return model.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
