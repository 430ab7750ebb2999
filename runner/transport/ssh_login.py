"""Proving who we are to one server: few keys, in a settled order."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import paramiko
from paramiko.pkey import UnknownKeyType
from paramiko.ssh_exception import (
    AuthenticationException,
    BadAuthenticationType,
    PasswordRequiredException,
    SSHException,
)

from runner.errors import HostError
from runner.transport.hostkeys import fingerprint
from runner.transport.resolve import ResolvedHost

# asked with the text to show; gives the answer. The command line provides it, the rest never asks.
Prompt = Callable[[str], str]

_DEFAULT_FILES = ("id_ed25519", "id_ecdsa", "id_rsa")


@dataclass
class _Attempt:
    """One login; `notes` collects what was tried and what was passed over, for the message."""

    target: ResolvedHost
    prompt: Prompt | None
    agent: paramiko.Agent | None = None
    notes: list[str] = field(default_factory=list)

    def offers(self) -> Iterator[tuple[str, paramiko.PKey]]:
        """Keys in the order of trying. Named files only where files are named: a server that
        counts attempts hangs up while an agent's other keys are tried."""
        files = self.target.identity_files
        for file in files:
            key = self._key_of(file)
            if key is not None:
                yield str(file), key
        if files:
            return
        if self.target.use_agent:
            for number, held in enumerate(self._agent_keys(), start=1):
                yield f"agent key {number}", held
        for name in _DEFAULT_FILES:
            file = Path.home() / ".ssh" / name
            if file.exists():
                key = self._key_of(file)
                if key is not None:
                    yield str(file), key

    def close(self) -> None:
        if self.agent is not None:
            self.agent.close()

    def _agent_keys(self) -> tuple[paramiko.PKey, ...]:
        if self.agent is None:
            try:
                self.agent = paramiko.Agent()
            except (SSHException, OSError) as error:
                self.notes.append(f"ssh agent: {error}")
                return ()
        return tuple(self.agent.get_keys())

    def _key_of(self, file: Path) -> paramiko.PKey | None:
        """The key of a file; where the agent holds the same key, the agent signs."""
        public = _public_blob(file)
        if public is not None and self.target.use_agent:
            for held in self._agent_keys():
                if held.asbytes() == public:
                    return held
        try:
            return self._load(file, None)
        except FileNotFoundError:
            self.notes.append(f"{file}: no such file")
        except (PasswordRequiredException, TypeError):
            return self._unlock(file)
        except (OSError, ValueError, SSHException, UnknownKeyType) as error:
            self.notes.append(f"{file}: not a usable private key ({error})")
        return None

    def _unlock(self, file: Path) -> paramiko.PKey | None:
        if self.prompt is None:
            self.notes.append(f"{file}: encrypted, and no ssh agent holds it (`ssh-add {file}`)")
            return None
        try:
            return self._load(file, self.prompt(f"Passphrase of {file}: "))
        except (OSError, ValueError, SSHException):
            self.notes.append(f"{file}: wrong passphrase")
            return None

    def _load(self, file: Path, passphrase: str | None) -> paramiko.PKey:
        secret = None if passphrase is None else passphrase.encode()
        # the type stubs say str; what reads the file takes bytes only
        return paramiko.PKey.from_path(file, secret)  # type: ignore[arg-type]


def log_in(transport: paramiko.Transport, target: ResolvedHost, prompt: Prompt | None) -> None:
    """Authenticate as `target.user`.

    Raises:
        HostError: every key was refused; names user, address and the keys tried.
    """
    attempt = _Attempt(target, prompt)
    try:
        if not _try_keys(transport, attempt) and not _try_password(transport, attempt):
            raise _refused(transport, attempt)
    finally:
        attempt.close()


def _try_keys(transport: paramiko.Transport, attempt: _Attempt) -> bool:
    for label, key in attempt.offers():
        tried = f"{label} ({key.get_name()} {fingerprint(key.asbytes())})"
        try:
            further = transport.auth_publickey(attempt.target.user, key)
        except BadAuthenticationType as error:
            attempt.notes.append(f"the server takes no keys, only {', '.join(error.allowed_types)}")
            return False
        except AuthenticationException:
            attempt.notes.append(f"{tried}: refused")
            if not transport.is_active():
                attempt.notes.append("the server hung up (too many attempts?)")
                return False
            continue
        except (SSHException, EOFError, OSError) as error:
            attempt.notes.append(f"{tried}: the server hung up ({error or 'end of file'})")
            return False
        if not further:
            return True
        raise HostError(
            f"the login needs a second step ({', '.join(further)}), which is not supported",
            where=attempt.target.label,
            next_step="allow a login by key alone for this user in sshd_config",
        )
    return False


def _try_password(transport: paramiko.Transport, attempt: _Attempt) -> bool:
    """Only where nobody named a key and somebody is there to be asked."""
    target = attempt.target
    if attempt.prompt is None or target.identity_files or not transport.is_active():
        return False
    password = attempt.prompt(f"Password of {target.user} on {target.address}: ")
    try:
        return not transport.auth_password(target.user, password)
    except (SSHException, EOFError, OSError):
        attempt.notes.append("password: refused")
        return False


def _refused(transport: paramiko.Transport, attempt: _Attempt) -> HostError:
    target = attempt.target
    tried = "; ".join(attempt.notes) or "no key: none named, none in an agent, none in ~/.ssh"
    if target.identity_files:
        next_step = (
            f"`ssh-copy-id -i {target.identity_files[0]} -p {target.port} "
            f"{target.user}@{target.address}`, or another 'identity_file' or 'user' in hosts.yaml"
        )
    else:
        next_step = "name the key with 'identity_file' in hosts.yaml"
    return HostError(
        f"login refused for user '{target.user}' on {target.address} port {target.port}: {tried}",
        where=target.label,
        next_step=next_step,
    )


def _public_blob(file: Path) -> bytes | None:
    """The public half beside a private key, or of `file` itself when it is a .pub file."""
    public = file if file.suffix == ".pub" else Path(f"{file}.pub")
    try:
        return base64.b64decode(public.read_text(encoding="utf-8").split()[1])
    except (OSError, UnicodeDecodeError, IndexError, binascii.Error):
        return None
