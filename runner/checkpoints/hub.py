"""A checkpoint on a model hub: its small files and its commit, never its weights."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from runner.checkpoints.content import (
    CONFIG,
    TEMPLATES,
    TOKENIZER_CONFIG,
    parse_config,
    template_in,
)
from runner.errors import HostError, HostUnreachable, RunnerError, UsageError
from runner.models.checkpoint import Checkpoint, CheckpointFile

_KEPT = (CONFIG, TOKENIZER_CONFIG, *TEMPLATES, "generation_config.json")
_TIMEOUT_S = 15.0
_OFF = ("", "0", "false", "no", "off")


@dataclass(frozen=True)
class Hub:
    """Where a hub is and where its files are kept on this machine.

    Args:
        endpoint: address of the hub; None for the library's own.
        offline: take everything from the folder.
    """

    folder: Path
    endpoint: str | None = None
    offline: bool = False


def hub_of_environment() -> Hub:
    """What HF_HUB_CACHE, HF_HOME, HF_ENDPOINT and HF_HUB_OFFLINE say now.

    The library reads them once, when it is first imported; a process that sets them later would
    otherwise get what was meant for another.
    """
    environment = os.environ
    home = environment.get("HF_HOME") or str(
        Path(environment.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    )
    folder = environment.get("HF_HUB_CACHE") or environment.get("HUGGINGFACE_HUB_CACHE")
    offline = environment.get("HF_HUB_OFFLINE") or environment.get("TRANSFORMERS_OFFLINE") or ""
    return Hub(
        folder=Path(os.path.expandvars(folder or f"{home}/hub")).expanduser(),
        endpoint=environment.get("HF_ENDPOINT") or None,
        offline=offline.lower() not in _OFF,
    )


def read_hub(
    hub: Hub, name: str, *, revision: str | None, progress: Callable[[str], None]
) -> Checkpoint:
    """The checkpoint `name` of a hub; see `fetch_checkpoint`."""
    if hub.offline:
        return _cached(hub, name, revision, "HF_HUB_OFFLINE is set", None)
    try:
        return _asked(hub, name, revision, progress)
    except HostUnreachable as error:
        return _cached(hub, name, revision, error.what, error)


def read_hub_file(hub: Hub, name: str, relative_path: str, *, revision: str | None) -> bytes | None:
    """One small file; None when the checkpoint has no such file, or it was never fetched and
    there is no way to the hub."""
    if hub.offline:
        return _in_folder(hub, name, relative_path, revision)
    try:
        return _downloaded(hub, name, relative_path, revision)
    except HostUnreachable:
        return _in_folder(hub, name, relative_path, revision)


def _asked(
    hub: Hub, name: str, revision: str | None, progress: Callable[[str], None]
) -> Checkpoint:
    from huggingface_hub import HfApi

    progress(f"asking the model hub for {name}")
    with _translated(name, revision):
        info = HfApi(endpoint=hub.endpoint).model_info(
            name, revision=revision, files_metadata=True, timeout=_TIMEOUT_S
        )
    if info.sha is None:
        raise HostError(f"the model hub names no commit of {name}", next_step="try again later")
    commit = info.sha
    files = tuple(
        CheckpointFile(
            path=entry.rfilename,
            size_bytes=entry.size or 0,
            sha256=entry.lfs.sha256 if entry.lfs else None,
        )
        for entry in sorted(info.siblings or (), key=lambda entry: entry.rfilename)
    )
    paths = {file.path for file in files}
    if revision != commit:
        # leaves the name of the branch in the folder, so that a later plan finds it without a hub
        _downloaded(hub, name, CONFIG, revision)
    small = {path: _downloaded(hub, name, path, commit) for path in _KEPT if path in paths}
    return _checkpoint(name, commit, f"model hub: commit of {revision or 'main'}", small, files)


def _cached(
    hub: Hub, name: str, revision: str | None, why: str, cause: HostError | None
) -> Checkpoint:
    found = _path_in_folder(hub, name, CONFIG, revision)
    if found is None:
        wanted = f"{name} at {revision}" if revision else name
        kind: type[RunnerError] = HostError if cause else UsageError
        raise kind(
            f"{wanted} is not in {hub.folder}, and {why}",
            next_step=f"with a way to the hub: hf download {name} {CONFIG} {TOKENIZER_CONFIG}; "
            "or name an absolute path on the host",
        ) from cause
    snapshot = found.parent
    files = tuple(
        CheckpointFile(path=str(path.relative_to(snapshot)), size_bytes=path.stat().st_size)
        for path in sorted(snapshot.rglob("*"))
        if path.is_file()
    )
    small = {path: _in_folder(hub, name, path, snapshot.name) for path in _KEPT}
    source = f"{revision or 'main'} as last fetched into {hub.folder} ({why})"
    return _checkpoint(name, snapshot.name, source, small, files)


def _checkpoint(
    name: str,
    commit: str,
    source: str,
    small: dict[str, bytes | None],
    files: tuple[CheckpointFile, ...],
) -> Checkpoint:
    config = small.get(CONFIG)
    if config is None:
        raise UsageError(
            f"{name} holds no {CONFIG}, so it is no checkpoint that can be served",
            where=f"model hub, commit {commit}",
            next_step="name the repository with the model's own files (not GGUF or an adapter)",
        )
    return Checkpoint(
        name=name,
        local=False,
        revision=commit,
        revision_source=source,
        config=parse_config(config, f"{name}/{CONFIG}"),
        files=files,
        chat_template=template_in(
            {path for path, data in small.items() if data is not None}, small.get
        ),
    )


def _downloaded(hub: Hub, name: str, path: str, revision: str | None) -> bytes | None:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import RemoteEntryNotFoundError
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    subfolder = str(PurePosixPath(path).parent)
    try:
        with _translated(name, revision):
            found = hf_hub_download(
                name,
                PurePosixPath(path).name,
                subfolder=None if subfolder == "." else subfolder,
                revision=revision,
                cache_dir=hub.folder,
                endpoint=hub.endpoint,
                etag_timeout=_TIMEOUT_S,
            )
            return Path(found).read_bytes()
    except RemoteEntryNotFoundError:
        return None


def _in_folder(hub: Hub, name: str, path: str, revision: str | None) -> bytes | None:
    found = _path_in_folder(hub, name, path, revision)
    return found.read_bytes() if found else None


def _path_in_folder(hub: Hub, name: str, path: str, revision: str | None) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    with _translated(name, revision):
        found = try_to_load_from_cache(name, path, cache_dir=hub.folder, revision=revision)
    return Path(found) if isinstance(found, str) else None


@contextmanager
def _translated(name: str, revision: str | None) -> Iterator[None]:
    """The library's errors as ours. A file that is not there passes: it has no one meaning."""
    from huggingface_hub import errors

    # whichever HTTP client the library stands on
    transport_error: type[Exception] = errors.HTTPError  # type: ignore[attr-defined]
    try:
        yield
    except errors.RemoteEntryNotFoundError:
        raise
    except errors.HFValidationError as error:
        raise UsageError(
            f"'{name}' is neither an absolute path on the host nor a name on a model hub",
            next_step="write /absolute/path or OWNER/NAME",
        ) from error
    except errors.GatedRepoError as error:
        raise UsageError(
            f"{name} is gated: its files are given to those who accepted its terms",
            where="model hub",
            next_step="accept the terms on the model's page, then `hf auth login` or HF_TOKEN",
        ) from error
    except errors.RevisionNotFoundError as error:
        raise UsageError(
            f"{name} has no revision '{revision}'",
            where="model hub",
            next_step="give a branch, a tag or a commit of it, or leave the revision out",
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise UsageError(
            f"there is no model '{name}', or it is private",
            where="model hub",
            next_step="correct the name (a folder on the host begins with '/'), or `hf auth login`",
        ) from error
    except (transport_error, errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError) as error:
        raise _no_answer(error) from error
    except OSError as error:
        raise HostError(
            f"files of {name} can't be kept: {error}",
            next_step="look at free space and permissions of HF_HUB_CACHE",
        ) from error


def _no_answer(error: Exception) -> HostUnreachable:
    status = getattr(getattr(error, "response", None), "status_code", None)
    reason = f"status {status}" if status else str(error).strip().partition("\n")[0]
    return HostUnreachable(
        f"the model hub gave no usable answer ({reason or type(error).__name__})",
        next_step="look at the network, HF_ENDPOINT and proxies, or name a folder on the host",
    )
