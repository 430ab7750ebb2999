"""Every command that the documents show is run as it is written."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.e2e.world import REPOSITORY, TOUR_SUBMIT, World, blocks

pytestmark = pytest.mark.e2e


def run(world: World, line: str) -> None:
    """One `runner …` line, in a folder where `hosts.yaml` and `jobs/` are."""
    words = shlex.split(line)
    assert words[0] == "runner", line
    done = world.runner(*words[1:], cwd=world.root, timeout=900)
    assert done.returncode == 0


def test_the_two_set_up_commands_are_the_ones_that_run_here():
    assert blocks("README.md", "Quickstart")[0] == ["bash jobs/quickstart.sh"]
    assert blocks("README.md", "Tests")[0] == ["bash tests/run.sh"]
    assert "exec bash tests/run.sh" in (REPOSITORY / ".ci" / "run").read_text()


def test_the_tour(world: World, killed_client: str):
    here, anywhere = blocks("README.md", "Five minutes over SSH")
    assert here[-1] == TOUR_SUBMIT
    for line in here[:-1]:
        run(world, line)
    world.runner("logs", killed_client, "-f", timeout=900)
    for line in anywhere:
        run(world, line)


def test_reports_of_a_collected_run(world: World, killed_client: str):
    world.runner("collect")
    (lines,) = blocks("README.md", "Reports")
    assert len(lines) == 3
    for line in lines:
        run(world, line)
    shared = world.root / "to-publish"
    assert (shared / "page.html").exists()
    assert (shared / "raw" / "plan.json").exists()


def test_the_page_on_hosts(world: World, killed_client: str):
    lines = [
        line
        for block in re.findall(
            r"```bash\n(.*?)```", (REPOSITORY / "docs/hosts.md").read_text(), flags=re.DOTALL
        )
        for line in block.splitlines()
    ]
    assert lines[0] == "runner hosts list"
    for line in lines[:2]:
        run(world, line)
    # the stub host of these tests has no server image until its own tests build one
    world.runner(*shlex.split(lines[2])[1:], cwd=world.root, check=False)
