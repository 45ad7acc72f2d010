"""A section of the config, and how one of its settings is declared."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

LARGEST_SEED = 2**63 - 1

Text = Annotated[str, Field(max_length=4096, pattern=r"^[^\x00]*$")]


def setting(default: Any, unit: str, description: str, **limits: Any) -> Any:  # noqa: ANN401
    """Declare a setting: its default, its unit ("-" for none), what it does, its limits.

    What can grow has an end on both sides, so that no value of a config makes a command run, or
    take memory, without end.
    """
    return Field(default, description=description, json_schema_extra={"unit": unit}, **limits)


class Section(BaseModel):
    """A section of the config."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
