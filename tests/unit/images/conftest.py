"""A real local connection to a command that plays the engine's: it notes what it was told."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from runner.models.host import ConnectionKind, EngineAccess, Host
from runner.transport.local import LocalConnection

_SCRIPT = """#!{python}
import json, pathlib, sys
folder = pathlib.Path(__file__).parent
words = sys.argv[3:]
with (folder / "calls.jsonl").open("a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
if words[-1] == "-":
    (folder / "stdin").write_bytes(sys.stdin.buffer.read())
for answer in json.loads((folder / "answers.json").read_text()):
    if words[: len(answer["words"])] == answer["words"]:
        for path in answer["makes"]:
            pathlib.Path(path).write_text("made")
        sys.stdout.write(answer["stdout"])
        sys.stderr.write(answer["stderr"])
        sys.exit(answer["code"])
sys.exit("unexpected: " + " ".join(words))
"""


@dataclass
class PlayedEngine:
    """Answers are matched by their first words, the latest first."""

    folder: Path
    host: Host
    connection: LocalConnection

    def answer(
        self,
        *words: str,
        stdout: str = "",
        stderr: str = "",
        code: int = 0,
        makes: tuple[str, ...] = (),
    ) -> None:
        """From now on, a call that starts with `words` gets this answer."""
        path = self.folder / "answers.json"
        known = json.loads(path.read_text())
        new = {"words": words, "stdout": stdout, "stderr": stderr, "code": code, "makes": makes}
        path.write_text(json.dumps([new, *known]))

    def has_image(self, reference: str, digest: str, size_bytes: int = 10) -> None:
        """The image is on the host."""
        image = [{"Id": digest, "Size": size_bytes, "Created": "2026-12-01T00:00:00Z"}]
        self.answer("image", "inspect", reference, stdout=json.dumps(image))

    def calls(self) -> list[list[str]]:
        """Words of each call, without the socket."""
        path = self.folder / "calls.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line)[2:] for line in lines]

    def socket(self) -> list[str]:
        """The first two words of the first call."""
        first: list[str] = json.loads((self.folder / "calls.jsonl").read_text().splitlines()[0])
        return first[:2]

    @property
    def stdin(self) -> Path:
        """What the last call that reads stdin was fed."""
        return self.folder / "stdin"


@pytest.fixture
def played(tmp_path: Path) -> PlayedEngine:
    """An engine's command that knows no image."""
    folder = tmp_path / "engine"
    folder.mkdir()
    command = folder / "docker"
    command.write_text(_SCRIPT.replace("{python}", sys.executable))
    command.chmod(0o755)
    (folder / "answers.json").write_text("[]")
    host = Host(
        name="box",
        connection=ConnectionKind.LOCAL,
        engine=EngineAccess(socket="/run/engine.sock", command=str(command)),
    )
    engine = PlayedEngine(folder, host, LocalConnection("box"))
    engine.answer("image", "inspect", stderr="Error: No such image: x\n", code=1)
    return engine
