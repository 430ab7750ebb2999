"""Print what an installed distribution requires, its builds of torch left out.

    python requirements_of.py DISTRIBUTION > requirements.txt

A wheel may pin a build of torch that no index has (`torch==X+cpu`); the build that is installed
already serves as well. torchvision and its kin come as builds for CUDA, and are not wanted.
"""

# ruff: noqa: T201 - a script of its own: what it prints is its output
from __future__ import annotations

import importlib.metadata
import sys

from pip._vendor.packaging.requirements import Requirement

LEFT_OUT = frozenset({"torch", "torchvision", "torchaudio", "torchcodec"})

for text in importlib.metadata.requires(sys.argv[1]) or ():
    requirement = Requirement(text)
    wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    if wanted and requirement.name not in LEFT_OUT:
        requirement.marker = None
        print(requirement)
