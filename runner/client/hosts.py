"""Ask every host whether it is ready, all at once; one that fails leaves the others unharmed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass

from runner.errors import RunnerError, SpecError
from runner.images.catalogue import Catalogue, recipe_for
from runner.inventory.check import check_host
from runner.inventory.facts import gather_facts
from runner.inventory.load import pick
from runner.models.host import Host, HostFacts, Inventory, Role
from runner.models.image import ImageLock, LockedImage
from runner.models.plan import Finding, FindingLevel
from runner.transport.base import Connection


@dataclass(frozen=True)
class HostReport:
    """What became of one host: facts with findings, or the error that kept it from answering."""

    host: Host
    facts: HostFacts | None = None
    findings: tuple[Finding, ...] = ()
    error: RunnerError | None = None

    @property
    def ready(self) -> bool:
        """True when the host answered and no finding is an error."""
        return self.error is None and all(
            finding.level is not FindingLevel.ERROR for finding in self.findings
        )


def check_hosts(
    inventory: Inventory,
    names: Sequence[str],
    connect: Callable[[Host], Connection],
    lock: ImageLock | None = None,
    catalogue: Catalogue | None = None,
) -> tuple[HostReport, ...]:
    """One report a host, in the order asked for (of the inventory when `names` is empty).

    Args:
        connect: opens a connection; its `HostError` becomes that host's report.
        lock: which images a plan uses on each host.
        catalogue: recipes, which serve the roles that a host names no image for.

    Raises:
        UsageError: a name is not in the inventory.
    """
    hosts = pick(inventory, names)
    locks = lock or ImageLock()

    def report(host: Host) -> HostReport:
        try:
            with closing(connect(host)) as connection:
                facts = gather_facts(connection, host)
        except RunnerError as error:
            return HostReport(host, error=error)
        wanted, refused = _wanted_images(host, locks, catalogue)
        return HostReport(host, facts, (*refused, *check_host(host, facts, wanted)))

    with ThreadPoolExecutor(max_workers=max(1, len(hosts))) as pool:
        return tuple(pool.map(report, hosts))


def _wanted_images(
    host: Host, lock: ImageLock, catalogue: Catalogue | None
) -> tuple[Mapping[str, LockedImage | None], tuple[Finding, ...]]:
    """Images that a plan on this host uses, each with its lock entry or None; refused choices."""
    locked = lock.hosts.get(host.name, {})
    names = list(host.images.values())
    refused: list[Finding] = []
    if catalogue is not None:
        names = []
        for role in Role:
            try:
                names.append(recipe_for(host, role, catalogue).name)
            except SpecError as error:
                refused.append(
                    Finding(
                        level=FindingLevel.ERROR,
                        subject=f"image {role}",
                        message=error.what,
                        next_step=error.next_step,
                    )
                )
    return {name: locked.get(name) for name in dict.fromkeys(names)}, tuple(refused)
