"""The way in: an inventory entry becomes a connection."""

from __future__ import annotations

from collections.abc import Callable

from runner.models.host import ConnectionKind, Host
from runner.transport.base import Connection
from runner.transport.local import LocalConnection


def connect(host: Host, *, password_prompt: Callable[[str], str] | None = None) -> Connection:
    """A connection to `host`, ready to use; close it when done.

    Args:
        host: `connection: local` is this machine; anything else is reached over SSH.
        password_prompt: shows a text and returns what a person typed: the passphrase of a key
            file, or a password when no key was named. Without it nobody is asked.

    Raises:
        HostUnreachable: no answer; the host may come back.
        HostKeyUnknown, HostKeyChanged: of the host or of a jump host; never accepted here.
        HostError: the login was refused, or the configuration can't be carried out.
    """
    if host.connection is ConnectionKind.LOCAL:
        return LocalConnection(host.name or "local")
    # paramiko takes longer to import than the whole of `runner --help` may take
    from runner.transport.resolve import resolve
    from runner.transport.ssh import SshConnection

    return SshConnection.open(resolve(host), password_prompt)
