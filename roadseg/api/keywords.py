"""Keyword arguments as the options of one or several sections of the config."""

import json
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from pydantic import ValidationError

from roadseg.errors import ConfigError
from roadseg.options import Section
from roadseg.system.schemas import expected_and_got, first_faults

Options = TypeVar("Options", bound=Section)

_MOST_FAULTS = 5  # An error names so many faults one by one.


def options_of(kind: type[Options], given: Mapping[str, Any]) -> Options:
    """Return options of one section.

    Raises:
        ConfigError: naming an option that is not known, or a value beyond its limits.
    """
    return cast("Options", sections_of(given, kind)[0])


def sections_of(given: Mapping[str, Any], *kinds: type[Section]) -> list[Any]:
    """Return the options of several sections, each of which takes those that it knows."""
    known = [name for kind in kinds for name in kind.model_fields]
    if unknown := set(given) - set(known):
        raise ConfigError(
            f"{min(unknown)}: no such option, expected one of {', '.join(sorted(known))}"
        )
    try:
        return [
            kind.model_validate_json(json.dumps(_known(given, kind), default=str)) for kind in kinds
        ]
    except ValidationError as error:
        raise ConfigError(first_faults(error, _fault_text, most=_MOST_FAULTS)) from error


def _known(given: Mapping[str, Any], kind: type[Section]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name in kind.model_fields}


def _fault_text(fault: Mapping[str, Any]) -> str:
    return f"{'.'.join(map(str, fault['loc'])) or 'options'}: {expected_and_got(fault)}"
