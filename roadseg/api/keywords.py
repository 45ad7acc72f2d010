"""Keyword arguments as the options of one or several sections of the config."""

import inspect
import json
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, TypeVar, cast, get_type_hints

from pydantic import ValidationError

from roadseg.errors import ConfigError
from roadseg.options import Section
from roadseg.system.schemas import expected_and_got, first_faults

Options = TypeVar("Options", bound=Section)
Function = TypeVar("Function", bound=Callable[..., Any])

_MOST_FAULTS = 5  # Faults that an error lists one by one.


def takes(*kinds: type[Section]) -> Callable[[Function], Function]:
    """Return a decorator that adds the options of sections to the signature of a function.

    The function receives them as `**options`; `help` and completion show each with its type and
    default, in the order of the sections. An option of two sections is shown once, as in the first
    section.
    """

    def with_options(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        shown = signature.replace(parameters=own + _parameters(kinds))
        cast("Any", function).__signature__ = shown
        return function

    return with_options


def options_of(kind: type[Options], given: Mapping[str, Any]) -> Options:
    """Return options of one section.

    Raises:
        ConfigError: naming an unknown option, or a value outside its limits.
    """
    return cast("Options", sections_of(given, kind)[0])


def sections_of(given: Mapping[str, Any], *kinds: type[Section]) -> list[Any]:
    """Return the options of several sections; each receives those that it knows."""
    known = [name for kind in kinds for name in kind.model_fields]
    if unknown := set(given) - set(known):
        raise ConfigError(
            f"{min(unknown)}: no such option, expected one of {', '.join(sorted(known))}"
        )
    try:
        own = [{name: given[name] for name in given if name in kind.model_fields} for kind in kinds]
        texts = [json.dumps(values, default=str) for values in own]
        return [kind.model_validate_json(text) for kind, text in zip(kinds, texts, strict=True)]
    except ValidationError as error:
        raise ConfigError(first_faults(error, _fault_text, most=_MOST_FAULTS)) from error


def _parameters(kinds: tuple[type[Section], ...]) -> list[inspect.Parameter]:
    fields = {name: each for kind in reversed(kinds) for name, each in kind.model_fields.items()}
    in_order = dict.fromkeys(name for kind in kinds for name in kind.model_fields)
    annotations = {name: fields[name].annotation for name in in_order}
    types = get_type_hints(SimpleNamespace(__annotations__=annotations))  # Without limits.
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=fields[name].get_default(call_default_factory=True),
            annotation=types[name],
        )
        for name in in_order
    ]


def _fault_text(fault: Mapping[str, Any]) -> str:
    return f"{'.'.join(map(str, fault['loc'])) or 'options'}: {expected_and_got(fault)}"
