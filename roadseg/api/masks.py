"""Masks of speed bins, burnt from road labels."""

import io
import tempfile
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from roadseg.api.arguments import AnyPath, options_of, sections_of, table_file, takes
from roadseg.api.notebooks import progress_in_notebook
from roadseg.arrays import Bools, Bytes
from roadseg.raster.grid import Grid
from roadseg.raster.images import read_grid
from roadseg.raster.options import ImageryOptions
from roadseg.raster.windows import CERTAIN, Window
from roadseg.roads.masks.burning import road_pixels
from roadseg.roads.masks.mask_files import colour_table, read_mask, write_mask
from roadseg.roads.masks.probabilities import Probability
from roadseg.roads.masks.raster_styles import mask_renderer, write_style
from roadseg.roads.options import LabelOptions
from roadseg.roads.speeds import SpeedBins
from roadseg.system.fingerprints import stamp

if TYPE_CHECKING:
    import geopandas as gpd

_SHOWN_PX = 512  # Larger side of an image in a notebook.


@dataclass(frozen=True, repr=False)
class Mask:
    """A mask of speed bins, in memory.

    Attributes:
        grid: location of its pixels.
        pixels: shape (row, col), uint8: 0 background, else the number of the speed bin, 255 where
            the image has no data.
        speed_bins: the speeds of the numbers.
    """

    grid: Grid
    pixels: Bytes
    speed_bins: SpeedBins

    @property
    def road(self) -> Bools:
        """Mask of the road pixels, shape (row, col)."""
        return road_pixels(self.pixels)

    def as_probability(self) -> Probability:
        """Return the mask as probabilities of 0 and 1, for `trace`."""
        numbers = np.arange(1, self.speed_bins.count + 1)[:, np.newaxis, np.newaxis]
        bins = np.where(self.pixels == numbers, np.uint8(CERTAIN), np.uint8(0))
        road = np.where(self.road, np.uint8(CERTAIN), np.uint8(0))
        return Probability(self.grid, road, bins, self.speed_bins)

    def save(self, path: AnyPath) -> Path:
        """Write the mask as a GeoTIFF with a colour table, and a style for QGIS beside it.

        Raises:
            OutputError: if the file cannot be written.
        """
        window = Window(0, 0, *self.pixels.shape)
        write_mask(Path(path), [(window, self.pixels)], self.grid, bins=self.speed_bins)
        write_style(Path(path), mask_renderer(self.speed_bins))
        return Path(path)

    def __repr__(self) -> str:
        """Return its size and its share of road pixels."""
        height, width = self.pixels.shape
        return f"<Mask: {width} x {height} pixels, {self.road.mean():.1%} road>"

    def _repr_png_(self) -> bytes:
        """Show it in a notebook in the colours of its files."""
        from PIL import Image

        colours = np.zeros((256, 3), dtype=np.uint8)
        for value, colour in colour_table(self.speed_bins).items():
            colours[value] = colour[:3]
        picture = Image.fromarray(colours[self.pixels])
        picture.thumbnail((_SHOWN_PX, _SHOWN_PX), Image.Resampling.NEAREST)
        file = io.BytesIO()
        picture.save(file, "png")
        return file.getvalue()


@takes(ImageryOptions, LabelOptions)
def burn(
    labels: "AnyPath | gpd.GeoDataFrame",
    image: AnyPath,
    **options: Any,  # noqa: ANN401 - of two sections
) -> Mask:
    """Burn road labels into the pixels of an image, as `roadseg prepare` does.

    Args:
        labels: any file with road lines or polygons, a raster mask, or a GeoDataFrame.
        image: any raster that GDAL reads.
        options: of the sections labels and imagery of the config, such as `buffer_m=3`,
            `scheme="osm"`, `gsd_m=0.5`; `crs` applies to labels and image without a CRS. `area`
            is `imagery.area`: the mask shows what is in this area, and ignores the rest.

    Raises:
        DataError: if labels or image cannot be used, or no road touches the image.
        ConfigError: if there is no such option, or a value is outside its limits.
    """
    from roadseg.dataset.scene_parts import parts_of_scenes
    from roadseg.dataset.scenes import SceneTask, prepare_scene
    from roadseg.dataset.shifts import find_shifts

    # Labels have an area as well: where they are complete, which a mask does not show.
    area = options_of(ImageryOptions, {"area": options.pop("area", None)}).area
    of_labels, imagery = sections_of(options, LabelOptions, ImageryOptions)
    is_file = isinstance(labels, str | Path)
    given = nullcontext(Path(labels)) if is_file else table_file(labels, crs=of_labels.crs)
    with given as roads, tempfile.TemporaryDirectory(prefix="roadseg-") as folder:
        mask = Path(folder) / "mask.tif"
        path = Path(image).absolute()
        part = parts_of_scenes({"burn": path}, {"burn": imagery}, area_setting=area)["burn"]
        task = SceneTask(
            name="burn",
            image=path,
            labels=roads.absolute(),
            fingerprints={"labels": stamp(roads)},
            shared=False,
            mask=mask,
            record=Path(folder) / "mask.json",
            imagery=imagery,
            label_options=of_labels,
            sample_px=1,
            part=part,
        )
        with progress_in_notebook():
            prepare_scene(replace(task, shift_m=find_shifts([task], workers=1)["burn"]))
        return Mask(read_grid(mask), read_mask(mask), of_labels.bins)
