"""What is taken of a run that is still going, from recorded `find` output."""

from __future__ import annotations

import pytest

from runner.artifacts.selection import Listed, parse_listing, select
from runner.errors import ArtifactError, UnsafeArchive


def listed(*paths: str) -> list[Listed]:
    return [Listed("f", 1, "1.5", "", path) for path in paths]


def test_a_listing_as_find_prints_it() -> None:
    data = (
        b"d\x004096\x001700000000.1000000000\x00\x00cells\0"
        b"f\x0012\x001700000000.1234567890\x00\x00cells/a\nb\0"
        b"l\x004\x001700000001.0000000000\x00/etc\x00latest\0"
        b"f\x000\x001700000001.0000000000\x00\x00caf\xe9\0"
    )
    assert parse_listing(data) == (
        Listed("f", 12, "1700000000.1234567890", "", "cells/a\nb"),
        Listed("l", 4, "1700000001.0000000000", "/etc", "latest"),
        Listed("f", 0, "1700000001.0000000000", "", "caf\udce9"),
    )
    assert parse_listing(b"") == ()


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_cut_listing_is_an_error(cut: int) -> None:
    data = b"f\x0012\x001700000000.1234567890\x00\x00plan.json\0"
    with pytest.raises(ArtifactError, match="not whole"):
        parse_listing(data[:-cut])


def test_whole_growing_and_left_out() -> None:
    files = listed(
        "plan.json",
        "host.json",
        "inputs/chat.jsonl",
        "journal.jsonl",
        "supervisor.log",
        "supervisor.log.times",
        "control/stop.json",
        "cells/a/attempt-1/result.json",
        "cells/a/attempt-1/load/aiperf/profile_export.jsonl",
        "cells/a/attempt-1/load/output.log",
        "cells/a/attempt-2/load/output.log",
        "cells/b/attempt-1/load/result.json",
        "servers/s/attempt-1/result.json",
        "servers/s/attempt-1/output.log",
        "servers/s/attempt-2/output.log",
        "servers/s/attempt-2/output.log.times",
        "servers/s/attempt-2/spec.json",
        "servers/s/attempt-2/inspect.json",
        "servers/s/attempt-2/server_info.json",
        "notes.txt",
    )
    odd = [
        Listed("l", 4, "1.5", "/etc", "latest"),
        Listed("s", 0, "1.5", "", "cells/a/attempt-1/socket"),
        Listed("f", 0, "1.5", "", "cells/a/attempt-1/caf\udce9"),
    ]
    chosen = select([*files, *odd])
    assert sorted(chosen.whole) == [
        "cells/a/attempt-1/load/aiperf/profile_export.jsonl",
        "cells/a/attempt-1/load/output.log",
        "cells/a/attempt-1/result.json",
        "host.json",
        "inputs/chat.jsonl",
        "plan.json",
        "servers/s/attempt-1/output.log",
        "servers/s/attempt-1/result.json",
    ]
    assert sorted(chosen.growing) == [
        "journal.jsonl",
        "servers/s/attempt-2/inspect.json",
        "servers/s/attempt-2/output.log",
        "servers/s/attempt-2/output.log.times",
        "servers/s/attempt-2/spec.json",
        "supervisor.log",
        "supervisor.log.times",
    ]
    assert sorted(chosen.left_out) == [
        "cells/a/attempt-1/caf\\udce9 (name is not UTF-8)",
        "cells/a/attempt-1/socket (not a regular file)",
        "cells/a/attempt-2: still going",
        "cells/b/attempt-1: still going",
        "latest -> /etc (symbolic link)",
        "notes.txt: not known to be whole before the run ends",
        "servers/s/attempt-2: still going; only its specification, inspect output and log so far",
    ]


def test_a_path_that_leaves_the_run_is_refused() -> None:
    with pytest.raises(UnsafeArchive):
        select(listed("../plan.json"))
