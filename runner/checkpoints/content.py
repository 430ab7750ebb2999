"""The small files of a checkpoint, once their bytes are here."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any

from runner.errors import SpecError

CONFIG = "config.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
TEMPLATES = ("chat_template.jinja", "chat_template.json")


def parse_config(data: bytes, where: str) -> dict[str, Any]:
    """The object in a config.json.

    Raises:
        SpecError: it is not JSON, or something else than an object.
    """
    next_step = "fetch the checkpoint again; a broken download leaves such files"
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise SpecError(f"is not JSON: {error}", where=where, next_step=next_step) from error
    if not isinstance(content, dict):
        kind = type(content).__name__
        raise SpecError(f"holds a {kind}; expected an object", where=where, next_step=next_step)
    return content


def template_in(paths: Collection[str], read: Callable[[str], bytes | None]) -> bool:
    """Whether a checkpoint has a chat template: a file of its own, or in tokenizer_config.json."""
    if any(template in paths for template in TEMPLATES):
        return True
    data = read(TOKENIZER_CONFIG) if TOKENIZER_CONFIG in paths else None
    if data is None:
        return False
    try:
        settings = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(settings, dict) and bool(settings.get("chat_template"))
