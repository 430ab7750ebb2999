"""Typed values out of a config.json that anybody may have written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runner.models.checkpoint import Inferred

LARGEST = 2**53
"""Above it a number of JSON is no exact whole number everywhere."""

LONGEST_DRAFT_TOKENS = 128
"""vLLM's limit on a draft length (MAX_SPEC_LEN)."""

_TEXT_CONFIGS = ("text_config", "thinker_config.text_config", "language_config", "llm_config")


def source_of(path: str) -> str:
    """`vocab_size` -> `config.json: vocab_size`."""
    return f"config.json: {path}"


def shown(value: object) -> str:
    """A value of a file for a message, cut to a length that people read."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


class ConfigFields:
    """Looks values up by dotted path; what is not of the expected kind becomes a problem.

    `null` counts as left out. Nothing here raises. `problems` grows while values are read.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._problems: dict[str, None] = {}

    @property
    def problems(self) -> tuple[str, ...]:
        """Every problem so far, once each, in the order in which they were met."""
        return tuple(self._problems)

    def add_problem(self, text: str) -> None:
        """Note a contradiction that the reader found itself."""
        self._problems[text] = None

    def value(self, path: str) -> Any:
        """Whatever is there; None when it is left out."""
        found: Any = self._config
        for step in path.split("."):
            if not isinstance(found, Mapping):
                return None
            found = found.get(step)
        return found

    def number(self, *paths: str, least: int = 1, most: int = LARGEST) -> Inferred[int] | None:
        """A whole number within bounds from the first of `paths` that has a value."""
        for path in paths:
            found = self.value(path)
            if found is None:
                continue
            number = _whole(found)
            if number is None or not least <= number <= most:
                bounds = f"{least} or more" if most == LARGEST else f"from {least} to {most}"
                self.add_problem(f"{path} is {shown(found)}; expected a whole number, {bounds}")
                return None
            return Inferred[int](value=number, source=source_of(path))
        return None

    def size(self, *paths: str) -> int | None:
        """`number` without its source."""
        found = self.number(*paths)
        return found.value if found else None

    def text(self, *paths: str) -> Inferred[str] | None:
        """A text that is not empty from the first of `paths` that has a value."""
        for path in paths:
            found = self.value(path)
            if found is None:
                continue
            if not isinstance(found, str) or not found.strip():
                self.add_problem(f"{path} is {shown(found)}; expected a text")
                return None
            return Inferred[str](value=found, source=source_of(path))
        return None

    def word(self, *paths: str) -> str | None:
        """`text` without its source."""
        found = self.text(*paths)
        return found.value if found else None

    def words(self, path: str) -> tuple[str, ...]:
        """A list of texts; empty when it is left out."""
        found = self.value(path)
        if found is None:
            return ()
        if not isinstance(found, list | tuple) or not all(isinstance(word, str) for word in found):
            self.add_problem(f"{path} is {shown(found)}; expected a list of texts")
            return ()
        return tuple(found)

    def has(self, path: str) -> bool:
        """True where there is a value."""
        return self.value(path) is not None

    def in_text(self, key: str) -> tuple[str, ...]:
        """Paths at which a setting of the language model may be, the most specific first."""
        inner = (f"{prefix}.{key}" for prefix in _TEXT_CONFIGS if self.has(prefix))
        return (*inner, key)

    def dtype(self, *prefixes: str) -> str | None:
        """Number format of the weights, without `torch.`; looked for below `prefixes` first.

        None also where a file gives one for each part.
        """
        keys = ("dtype", "torch_dtype")
        inner = (f"{prefix}.{key}" for prefix in prefixes for key in keys)
        own = (path for key in keys for path in self.in_text(key))
        found = next((value for value in map(self.value, (*inner, *own)) if value), None)
        return found.removeprefix("torch.") if isinstance(found, str) else None


def _whole(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) else None
