"""Known lines in a server's log that tell why it did not start, in words for its user."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """What a log line means and what to do. `permanent` causes are never tried again."""

    name: str
    line: str
    hint: str
    permanent: bool = True


_PATTERNS: tuple[tuple[str, str, str], ...] = (
    (
        "gated_model",
        r"gated repo|401 Client Error|403 Client Error",
        "ask for access to the model, then set HF_TOKEN in the host's environment",
    ),
    (
        "context_too_long",
        r"max seq len \(\d+\) is larger than the maximum number of tokens",
        "lower server.max_model_len or give the KV cache more memory",
    ),
    (
        "missing_draft_length",
        r"num_speculative_tokens.* (must be|was not) provided",
        "set servers.<name>.speculative.num_speculative_tokens",
    ),
    (
        "vocabulary_differs",
        r"vocab(ulary)?[_ ]sizes?.*(same|match|differ|equal)|assert.*vocab_size",
        "use a draft model with the target's vocabulary",
    ),
    (
        "unknown_argument",
        r"unrecognized arguments|invalid choice|Unexpected keyword argument",
        "drop the argument that this image does not know",
    ),
    (
        "model_not_found",
        r"(does not appear to have a file named|is not a local folder|Repo id must be in the form"
        r"|No such file or directory: .*config\.json|Can't load the configuration of)",
        "check the model path and the host's `models` mounts",
    ),
    (
        "tokenizer_missing",
        r"Can't load (the )?tokenizer|Couldn't instantiate the backend tokenizer",
        "put the tokenizer files beside the weights",
    ),
    (
        "out_of_memory",
        r"out of memory|OutOfMemoryError|Cannot allocate memory|No available memory",
        "lower max_model_len, max_num_seqs or the memory share",
    ),
    (
        "unsupported_speculation",
        r"Unsupported speculative method|does not support:|only supported with|is not supported",
        "choose a method that this image and device support",
    ),
    (
        "invalid_device_function",
        r"invalid device function|no kernel image is available|Tensile",
        "use an image that was built for this accelerator's architecture",
    ),
    (
        "lost_device",
        r"Failed to initialize NVML|GPU is lost|hipErrorNoDevice|no ROCm-capable device",
        "check the device on the host, then submit again",
    ),
    ("address_in_use", r"Address already in use", "find out what listens on that port"),
)
_COMPILED = tuple((name, re.compile(text, re.IGNORECASE), hint) for name, text, hint in _PATTERNS)


def find_cause(log: str) -> Cause | None:
    """The first line, in time order, that a known pattern matches; None when none does."""
    for line in log.splitlines():
        for name, pattern, hint in _COMPILED:
            if pattern.search(line):
                return Cause(name=name, line=line.strip()[:400], hint=hint)
    return None


def explain(log: str, fallback_lines: int = 5) -> str:
    """One message for a server that ended: the cause with its hint, else the last lines."""
    cause = find_cause(log)
    if cause:
        return f"{cause.name}: {cause.line} ({cause.hint})"
    lines = [line.strip() for line in log.splitlines() if line.strip()][-fallback_lines:]
    return "no known cause; last lines: " + " | ".join(lines) if lines else "it printed nothing"


# an error's last line, with whatever a logger puts before it; and a rule of a pydantic model
_ERROR = re.compile(r"(?:^|\s)(?:(?:\w+\.)*\w*(?:Error|Exception)|error): (?P<words>.+)$")
_RULE = re.compile(r"(?:^|\s)Value error, (?P<words>.+?)(?: \[type=.*)?$")
_ELSEWHERE = ("initialization failed", "validation error for", "root cause")


def refusal(log: str) -> str | None:
    """The server's own words for why it did not start: its last error that says something; None
    where its log names none."""
    for line in reversed(log.splitlines()):
        found = _RULE.search(line.strip()) or _ERROR.search(line.strip())
        if found and not any(words in line for words in _ELSEWHERE):
            return found["words"].strip()[:400]
    return None
