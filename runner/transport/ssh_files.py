"""Files over one cached SFTP session."""

from __future__ import annotations

import errno
import posixpath
import secrets
import stat as modes
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import paramiko
from paramiko.ssh_exception import ChannelException, SSHException

from runner.errors import FileMissing, HostError
from runner.transport.base import FileStat
from runner.transport.ssh_link import Link
from runner.transport.ssh_process import lost

_ANSWER_LIMIT_S = 60.0
# as OpenSSH's own client: 64 requests of 32 KiB on the way; more stalls some servers
_REQUEST_BYTES = 32 << 10
_WINDOW_BYTES = 64 * _REQUEST_BYTES


class RemoteFiles:
    """get, put, stat, list. One operation at a time: paramiko's client gives answers to whoever
    reads first."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._lock = threading.Lock()
        self._client: paramiko.SFTPClient | None = None

    def get(self, path: str, offset: int, limit_bytes: int | None) -> bytes:
        """See `Connection.get`. Nothing new costs one round trip."""
        with self._session("read", path) as client:
            size = client.stat(path).st_size or 0
            # a size of 0 says nothing under /proc: there the end is where reading stops
            if size == 0:
                return _read_to_end(client, path, offset)[:limit_bytes]
            wanted = size - offset
            if limit_bytes is not None:
                wanted = min(wanted, limit_bytes)
            return b"" if wanted <= 0 else _read(client, path, offset, wanted)

    def put(self, path: str, data: bytes, mode: int) -> None:
        """See `Connection.put`."""
        folder, name = posixpath.split(path)
        temporary = posixpath.join(folder, f".{name}.{secrets.token_hex(4)}.tmp")
        with self._session("write", path) as client:
            try:
                file = client.open(temporary, "wbx")
            except FileNotFoundError:
                _make_folders(client, folder)
                file = client.open(temporary, "wbx")
            try:
                with file:
                    file.chmod(mode)
                    file.set_pipelined(True)
                    file.write(data)
                written = client.stat(temporary).st_size
                if written != len(data):
                    raise OSError(f"{written} of {len(data)} bytes arrived; is the disk full?")
                client.posix_rename(temporary, path)
            except BaseException:
                with suppress(OSError, SSHException, EOFError):
                    client.remove(temporary)
                raise

    def stat(self, path: str) -> FileStat | None:
        """See `Connection.stat`."""
        try:
            with self._session("look at", path) as client:
                found = client.stat(path)
        except FileMissing:
            return None
        return FileStat(
            found.st_size or 0, float(found.st_mtime or 0), modes.S_ISDIR(found.st_mode or 0)
        )

    def list(self, path: str) -> tuple[str, ...]:
        """See `Connection.list`."""
        try:
            with self._session("list", path) as client:
                return tuple(sorted(client.listdir(path)))
        except FileMissing:
            return ()

    def close(self) -> None:
        """Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            with suppress(OSError, SSHException, EOFError):
                client.close()

    @contextmanager
    def _session(self, verb: str, path: str) -> Iterator[paramiko.SFTPClient]:
        """The client, with its errors translated; one that is out of step is not used again."""
        with self._lock:
            client = self._client or self._open()
            self._client = client
            try:
                yield client
            except FileNotFoundError as error:
                raise FileMissing(
                    f"could not {verb} {path}: no such file or folder",
                    where=self._link.target.label,
                    next_step=f"check the path with `ls -la {posixpath.dirname(path)}`",
                ) from error
            except (TimeoutError, EOFError, SSHException, ConnectionError) as error:
                self.close()
                raise lost(self._link, f"trying to {verb} {path}", error) from error
            except OSError as error:
                if self._link.is_lost():
                    raise lost(self._link, f"trying to {verb} {path}", error) from error
                raise HostError(
                    f"could not {verb} {path}: {_reason(error)}",
                    where=self._link.target.label,
                    next_step="check owner, mode and free space with "
                    f"`ls -la {posixpath.dirname(path)}; df {posixpath.dirname(path)}`",
                ) from error

    def _open(self) -> paramiko.SFTPClient:
        try:
            channel = self._link.transport.open_session(timeout=_ANSWER_LIMIT_S)
            channel.settimeout(_ANSWER_LIMIT_S)
            channel.invoke_subsystem("sftp")
            return paramiko.SFTPClient(channel)
        except (ChannelException, SSHException, EOFError, OSError) as error:
            if self._link.is_lost():
                raise lost(self._link, "opening SFTP", error) from error
            raise HostError(
                f"the server offers no SFTP: {error or 'the session ended at once'}",
                where=self._link.target.label,
                next_step="add `Subsystem sftp internal-sftp` to its sshd_config; a start-up file "
                "of the shell that prints something breaks SFTP too",
            ) from error


def _read(client: paramiko.SFTPClient, path: str, offset: int, wanted: int) -> bytes:
    """`wanted` bytes from `offset`, fewer where the file ends before."""
    blocks: list[bytes] = []
    end = offset + wanted
    with client.open(path, "rb") as file:
        while offset < end:
            # readv returns when all its answers are there: no request is left over, and no thread
            # waits for room, whatever happens to the file
            starts = range(offset, min(end, offset + _WINDOW_BYTES), _REQUEST_BYTES)
            parts = [(start, min(_REQUEST_BYTES, end - start)) for start in starts]
            found = list(file.readv(parts))
            blocks += found
            offset = sum(parts[-1])
            if len(found[-1]) < parts[-1][1]:
                break
    return b"".join(blocks)


def _read_to_end(client: paramiko.SFTPClient, path: str, offset: int) -> bytes:
    with client.open(path, "rb") as file:
        file.seek(offset)
        return file.read()


def _make_folders(client: paramiko.SFTPClient, folder: str) -> None:
    missing = []
    while folder not in ("", "/"):
        try:
            client.stat(folder)
            break
        except FileNotFoundError:
            missing.append(folder)
            folder = posixpath.dirname(folder)
    for name in reversed(missing):
        try:
            client.mkdir(name)
        except OSError:
            # somebody else may have made it meanwhile; if not, this says why it can't be made
            client.stat(name)


def _reason(error: OSError) -> str:
    if error.errno == errno.EACCES:
        return "permission denied"
    return error.strerror or str(error) or "the server gave no reason"
