"""The two kinds of model: strict for what people write, tolerant for what programs read back."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

SCHEMA_VERSION = 1

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _check_variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise ValueError(
            f"'{name}' is not a variable's name: letters, digits and '_', no digit first"
        )
    return name


VariableName = Annotated[str, AfterValidator(_check_variable)]
"""Name of an environment variable that every shell and engine takes."""


class Spec(BaseModel):
    """Frozen; an unknown key is an error. For files that people write and plans made from them."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Record(BaseModel):
    """Frozen; unknown keys are ignored, so that an older program reads a newer record."""

    model_config = ConfigDict(frozen=True, extra="ignore")
