"""Read the files of one run on its host with nothing but cat, find and tar.

Files that a container wrote belong to root. Where the login user may not read them, the same
command runs in a container that sees the run folder alone, read-only and without a network.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from pydantic import ValidationError

from runner.artifacts.selection import LISTING_FORMAT, Listed, parse_listing
from runner.client.containers import docker_command
from runner.engine.convert import mount_option
from runner.errors import ArtifactError, CommandFailed, EngineError, FileMissing
from runner.models.base import Record
from runner.models.container import Mount
from runner.models.host import Host
from runner.transport.base import Connection, Source, Stream

_KEPT_STDERR_BYTES = 1 << 16
_DENIED = b"Permission denied"
_ABSENT = b"No such file or directory"
_DOCKER_FAILED = frozenset({125, 126, 127})
_NAMES_AT_ONCE = 256


class SupervisorImage(Record):
    """The image that a run's supervisor was started from."""

    image: str


class RunHead(Record):
    """The part of `plan.json` that collecting needs, so that runs of other versions can be too."""

    run_id: str
    job: str
    supervisor: SupervisorImage


def read_head(connection: Connection, host: Host, run_dir: str) -> RunHead:
    """What run lies in a folder of a host.

    Raises:
        FileMissing: there is no `plan.json`.
        ArtifactError: it is no plan.
    """
    try:
        data = connection.get(f"{run_dir}/plan.json")
    except FileMissing as error:
        raise FileMissing(
            f"there is no run in {run_dir}: no plan.json",
            where=host.name,
            next_step=f"runner ps --host {host.name}",
        ) from error
    try:
        return RunHead.model_validate_json(data)
    except ValidationError as error:
        raise ArtifactError(
            f"plan.json is no plan: {error}",
            where=f"{host.name}: {run_dir}",
            next_step="a submit broke off there; submit again",
        ) from error


@dataclass
class Output:
    """What a command says beside its data, known when its iteration has ended."""

    program: str
    stream: Stream
    stderr: bytearray = field(default_factory=bytearray)

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self.stream:
            if chunk.source is Source.STDOUT:
                yield chunk.data
            elif len(self.stderr) < _KEPT_STDERR_BYTES:
                self.stderr += chunk.data

    @property
    def exit_code(self) -> int | None:
        return self.stream.exit_code

    @property
    def denied(self) -> bool:
        """True when permissions stood in the way."""
        return self.exit_code != 0 and _DENIED in self.stderr

    def lines(self) -> list[str]:
        """What went to stderr, line by line."""
        return self.stderr.decode("utf-8", "replace").splitlines()


class RunFiles:
    """One run folder on a host. `image` is used only where the login user may not read."""

    def __init__(self, connection: Connection, host: Host, run_dir: str, image: str):
        self._connection = connection
        self._host = host
        self._run_dir = run_dir
        self._image = image
        self.as_root = False

    def read(self, path: str) -> bytes | None:
        """Content of one file; None when it is not there. Raises a HostError otherwise."""
        try:
            return self._run("cat", "--", f"{self._run_dir}/{path}")
        except FileMissing:
            return None

    def listing(self) -> tuple[Listed, ...]:
        """Everything below the run folder as it is now; links are not followed."""
        return parse_listing(
            self._run("find", self._run_dir, "-mindepth", "1", "-printf", LISTING_FORMAT)
        )

    @contextmanager
    def archive(self, paths: Sequence[str]) -> Iterator[Output]:
        """One tar stream of exactly these files, in this order. The caller judges its exit code:
        tar ends with 1 when a file changed, and with 2 when one could not be read."""
        options = ("--null", "--no-recursion", "--verbatim-files-from", "--hard-dereference")
        argv = self._argv("tar", "-C", self._run_dir, *options, "-cf", "-", "-T", "-")
        with self._connection.stream(argv, stdin=_names(paths)) as stream:
            yield Output("tar", stream)

    def failed(self, output: Output) -> CommandFailed | EngineError:
        """The error that a command's end means."""
        said = "; ".join(output.lines()[-3:]) or "no message"
        if self.as_root and output.exit_code in _DOCKER_FAILED:
            return EngineError(
                f"the engine did not start a container to read {self._run_dir} as root: {said}",
                where=self._host.name,
                next_step=f"runner hosts check {self._host.name}",
            )
        return CommandFailed(
            f"{output.program} on {self._run_dir} ended with exit code {output.exit_code}: {said}",
            where=self._host.name,
            next_step=f"look at the run folder on {self._host.name}, then collect again",
            command_exit_code=output.exit_code,
            stderr="\n".join(output.lines()),
        )

    def _run(self, *command: str) -> bytes:
        output, data = self._try(command)
        if output.denied and not self.as_root:
            self.as_root = True
            output, data = self._try(command)
        if output.exit_code == 0 or self._only_vanished(command, output):
            return data
        if command[0] == "cat" and _ABSENT in output.stderr:
            raise FileMissing(f"{command[-1]} is not there", where=self._host.name)
        raise self.failed(output)

    def _try(self, command: Sequence[str]) -> tuple[Output, bytes]:
        argv = self._argv(*command)
        with self._connection.stream(argv) as stream:
            output = Output(command[0], stream)
            return output, b"".join(output)

    def _only_vanished(self, command: Sequence[str], output: Output) -> bool:
        """A temporary file that went away under `find` is no fault of the run."""
        inside = f"{self._run_dir}/"
        return (
            command[0] == "find"
            and output.exit_code == 1
            and bool(output.lines())
            and all(inside in s and s.endswith(_ABSENT.decode()) for s in output.lines())
        )

    def _argv(self, program: str, *arguments: str) -> tuple[str, ...]:
        if not self.as_root:
            return ("env", "LC_ALL=C", program, *arguments)
        mount = mount_option(Mount(source=self._run_dir, target=self._run_dir, read_only=True))
        return (
            *docker_command(self._host),
            *("run", "--rm", "--interactive", "--pull", "never", "--network", "none"),
            # without it the engine would write the whole archive into its own log as well
            *("--log-driver", "none", "--user", "0:0", "--env", "LC_ALL=C", "--mount", mount),
            *("--entrypoint", program, self._image, *arguments),
        )


def _names(paths: Iterable[str]) -> Iterator[bytes]:
    names = [path.encode() + b"\0" for path in paths]
    for start in range(0, len(names), _NAMES_AT_ONCE):
        yield b"".join(names[start : start + _NAMES_AT_ONCE])
