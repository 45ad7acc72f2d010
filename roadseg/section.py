"""A section of the config, and how one of its settings is declared."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


def setting(default: Any, unit: str, description: str, **limits: Any) -> Any:  # noqa: ANN401
    """Declare a setting: its default, its unit ("-" for none), what it does, its limits."""
    return Field(default, description=description, json_schema_extra={"unit": unit}, **limits)


class Section(BaseModel):
    """A section of the config."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
