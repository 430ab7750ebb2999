"""Counters of a vLLM server: what grew between two scrapes of `/metrics`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from prometheus_client.parser import text_string_to_metric_families

from runner.errors import ArtifactError

DRAFTS = "vllm:spec_decode_num_drafts"
DRAFT_TOKENS = "vllm:spec_decode_num_draft_tokens"
ACCEPTED_TOKENS = "vllm:spec_decode_num_accepted_tokens"
ACCEPTED_PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos"
GENERATION_TOKENS = "vllm:generation_tokens"
PREFIX_CACHE_QUERIES = "vllm:prefix_cache_queries"
PREFIX_CACHE_HITS = "vllm:prefix_cache_hits"

Labels = frozenset[tuple[str, str]]
Snapshot = Mapping[str, Mapping[Labels, float]]


class Known(StrEnum):
    """Whether a difference can be trusted."""

    KNOWN = "known"
    UNKNOWN = "unknown"
    RESTARTED = "restarted"


@dataclass(frozen=True)
class Delta:
    """Growth of one counter. `value` is None unless `state` is known: absent is never 0."""

    state: Known
    value: float | None = None
    series: Mapping[Labels, float] = field(default_factory=dict)
    note: str | None = None

    def by(self, label: str) -> dict[str, float]:
        """Growth per value of one label, summed over the others."""
        sums: dict[str, float] = {}
        for labels, value in self.series.items():
            name = dict(labels).get(label, "")
            sums[name] = sums.get(name, 0.0) + value
        return sums


def parse_metrics(text: str) -> Snapshot:
    """Samples of a `/metrics` answer by name, then by label set.

    Raises:
        ArtifactError: the text is not in the Prometheus format.
    """
    samples: dict[str, dict[Labels, float]] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                series = samples.setdefault(sample.name, {})
                series[frozenset(sample.labels.items())] = sample.value
    except (ValueError, KeyError, IndexError) as error:
        raise ArtifactError(
            f"not in the Prometheus text format: {error}",
            where="/metrics",
            next_step="look at server/metrics_before.prom and metrics_after.prom of the attempt",
        ) from error
    return samples


def counter_delta(before: Snapshot, after: Snapshot, name: str) -> Delta:
    """Growth of the counter `name` (without `_total`), summed over every label set.

    A series that shrank, vanished or was created anew means that the server restarted. A new
    series counts from 0. A counter that neither scrape has is unknown.
    """
    old = before.get(f"{name}_total", {})
    new = after.get(f"{name}_total", {})
    if not old and not new:
        return Delta(Known.UNKNOWN, note=f"{name} is in neither scrape")
    if gone := old.keys() - new.keys():
        return Delta(Known.RESTARTED, note=f"{len(gone)} series of {name} vanished")
    for labels, value in old.items():
        if new[labels] < value:
            return Delta(Known.RESTARTED, note=f"{name} fell from {value:.0f} to {new[labels]:.0f}")
    if _created_anew(before, after, name):
        return Delta(Known.RESTARTED, note=f"{name} was created anew")
    series = {labels: value - old.get(labels, 0.0) for labels, value in new.items()}
    added = len(new.keys() - old.keys())
    note = f"{added} new series of {name}" if added and old else None
    return Delta(Known.KNOWN, sum(series.values()), series, note)


def _created_anew(before: Snapshot, after: Snapshot, name: str) -> bool:
    old = before.get(f"{name}_created", {})
    new = after.get(f"{name}_created", {})
    return any(new.get(labels, created) != created for labels, created in old.items())
