"""Data from services: the roads of an area."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from roadseg.api.files import AnyPath
from roadseg.api.notebooks import progress_in_notebook

if TYPE_CHECKING:
    from roadseg.commands.services.fetch_roads import FetchRoadsSummary


def fetch_roads(
    area: AnyPath | Sequence[float],
    output: AnyPath,
    *,
    source: AnyPath = "overpass",
    server: str | None = None,
    release: str | None = None,
    limit_km2: float = 10_000.0,
    force: bool = False,
) -> "FetchRoadsSummary":
    """Fetch the roads of an area as road labels, like `roadseg fetch roads`.

    Args:
        area: a vector file with polygons, or a box in degrees: minx, miny, maxx, maxy.
        output: the file to write; its suffix chooses the format.
        source: "overpass", "overture", a file of OpenStreetMap data, or the path or address of
            Overture's segments.
        server: address of an Overpass server, instead of the public one.
        release: of Overture, instead of the newest one.
        limit_km2: largest area.
        force: replace a file that exists.

    Raises:
        ConfigError: if an argument cannot be used, or the output exists.
        DataError: if the area or the source cannot be read, or there is no road in the area.
        OutputError: if the file cannot be written.
    """
    from roadseg.commands.services.fetch_roads import (  # noqa: PLC0415 - slow to import
        RoadWish,
        run,
    )

    wish = RoadWish(
        area=str(area) if isinstance(area, str | Path) else ",".join(map(str, area)),
        output=Path(output),
        source=str(source),
        server=server,
        release=release,
        limit_km2=limit_km2,
        force=force,
    )
    with progress_in_notebook():
        return run(wish)
