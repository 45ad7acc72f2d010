"""Arguments of functions: values of other libraries, and options of the config as keywords.

Functions that read files take the values as temporary files.
"""

import inspect
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_type_hints

from pydantic import ValidationError

from roadseg.errors import ConfigError, DataError, RoadsegError
from roadseg.options import Section
from roadseg.system.schemas import expected_and_got, first_faults

if TYPE_CHECKING:
    import geopandas as gpd

AnyPath = str | Path

TABLE = "the GeoDataFrame"  # Its name in errors.
Options = TypeVar("Options", bound=Section)
Function = TypeVar("Function", bound=Callable[..., Any])

_MOST_FAULTS = 5  # Faults that an error lists one by one.


@contextmanager
def as_file(write: Callable[[Path], object], suffix: str, *, name: str) -> Iterator[Path]:
    """Yield a temporary file, and name the value instead of the file in errors.

    Args:
        write: writes the value to a path.
        suffix: of the file, such as ".gpkg".
        name: name of the value in errors, such as "the array".
    """
    with tempfile.TemporaryDirectory(prefix="roadseg-") as folder:
        path = Path(folder) / f"value{suffix}"
        try:
            write(path)
            yield path
        except RoadsegError as error:
            raise type(error)(str(error).replace(str(path), name)) from error


def table_file(
    table: "gpd.GeoDataFrame", *, crs: str | None = None
) -> AbstractContextManager[Path]:
    """Yield a temporary GeoPackage of a table of roads.

    Args:
        crs: what the reader takes for the CRS of a table without one; None if it takes none.

    Raises:
        ConfigError: if it is not such a table.
        DataError: if it has no CRS, and none is taken for it.
    """
    import geopandas as gpd

    if not isinstance(table, gpd.GeoDataFrame) or table.active_geometry_name is None:
        raise ConfigError(
            f"found {type(table).__name__}, expected a file, a graph of roadseg or networkx, or a "
            "GeoDataFrame with a column of geometries"
        )
    if table.crs is None and crs is None:
        raise DataError(
            f"{TABLE}: has no coordinate system; give it the one that its coordinates are in "
            "with set_crs, such as roads.set_crs(4326)"
        )
    return as_file(lambda path: _write_table(path, table), ".gpkg", name=TABLE)


def _write_table(path: Path, table: "gpd.GeoDataFrame") -> None:
    """Write a table; the lists that osmnx makes of merged edges, and the like, become text."""
    import pandas as pd

    plain = table.reset_index(drop=True)
    plain.columns = plain.columns.map(str)
    # A GeoPackage numbers its rows in `fid`, and does not tell names apart by their capitals.
    names = plain.columns.str.lower()
    plain = plain.loc[:, ~names.duplicated() & (names != "fid")]
    for name in plain.columns.drop(plain.geometry.name):
        if plain[name].dtype.kind not in "biufM":
            nothing = (None, pd.NA, pd.NaT)
            texts = [None if any(v is n for n in nothing) else str(v) for v in plain[name]]
            plain[name] = pd.Series(texts, dtype=object)
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # A CRS may be missing.
        plain.to_file(path, driver="GPKG")


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
        texts = map(json_text, own)
        return [kind.model_validate_json(text) for kind, text in zip(kinds, texts, strict=True)]
    except ValidationError as error:
        raise ConfigError(first_faults(error, _fault_text, most=_MOST_FAULTS)) from error


def json_text(value: object) -> str:
    """Return values of options as JSON: numbers and arrays of numpy as such, paths as texts."""
    return json.dumps(value, default=lambda v: v.tolist() if hasattr(v, "tolist") else str(v))


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
