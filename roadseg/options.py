"""A section of the config, and how one of its settings is declared."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, TypedDict, Unpack

from pydantic import BaseModel, ConfigDict, Field

LARGEST_SEED = 2**63 - 1  # The largest signed integer of 64 bits.

# A text of a config, such as a path: of limited length, and without the byte that ends C strings.
Text = Annotated[str, Field(max_length=4096, pattern=r"^[^\x00]*$")]


class Limits(TypedDict, total=False):
    """Limits of a setting, by the names that pydantic gives them.

    Attributes:
        ge: lowest number.
        gt: number that it has to exceed.
        le: highest number.
        lt: number below which it has to stay.
        multiple_of: number of which it is a multiple.
        min_length: fewest items, or characters of a text.
        max_length: most items, or characters of a text.
        fail_fast: whether the first wrong item ends the check of a list.
        strict: False also takes what can be converted, such as a text for a path.
    """

    ge: float
    gt: float
    le: float
    lt: float
    multiple_of: float
    min_length: int
    max_length: int
    fail_fast: bool
    strict: bool


def setting(default: Any, unit: str, description: str, **limits: Unpack[Limits]) -> Any:  # noqa: ANN401
    """Declare a setting: its default, its unit ("-" for none), what it does, its limits.

    What can grow has an end on both sides, so that no value of a config makes a command run, or
    take memory, without end.
    """
    return Field(default, description=description, json_schema_extra={"unit": unit}, **limits)


class Section(BaseModel):
    """A section of the config.

    Attributes:
        retired: settings of earlier versions, and the JSON values that they always have now. A
            config may still hold these values; another one is refused.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
    retired: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Return the defaults of all settings as JSON values by name, retired ones included."""
        sections = {
            name: field.annotation.defaults()
            for name, field in cls.model_fields.items()
            if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
        }
        return {**cls().model_dump(mode="json"), **sections, **cls.retired}
