"""What a drafter costs in KV cache: room for tokens on both sides of a comparison."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from runner.analysis.measured import MeasuredRun
from runner.analysis.prometheus import parse_metrics
from runner.errors import ArtifactError
from runner.models.layout import RunLayout, ServerLayout

_LAYOUT = RunLayout(PurePosixPath())
_LOGGED = re.compile(r"KV cache size: ([\d,]+) tokens")
_INFO = "vllm:cache_config_info"


@dataclass(frozen=True)
class KvCache:
    """Tokens that fit in a server's KV cache; `source` is the file that tells."""

    tokens: int
    source: str


def kv_caches(run: MeasuredRun) -> Mapping[str, KvCache]:
    """Room for tokens of each server that is in the figures, by server id; the smallest of its
    starts. A server that tells nothing is left out."""
    starts: dict[str, set[int]] = {}
    scrapes: dict[str, list[str]] = {}
    for attempt in run.included:
        if attempt.server_attempt is not None:
            starts.setdefault(attempt.server.id, set()).add(attempt.server_attempt)
            scrapes.setdefault(attempt.server.id, []).append(attempt.path)
    found = {}
    for server, numbers in starts.items():
        told = [
            one
            for number in sorted(numbers)
            if (one := _of_server(run.root, _LAYOUT.server(server, number))) is not None
        ]
        told = told or [
            one
            for path in scrapes[server][:1]
            if (one := _of_scrape(run.root, f"{path}/server/metrics_before.prom")) is not None
        ]
        if told:
            found[server] = min(told, key=lambda one: one.tokens)
    return found


def _of_server(root: Path, layout: ServerLayout) -> KvCache | None:
    try:
        info = json.loads((root / layout.server_info).read_bytes())
        tokens = info["vllm_config"]["cache_config"]["kv_cache_size_tokens"]
    except (OSError, ValueError, KeyError, TypeError):
        tokens = None
    if isinstance(tokens, int):
        return KvCache(tokens, str(layout.server_info))
    try:
        with (root / layout.log).open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if found := _LOGGED.search(line):
                    return KvCache(int(found[1].replace(",", "")), str(layout.log))
    except OSError:
        return None
    return None


def _of_scrape(root: Path, path: str) -> KvCache | None:
    try:
        samples = parse_metrics((root / path).read_text(encoding="utf-8"))
    except (OSError, ArtifactError):
        return None
    tokens = [
        int(value)
        for labels in samples.get(_INFO, {})
        for name, value in labels
        if name == "kv_cache_size_tokens" and value.isdecimal()
    ]
    return KvCache(sum(tokens), path) if tokens else None
