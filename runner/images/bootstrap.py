"""A base image without a registry: a minimal Debian made on the host."""

from __future__ import annotations

from runner.errors import EngineError
from runner.images.command import Progress, engine_argv, follow
from runner.models.host import Host
from runner.transport.base import Connection

SUITE = "bookworm"
PACKAGES = ("python3", "python3-venv", "ca-certificates")
DEBOOTSTRAP_TIMEOUT_S = 1800.0
_DEBOOTSTRAP = "/usr/sbin/debootstrap"
# not /tmp, which may lie in memory or forbid device nodes
_TEMPORARY_PARENT = "/var/tmp"  # noqa: S108


def base_reference(suite: str = SUITE) -> str:
    """Name of the base image made by `bootstrap_base`."""
    return f"runner/base:{suite}"


def bootstrap_base(
    connection: Connection, host: Host, progress: Progress, suite: str = SUITE
) -> str:
    """Make `runner/base:<suite>` with debootstrap on the host; returns its reference.

    About 300 MB of temporary files under /var/tmp, removed also on failure.

    Raises:
        EngineError: debootstrap is missing or failed, the login is not root, or the import failed.
    """
    _check(connection, host)
    made = connection.run(
        ["mktemp", "--directory", f"--tmpdir={_TEMPORARY_PARENT}", "runner-base-XXXXXXXX"]
    )
    folder = made.text.strip()
    root = f"{folder}/root"
    try:
        progress(f"making {base_reference(suite)} on {host.name} with debootstrap")
        include = f"--include={','.join(PACKAGES)}"
        _step(
            connection,
            host,
            [_DEBOOTSTRAP, "--variant=minbase", include, suite, root],
            progress,
        )
        # downloaded packages and lists would only make every image larger
        for cache in ("var/cache/apt", "var/lib/apt/lists"):
            _step(connection, host, ["find", f"{root}/{cache}", "-type", "f", "-delete"], progress)
        archive = f"{folder}/root.tar"
        # debootstrap sometimes leaves /proc mounted there: its files must not be packed or deleted
        connection.run(["umount", f"{root}/proc"], check=False)
        _step(
            connection,
            host,
            ["tar", "-C", root, "--one-file-system", "-cf", archive, "."],
            progress,
        )
        label = f"LABEL dev.runner.image=base dev.runner.versions=debian={suite}"
        _step(
            connection,
            host,
            engine_argv(host, "import", "--change", label, archive, base_reference(suite)),
            progress,
        )
    finally:
        connection.run(["rm", "-rf", "--one-file-system", folder], timeout_s=300.0, check=False)
    return base_reference(suite)


def _check(connection: Connection, host: Host) -> None:
    if connection.run(["id", "-u"]).text.strip() != "0":
        raise EngineError(
            "making a base image needs root there, and the login is not root",
            where=host.name,
            next_step="give --base IMAGE, or log in as root",
        )
    if connection.stat(_DEBOOTSTRAP) is None:
        raise EngineError(
            "debootstrap is not installed, and --bootstrap-base needs it",
            where=host.name,
            next_step="on the host: apt-get install debootstrap (or give --base IMAGE)",
        )


def _step(connection: Connection, host: Host, argv: list[str], progress: Progress) -> None:
    ended = follow(connection, argv, progress, timeout_s=DEBOOTSTRAP_TIMEOUT_S)
    if ended.exit_code != 0:
        raise EngineError(
            f"making the base image failed at '{argv[0]}' (exit code {ended.exit_code}); "
            f"its last lines:\n{ended.text}",
            where=host.name,
            next_step="mend the cause shown above, or give --base IMAGE",
        )
