"""`hosts.yaml` -> hosts by name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from runner.errors import UsageError
from runner.models.host import ConnectionKind, EngineAccess, Host, Inventory
from runner.specfile import load_spec, nearest

_UNIX = "unix://"


def load_inventory(
    path: Path, overrides: Sequence[str] = (), environ: Mapping[str, str] = os.environ
) -> Inventory:
    """The inventory, each host with its key as `name`.

    A local host that names no engine socket gets the one of `DOCKER_HOST`, as `docker` itself does.

    Args:
        overrides: `key=value` with dotted keys, such as `hosts.local.run_root=/data/runs`.

    Raises:
        SpecError: the file is missing or wrong; lists every problem with its position.
    """
    inventory = load_spec(path, Inventory, overrides)
    hosts = {name: _completed(host, name, environ) for name, host in inventory.hosts.items()}
    return inventory.model_copy(update={"hosts": hosts})


def _completed(host: Host, name: str, environ: Mapping[str, str]) -> Host:
    update: dict[str, object] = {"name": name}
    address = environ.get("DOCKER_HOST", "")
    is_default = "socket" not in host.engine.model_fields_set
    if host.connection is ConnectionKind.LOCAL and is_default and address.startswith(_UNIX):
        socket = address.removeprefix(_UNIX)
        update["engine"] = EngineAccess(socket=socket, command=host.engine.command)
    return host.model_copy(update=update)


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
