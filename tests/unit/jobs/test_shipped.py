"""The files that come with runner are right, and hold what their comments promise."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from runner.jobs import load_job, read_prompts
from runner.models.host import ConnectionKind, Inventory, Role, Vendor
from runner.models.job import SpeculativeMethod
from runner.plan.matrix import expand
from runner.specfile import load_spec

ROOT = Path(__file__).parents[3]


def test_the_inventory_has_a_cpu_a_rocm_and_a_cuda_host() -> None:
    hosts = load_spec(ROOT / "hosts.yaml", Inventory).hosts
    assert list(hosts) == ["local", "mi50-198", "cuda-1"]
    local, mi50, cuda = hosts.values()
    assert (local.connection, local.accelerator.vendor) == (ConnectionKind.LOCAL, Vendor.CPU)
    assert local.run_root == "/var/lib/runner/runs"
    assert (mi50.user, mi50.address) == ("root", "192.168.1.198")
    assert (mi50.accelerator.vendor, mi50.accelerator.count) == (Vendor.AMD, 4)
    assert mi50.accelerator.architecture == "gfx906"
    assert mi50.models == ("/opt/models",)
    assert [(mount.source, mount.target) for mount in mi50.mounts] == [
        ("/opt/mi50grad", "/opt/mi50grad")
    ]
    assert mi50.environment == {"HIP_VISIBLE_DEVICES": "0,1,2,3"}
    assert (cuda.accelerator.vendor, cuda.accelerator.count) == (Vendor.NVIDIA, 1)
    assert cuda.jump == "bench@gateway.example.net:22"
    # there is no recipe yet for a server on gfx906, so the entry leaves that role open
    without_server = set(Role) - {Role.SERVER}
    assert [set(host.images) for host in hosts.values()] == [set(Role), without_server, set(Role)]


def test_the_quickstart_is_twelve_small_cells_with_known_answers() -> None:
    loaded = load_job(ROOT / "jobs" / "quickstart.yaml")
    job = loaded.job
    cells = expand(job.matrix, job.repeats, job.max_cells)
    assert [cell.id for cell in cells] == [
        f"{server}-{prompts}-c{concurrency}-r1"
        for server in ("baseline", "ngram", "draft")
        for prompts in ("code", "chat")
        for concurrency in (1, 2)
    ]
    ngram, draft = job.servers["ngram"].speculative, job.servers["draft"].speculative
    assert ngram is not None and draft is not None
    assert (ngram.method, ngram.num_speculative_tokens) == (SpeculativeMethod.NGRAM, 4)
    assert (ngram.prompt_lookup_min, ngram.prompt_lookup_max) == (2, 4)
    assert (draft.method, draft.num_speculative_tokens) == (SpeculativeMethod.DRAFT_MODEL, 3)
    assert draft.model == job.model == "/var/lib/runner/models/tiny"
    assert job.baseline == "baseline"
    assert (job.sampling.temperature, job.sampling.ignore_eos) == (0.0, False)
    assert {prompts.output_tokens for prompts in job.prompts.values()} == {64}


def test_the_full_job_spreads_from_one_request_to_saturation() -> None:
    job = load_job(ROOT / "jobs" / "matrix.yaml").job
    cells = expand(job.matrix, job.repeats, job.max_cells)
    assert len(cells) == 72
    assert job.matrix.concurrency == (1, 4, 16, 64)
    eagle = job.servers["eagle3"].speculative
    assert eagle is not None and eagle.method is SpeculativeMethod.EAGLE3


@pytest.mark.parametrize(("name", "rows"), [("quickstart", 16), ("matrix", 24)])
def test_the_prompt_sets_of_the_jobs_are_there(name: str, rows: int) -> None:
    loaded = load_job(ROOT / "jobs" / f"{name}.yaml")
    for set_name, prompts in loaded.job.prompts.items():
        read = read_prompts(loaded.folder / prompts.file, set_name, prompts.rows)
        assert (read.aiperf_format, read.requests) == ("single_turn", rows)


def test_code_repeats_itself_so_that_lookup_finds_drafts() -> None:
    rows = read_prompts(ROOT / "jobs" / "prompts" / "code.jsonl", "code").rows
    repeating = [row.id for row in rows if _share_of_repeated_pairs(row.content) >= 0.1]
    assert len(repeating) >= 15


def _share_of_repeated_pairs(text: str) -> float:
    words = re.findall(r"\w+|[^\w\s]", text)
    pairs = list(pairwise(words))
    return 1 - len(set(pairs)) / len(pairs)


def test_prompts_leave_room_for_their_answers() -> None:
    for name in ("code", "chat"):
        rows = read_prompts(ROOT / "jobs" / "prompts" / f"{name}.jsonl", name).rows
        assert len(rows) == 24
        assert max(len(row.content) for row in rows) < 900
