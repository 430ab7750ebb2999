"""`hosts.yaml` -> hosts by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from runner.errors import UsageError
from runner.models.host import Host, Inventory
from runner.specfile import load_spec, nearest


def load_inventory(path: Path, overrides: Sequence[str] = ()) -> Inventory:
    """The inventory, each host with its key as `name`.

    Args:
        overrides: `key=value` with dotted keys, such as `hosts.local.run_root=/data/runs`.

    Raises:
        SpecError: the file is missing or wrong; lists every problem with its position.
    """
    inventory = load_spec(path, Inventory, overrides)
    hosts = {name: host.model_copy(update={"name": name}) for name, host in inventory.hosts.items()}
    return inventory.model_copy(update={"hosts": hosts})


def pick(inventory: Inventory, names: Sequence[str]) -> tuple[Host, ...]:
    """The named hosts in the order asked for, each once; all of them when `names` is empty.

    Raises:
        UsageError: a name is not in the inventory; suggests the nearest one.
    """
    for name in names:
        if name not in inventory.hosts:
            near = nearest(name, inventory.hosts)
            hint = f"; did you mean '{near}'?" if near else ""
            raise UsageError(
                f"host '{name}' is not in the inventory{hint}",
                next_step=f"use one of: {', '.join(inventory.hosts) or 'none, hosts is empty'}",
            )
    return tuple(inventory.hosts[name] for name in dict.fromkeys(names or inventory.hosts))
