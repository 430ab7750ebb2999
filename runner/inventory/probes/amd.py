"""AMD accelerators, from the kernel's own topology under /sys/class/kfd."""

from __future__ import annotations

from runner.models.host import Gpu

SCRIPT = """\
section amd
for node in /sys/class/kfd/kfd/topology/nodes/*; do
  if [ -r "$node/properties" ]; then
    printf 'node %s\\n' "${node##*/}"
    printf 'name %s\\n' "$(cat "$node/name")"
    cat "$node/properties"
    cat "$node"/mem_banks/*/properties
  fi
done
"""


def parse_amd(text: str) -> tuple[Gpu, ...]:
    """GPUs in the kernel's order, counted from 0; nodes without compute units are CPUs."""
    gpus: list[Gpu] = []
    for properties in _nodes(text):
        if _number(properties, "simd_count") == 0:
            continue
        minor = _number(properties, "drm_render_minor")
        unique = _number(properties, "unique_id")
        target = _number(properties, "gfx_target_version")
        gpus.append(
            Gpu(
                index=len(gpus),
                name=properties.get("name", "").strip() or "unknown",
                architecture=gfx_name(target) if target else None,
                memory_bytes=_number(properties, "size_in_bytes") or None,
                pci_address=_pci_address(properties),
                unique_id=f"0x{unique:016x}" if unique else None,
                render_node=f"/dev/dri/renderD{minor}" if minor else None,
            )
        )
    return tuple(gpus)


def gfx_name(target_version: int) -> str:
    """`gfx_target_version` as compilers name it: 90006 is gfx906, 90010 is gfx90a."""
    major, rest = divmod(target_version, 10_000)
    minor, stepping = divmod(rest, 100)
    return f"gfx{major}{minor:x}{stepping:x}"


def _nodes(text: str) -> list[dict[str, str]]:
    nodes: list[dict[str, str]] = []
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == "node":
            nodes.append({})
        elif nodes and key not in nodes[-1]:
            nodes[-1][key] = value
    return nodes


def _number(properties: dict[str, str], key: str) -> int:
    value = properties.get(key, "").strip()
    return int(value) if value.isdigit() else 0


def _pci_address(properties: dict[str, str]) -> str | None:
    if "location_id" not in properties:
        return None
    location = _number(properties, "location_id")
    bus, device, function = location >> 8 & 0xFF, location >> 3 & 0x1F, location & 0x7
    return f"{_number(properties, 'domain'):04x}:{bus:02x}:{device:02x}.{function}"
