"""From a resolved host to an authenticated transport, hop by hop."""

from __future__ import annotations

import logging
import socket
import threading

import paramiko
from paramiko.ssh_exception import ChannelException, SSHException

from runner.errors import HostError, HostUnreachable
from runner.transport import hostkeys
from runner.transport.resolve import ResolvedHost
from runner.transport.ssh_login import Prompt, log_in

# paramiko reports what it raises a second time, with a traceback, to whoever listens
logging.getLogger("paramiko").addHandler(logging.NullHandler())

_MISSED_KEEPALIVES = 3


class Link:
    """Transports from the first hop to the host; used from several threads."""

    def __init__(self, target: ResolvedHost, transports: tuple[paramiko.Transport, ...]) -> None:
        self.target = target
        self._transports = transports

    @property
    def transport(self) -> paramiko.Transport:
        """The one that ends at the host."""
        return self._transports[-1]

    def is_lost(self, settle_s: float = 0.0) -> bool:
        """Whether the link is broken; `settle_s` gives a break in progress time to show."""
        if settle_s and threading.current_thread() is not self.transport:
            self.transport.join(settle_s)
        return not self.transport.is_active()

    def close(self) -> None:
        """From the host back to the first hop. Idempotent."""
        for transport in reversed(self._transports):
            transport.close()


def open_link(target: ResolvedHost, prompt: Prompt | None) -> Link:
    """Connect, check every host key on the way, log in.

    Raises:
        HostUnreachable: no answer, or none that SSH can use; it may come back.
        HostKeyUnknown, HostKeyChanged: of the host or of a hop.
        HostError: the login was refused.
    """
    transports: list[paramiko.Transport] = []
    before: ResolvedHost | None = None
    try:
        for server in (*target.jumps, target):
            if before is None:
                way: socket.socket | paramiko.Channel = _dial(server)
            else:
                way = _hop(transports[-1], before, server)
            transports.append(_greet(way, server))
            log_in(transports[-1], server, prompt)
            if server.keepalive_s:
                transports[-1].set_keepalive(max(1, round(server.keepalive_s)))
            before = server
    except BaseException:
        for transport in reversed(transports):
            transport.close()
        raise
    return Link(target, tuple(transports))


def _dial(server: ResolvedHost) -> socket.socket:
    try:
        places = socket.getaddrinfo(server.address, server.port, server.family, socket.SOCK_STREAM)
    except OSError as error:
        raise HostUnreachable(
            f"the name '{server.address}' does not resolve: {error.strerror}",
            where=server.label,
            next_step="check 'address' in hosts.yaml and HostName in the ssh configuration",
        ) from error
    failure: OSError | None = None
    for family, kind, protocol, _, place in places:
        way = socket.socket(family, kind, protocol)
        try:
            way.settimeout(server.connect_timeout_s)
            way.connect(place)
        except OSError as error:
            way.close()
            failure = error
            continue
        _tune(way, server)
        return way
    reason = (
        f"no answer within {server.connect_timeout_s:g} s"
        if isinstance(failure, TimeoutError)
        else (failure.strerror if failure else "no address")
    )
    raise HostUnreachable(
        f"can't connect to {server.address} port {server.port}: {reason}",
        where=server.label,
        next_step=f"check that the machine is up and sshd listens: `ssh -v -p {server.port} "
        f"{server.user}@{server.address} true`",
    ) from failure


def _tune(way: socket.socket, server: ResolvedHost) -> None:
    way.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    unanswered_ms = int(server.keepalive_s * _MISSED_KEEPALIVES * 1000)
    # a peer that is gone without a word: without a limit TCP tries for a quarter of an hour
    if unanswered_ms and hasattr(socket, "TCP_USER_TIMEOUT"):
        way.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, unanswered_ms)


def _hop(
    transport: paramiko.Transport, before: ResolvedHost, server: ResolvedHost
) -> paramiko.Channel:
    try:
        return transport.open_channel(
            "direct-tcpip",
            (server.address, server.port),
            ("127.0.0.1", 0),
            timeout=server.connect_timeout_s,
        )
    except (ChannelException, SSHException, EOFError, OSError) as error:
        raise HostUnreachable(
            f"jump host {before.label} can't open a way to {server.address} port {server.port}: "
            f"{error}",
            where=server.label,
            next_step="check from the jump host that the address is right and sshd listens, and "
            "AllowTcpForwarding in its sshd_config",
        ) from error


def _greet(way: socket.socket | paramiko.Channel, server: ResolvedHost) -> paramiko.Transport:
    """Key exchange and check of the host key; asks for the types of key that are on record."""
    known = hostkeys.read_known(server.lookup_name, server.known_hosts)
    transport = paramiko.Transport(way)
    transport.banner_timeout = server.connect_timeout_s
    transport.handshake_timeout = server.connect_timeout_s
    transport.auth_timeout = max(30.0, server.connect_timeout_s)
    transport.channel_timeout = max(30.0, server.connect_timeout_s)
    options = transport.get_security_options()
    options.key_types = hostkeys.preferred(options.key_types, known)
    try:
        try:
            transport.start_client(timeout=server.connect_timeout_s)
            key = transport.get_remote_server_key()
        except (SSHException, EOFError, OSError) as error:
            raise _no_handshake(server, error) from error
        hostkeys.check(_question(server), key.get_name(), key.asbytes(), known)
    except BaseException:
        transport.close()
        raise
    return transport


def _question(server: ResolvedHost) -> hostkeys.Question:
    return hostkeys.Question(
        server.label, server.lookup_name, server.address, server.port, server.known_hosts
    )


def _no_handshake(server: ResolvedHost, error: Exception) -> HostError:
    return HostUnreachable(
        f"{server.address} port {server.port} accepts connections, and SSH does not come about: "
        f"{error or 'the other side hung up'}",
        where=server.label,
        next_step=f"check what listens there: `ssh -v -p {server.port} "
        f"{server.user}@{server.address} true`",
    )
