"""Delete runs on a host that the store holds complete. Copies nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from runner.client.containers import Supervisor, empty_folder_as_root, remove_labelled
from runner.client.runs import RUN_ID, RunReader, RunRef, RunView
from runner.errors import CommandFailed, HostError, UsageError
from runner.models.host import Host
from runner.models.status import Status
from runner.transport.base import Connection

_DELETE_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Pruned:
    """What was removed of one run. `as_root` says that a helper container had to do it."""

    ref: RunRef
    containers: int
    networks: int
    as_root: bool


def check_prunable(view: RunView, *, collected: bool, force: bool) -> None:
    """Refuse to delete what runs, or what no store holds.

    Args:
        collected: the store holds this run complete.
        force: delete a run that was not collected, or that is LOST.

    Raises:
        UsageError: the run must not be deleted, and why.
    """
    run_id, status = view.ref.run_id, view.state.status
    if not status.final or view.supervisor is Supervisor.RUNNING:
        raise UsageError(
            f"run {run_id} is {status}: what runs is not deleted", next_step=f"runner stop {run_id}"
        )
    if force:
        return
    if status is Status.LOST:
        raise UsageError(
            f"run {run_id} is LOST and may still be resumed",
            next_step=f"runner resume {run_id}, or runner prune {run_id} --force",
        )
    if not collected:
        raise UsageError(
            f"run {run_id} was not collected complete", next_step=f"runner collect {run_id}"
        )


def prune_run(reader: RunReader, host: Host, view: RunView) -> Pruned:
    """Delete the folder, the containers and the networks of one run on its host.

    The caller has made sure with `check_prunable` that this may be done.

    Raises:
        HostError: the folder is not where it should be, or something is left behind.
    """
    connection, ref = reader.connection, reader.ref
    _check_folder(connection, host, ref)
    containers, networks = remove_labelled(connection, host, ref.run_id)
    image = view.plan.supervisor.image if view.plan else None
    as_root = _delete(connection, host, ref, image)
    parent = str(PurePosixPath(ref.root).parent)
    if not connection.list(parent):
        connection.run(("rmdir", "--", parent), check=False)
    return Pruned(ref, containers, networks, as_root)


def _check_folder(connection: Connection, host: Host, ref: RunRef) -> None:
    """The folder must be `<run_root>/<job>/<run id>` itself, with no link on the way."""
    match = RUN_ID.fullmatch(ref.run_id)
    root = connection.run(("readlink", "-f", "--", host.run_root)).text.rstrip("\n")
    wanted = PurePosixPath(root) / ref.job / ref.run_id
    real = connection.run(("readlink", "-f", "--", ref.root)).text.rstrip("\n")
    if match is None or match.group(2) != ref.job or real != str(wanted):
        raise HostError(
            f"{ref.root} is really {real}, not a run folder under {host.run_root}: nothing deleted",
            where=host.name,
            next_step=f"look at it on {host.name} and remove the link by hand",
        )


def _delete(connection: Connection, host: Host, ref: RunRef, image: str | None) -> bool:
    """Returns True when a helper container had to delete files of root."""
    if _remove(connection, ref):
        return False
    refused: CommandFailed | None = None
    if image is not None:
        try:
            empty_folder_as_root(connection, host, ref.root, image)
        except CommandFailed as error:
            refused = error
    if image is None or refused is not None or not _remove(connection, ref):
        left = connection.run(("find", ref.root, "-maxdepth", "3"), check=False).text.split("\n")
        raise HostError(
            f"left behind of run {ref.run_id}: {', '.join(left[:10])}"
            + (f" ({refused.what})" if refused else ""),
            where=host.name,
            next_step=f"delete {ref.root} as root on {host.name}",
        ) from refused
    return True


def _remove(connection: Connection, ref: RunRef) -> bool:
    argv = ("rm", "-rf", "--", ref.root)
    return connection.run(argv, timeout_s=_DELETE_TIMEOUT_S, check=False).exit_code == 0
