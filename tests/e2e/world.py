"""Where the end-to-end tests live, and how they call the tool: as a user would."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
TOUR_SUBMIT = "runner submit jobs/quickstart.yaml --host box"
"""The line of the README's tour."""

OLD = "0.27.0"
"""A vLLM with neither per-request acceptance nor adaptive verification, on the torch of 0.32.0."""

PLANTED = "hf_planted9e1f0c7a5b"


@dataclass
class World:
    """Where everything is, and how to call the tool as a user would."""

    root: Path
    socket: str
    hosts_file: Path
    store: Path
    environment: dict[str, str] = field(default_factory=dict)
    ahead: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    def start_ahead(self, name: str, *arguments: str, **environment: str) -> None:
        """Run the tool beside the tests, for `wait_for` to ask about later."""
        with (self.root / f"{name}.log").open("w") as log:
            self.ahead[name] = subprocess.Popen(
                self.command(*arguments),
                stdout=log,
                stderr=log,
                cwd=self.root,
                env={**self.environment, **environment},
                text=True,
            )

    def wait_for(self, name: str, timeout_s: float = 1200) -> None:
        """Wait for what was started ahead; exit code 0 is expected."""
        code = self.ahead.pop(name).wait(timeout_s)
        assert code == 0, (self.root / f"{name}.log").read_text()

    def end_ahead(self) -> None:
        """End what nobody waited for."""
        for process in self.ahead.values():
            process.terminate()
            process.wait(60)

    def command(self, *arguments: str) -> list[str]:
        """argv of the tool."""
        return [sys.executable, "-m", "runner", *arguments]

    def runner(
        self,
        *arguments: str,
        check: bool = True,
        timeout: float = 600,
        cwd: Path | None = None,
        **environment: str,
    ) -> subprocess.CompletedProcess[str]:
        """Run the tool to its end; with `check`, exit code 0 is expected."""
        done = subprocess.run(
            self.command(*arguments),
            check=False,
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=cwd or self.root,
            env={**self.environment, **environment},
        )
        assert "Traceback" not in done.stderr, done.stderr
        if check:
            assert done.returncode == 0, (
                f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
            )
        return done

    def docker(self, *arguments: str) -> str:
        """Run the engine's command line; its stdout."""
        return subprocess.run(
            ["docker", "-H", f"unix://{self.socket}", *arguments],
            check=True,
            capture_output=True,
            text=True,
            timeout=600,
        ).stdout.strip()

    def containers(self, run_id: str) -> list[str]:
        """Names of the containers of a run that still run."""
        out = self.docker(
            "ps", "--filter", f"label=dev.runner.run={run_id}", "--format", "{{.Names}}"
        )
        return [name for name in out.splitlines() if name]

    def state(self, run_id: str) -> dict:
        """`runner status --format json`."""
        return json.loads(self.runner("status", run_id, "--format", "json").stdout)

    def wait_for_phase(self, run_id: str, phase: str, cell: str | None = None) -> None:
        """Wait until a cell is well inside this phase, as the journal on the host says."""
        (folder,) = self.root.glob(f"runs-*/*/{run_id}")
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:
            for line in _lines(folder / "journal.jsonl"):
                event = json.loads(line)
                if (
                    event["kind"] == "cell_phase"
                    and event["phase"] == phase
                    and cell in (None, event["cell"])
                ):
                    time.sleep(2)
                    return
            time.sleep(0.2)
        raise AssertionError(f"no cell of {run_id} reached {phase}")

    def artifacts(self, job: str, run_id: str) -> Path:
        """The newest collected version of a run."""
        return self.store / job / run_id


@dataclass
class Quickstart:
    """What the README's first command did."""

    run_id: str
    exit_code: int
    stdout: str
    stderr: str
    folder: Path


def _lines(journal: Path) -> list[str]:
    """Whole lines of a journal that may be being written."""
    return journal.read_text().split("\n")[:-1] if journal.exists() else []


def blocks(document: str, section: str) -> list[list[str]]:
    """Command lines of the bash blocks in a section of a document, comments cut off."""
    text = (REPOSITORY / document).read_text().split(f"## {section}\n", 1)[1].split("\n## ", 1)[0]
    found = re.findall(r"```bash\n(.*?)```", text, flags=re.DOTALL)
    return [
        [line.split("  #")[0].split(" #")[0].strip() for line in block.splitlines() if line.strip()]
        for block in found
    ]
