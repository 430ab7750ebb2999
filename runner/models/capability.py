"""What an image can do, asked once for each digest."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from runner.models.base import SCHEMA_VERSION, Record


class ImageCapabilities(Record):
    """What the vLLM of one image knows. `problem` says why nothing could be learnt.

    Args:
        flags: every long option of `vllm serve --help=all`, without values (`--dtype`, …).
        methods: values that `speculative_config.method` takes; empty where not told.
        speculative_fields: keys that a speculative configuration takes.
        model_runner_v2: Triton is there, without which vLLM keeps to its first model runner.
        architectures: what its kernels were compiled for (`sm_90`, `gfx942`, `x86_64`).
    """

    schema_version: int = SCHEMA_VERSION
    digest: str
    probed_at: str
    vllm_version: str | None = None
    torch_version: str | None = None
    flags: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    speculative_fields: tuple[str, ...] = ()
    model_runner_v2: bool | None = None
    architectures: tuple[str, ...] = ()
    packages: Mapping[str, str] = Field(default_factory=dict)
    problem: str | None = None

    def knows_flag(self, flag: str) -> bool | None:
        """True, false, or None where the flags could not be read. `--no-x` counts as `--x`."""
        if not self.flags:
            return None
        return flag in self.flags or f"--{flag.removeprefix('--no-')}" in self.flags
