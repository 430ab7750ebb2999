"""All hosts at once; a host that fails is a row of its own."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from runner.client.hosts import check_hosts
from runner.errors import HostError, UsageError
from runner.images.catalogue import Catalogue
from runner.models.host import Accelerator, ConnectionKind, Host, Inventory, Role, Vendor
from runner.models.image import ImageLock, ImageRecipe, LockedImage
from runner.transport.base import Completed

DATA = Path(__file__).parents[2] / "data" / "hosts"
ANSWER = (DATA / "debian-cpu" / "facts.txt").read_bytes()
DIGEST = "sha256:7dabb6aff937dafe393dd82e0645967a21dd98208163ff414c40265ef6df6358"


class Recorded:
    """Answers as the recorded machine did, and counts what is left open."""

    name = "recorded"
    open = 0

    def __init__(self) -> None:
        type(self).open += 1

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | None = None,
        timeout_s: float = 60.0,
        check: bool = True,
    ) -> Completed:
        return Completed(tuple(argv), 0, ANSWER, b"")

    def close(self) -> None:
        type(self).open -= 1


def host(name: str, **update: object) -> Host:
    return Host(name=name, connection=ConnectionKind.LOCAL).model_copy(update=update)


def inventory(*hosts: Host) -> Inventory:
    return Inventory(hosts={item.name: item for item in hosts})


def test_unreachable_host_leaves_the_others_unharmed() -> None:
    meeting = threading.Barrier(3, timeout=20)

    def connect(item: Host) -> Recorded:
        meeting.wait()  # passes only when all three are asked at the same time
        if item.name == "b":
            raise HostError("connection refused", where="b:22")
        return Recorded()

    hosts = inventory(host("a"), host("b"), host("c"))
    reports = check_hosts(hosts, [], connect)  # type: ignore[arg-type]
    assert [report.host.name for report in reports] == ["a", "b", "c"]
    assert [str(report.error) for report in reports if report.error] == ["b:22: connection refused"]
    assert [report.ready for report in reports] == [True, False, True]
    first = reports[0].facts
    assert first is not None
    assert first.host == "a"
    assert Recorded.open == 0


def test_images_of_each_host_by_its_own_lock() -> None:
    entry = LockedImage(name="base", reference="runner/base:bookworm", digest=DIGEST, built_at="")
    wanted = {"images": {Role.SERVER: "base"}}
    reports = check_hosts(
        inventory(host("a", **wanted), host("b", **wanted)),
        [],
        lambda _: Recorded(),  # type: ignore[arg-type, return-value]
        ImageLock(hosts={"a": {"base": entry}}),
    )
    errors = [[f.next_step for f in r.findings if f.level.value == "error"] for r in reports]
    assert errors == [[], ["runner images build base --host b"]]


def test_roles_without_an_image_are_served_by_the_catalogue() -> None:
    names = {"vllm-cpu": Role.SERVER, "aiperf": Role.LOAD, "supervisor": Role.SUPERVISOR}
    recipes = {
        name: ImageRecipe(
            name=name, description="", roles=(role,), base="debian", versions={"v": "1"}
        )
        for name, role in names.items()
    }
    reports = check_hosts(
        inventory(host("a"), host("b", accelerator=Accelerator(vendor=Vendor.AMD))),
        ["a", "b"],
        lambda _: Recorded(),  # type: ignore[arg-type, return-value]
        catalogue=Catalogue(Path("images"), recipes),
    )
    plain, amd = (
        [f.subject for f in report.findings if "image" in f.subject] for report in reports
    )
    assert plain == ["image vllm-cpu", "image aiperf", "image supervisor"]
    assert amd == ["image server", "image aiperf", "image supervisor"]
    assert reports[1].facts is not None


def test_unknown_name() -> None:
    with pytest.raises(UsageError, match="host 'x' is not in the inventory"):
        check_hosts(inventory(host("a")), ["x"], lambda _: Recorded())  # type: ignore[arg-type, return-value]
