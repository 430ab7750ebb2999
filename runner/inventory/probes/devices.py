"""Device nodes that accelerators are reached through."""

from __future__ import annotations

import re

from runner.models.host import DeviceNode

SCRIPT = """\
section device-nodes
for node in /dev/kfd /dev/dri/* /dev/nvidia*; do
  if [ -c "$node" ]; then stat -c '%a %u %g %n' "$node"; fi
done
"""

_LINE = re.compile(r"(?P<mode>[0-7]{1,4}) (?P<uid>\d+) (?P<gid>\d+) (?P<path>/.*)")


def parse_device_nodes(text: str) -> tuple[DeviceNode, ...]:
    """Nodes by path; `mode` has four octal digits, ids are the host's numbers."""
    nodes: list[DeviceNode] = []
    for line in text.splitlines():
        found = _LINE.fullmatch(line.strip())
        if found:
            nodes.append(
                DeviceNode(
                    path=found["path"],
                    mode=found["mode"].zfill(4),
                    uid=int(found["uid"]),
                    gid=int(found["gid"]),
                )
            )
    return tuple(sorted(nodes, key=lambda node: node.path))
