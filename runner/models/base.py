"""The two kinds of model: strict for what people write, tolerant for what programs read back."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION = 1


class Spec(BaseModel):
    """Frozen; an unknown key is an error. For files that people write and plans made from them."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Record(BaseModel):
    """Frozen; unknown keys are ignored, so that an older program reads a newer record."""

    model_config = ConfigDict(frozen=True, extra="ignore")
