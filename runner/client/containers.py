"""The few things the client asks of a host's engine, through its command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from pathlib import PurePosixPath

from runner.engine.convert import docker_run_argv, mount_option
from runner.errors import EngineError
from runner.models.container import Mount
from runner.models.host import Host, Role
from runner.models.plan import LABEL_ROLE, LABEL_RUN, LABEL_RUN_DIR, Plan
from runner.transport.base import Completed, Connection

_RESTARTS = "on-failure:5"
_START_TIMEOUT_S = 120.0
_HINTS = ("Run 'docker", "See 'docker")
_REMOVE_TIMEOUT_S = 180.0


class Supervisor(StrEnum):
    """State of a run's supervisor container."""

    RUNNING = "running"
    ENDED = "ended"
    ABSENT = "absent"
    UNKNOWN = "unknown"


def docker_command(host: Host) -> tuple[str, ...]:
    """The start of every engine command line on this host."""
    return (host.engine.command, "-H", f"unix://{host.engine.socket}")


def supervisor_state(connection: Connection, host: Host, container: str) -> Supervisor:
    """What the engine says about a supervisor; UNKNOWN when the engine does not answer."""
    argv = (*docker_command(host), "inspect", "--type", "container")
    done = connection.run((*argv, "--format", "{{json .State}}", container), check=False)
    if done.exit_code:
        absent = "no such" in done.stderr.decode("utf-8", "replace").lower()
        return Supervisor.ABSENT if absent else Supervisor.UNKNOWN
    try:
        state = json.loads(done.text)
        alive = bool(state["Running"] or state["Restarting"] or state["Paused"])
    except (ValueError, KeyError, TypeError):
        return Supervisor.UNKNOWN
    return Supervisor.RUNNING if alive else Supervisor.ENDED


def live_runs(connection: Connection, host: Host) -> tuple[str, ...]:
    """Ids of the runs under the host's run root whose supervisor runs now, sorted.

    Raises:
        EngineError: the engine can't be asked.
    """
    argv = (*docker_command(host), "ps", "--filter", f"label={LABEL_ROLE}={Role.SUPERVISOR}")
    form = f'{{{{.Label "{LABEL_RUN}"}}}} {{{{.Label "{LABEL_RUN_DIR}"}}}}'
    done = connection.run((*argv, "--format", form), check=False)
    if done.exit_code:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise EngineError(
            f"the engine can't be asked for running supervisors: {said}",
            where=host.name,
            next_step=f"runner hosts check {host.name}",
        )
    lines = (line.partition(" ") for line in done.text.splitlines())
    root = PurePosixPath(host.run_root)
    return tuple(
        sorted(run_id for run_id, _, folder in lines if PurePosixPath(folder).is_relative_to(root))
    )


def start_supervisor(
    connection: Connection, host: Host, plan: Plan, secrets: Mapping[str, str]
) -> None:
    """Create and start the supervisor container of a plan.

    Secret values go through stdin into the engine: never into argv, never into a file.

    Raises:
        EngineError: the engine refused.
    """
    argv = supervisor_argv(host, plan)
    lines = "".join(f"{name}={value}\n" for name, value in secrets.items())
    done = connection.run(argv, stdin=lines.encode(), timeout_s=_START_TIMEOUT_S, check=False)
    _refuse(done, host, plan, "start")


def supervisor_argv(host: Host, plan: Plan) -> list[str]:
    """The command line that starts a supervisor; it reads secrets from stdin."""
    secret = set(plan.supervisor.secret_environment)
    environment = {k: v for k, v in plan.supervisor.environment.items() if k not in secret}
    # "-e NAME" without a value would unset what the environment file sets
    spec = plan.supervisor.model_copy(update={"secret_environment": (), "environment": environment})
    docker = docker_command(host)
    argv = docker_run_argv(spec, docker=docker)
    at = len(docker) + 1  # just after "run"
    return [*argv[:at], "--restart", _RESTARTS, "--env-file", "/dev/stdin", *argv[at:]]


def restart_supervisor(connection: Connection, host: Host, plan: Plan) -> None:
    """Start the supervisor container that exists and has ended; its environment is kept.

    Raises:
        EngineError: the engine refused.
    """
    argv = (*docker_command(host), "start", plan.supervisor.name)
    done = connection.run(argv, timeout_s=_START_TIMEOUT_S, check=False)
    _refuse(done, host, plan, "start again")


def _refuse(done: Completed, host: Host, plan: Plan, verb: str) -> None:
    if done.exit_code == 0:
        return
    said = [
        line.strip()
        for line in done.stderr.decode("utf-8", "replace").splitlines()
        if line.strip() and not line.startswith(_HINTS)
    ]
    missing = any("image" in line.lower() and "no such" in line.lower() for line in said)
    missing |= any("unable to find image" in line.lower() for line in said)
    raise EngineError(
        f"the engine did not {verb} the supervisor '{plan.supervisor.name}' "
        f"(exit {done.exit_code}): {said[-1] if said else 'no message'}",
        where=host.name,
        next_step=f"runner images build --host {host.name}; runner resume {plan.run_id}"
        if missing
        else f"runner hosts check {host.name}; runner resume {plan.run_id}",
    )


def remove_labelled(connection: Connection, host: Host, run_id: str) -> tuple[int, int]:
    """Remove the containers and networks of one run by its label, and nothing else.

    Returns:
        Number of containers and number of networks removed.

    Raises:
        CommandFailed: the engine refused.
    """
    docker = docker_command(host)
    wanted = ("--filter", f"label={LABEL_RUN}={run_id}")
    containers = connection.run((*docker, "ps", "--all", "--quiet", *wanted)).text.split()
    if containers:
        argv = (*docker, "rm", "--force", "--volumes", *containers)
        connection.run(argv, timeout_s=_REMOVE_TIMEOUT_S)
    networks = connection.run((*docker, "network", "ls", "--quiet", *wanted)).text.split()
    if networks:
        connection.run((*docker, "network", "rm", *networks), timeout_s=_REMOVE_TIMEOUT_S)
    return len(containers), len(networks)


def empty_folder_as_root(connection: Connection, host: Host, folder: str, image: str) -> None:
    """Delete what is inside `folder` through a container that sees that folder alone.

    Raises:
        CommandFailed: the engine refused or files are left.
    """
    mount = mount_option(Mount(source=folder, target="/target", read_only=False))
    argv = (
        *docker_command(host),
        *("run", "--rm", "--network", "none", "--user", "0:0", "--mount", mount),
        *("--entrypoint", "find", image, "/target", "-mindepth", "1", "-delete"),
    )
    connection.run(argv, timeout_s=_REMOVE_TIMEOUT_S)
