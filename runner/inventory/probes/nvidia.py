"""NVIDIA accelerators, from `nvidia-smi --query-gpu=… --format=csv`."""

from __future__ import annotations

import csv

from runner.models.host import Gpu

# Drivers that do not know `compute_cap` refuse the whole query, hence the second one.
SCRIPT = """\
section nvidia
bounded nvidia-smi --query-gpu=index,uuid,pci.bus_id,name,memory.total,compute_cap --format=csv \\
|| bounded nvidia-smi --query-gpu=index,uuid,pci.bus_id,name,memory.total --format=csv
"""


def parse_nvidia(text: str) -> tuple[Gpu, ...]:
    """GPUs in index order; columns are found by their heading, so a longer query is read too."""
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("index,")]
    if not starts:
        return ()
    gpus: list[Gpu] = []
    for row in csv.DictReader(lines[starts[-1] :], skipinitialspace=True):
        cells = {
            heading.split(" ")[0]: value.strip()
            for heading, value in row.items()
            if isinstance(heading, str) and isinstance(value, str)
        }
        if not cells.get("index", "").isdigit():
            continue
        capability = cells.get("compute_cap", "")
        gpus.append(
            Gpu(
                index=int(cells["index"]),
                name=cells.get("name", "unknown"),
                architecture=_architecture(capability),
                memory_bytes=_mebibytes(cells.get("memory.total", "")),
                pci_address=_known(cells.get("pci.bus_id")),
                unique_id=_known(cells.get("uuid")),
            )
        )
    return tuple(sorted(gpus, key=lambda gpu: gpu.index))


def _known(value: str | None) -> str | None:
    return value if value and not value.startswith("[") else None


def _architecture(capability: str) -> str | None:
    major, dot, minor = capability.partition(".")
    return f"sm_{major}{minor}" if dot and major.isdigit() and minor.isdigit() else None


def _mebibytes(value: str) -> int | None:
    number, _, unit = value.partition(" ")
    return int(number) << 20 if number.isdigit() and unit == "MiB" else None
