"""Make the tiny test models on a host, inside the vllm-cpu image."""

from __future__ import annotations

import posixpath
import secrets
from dataclasses import dataclass
from enum import StrEnum

from runner.errors import EngineError, UsageError
from runner.images.command import Progress, engine_argv, follow
from runner.models.host import Host
from runner.transport.base import Connection

SCRIPTS = "/opt/runner"
DRAFTER_FILES = ("config.json", "model.safetensors")
MODEL_FILES = (*DRAFTER_FILES, "tokenizer.json")
TINY_TIMEOUT_S = 1800.0


class TinySize(StrEnum):
    """tiny: 3.4 M parameters, trained for about 95 s on two free cores.
    small: 79 M random weights, for timing."""

    TINY = "tiny"
    SMALL = "small"


@dataclass(frozen=True)
class Recipe:
    """How a small checkpoint is made: a script of the image and its arguments.

    `{out}` in them is the folder to fill; `reads` are folders that the script sees, read-only, at
    their own paths. `files` are those that a whole checkpoint has.
    """

    what: str
    script: str
    arguments: tuple[str, ...]
    files: tuple[str, ...]
    reads: tuple[str, ...] = ()


def tiny_recipe(size: TinySize = TinySize.TINY) -> Recipe:
    """A small Llama."""
    return Recipe(f"{size} model", "tiny_model.py", ("/out", "--size", size.value), MODEL_FILES)


def eagle3_recipe(verifier: str, *, untrained: bool) -> Recipe:
    """An EAGLE3 drafter for the small Llama in the folder `verifier`, which it names."""
    more = ("--untrained",) if untrained else ()
    return Recipe(
        f"EAGLE3 drafter for {verifier}",
        "tiny_eagle3.py",
        (verifier, "/out", *more),
        DRAFTER_FILES,
        reads=(verifier,),
    )


def mtp_recipe(llama: str) -> Recipe:
    """The small Llama of a folder as a model that claims an MTP head which it does not have."""
    return Recipe("MTP model", "tiny_mtp.py", (llama, "/out"), MODEL_FILES, reads=(llama,))


def make_checkpoint(
    connection: Connection,
    host: Host,
    image_reference: str,
    target_dir: str,
    recipe: Recipe,
    progress: Progress,
) -> bool:
    """Make a checkpoint in `target_dir` on the host; False when a whole one is there already.

    It is made beside the target and then renamed, so that the target is whole or absent. Files
    belong to the login's user.

    Raises:
        EngineError: the container failed; carries its last lines.
        UsageError: `target_dir` is relative or holds something else, or what it is made from is
            not there.
    """
    if not target_dir.startswith("/"):
        raise UsageError(f"'{target_dir}' must be an absolute path on the host", where=host.name)
    target = posixpath.normpath(target_dir)
    if _complete(connection, target, recipe):
        progress(f"{target} holds a whole checkpoint already")
        return False
    if connection.list(target):
        raise UsageError(
            f"'{target}' holds files, but no whole checkpoint ({', '.join(recipe.files)})",
            where=host.name,
            next_step="remove that folder, or name another one",
        )
    for folder in recipe.reads:
        if not folder.startswith("/") or connection.stat(f"{folder}/config.json") is None:
            raise UsageError(
                f"'{folder}' is no folder with a checkpoint (config.json)",
                where=host.name,
                next_step=f"runner models tiny --host {host.name} --target {folder}",
            )
    parent, base = posixpath.split(target)
    nonce = secrets.token_hex(4)
    made = f"{parent}/.{base}-{nonce}"
    container = f"runner-tiny-{nonce}"
    connection.run(["mkdir", "-p", made])
    try:
        _make(connection, host, image_reference, container, made, recipe, progress)
        connection.run(["mv", "--no-target-directory", made, target])
    finally:
        connection.run(engine_argv(host, "rm", "--force", container), check=False)
        connection.run(["rm", "-rf", made], check=False)
    return True


def _complete(connection: Connection, folder: str, recipe: Recipe) -> bool:
    found = (connection.stat(f"{folder}/{name}") for name in recipe.files)
    return all(stat is not None and stat.size_bytes > 0 for stat in found)


def _make(
    connection: Connection,
    host: Host,
    image_reference: str,
    container: str,
    folder: str,
    recipe: Recipe,
    progress: Progress,
) -> None:
    uid, gid = (connection.run(["id", flag]).text.strip() for flag in ("-u", "-g"))
    reads = [part for path in recipe.reads for part in ("--volume", f"{path}:{path}:ro")]
    argv = engine_argv(
        host,
        *("run", "--rm", "--init", "--name", container, "--network", "none"),
        *("--user", f"{uid}:{gid}", "--env", "HOME=/tmp", "--volume", f"{folder}:/out", *reads),
        *("--entrypoint", "python", image_reference),
        *(f"{SCRIPTS}/{recipe.script}", *recipe.arguments),
    )
    ended = follow(connection, argv, progress, timeout_s=TINY_TIMEOUT_S)
    if ended.exit_code != 0:
        raise EngineError(
            f"making the {recipe.what} in image '{image_reference}' failed; its last lines:\n"
            f"{ended.text}",
            where=host.name,
            next_step=f"runner images build vllm-cpu --host {host.name}, then try again",
        )
    if not _complete(connection, folder, recipe):
        raise EngineError(
            f"image '{image_reference}' ended well and left no whole checkpoint", where=host.name
        )
