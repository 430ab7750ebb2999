"""Is this the machine that we know? Reading known_hosts, and two different refusals.

Nothing here ever accepts or writes a key: a person does that, after comparing the fingerprint.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runner.errors import HostError, HostKeyChanged, HostKeyUnknown

# one kind of RSA key, several names for its signatures
_RSA_ALGORITHMS = ("rsa-sha2-512", "rsa-sha2-256", "ssh-rsa")


@dataclass(frozen=True)
class KnownKey:
    """A line of a known_hosts file that is about the host in question."""

    file: Path
    line: int
    key_type: str
    blob: bytes
    marker: str | None = None

    @property
    def position(self) -> str:
        """file:line."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Question:
    """The server as its user sees it: what to look up, where, and how to ask for its key."""

    label: str
    lookup_name: str
    address: str
    port: int
    files: tuple[Path, ...]


def fingerprint(blob: bytes) -> str:
    """SHA256 in the form that OpenSSH prints."""
    digest = base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
    return f"SHA256:{digest}"


def read_known(lookup_name: str, files: Sequence[Path]) -> tuple[KnownKey, ...]:
    """The lines about `lookup_name`, in the order of the files; absent files hold none.

    Raises:
        HostError: a file is there and can't be read.
    """
    known = []
    for file in files:
        try:
            text = file.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            continue
        except OSError as error:
            raise HostError(
                f"known_hosts can't be read: {error.strerror}",
                where=str(file),
                next_step=f"check its owner and mode with `ls -l {file}`",
            ) from error
        for number, line in enumerate(text.splitlines(), start=1):
            key = _parse(line, lookup_name, file, number)
            if key is not None:
                known.append(key)
    return tuple(known)


def preferred(offered: Sequence[str], known: Sequence[KnownKey]) -> tuple[str, ...]:
    """`offered` algorithms, those of keys that we hold first.

    Without this a host whose ed25519 key is on record looks unknown when RSA is negotiated.
    """
    held: list[str] = []
    for key in known:
        if key.marker is None:
            held += _RSA_ALGORITHMS if key.key_type == "ssh-rsa" else (key.key_type,)
    first = [name for name in offered if name in held]
    return (*first, *(name for name in offered if name not in held))


def check(question: Question, key_type: str, blob: bytes, known: Sequence[KnownKey]) -> None:
    """Return when the key is on record.

    Raises:
        HostKeyUnknown: no line has a key of this type for the lookup name.
        HostKeyChanged: the record has another key of this type, or revokes this one.
    """
    same = [key for key in known if key.blob == blob]
    revoked = next((key for key in same if key.marker == "@revoked"), None)
    if revoked is not None:
        raise HostKeyChanged(
            f"{_offer(question, key_type, blob)}; this key is revoked in {revoked.position}",
            where=question.label,
            next_step="ask the owner of the host for its new key",
        )
    if any(key.marker is None for key in same):
        return
    other = [key for key in known if key.key_type == key_type and key.marker is None]
    if other:
        raise _changed(question, key_type, blob, other)
    raise _unknown(question, key_type, blob, known)


def _changed(
    question: Question, key_type: str, blob: bytes, other: Sequence[KnownKey]
) -> HostKeyChanged:
    recorded = ", ".join(f"{fingerprint(key.blob)} in {key.position}" for key in other)
    return HostKeyChanged(
        f"host key changed: {_offer(question, key_type, blob)}; on record is {recorded}. "
        "The machine was set up anew, or somebody is in between",
        where=question.label,
        next_step="compare the fingerprint with the owner of the host; only if it is right: "
        f"`ssh-keygen -R '{question.lookup_name}' -f {other[0].file}` and then "
        f"{_how_to_add(question, key_type, other[0].file)}",
    )


def _unknown(
    question: Question, key_type: str, blob: bytes, known: Sequence[KnownKey]
) -> HostKeyUnknown:
    consulted = ", ".join(
        str(file) if file.exists() else f"{file} (absent)" for file in question.files
    )
    what = f"unknown host key: {_offer(question, key_type, blob)}; not in {consulted or 'any file'}"
    if any(key.marker == "@cert-authority" for key in known):
        what += "; host certificates (@cert-authority) are not supported, the key itself is needed"
    elif known:
        held = ", ".join(f"{key.key_type} in {key.position}" for key in known)
        what += f"; on record is only {held}, which the server did not offer"
    file = question.files[0] if question.files else Path("~/.ssh/known_hosts")
    return HostKeyUnknown(
        what,
        where=question.label,
        next_step=f"compare the fingerprint with the owner of the host, then "
        f"{_how_to_add(question, key_type, file)}",
    )


def _offer(question: Question, key_type: str, blob: bytes) -> str:
    return f"{question.lookup_name} offers {key_type} {fingerprint(blob)}"


def _how_to_add(question: Question, key_type: str, file: Path) -> str:
    short = key_type.removeprefix("ssh-").split("-")[0]
    command = f"`ssh-keyscan -p {question.port} -t {short} {question.address} >> {file}`"
    check_it = f"`ssh-keygen -l -F '{question.lookup_name}' -f {file}` shows what was added"
    scanned = question.address if question.port == 22 else f"[{question.address}]:{question.port}"
    if question.lookup_name != scanned.lower():
        command += f" (with the name '{question.lookup_name}' in front of the key)"
    return f"{command}; {check_it}"


def _parse(line: str, lookup_name: str, file: Path, number: int) -> KnownKey | None:
    words = line.split()
    marker = words.pop(0) if words and words[0].startswith("@") else None
    if len(words) < 3 or words[0].startswith("#") or not _names(words[0], lookup_name):
        return None
    try:
        blob = base64.b64decode(words[2], validate=True)
    except binascii.Error:
        return None
    return KnownKey(file, number, words[1], blob, marker)


def _names(field: str, lookup_name: str) -> bool:
    """Whether the first field of a line covers the name: hashed, or patterns with `*`, `?`, `!`."""
    if field.startswith("|1|"):
        return _hash_fits(field, lookup_name)
    covered = False
    for pattern in field.split(","):
        if _fits(pattern.lstrip("!"), lookup_name):
            if pattern.startswith("!"):
                return False
            covered = True
    return covered


def _hash_fits(field: str, lookup_name: str) -> bool:
    try:
        _, _, salt, digest = field.split("|")
        made = hmac.new(base64.b64decode(salt), lookup_name.encode(), hashlib.sha1).digest()
        return hmac.compare_digest(made, base64.b64decode(digest))
    except ValueError:
        return False


def _fits(pattern: str, name: str) -> bool:
    expression = "".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in pattern.lower())
    return re.fullmatch(expression, name.lower()) is not None
