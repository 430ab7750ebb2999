"""The one error tree: every class carries an exit code and says what, where and what next."""

from __future__ import annotations

from collections.abc import Sequence


class RunnerError(Exception):
    """Anything that is reported to a user as one clear message.

    Args:
        what: what went wrong, with the name of the thing and what was expected.
        where: file, host, container or run that the message is about.
        next_step: the next command or edit to try.
    """

    exit_code = 70

    def __init__(self, what: str, *, where: str | None = None, next_step: str | None = None):
        super().__init__(what)
        self.what = what
        self.where = where
        self.next_step = next_step

    def __str__(self) -> str:
        head = f"{self.where}: {self.what}" if self.where else self.what
        return f"{head}\n  next: {self.next_step}" if self.next_step else head


class RunFailed(RunnerError):
    """The run ended, and not every cell succeeded, or a gate failed."""

    exit_code = 1


class UsageError(RunnerError):
    """The command line asks for something that does not exist or contradicts itself."""

    exit_code = 2


class SpecError(RunnerError):
    """A file that people write is wrong; carries every problem found, each with its position."""

    exit_code = 3

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        next_step: str | None = None,
        problems: Sequence[str] = (),
    ):
        super().__init__(what, where=where, next_step=next_step)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        lines = [super().__str__()] if not self.problems else [*self.problems]
        if self.problems and self.next_step:
            lines.append(f"  next: {self.next_step}")
        return "\n".join(lines)


class HostError(RunnerError):
    """A host can't be reached or does not answer as expected."""

    exit_code = 4


class HostUnreachable(HostError):
    """A host gives no answer; it may come back, so that trying again later makes sense."""


class ConnectionLost(HostError):
    """The connection to a host broke; the work on the host goes on."""


class HostKeyUnknown(HostError):
    """The host offers a key that no known_hosts file holds."""


class HostKeyChanged(HostError):
    """The host offers another key than the one that is on record."""


class CommandTimedOut(HostError):
    """A remote command did not end within its deadline; carries the tail of its output."""

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        next_step: str | None = None,
        stdout_tail: bytes = b"",
        stderr_tail: bytes = b"",
    ):
        super().__init__(what, where=where, next_step=next_step)
        self.stdout_tail = stdout_tail
        self.stderr_tail = stderr_tail


class CommandFailed(HostError):
    """A remote command ended with an unexpected exit code."""

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        next_step: str | None = None,
        command_exit_code: int | None = None,
        stderr: str = "",
    ):
        super().__init__(what, where=where, next_step=next_step)
        self.command_exit_code = command_exit_code
        self.stderr = stderr


class FileMissing(HostError):
    """A file that was expected on a host is not there."""


class EngineError(HostError):
    """The container engine refused or failed."""


class ImageMissing(EngineError):
    """An image that a plan needs is not on the host."""


class ContainerGone(EngineError):
    """A container that was expected does not exist any more."""


class ArtifactError(RunnerError):
    """Stored files are missing, damaged or unsafe."""

    exit_code = 5


class ManifestMismatch(ArtifactError):
    """A file differs from the size or hash in its manifest."""


class UnsafeArchive(ArtifactError):
    """An archive member would leave its folder or is not a plain file."""
