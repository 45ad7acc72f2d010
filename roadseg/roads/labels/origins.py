"""Origins: where road labels came from, in a record beside their file."""

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from roadseg.system.records import write_json
from roadseg.system.schemas import read_strict

OSM_LICENCE, OSM_CREDIT = "ODbL-1.0", "© OpenStreetMap contributors"
_SUFFIX = ".source.json"


@dataclass(frozen=True)
class Origin:
    """Where roads came from, and on which terms.

    Attributes:
        service: that gave them, such as "Overpass".
        address: of the service, or path of the file, without keys.
        licence: as an SPDX identifier.
        attribution: who is to be named.
        date: of the data, as the service states it: a time, or the name of a release; None if it
            states none.
        area: that was asked for, as it was given.
    """

    service: str
    address: str
    licence: str
    attribution: str
    date: str | None
    area: str


def origin_suffix(path: Path) -> str:
    """Return the end of the name of the record beside a file, from its last suffix on."""
    return f"{path.suffix}{_SUFFIX}"


def origin_path(path: Path) -> Path:
    """Return the path of the record beside a file of roads."""
    return path.with_suffix(origin_suffix(path))


def write_origin(path: Path, origin: Origin) -> None:
    """Write the record beside a file of roads.

    Raises:
        OutputError: if it cannot be written.
    """
    write_json(origin_path(path), asdict(origin))


def read_origin(path: Path) -> Origin | None:
    """Read the record beside a file of roads; None if there is none.

    Raises:
        DataError: if the record cannot be read.
    """
    record = origin_path(path)
    if not record.is_file():
        return None
    return read_strict(record, Origin, advice="delete it, or fetch the roads again")


def read_origins(paths: Iterable[Path]) -> list[Origin]:
    """Read the records beside files of labels, each once; files may have none.

    Raises:
        DataError: if a record cannot be read.
    """
    origins = (read_origin(path) for path in dict.fromkeys(paths))
    return list(dict.fromkeys(origin for origin in origins if origin is not None))


def credits_of(origins: Collection[Origin]) -> list[str]:
    """Return whom to name, each once, with the dates of the data: the earliest and the latest."""
    names = dict.fromkeys(origin.attribution for origin in origins)
    return [_credit(name, [o.date for o in origins if o.attribution == name]) for name in names]


def _credit(name: str, dates: list[str | None]) -> str:
    known = sorted({date for date in dates if date})
    span = " to ".join(dict.fromkeys([*known[:1], *known[-1:]]))
    return f"{name} ({span})" if span else name
