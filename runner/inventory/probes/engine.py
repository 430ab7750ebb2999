"""The container engine and the images it holds, read through its own command."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from runner.models.host import EngineFacts

SCRIPT = """\
section engine-version
bounded "$engine_command" -H "unix://$engine_socket" version --format '{{json .}}' 2>&1
section engine-info
bounded "$engine_command" -H "unix://$engine_socket" info --format '{{json .}}' 2>&1
section engine-images
bounded "$engine_command" -H "unix://$engine_socket" images --no-trunc --format '{{json .}}'
"""


def parse_engine(version: str, info: str) -> tuple[EngineFacts | None, str | None]:
    """Facts, or None and what the command said instead."""
    answered, complaint = _split(version)
    server = answered.get("Server")
    details, _ = _split(info)
    if not isinstance(server, Mapping) or not server.get("Version"):
        return None, complaint or "the engine's command gave no answer"
    options = [str(option) for option in details.get("SecurityOptions") or ()]
    return (
        EngineFacts(
            version=str(server["Version"]),
            api_version=_text(server.get("ApiVersion")),
            storage_driver=_text(details.get("Driver")),
            cgroup_driver=_text(details.get("CgroupDriver")),
            runtimes=tuple(sorted(details.get("Runtimes") or {})),
            rootless=any("name=rootless" in option for option in options),
            root_dir=_text(details.get("DockerRootDir")),
        ),
        None,
    )


def parse_images(text: str) -> Mapping[str, str]:
    """Reference ("name:tag", or the id of an image without a name) -> image id ("sha256:…")."""
    images: dict[str, str] = {}
    for row in _objects(text):
        identity, name, tag = row.get("ID"), row.get("Repository"), row.get("Tag")
        if not isinstance(identity, str):
            continue
        named = name and tag and "<none>" not in (name, tag)
        images[f"{name}:{tag}" if named else identity] = identity
    return dict(sorted(images.items()))


def _text(value: object) -> str | None:
    return str(value) if value else None


def _split(text: str) -> tuple[Mapping[str, Any], str | None]:
    """The first JSON object among the lines, and the lines that are not JSON."""
    objects = list(_objects(text))
    talk = [line.strip() for line in text.splitlines() if not line.lstrip().startswith("{")]
    return (objects[0] if objects else {}), "; ".join(filter(None, talk)) or None


def _objects(text: str) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for line in text.splitlines():
        if line.lstrip().startswith("{"):
            try:
                value = json.loads(line)
            except json.JSONDecodeError:
                continue
            if isinstance(value, dict):
                found.append(value)
    return found
