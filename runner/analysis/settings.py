"""Settings that were in force on a server: as it told them, and as its log names them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from runner.models.layout import ServerLayout

Settings = Mapping[str, str]

ABSENT = "–"  # noqa: RUF001 (an en dash is what a table shows for no value)
SPECULATION = "speculative_config"

VARYING = frozenset(
    f"cache_config.{name}"
    for name in ("num_gpu_blocks", "kv_cache_size_tokens", "kv_cache_max_concurrency")
)
"""What memory was left for at one start; another start may find a little more or less."""

_STARTED = "Application startup complete"
_RUNNERS = (
    (re.compile(r"using the V1 model runner instead"), "V1"),
    (re.compile(r"Using V2 Model Runner"), "V2"),
)
_ATTENTION = re.compile(r"Using (\S+) attention backend out of")


# Names, addresses and numbers of one server process: equal servers differ in them.
_IDENTITY = re.compile(
    r"instance_id|model_config\.served_model_name|.*_(ip|port|port_list)|(.*\.)?_[^.]*"
)
# Of a server's own speculative settings the few that say what drafts.
_UNSAID = (None, False, 0, "")
_STANDARD = "standard"
_SPECULATIVE = (
    *("method", "num_speculative_tokens", "model", "enable_adaptive_verification"),
    *("rejection_sample_method", "synthetic_acceptance_length", "synthetic_acceptance_rates"),
)


def effective_settings(info: Mapping[str, Any]) -> Settings:
    """The answer of `/server_info` as flat settings, without what names one server process."""
    config = info.get("vllm_config")
    found = dict(config) if isinstance(config, Mapping) else {}
    speculative = found.pop(SPECULATION, None)
    settings = {key: _text(value) for key, value in _flat(found) if not _IDENTITY.fullmatch(key)}
    return {**settings, SPECULATION: _speculation(speculative)}


def logged_settings(lines: Iterable[str]) -> Settings:
    """Model runner and attention backends, as the log of a starting server names them."""
    runner, backends = None, dict[str, None]()
    for line in lines:
        if _STARTED in line:
            break
        runner = next((name for words, name in _RUNNERS if words.search(line)), runner)
        if found := _ATTENTION.search(line):
            backends[found[1]] = None
    first, *more = [*backends] or [""]
    settings = {
        "model runner": runner,
        "attention backend": first,
        "attention backend of the drafter": ", ".join(more),
    }
    return {key: value for key, value in settings.items() if value}


def told_settings(root: Path, layouts: Iterable[ServerLayout]) -> Settings | None:
    """Settings of all attempts of a server; None when one of them kept no answer."""
    found = []
    for layout in layouts:
        try:
            info = json.loads((root / layout.server_info).read_bytes())
        except (OSError, ValueError):
            return None
        if not isinstance(info, Mapping) or "vllm_config" not in info:
            return None
        found.append(effective_settings(info))
    return _merged(found)


def settings_in_logs(root: Path, layouts: Iterable[ServerLayout]) -> Settings | None:
    """What the logs of all attempts of a server name; None when one of them was not kept."""
    found = []
    for layout in layouts:
        try:
            with (root / layout.log).open(encoding="utf-8", errors="replace") as lines:
                found.append(logged_settings(lines))
        except OSError:
            return None
    return _merged(found)


def _merged(found: Sequence[Settings]) -> Settings:
    """One value for each setting; servers that were started anew with another show them all."""
    keys = dict.fromkeys(key for settings in found for key in settings)
    return {
        key: " / ".join(dict.fromkeys(settings.get(key, ABSENT) for settings in found))
        for key in keys
    }


def _speculation(config: object) -> str:
    if not isinstance(config, Mapping):
        return "off"
    shown = {
        key: config[key] for key in _SPECULATIVE if config.get(key) not in (*_UNSAID, _STANDARD)
    }
    return ", ".join(f"{key} {value}" for key, value in shown.items())


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, child in value.items():
            yield from _flat(child, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
