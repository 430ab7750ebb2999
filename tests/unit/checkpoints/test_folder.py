"""A checkpoint in a folder on this machine, with its real find and sha256sum."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from runner.checkpoints.fetch import fetch_checkpoint, fetch_small_file
from runner.checkpoints.folder import HASH_FILE, SMALL_BYTES
from runner.errors import CommandFailed, FileMissing, HostError, SpecError, UsageError
from runner.models.checkpoint import CheckpointFile
from runner.transport.base import Stream
from runner.transport.local import LocalConnection


class WatchedConnection(LocalConnection):
    """The connection to this machine, which remembers what was hashed and what was read."""

    def __init__(self) -> None:
        super().__init__("here")
        self.hashed: list[str] = []
        self.got: list[str] = []

    def stream(
        self,
        argv: Sequence[str],
        *,
        stdin: Iterable[bytes] | None = None,
        timeout_s: float | None = None,
    ) -> Stream:
        if argv[0] == "sha256sum":
            self.hashed += [Path(path).name for path in argv[2:]]
        return super().stream(argv, stdin=stdin, timeout_s=timeout_s)

    def get(self, path: str, *, offset: int = 0, limit_bytes: int | None = None) -> bytes:
        self.got.append(Path(path).name)
        return super().get(path, offset=offset, limit_bytes=limit_bytes)


CONFIG = json.dumps({"model_type": "llama", "vocab_size": 64}).encode()
CONTENT = {
    "config.json": CONFIG,
    "model.safetensors": b"weights",
    "odd name\\x\n.bin": b"odd",
    "sub/part.bin": b"part",
    "tokenizer_config.json": b'{"chat_template": null}',
}


@pytest.fixture
def connection() -> WatchedConnection:
    return WatchedConnection()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "model"
    for name, data in CONTENT.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_bytes(data)
    (made / ".cache").mkdir()
    (made / ".cache" / "state.lock").write_text("changes with every download")
    (made / ".gitattributes").write_text("")
    return made


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "runner"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def revision_of(content: dict[str, bytes]) -> str:
    lines = (f"{name} {len(data)} {sha256(data)}\n" for name, data in sorted(content.items()))
    return f"sha256:{sha256(''.join(lines).encode())}"


def test_a_folder_is_read_and_pinned(
    connection: WatchedConnection, folder: Path, cache: Path
) -> None:
    told: list[str] = []
    found = fetch_checkpoint(str(folder), connection=connection, cache=cache, progress=told.append)
    assert found.name == str(folder)
    assert found.local is True
    assert found.config == json.loads(CONFIG)
    assert found.files == tuple(
        CheckpointFile(path=name, size_bytes=len(data), sha256=sha256(data))
        for name, data in sorted(CONTENT.items())
    )
    assert found.revision == revision_of(CONTENT)
    assert found.revision_source == "content of the folder on here (5 files)"
    assert found.chat_template is False
    total = sum(map(len, CONTENT.values()))
    assert told == [f"hashing 5 files on here, {total} bytes"]


def test_weights_are_never_copied(connection: WatchedConnection, folder: Path, cache: Path) -> None:
    fetch_checkpoint(str(folder), connection=connection, cache=cache)
    assert connection.got == ["config.json", "tokenizer_config.json"]


def test_nothing_is_hashed_twice(connection: WatchedConnection, folder: Path, cache: Path) -> None:
    first = fetch_checkpoint(str(folder), connection=connection, cache=cache)
    assert sorted(connection.hashed) == sorted(Path(name).name for name in CONTENT)
    connection.hashed.clear()
    assert fetch_checkpoint(f"{folder}/", connection=connection, cache=cache).files == first.files
    assert connection.hashed == []


@pytest.mark.parametrize("keep_size", [True, False])
def test_a_changed_file_is_hashed_again(
    connection: WatchedConnection, folder: Path, cache: Path, keep_size: bool
) -> None:
    first = fetch_checkpoint(str(folder), connection=connection, cache=cache)
    connection.hashed.clear()
    weights = folder / "model.safetensors"
    before = weights.stat()
    changed = b"WEIGHTS" if keep_size else b"more weights"
    weights.write_bytes(changed)
    later_ns = before.st_mtime_ns + 1000 if keep_size else before.st_mtime_ns
    os.utime(weights, ns=(later_ns, later_ns))
    second = fetch_checkpoint(str(folder), connection=connection, cache=cache)
    assert connection.hashed == ["model.safetensors"]
    assert second.revision == revision_of({**CONTENT, "model.safetensors": changed})
    assert second.revision != first.revision


def test_two_hosts_do_not_share_hashes(folder: Path, cache: Path) -> None:
    here, there = WatchedConnection(), WatchedConnection()
    there.name = "there"
    for connection in (here, there, here):
        fetch_checkpoint(str(folder), connection=connection, cache=cache)
    assert (len(here.hashed), len(there.hashed)) == (5, 5)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"here": 7}', b'{"here": {"/x": 1, "/y": {}}}', b"\xff"]
)
def test_a_damaged_cache_costs_time_only(
    connection: WatchedConnection, folder: Path, cache: Path, content: bytes
) -> None:
    cache.mkdir(parents=True)
    (cache / HASH_FILE).write_bytes(content)
    for _ in range(2):
        found = fetch_checkpoint(str(folder), connection=connection, cache=cache)
        assert found.revision == revision_of(CONTENT)
    assert len(connection.hashed) == 5
    assert [path.name for path in cache.iterdir()] == [HASH_FILE]


def test_a_cache_that_can_not_be_written_costs_time_only(
    connection: WatchedConnection, folder: Path, cache: Path
) -> None:
    cache.parent.write_text("a file where the folder should be")
    found = fetch_checkpoint(str(folder), connection=connection, cache=cache)
    assert found.revision == revision_of(CONTENT)


def test_links_are_followed_and_one_to_nothing_is_an_error(
    connection: WatchedConnection, folder: Path, cache: Path, tmp_path: Path
) -> None:
    blob = tmp_path / "blob"
    blob.write_bytes(b"weights")
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to(blob)
    found = fetch_checkpoint(str(folder), connection=connection, cache=cache)
    assert found.revision == revision_of(CONTENT)
    blob.unlink()
    with pytest.raises(HostError) as caught:
        fetch_checkpoint(str(folder), connection=connection, cache=cache)
    assert caught.value.what == f"{folder}/model.safetensors is a link to nothing"


class GoneFile(WatchedConnection):
    """A file goes away between the listing and the hashing."""

    def stream(
        self,
        argv: Sequence[str],
        *,
        stdin: Iterable[bytes] | None = None,
        timeout_s: float | None = None,
    ) -> Stream:
        if argv[0] == "sha256sum":
            Path(argv[2]).unlink()
        return super().stream(argv, stdin=stdin, timeout_s=timeout_s)


def test_a_file_that_can_not_be_hashed_leaves_no_wrong_hash(folder: Path, cache: Path) -> None:
    with pytest.raises(CommandFailed, match=r"sha256sum ended with exit code 1: .*No such file"):
        fetch_checkpoint(str(folder), connection=GoneFile(), cache=cache)
    assert not cache.exists()


@pytest.mark.parametrize(
    ("template", "settings", "expected"),
    [
        ("chat_template.jinja", b"{}", True),
        ("chat_template.json", b"{}", True),
        (None, b'{"chat_template": "{{ messages }}"}', True),
        (None, b'{"chat_template": [{"name": "default", "template": "x"}]}', True),
        (None, b'{"chat_template": ""}', False),
        (None, b"not JSON", False),
        (None, b"[]", False),
    ],
)
def test_chat_template(
    connection: WatchedConnection,
    folder: Path,
    cache: Path,
    template: str | None,
    settings: bytes,
    expected: bool,
) -> None:
    (folder / "tokenizer_config.json").write_bytes(settings)
    if template:
        (folder / template).write_text("{{ messages }}")
    found = fetch_checkpoint(str(folder), connection=connection, cache=cache)
    assert found.chat_template is expected


def test_a_pinned_revision_must_be_the_content(
    connection: WatchedConnection, folder: Path, cache: Path
) -> None:
    here = revision_of(CONTENT)
    found = fetch_checkpoint(str(folder), connection=connection, cache=cache, revision=here)
    assert found.revision == here
    with pytest.raises(UsageError) as caught:
        fetch_checkpoint(str(folder), connection=connection, cache=cache, revision="sha256:00")
    assert caught.value.what == f"{folder} has the content {here}, and sha256:00 is asked for"
    with pytest.raises(UsageError, match="'main' no revision of one; expected sha256:<hex>"):
        fetch_checkpoint(str(folder), connection=connection, cache=cache, revision="main")


def test_no_folder_no_config_no_json(
    connection: WatchedConnection, folder: Path, cache: Path, tmp_path: Path
) -> None:
    with pytest.raises(FileMissing, match=f"here: {tmp_path}/none is not there"):
        fetch_checkpoint(f"{tmp_path}/none", connection=connection, cache=cache)
    with pytest.raises(FileMissing, match="is a file; expected a folder"):
        fetch_checkpoint(f"{folder}/config.json", connection=connection, cache=cache)
    with pytest.raises(FileMissing, match=r"holds no config\.json, so it is no checkpoint"):
        fetch_checkpoint(f"{folder}/sub", connection=connection, cache=cache)
    for data, problem in ((b"{", "is not JSON"), (b"[1]", "holds a list; expected an object")):
        (folder / "config.json").write_bytes(data)
        with pytest.raises(SpecError, match=problem) as caught:
            fetch_checkpoint(str(folder), connection=connection, cache=cache)
        assert caught.value.where == f"here:{folder}/config.json"
    assert connection.hashed == []


def test_names_that_are_neither(cache: Path) -> None:
    for name in ("./model", "~/model", "../model"):
        with pytest.raises(UsageError, match="is neither an absolute path on the host nor"):
            fetch_checkpoint(name, connection=None, cache=cache)
    with pytest.raises(UsageError, match="/models/x is a folder on a host, and no host is asked"):
        fetch_checkpoint("/models/x", connection=None, cache=cache)


def test_small_files(connection: WatchedConnection, folder: Path) -> None:
    assert fetch_small_file(str(folder), "config.json", connection=connection) == CONFIG
    assert fetch_small_file(str(folder), "sub/part.bin", connection=connection) == b"part"
    assert fetch_small_file(str(folder), "tokenizer.json", connection=connection) is None
    assert fetch_small_file(str(folder), "sub", connection=connection) is None
    with (folder / "big").open("wb") as file:
        file.truncate(SMALL_BYTES + 1)
    with pytest.raises(HostError, match=f"has {SMALL_BYTES + 1} bytes; files of at most"):
        fetch_small_file(str(folder), "big", connection=connection)
    for path in ("../secret", "/etc/passwd"):
        with pytest.raises(ValueError, match="leaves the checkpoint"):
            fetch_small_file(str(folder), path, connection=connection)
