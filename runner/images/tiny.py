"""Make the tiny test model on a host, inside the vllm-cpu image."""

from __future__ import annotations

import posixpath
import secrets
from enum import StrEnum

from runner.errors import EngineError, UsageError
from runner.images.command import Progress, engine_argv, follow
from runner.models.host import Host
from runner.transport.base import Connection

SCRIPT = "/opt/runner/tiny_model.py"
CHECKPOINT_FILES = ("config.json", "model.safetensors", "tokenizer.json")
TINY_TIMEOUT_S = 1800.0


class TinySize(StrEnum):
    """tiny: 3.4 M parameters, trained for about 95 s on two free cores.
    small: 79 M random weights, for timing."""

    TINY = "tiny"
    SMALL = "small"


def make_tiny_model(
    connection: Connection,
    host: Host,
    image_reference: str,
    target_dir: str,
    progress: Progress,
    size: TinySize = TinySize.TINY,
) -> bool:
    """Make a checkpoint in `target_dir` on the host; False when a whole one is there already.

    It is made beside the target and then renamed, so that the target is whole or absent. Files
    belong to the login's user.

    Raises:
        EngineError: the container failed; carries its last lines.
        UsageError: `target_dir` is relative, or holds something else.
    """
    if not target_dir.startswith("/"):
        raise UsageError(f"'{target_dir}' must be an absolute path on the host", where=host.name)
    target = posixpath.normpath(target_dir)
    if _complete(connection, target):
        progress(f"{target} holds a whole checkpoint already")
        return False
    if connection.list(target):
        raise UsageError(
            f"'{target}' holds files, but no whole checkpoint ({', '.join(CHECKPOINT_FILES)})",
            where=host.name,
            next_step="remove that folder, or name another one",
        )
    parent, base = posixpath.split(target)
    nonce = secrets.token_hex(4)
    made = f"{parent}/.{base}-{nonce}"
    container = f"runner-tiny-{nonce}"
    connection.run(["mkdir", "-p", made])
    try:
        _train(connection, host, image_reference, container, made, size, progress)
        connection.run(["mv", "--no-target-directory", made, target])
    finally:
        connection.run(engine_argv(host, "rm", "--force", container), check=False)
        connection.run(["rm", "-rf", made], check=False)
    return True


def _complete(connection: Connection, folder: str) -> bool:
    found = (connection.stat(f"{folder}/{name}") for name in CHECKPOINT_FILES)
    return all(stat is not None and stat.size_bytes > 0 for stat in found)


def _train(
    connection: Connection,
    host: Host,
    image_reference: str,
    container: str,
    folder: str,
    size: TinySize,
    progress: Progress,
) -> None:
    uid, gid = (connection.run(["id", flag]).text.strip() for flag in ("-u", "-g"))
    argv = engine_argv(
        host,
        *("run", "--rm", "--init", "--name", container, "--network", "none"),
        *("--user", f"{uid}:{gid}", "--env", "HOME=/tmp", "--volume", f"{folder}:/out"),
        *("--entrypoint", "python", image_reference, SCRIPT, "/out", "--size", size.value),
    )
    ended = follow(connection, argv, progress, timeout_s=TINY_TIMEOUT_S)
    if ended.exit_code != 0:
        raise EngineError(
            f"making the {size} model in image '{image_reference}' failed; its last lines:\n"
            f"{ended.text}",
            where=host.name,
            next_step=f"runner images build vllm-cpu --host {host.name}, then try again",
        )
    if not _complete(connection, folder):
        raise EngineError(
            f"image '{image_reference}' ended well and left no whole checkpoint", where=host.name
        )
