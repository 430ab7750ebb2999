"""Where a host is and how to log in, settled once and used for everything afterwards."""

from __future__ import annotations

import getpass
import os
import re
import shlex
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runner.errors import HostError
from runner.models.host import Host
from runner.transport.ssh_config import HostOptions, lookup

DEFAULT_PORT = 22
DEFAULT_KEEPALIVE_S = 15.0
_SYSTEM_KNOWN_HOSTS = (Path("/etc/ssh/ssh_known_hosts"), Path("/etc/ssh/ssh_known_hosts2"))
_FAMILIES = {"any": socket.AF_UNSPEC, "inet": socket.AF_INET, "inet6": socket.AF_INET6}
_JUMP = re.compile(
    r"(?:ssh://)?(?:(?P<user>.+)@)?(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\[\]@\s/]+))(?::(?P<port>\d+))?/?"
)


@dataclass(frozen=True)
class ResolvedHost:
    """One SSH server, nothing left to look up.

    `jumps` are the hops before it, in the order of travel, themselves without hops.
    `identity_files` empty: keys of the agent (when `use_agent`) and the default files are offered.
    Times in seconds; `keepalive_s` 0 means none.
    """

    name: str
    address: str
    port: int
    user: str
    identity_files: tuple[Path, ...] = ()
    use_agent: bool = True
    known_hosts: tuple[Path, ...] = ()
    host_key_alias: str | None = None
    family: int = socket.AF_UNSPEC
    connect_timeout_s: float = 10.0
    keepalive_s: float = DEFAULT_KEEPALIVE_S
    jumps: tuple[ResolvedHost, ...] = ()

    @property
    def lookup_name(self) -> str:
        """The name under which known_hosts must hold the key: `[address]:port` unless port 22."""
        if self.host_key_alias:
            return self.host_key_alias
        address = self.address.lower()
        return address if self.port == DEFAULT_PORT else f"[{address}]:{self.port}"

    @property
    def label(self) -> str:
        """For messages: name (user@address:port)."""
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.name} ({self.user}@{address}:{self.port})"


def resolve(host: Host) -> ResolvedHost:
    """Merge an inventory entry with the ssh configuration; fields of the entry win.

    The configuration is `host.ssh_config`, else ~/.ssh/config where it exists. It is asked for
    `host.address`, or for the name of the entry when that is missing.

    Raises:
        HostError: the entry and the configuration name no address, a value is malformed, or a
            directive is not supported (the message has its file and line).
    """
    return _Resolver(host).target()


class _Resolver:
    """One inventory entry and the files that it is resolved with."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._home = Path.home()
        self._files = self._config_files()

    def target(self) -> ResolvedHost:
        host = self._host
        alias = host.address or host.name
        overrides = {
            "port": str(host.port) if host.port else None,
            "user": host.user,
            "proxyjump": host.jump,
        }
        options = self._options(alias, {k: v for k, v in overrides.items() if v is not None})
        if host.address is None and not options.named:
            raise HostError(
                f"no address: the entry has none, and no Host block for '{alias}' is in "
                + (", ".join(str(file) for file in self._files) or "~/.ssh/config (absent)"),
                where=host.name,
                next_step="add 'address:' to the entry in hosts.yaml, or a Host block",
            )
        jumps = self._jumps(options.values.get("proxyjump"), travelled=(alias,))
        identity_files = (_path(host.identity_file, self._home),) if host.identity_file else None
        return self._server(host.name or alias, alias, options, jumps, identity_files)

    def _config_files(self) -> tuple[Path, ...]:
        if self._host.ssh_config:
            return (_path(self._host.ssh_config, self._home).absolute(),)
        usual = self._home / ".ssh" / "config"
        return (usual,) if usual.is_file() else ()

    def _options(self, alias: str, overrides: Mapping[str, str]) -> HostOptions:
        return lookup(alias, self._files, home=self._home, overrides=overrides)

    def _jumps(self, text: str | None, travelled: tuple[str, ...]) -> tuple[ResolvedHost, ...]:
        """Hops of a ProxyJump value; the first may have hops of its own in the configuration."""
        if text is None or text.lower() == "none":
            return ()
        hops: tuple[ResolvedHost, ...] = ()
        for place, part in enumerate(text.split(",")):
            found = _JUMP.fullmatch(part.strip())
            if found is None:
                raise self._malformed("jump host", part, "user@address:port")
            alias = found["v6"] or found["host"]
            if alias in travelled:
                raise HostError(
                    f"the jump hosts go in a circle: {' -> '.join((*travelled, alias))}",
                    where=self._host.name,
                    next_step="correct 'jump' in hosts.yaml or ProxyJump in the ssh configuration",
                )
            overrides = {k: v for k, v in (("user", found["user"]), ("port", found["port"])) if v}
            options = self._options(alias, overrides)
            if place == 0:
                hops = self._jumps(options.values.get("proxyjump"), (*travelled, alias))
            hops = (*hops, self._server(alias, alias, options, (), None))
        return hops

    def _server(
        self,
        name: str,
        alias: str,
        options: HostOptions,
        jumps: tuple[ResolvedHost, ...],
        identity_files: tuple[Path, ...] | None,
    ) -> ResolvedHost:
        values = options.values
        if identity_files is None:
            identity_files = tuple(
                _path(file, self._home) for file in options.identity_files if file != "none"
            )
        if not identity_files and self._host.identity_file:
            # a hop without a key of its own is offered the key of the entry
            identity_files = (_path(self._host.identity_file, self._home),)
        family = values.get("addressfamily", "any").lower()
        if family not in _FAMILIES:
            raise self._malformed("AddressFamily", family, "any, inet or inet6")
        only_files = values.get("identitiesonly", "no").lower() == "yes"
        no_agent = values.get("identityagent", "").lower() == "none"
        return ResolvedHost(
            name=name,
            address=values.get("hostname", alias),
            port=self._port(values.get("port", str(DEFAULT_PORT))),
            user=values.get("user") or getpass.getuser(),
            identity_files=identity_files,
            use_agent=not no_agent and (bool(identity_files) or not only_files),
            known_hosts=self._known_hosts(values),
            host_key_alias=values.get("hostkeyalias"),
            family=_FAMILIES[family],
            connect_timeout_s=self._connect_timeout_s(values),
            keepalive_s=self._seconds(values, "serveraliveinterval", DEFAULT_KEEPALIVE_S),
            jumps=jumps,
        )

    def _known_hosts(self, values: Mapping[str, str]) -> tuple[Path, ...]:
        if self._host.known_hosts:
            people: tuple[Path, ...] = (_path(self._host.known_hosts, self._home),)
        elif "userknownhostsfile" in values:
            people = _paths(values["userknownhostsfile"], self._home)
        else:
            people = (self._home / ".ssh" / "known_hosts",)
        system = (
            _paths(values["globalknownhostsfile"], self._home)
            if "globalknownhostsfile" in values
            else _SYSTEM_KNOWN_HOSTS
        )
        return (*people, *system)

    def _connect_timeout_s(self, values: Mapping[str, str]) -> float:
        if "connect_timeout_s" in self._host.model_fields_set:
            return self._host.connect_timeout_s
        configured = self._seconds(values, "connecttimeout", 0.0)
        return configured or self._host.connect_timeout_s

    def _seconds(self, values: Mapping[str, str], keyword: str, default: float) -> float:
        text = values.get(keyword)
        if text is None or text.lower() == "none":
            return default
        found = re.fullmatch(r"(\d+)([sm]?)", text.lower())
        if found is None:
            raise self._malformed(keyword, text, "a number of seconds")
        return float(found[1]) * (60.0 if found[2] == "m" else 1.0)

    def _port(self, text: str) -> int:
        if not text.isdecimal() or not 1 <= int(text) <= 65535:
            raise self._malformed("port", text, "a number from 1 to 65535")
        return int(text)

    def _malformed(self, thing: str, found: str, expected: str) -> HostError:
        files = ", ".join(str(file) for file in self._files)
        return HostError(
            f"{thing} '{found}': expected {expected}",
            where=self._host.name,
            next_step="correct the entry in hosts.yaml" + (f" or {files}" if files else ""),
        )


def _paths(text: str, home: Path) -> tuple[Path, ...]:
    return tuple(_path(word, home) for word in shlex.split(text) if word.lower() != "none")


def _path(text: str, home: Path) -> Path:
    text = os.path.expandvars(text).replace("%d", str(home))
    return home / text[2:] if text.startswith("~/") else Path(text)
