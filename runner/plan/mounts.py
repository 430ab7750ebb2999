"""Which host folders a container sees. Models keep their path, so names mean the same anywhere."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from runner.models.container import Mount
from runner.models.host import Host
from runner.models.plan import Finding
from runner.plan.findings import error

CACHE_TARGETS = {
    "huggingface": "/root/.cache/huggingface",
    "vllm": "/root/.cache/vllm",
}


def model_mounts(host: Host, paths: Iterable[str | None]) -> tuple[Mount, ...]:
    """Read-only mounts that hold these local models, each folder once, sorted.

    A path under one of the host's model folders brings the whole folder, any other only itself.
    """
    folders = {_folder(host, path) for path in paths if path is not None and path.startswith("/")}
    kept = [
        folder
        for folder in folders
        if not any(other != folder and _within(folder, other) for other in folders)
    ]
    return tuple(Mount(source=folder, target=folder, read_only=True) for folder in sorted(kept))


def cache_mounts(host: Host) -> tuple[tuple[Mount, ...], tuple[Finding, ...]]:
    """Writable caches of the server; a key that no target is known for is a finding."""
    mounts: list[Mount] = []
    findings: list[Finding] = []
    for key, source in sorted(host.caches.items()):
        target = CACHE_TARGETS.get(key)
        if target is None:
            findings.append(
                error(
                    "caches",
                    f"cache '{key}' of '{host.name}' is not one of: {', '.join(CACHE_TARGETS)}",
                    "rename it in hosts.yaml, or use 'mounts' with a target of your own",
                )
            )
        else:
            mounts.append(Mount(source=source, target=target, read_only=False))
    return tuple(mounts), tuple(findings)


def tokenizer_mounts(host: Host, tokenizer: str) -> tuple[tuple[Mount, ...], dict[str, str]]:
    """What the load generator needs to read a tokenizer: mounts and environment.

    A folder is mounted at its path. A name on a hub is read out of the host's own cache, which the
    server has filled by then: the load generator asks no hub.
    """
    if tokenizer.startswith("/"):
        return model_mounts(host, (tokenizer,)), {}
    source = host.caches.get("huggingface")
    if source is None:
        return (), {}
    target = CACHE_TARGETS["huggingface"]
    mount = Mount(source=source, target=target, read_only=True)
    return (mount,), {"HF_HOME": target, "HF_HUB_OFFLINE": "1"}


def duplicate_targets(mounts: Iterable[Mount]) -> tuple[Finding, ...]:
    """Two different sources at one place: the engine would refuse to start the container."""
    seen: dict[str, Mount] = {}
    findings: list[Finding] = []
    for mount in mounts:
        first = seen.setdefault(mount.target, mount)
        if first != mount:
            findings.append(
                error(
                    "mounts",
                    f"{first.source} and {mount.source} are both mounted at {mount.target}",
                    "change one of them in hosts.yaml",
                )
            )
    return tuple(findings)


def _folder(host: Host, path: str) -> str:
    holders = [folder.rstrip("/") for folder in host.models if _within(path, folder)]
    if holders:
        return max(holders, key=len)
    pure = PurePosixPath(path)
    # Files of a hub snapshot are links to ../../blobs, so the folder above both is needed.
    for parent in pure.parents:
        if parent.name == "snapshots" and parent.parent.name.startswith("models--"):
            return str(parent.parent)
    return str(pure)


def _within(path: str, folder: str) -> bool:
    return PurePosixPath(path).is_relative_to(folder.rstrip("/") or "/")
