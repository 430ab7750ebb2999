"""Names of a model hub: from a cache folder without a network, and from a hub on this machine."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from runner.checkpoints.fetch import fetch_checkpoint, fetch_small_file
from runner.checkpoints.hub import Hub, hub_of_environment
from runner.errors import HostError, UsageError
from runner.models.checkpoint import Checkpoint, CheckpointFile

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    "config.json": b'{"model_type": "llama", "vocab_size": 64}',
    "tokenizer_config.json": b'{"chat_template": "{{ messages }}"}',
    "tokenizer.json": b'{"version": "1.0"}',
    "model.safetensors": b"weights",
}
NAME = "org/tiny"


class FakeHub(BaseHTTPRequestHandler):
    """The part of a hub's protocol that fetching uses; counts what is asked of it."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(f"{self.command} {self.path}")
        _, *parts = self.path.partition("?")[0].split("/")
        if parts[:2] == ["api", "models"]:
            self._model(parts[2:])
        else:
            self._file("/".join(parts[:2]), parts[3], "/".join(parts[4:]))

    do_HEAD = do_GET  # noqa: N815 - the name is the protocol's

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Quiet."""

    def _model(self, parts: list[str]) -> None:
        name = "/".join(parts[:2])
        if name == "org/absent":
            self._refuse(404, "RepoNotFound")
        elif parts[2:] == ["revision", "nope"]:
            self._refuse(404, "RevisionNotFound")
        elif name == "org/broken":
            self._refuse(500, "")
        else:
            files = [{"rfilename": path, "size": len(data)} for path, data in FILES.items()]
            files[-1]["lfs"] = {"sha256": "ab" * 32, "size": 7, "pointerSize": 130}
            body = {"id": name, "sha": COMMIT, "siblings": files}
            self._send(200, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def _file(self, name: str, revision: str, path: str) -> None:
        assert revision in (COMMIT, "main", "v1")
        if name == "org/gated":
            self._refuse(403, "GatedRepo")
        elif path not in FILES:
            self._refuse(404, "EntryNotFound")
        else:
            etag = hashlib.sha1(FILES[path]).hexdigest()
            self._send(200, FILES[path], {"X-Repo-Commit": COMMIT, "ETag": f'"{etag}"'})

    def _refuse(self, status: int, code: str) -> None:
        self._send(status, b"{}", {"X-Error-Code": code, "X-Repo-Commit": COMMIT})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub, and nothing else in the environment."""
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HUGGINGFACE_HUB_CACHE", "HF_HOME"):
        monkeypatch.delenv(name, raising=False)
    made = tmp_path / "hub"
    monkeypatch.setenv("HF_HUB_CACHE", str(made))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    return made


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A hub on this machine; what it was asked, in order."""
    requests: list[str] = []
    handler = type("Handler", (FakeHub,), {"asked": requests})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    # the library keeps what the environment said when another test imported it
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    yield requests
    server.shutdown()
    server.server_close()


@pytest.fixture
def cached(folder: Path) -> Path:
    """The folder as an earlier fetch of the small files left it."""
    repository = folder / "models--org--tiny"
    snapshot = repository / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    (repository / "blobs").mkdir()
    for path in ("config.json", "tokenizer_config.json"):
        blob = repository / "blobs" / hashlib.sha1(FILES[path]).hexdigest()
        blob.write_bytes(FILES[path])
        (snapshot / path).symlink_to(blob)
    return folder


def fetch(name: str = NAME, revision: str | None = None) -> Checkpoint:
    unused = Path("/nonexistent")
    return fetch_checkpoint(name, connection=None, revision=revision, cache=unused)


# --- without a network -------------------------------------------------------------------------


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_offline_the_cache_answers(
    cached: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "1")
    found = fetch()
    assert found == Checkpoint(
        name=NAME,
        local=False,
        revision=COMMIT,
        revision_source=f"main as last fetched into {cached} (HF_HUB_OFFLINE is set)",
        config={"model_type": "llama", "vocab_size": 64},
        files=(
            CheckpointFile(path="config.json", size_bytes=41),
            CheckpointFile(path="tokenizer_config.json", size_bytes=35),
        ),
        chat_template=True,
    )
    assert fetch(revision=COMMIT).revision == COMMIT


def test_the_library_sees_the_same_environment(
    cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process of its own, where the library reads the variables as it is imported."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from runner.checkpoints.fetch import fetch_checkpoint\n"
        "assert 'huggingface_hub' not in sys.modules\n"
        f"print(fetch_checkpoint({NAME!r}, connection=None, cache=Path('x')).revision)\n"
        "from huggingface_hub import constants\n"
        "print(constants.HF_HUB_CACHE)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [COMMIT, str(cached)]


def test_no_answer_and_the_cache_says_so(cached: Path) -> None:
    found = fetch()
    assert found.revision == COMMIT
    assert found.revision_source.startswith(
        f"main as last fetched into {cached} (the model hub gave no usable answer ("
    )


def test_what_is_not_in_the_cache(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HostError) as unreachable:
        fetch("org/other")
    assert "org/other is not in " in unreachable.value.what
    assert isinstance(unreachable.value.__cause__, HostError)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name, revision, wanted in (
        ("org/other", None, "org/other"),
        (NAME, "v2", "org/tiny at v2"),
    ):
        with pytest.raises(UsageError) as offline:
            fetch(name, revision)
        assert offline.value.what == (f"{wanted} is not in {cached}, and HF_HUB_OFFLINE is set")
        assert offline.value.next_step is not None
        assert f"hf download {name} config.json" in offline.value.next_step


def test_small_files_offline(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for offline in ("1", "0"):
        monkeypatch.setenv("HF_HUB_OFFLINE", offline)
        assert small("tokenizer_config.json") == FILES["tokenizer_config.json"]
        assert small("tokenizer.json") is None


def small(path: str, revision: str | None = None) -> bytes | None:
    return fetch_small_file(NAME, path, connection=None, revision=revision)


def test_the_environment_is_read_when_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_HUB_CACHE")
    monkeypatch.delenv("HF_ENDPOINT")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    assert hub_of_environment() == Hub(folder=tmp_path / "home" / "hub")
    monkeypatch.delenv("HF_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "yes")
    expected = Hub(folder=tmp_path / "xdg" / "huggingface" / "hub", offline=True)
    assert hub_of_environment() == expected


# --- with a hub ----------------------------------------------------------------------------------


def test_a_name_is_resolved_to_a_commit(asked: list[str]) -> None:
    found = fetch()
    assert found.revision == COMMIT
    assert found.revision_source == "model hub: commit of main"
    assert found.config == {"model_type": "llama", "vocab_size": 64}
    assert found.chat_template is True
    assert found.files == (
        CheckpointFile(path="config.json", size_bytes=41),
        CheckpointFile(path="model.safetensors", size_bytes=7, sha256="ab" * 32),
        CheckpointFile(path="tokenizer.json", size_bytes=18),
        CheckpointFile(path="tokenizer_config.json", size_bytes=35),
    )
    assert asked[0] == "GET /api/models/org/tiny?blobs=true"
    assert not any("safetensors" in request for request in asked)


@pytest.mark.parametrize("revision", [None, "v1"])
def test_what_was_fetched_answers_later_without_a_hub(
    asked: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch, revision: str | None
) -> None:
    online = fetch(revision=revision)
    assert online.revision_source == f"model hub: commit of {revision or 'main'}"
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    offline = fetch(revision=revision)
    assert (offline.revision, offline.config) == (online.revision, online.config)
    assert offline.chat_template is True
    assert small("tokenizer.json", revision) is None
    monkeypatch.delenv("HF_HUB_OFFLINE")
    assert small("tokenizer.json", revision) == FILES["tokenizer.json"]
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert small("tokenizer.json", revision) == FILES["tokenizer.json"]


def test_a_small_file_that_is_not_there(asked: list[str]) -> None:
    assert small("chat_template.jinja") is None
    assert small("tokenizer.json", COMMIT) == FILES["tokenizer.json"]


@pytest.mark.parametrize(
    ("name", "revision", "what", "next_step"),
    [
        (
            "org/gated",
            None,
            "org/gated is gated: its files are given to those who accepted its terms",
            "accept the terms on the model's page, then `hf auth login` or HF_TOKEN",
        ),
        (
            "org/absent",
            None,
            "there is no model 'org/absent', or it is private",
            "correct the name (a folder on the host begins with '/'), or `hf auth login`",
        ),
        (
            NAME,
            "nope",
            "org/tiny has no revision 'nope'",
            "give a branch, a tag or a commit of it, or leave the revision out",
        ),
        (
            "a/b/c",
            None,
            "'a/b/c' is neither an absolute path on the host nor a name on a model hub",
            "write /absolute/path or OWNER/NAME",
        ),
    ],
)
def test_names_that_can_not_be_had(
    asked: list[str], name: str, revision: str | None, what: str, next_step: str
) -> None:
    with pytest.raises(UsageError) as caught:
        fetch(name, revision)
    assert (caught.value.what, caught.value.next_step) == (what, next_step)
    assert caught.value.__cause__ is not None


def test_a_hub_in_trouble_is_not_a_wrong_name(asked: list[str]) -> None:
    with pytest.raises(HostError, match=r"gave no usable answer \(status 500\)"):
        fetch("org/broken")


def test_a_repository_without_config(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(FILES, "config.json")
    with pytest.raises(UsageError, match=r"holds no config[.]json, so it is no checkpoint"):
        fetch()
