"""Values of other libraries as files, for functions that read files."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from roadseg.errors import RoadsegError

if TYPE_CHECKING:
    import geopandas as gpd

AnyPath = str | Path

TABLE = "the GeoDataFrame"  # in errors


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
    """Yield a temporary GeoPackage of a table of roads."""
    return as_file(lambda path: _write_table(path, table), ".gpkg", name=TABLE)


def _write_table(path: Path, table: "gpd.GeoDataFrame") -> None:
    """Write a table; the lists that osmnx makes of merged edges become text."""
    plain = table.reset_index(drop=True)
    for name in plain.columns.drop(plain.geometry.name):
        if plain[name].dtype == object:
            plain[name] = [each if each is None else str(each) for each in plain[name]]
    plain.to_file(path, driver="GPKG")
