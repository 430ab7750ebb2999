"""What a setting is called in the file that the user wrote.

An evaluation is planned as the matrix job that it means, whose keys its user never saw.
"""

from __future__ import annotations

from collections.abc import Mapping

from runner.plan.evaluation_servers import MTP

_EVALUATION: Mapping[str, str] = {
    "model": "verifier",
    "revision": "verifier_revision",
    "speculative": "drafter",
    "speculative.draft_tensor_parallel_size": "draft_tensor_parallel_size",
    "speculative.method": "method",
    "speculative.model": "drafter",
    "speculative.num_speculative_tokens": "draft_length",
}


def job_key(key: str, *, evaluation: bool, server: str | None = None) -> str:
    """The name of a setting for findings and for `--set`.

    Args:
        key: in a matrix job, inside its configuration where `server` is one.
        evaluation: the job was made from an evaluation.
    """
    if not evaluation:
        return key if server is None else f"servers.{server}.{key}"
    if server == MTP:
        return "comparator"
    return _EVALUATION.get(key, key)
