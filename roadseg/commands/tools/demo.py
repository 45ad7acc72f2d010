"""demo: draw a small synthetic city. Writes images/, roads/ and roadseg.json into a folder."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from affine import Affine
from pyproj import CRS

from roadseg.commands.city.aerial import draw_scene, to_uint16
from roadseg.commands.city.streets import Street, draw_streets, scene_labels
from roadseg.commands.stages import pipeline
from roadseg.config import FILE_NAME, load_config
from roadseg.raster.grid import DEGREES, Grid, reproject
from roadseg.raster.tiff import new_profile, open_new
from roadseg.system.files import atomic_write
from roadseg.system.progress import counted
from roadseg.system.records import write_json
from roadseg.system.text import Summary
from roadseg.system.workspace import Workspace

_CRS = CRS.from_epsg(32611)
_ORIGIN_M = (660_000.0, 4_000_000.0)  # South-west corner of the city in UTM zone 11.
_SIZE_PX, _GSD_M = 1300, 0.3
_STEP_M = 410.0  # Metres from scene to scene; each is 390 m wide, so that none touch.
_COLUMNS, _ROWS = 5, 2
_SEED = 3
_SCENE_16_BIT = 4  # Number of the scene whose pixels are 16-bit.
_SCENES_WITHOUT_SPEED = (2, 5)  # Their speeds follow from road_type and lane_number.
_LONGEST_GAP_M = 25.0  # Metres; trees and cars of drawn cities hide no more of a road at once.

CONFIG: dict[str, Any] = {
    "run": "run",
    "imagery": {"images": ["images"], "gsd_m": 0.6},
    "labels": {"roads": ["roads"]},
    "split": {"folds": 5, "block_m": 100.0},
    "train": {
        "encoder_weights": "imagenet",  # The starter has learned from cities drawn in this way.
        "window_px": 192,
        "windows_per_chip": 12,
        "batch_size": 4,
        "epochs": 4,
        "learning_rate": 2e-3,
        "warmup_steps": 12,
    },
    "predict": {"window_px": 512, "overlap_px": 64},
    "graph": {"max_gap_m": _LONGEST_GAP_M},
}


@dataclass(frozen=True)
class DemoSummary(Summary):
    """The city that was drawn."""

    folder: str
    scenes: int

    def __str__(self) -> str:
        """Return the number of scenes, and their folder."""
        return f"{self.scenes} scenes of a synthetic city; {self.folder}"


def run(folder: Path) -> DemoSummary:
    """Draw the missing scenes, their roads, and the config for them."""
    streets = draw_streets(extent_m=(_COLUMNS * _STEP_M + 20, _ROWS * _STEP_M + 20), seed=_SEED)
    places = [(col, row) for row in range(_ROWS) for col in range(_COLUMNS)]
    for number, (col, row) in enumerate(counted(places, "draw", total=len(places), unit="scenes")):
        x, y = 20 + col * _STEP_M, 20 + row * _STEP_M
        for path, write in (
            (folder / "images" / f"city_{number}.tif", _write_image),
            (folder / "roads" / f"city_{number}.geojson", _write_roads),
        ):
            if not path.exists():
                write(path, streets, x, y, number)
    if not (folder / FILE_NAME).exists():
        write_json(folder / FILE_NAME, CONFIG)
    return DemoSummary(str(folder), len(places))


def run_stages(folder: Path, *, say: pipeline.Say) -> pipeline.RunSummary:
    """Draw a small city in `folder`, train on it, and map and measure what was held out."""
    say("draw", run(folder))
    config = load_config(folder / FILE_NAME)
    return pipeline.run(config, Workspace(config.run), say=say)


def _write_image(path: Path, streets: list[Street], x: float, y: float, number: int) -> None:
    """Write the image of a scene whose south-west corner is (x, y), metres from the city's."""
    image = draw_scene(streets, x_m=x, y_m=y, size_px=_SIZE_PX, gsd_m=_GSD_M, seed=number)
    pixels = to_uint16(image, seed=number) if number == _SCENE_16_BIT else image
    north = _ORIGIN_M[1] + y + _SIZE_PX * _GSD_M
    transform = Affine(_GSD_M, 0, _ORIGIN_M[0] + x, 0, -_GSD_M, north)
    grid = Grid(_CRS, transform, _SIZE_PX, _SIZE_PX)
    profile = new_profile(grid, count=3, dtype=str(pixels.dtype)) | {"photometric": "rgb"}
    with atomic_write(path) as partial, open_new(partial, profile) as target:
        target.write(pixels)


def _write_roads(path: Path, streets: list[Street], x: float, y: float, number: int) -> None:
    """Write the road labels of a scene as GeoJSON, in degrees."""
    size = _SIZE_PX * _GSD_M
    labels = scene_labels(
        streets,
        bounds=(x, y, x + size, y + size),
        with_speed=number not in _SCENES_WITHOUT_SPEED,
    )
    lines = np.array([line for line, _ in labels], dtype=object)
    placed = shapely.transform(lines, lambda xy: xy + np.array(_ORIGIN_M))
    features = [
        {"type": "Feature", "properties": properties, "geometry": shapely.geometry.mapping(line)}
        for line, (_, properties) in zip(reproject(placed, _CRS, DEGREES), labels, strict=True)
    ]
    with atomic_write(path) as partial:
        text = json.dumps({"type": "FeatureCollection", "features": features})
        partial.write_text(text, encoding="utf-8")
