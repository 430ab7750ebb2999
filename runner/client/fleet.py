"""The hosts of an inventory and the connections to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

from runner.errors import HostError, UsageError
from runner.models.host import Host, Inventory
from runner.transport.base import Connection

Answer = TypeVar("Answer")

_PARALLEL_HOSTS = 16


@dataclass(frozen=True)
class Unreachable:
    """A host that did not answer, with the error that says why."""

    host: str
    error: HostError

    def __str__(self) -> str:
        return str(self.error) if self.error.where else f"{self.host}: {self.error}"


@dataclass(frozen=True)
class Answers(Generic[Answer]):
    """What several hosts answered; a host that could not be asked is in `unreachable`."""

    given: Mapping[str, Answer]
    unreachable: tuple[Unreachable, ...]


@dataclass
class Fleet:
    """The inventory and one open connection a host, made when it is first needed."""

    inventory: Inventory
    dial: Callable[[Host], Connection]
    hints: Path | None = None
    _open: dict[str, Connection] = field(default_factory=dict)

    def host(self, name: str) -> Host:
        """The host of this name.

        Raises:
            UsageError: the inventory has no such host.
        """
        host = self.inventory.hosts.get(name)
        if host is None:
            near = get_close_matches(name, self.inventory.hosts, n=1)
            hint = f"did you mean '{near[0]}'? " if near else ""
            known = ", ".join(self.inventory.hosts)
            raise UsageError(
                f"no host '{name}' in the inventory; {hint}known: {known}",
                next_step="runner hosts list",
            )
        return host

    def connect(self, name: str, *, fresh: bool = False) -> Connection:
        """The open connection to a host; `fresh` drops the old one and dials again.

        Raises:
            HostError: the host can't be reached.
        """
        host = self.host(name)
        if fresh and name in self._open:
            self._open.pop(name).close()
        if name not in self._open:
            self._open[name] = self.dial(host)
        return self._open[name]

    def ask(
        self, question: Callable[[Connection, Host], Answer], names: Sequence[str] = ()
    ) -> Answers[Answer]:
        """Put one question to hosts in parallel (all of them when `names` is empty)."""
        asked = tuple(names) or tuple(self.inventory.hosts)
        hosts = [self.host(name) for name in asked]
        if not hosts:
            return Answers({}, ())

        def one(host: Host) -> Answer | Unreachable:
            try:
                return question(self.connect(host.name), host)
            except HostError as error:
                return Unreachable(host.name, error)

        with ThreadPoolExecutor(max_workers=min(len(hosts), _PARALLEL_HOSTS)) as pool:
            replies = list(pool.map(one, hosts))
        return Answers(
            {
                host.name: reply
                for host, reply in zip(hosts, replies, strict=True)
                if not isinstance(reply, Unreachable)
            },
            tuple(reply for reply in replies if isinstance(reply, Unreachable)),
        )

    def close(self) -> None:
        """Close every connection. Idempotent."""
        while self._open:
            self._open.popitem()[1].close()


def open_fleet(
    hosts_file: Path,
    *,
    hints: Path | None = None,
    password_prompt: Callable[[str], str] | None = None,
) -> Fleet:
    """The fleet of an inventory file; nothing is contacted yet.

    Args:
        hosts_file: `hosts.yaml`.
        hints: file that remembers which host holds which run.
        password_prompt: see `runner.transport.connect`; it is asked by one thread at a time.

    Raises:
        SpecError: the file is missing or wrong.
    """
    from runner.inventory.load import load_inventory
    from runner.transport import connect

    asking = Lock()

    def ask(text: str) -> str:
        assert password_prompt is not None
        with asking:
            return password_prompt(text)

    dial = partial(connect, password_prompt=ask if password_prompt else None)
    return Fleet(load_inventory(hosts_file), dial, hints)
