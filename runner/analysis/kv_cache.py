"""What a drafter costs in KV cache: room for tokens on both sides of a comparison."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
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
    cells: dict[tuple[str, int], list[str]] = {}
    for attempt in run.included:
        if attempt.server_attempt is not None:
            cells.setdefault((attempt.server.id, attempt.server_attempt), []).append(attempt.path)
    found: dict[str, KvCache] = {}
    for (server, number), paths in sorted(cells.items()):
        told = _of_server(run.root, _LAYOUT.server(server, number)) or _of_scrapes(run.root, paths)
        if told is not None and (server not in found or told.tokens < found[server].tokens):
            found[server] = told
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
            found = [int(one[1].replace(",", "")) for one in map(_LOGGED.search, lines) if one]
    except OSError:
        return None
    # a line for each engine
    return KvCache(sum(found), str(layout.log)) if found else None


def _of_scrapes(root: Path, paths: Sequence[str]) -> KvCache | None:
    """From the first cell of a start whose scrape tells."""
    told = (_of_scrape(root, f"{path}/server/metrics_before.prom") for path in paths)
    return next((one for one in told if one is not None), None)


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
