"""MapRoulette: roads as a challenge, one task a line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import shapely

from roadseg.raster.grid import DEGREES, reproject
from roadseg.roads.conflation.new_roads import NewRoads
from roadseg.system.files import atomic_write

_SEPARATOR = "\x1e"  # Each task begins with it, so that its JSON may be read line by line.
_DECIMALS = 7  # Of degrees, as many as OpenStreetMap keeps.


def write_challenge(path: Path, roads: NewRoads, tags: list[dict[str, str]]) -> None:
    """Write a task for every road, those first that are likely and long.

    Tasks are ordered by confidence times length. Each is a FeatureCollection with the road as its
    one feature, on a line that begins with the record separator (RFC 8142).

    Args:
        roads: those that are added, and those to check.
        tags: of each road; they become properties of its feature.

    Source: MapRoulette, documentation on line-by-line GeoJSON.

    Raises:
        OutputError: if the file cannot be written.
    """
    lines = reproject(roads.lines, roads.crs, DEGREES)
    metres = np.asarray(shapely.length(roads.lines))
    confidence = roads.confidence
    order = np.argsort(-confidence * metres, kind="stable").tolist()
    with atomic_write(path) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        for row in order:
            facts = {
                "id": f"roadseg-{row + 1}",
                "status": "added" if roads.is_added[row] else "to check",
                "length_m": round(float(metres[row]), 1),
                "confidence": round(float(confidence[row]), 3),
                **tags[row],
            }
            task = json.dumps(_task(lines[row], facts), ensure_ascii=False, allow_nan=False)
            file.write(f"{_SEPARATOR}{task}\n")


def _task(line: shapely.LineString, facts: dict[str, Any]) -> dict[str, Any]:
    """Return the collection of one road."""
    xy = shapely.get_coordinates(line).round(_DECIMALS).tolist()
    geometry = {"type": "LineString", "coordinates": xy}
    feature = {"type": "Feature", "properties": facts, "geometry": geometry}
    return {"type": "FeatureCollection", "features": [feature]}
