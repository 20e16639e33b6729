"""The base of every section of a config."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Settings that know no other keys and do not change once read.

    Each field is described by the docstring below it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)
