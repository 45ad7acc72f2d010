"""Values of other libraries as files, for functions that read files."""

import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from roadseg.errors import ConfigError, RoadsegError

if TYPE_CHECKING:
    import geopandas as gpd

AnyPath = str | Path

TABLE = "the GeoDataFrame"  # Its name in errors.


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


def table_file(table: "gpd.GeoDataFrame") -> AbstractContextManager[Path]:
    """Yield a temporary GeoPackage of a table of roads.

    Raises:
        ConfigError: if it is no such table.
    """
    import geopandas as gpd

    if not isinstance(table, gpd.GeoDataFrame) or table.active_geometry_name is None:
        raise ConfigError(
            f"found {type(table).__name__}, expected a file, a graph of roadseg or networkx, or a "
            "GeoDataFrame with a column of geometries"
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
