from dataclasses import replace

import numpy as np
import pytest
import rasterio
import shapely

from roadseg.commands.fusion.edge_images import with_images
from roadseg.errors import DataError
from roadseg.raster.grid import Grid
from roadseg.raster.windows import Rows
from roadseg.roads.graph.road_graph import graph_from_lines
from roadseg.roads.masks.fusion import FusedImage, image_path, images_tags
from roadseg.roads.masks.probabilities import open_probability, write_probability
from roadseg.roads.options import TraceOptions
from roadseg.roads.speeds import DEFAULT_BINS


@pytest.fixture
def place(tmp_path, write_raster):
    """Give a function that writes a place and its images: what each shows, and where."""
    grid = Grid(*_place_of(write_raster), 40, 40)

    def write(*images, shifts=None):
        names = [f"image_{number}" for number in range(len(images))]
        for name, (road, known) in zip(names, images, strict=True):
            _write(image_path(tmp_path, name), grid, road, known)
        fused = [
            FusedImage(image_path(tmp_path, name), shift)
            for name, shift in zip(names, shifts or [(0.0, 0.0)] * len(names), strict=True)
        ]
        path = tmp_path / "place.tif"
        _write(path, grid, images[0][0], np.ones((40, 40), bool), **images_tags(fused))
        return open_probability(path)

    return write


def _place_of(write_raster):
    with rasterio.open(write_raster()) as source:
        return open_probability(write_raster(bands=1)).grid.crs, source.transform


def _write(path, grid, road, known, **tags):
    path.parent.mkdir(exist_ok=True)
    values = np.zeros((DEFAULT_BINS.count + 1, 40, 40), dtype=np.uint8)
    values[-1] = np.where(known, road, 0)
    tags = {"ROADSEG_THRESHOLD": "0.5", **tags}
    write_probability(path, [Rows(0, values, known)], grid, bins=DEFAULT_BINS, key="k", tags=tags)


EVERYWHERE = np.ones((40, 40), dtype=bool)


def shown(value, known=EVERYWHERE):
    return np.full((40, 40), value, dtype=np.uint8), known


def counts(raster, line=((5.0, 20.5), (35.0, 20.5))):
    """Return `seen` and `images` of a road that is drawn by rows and columns."""
    metres = raster.grid.to_metric(np.array(line)[:, ::-1])
    lines = np.array([shapely.LineString(metres)], dtype=object)
    graph = graph_from_lines(lines, raster.grid.metric_crs)
    found = with_images(graph, [raster], np.zeros(1, dtype=np.int64), TraceOptions()).attributes
    return int(found["seen"][0]), int(found["images"][0])


def test_an_edge_is_seen_where_its_mean_probability_reaches_the_threshold(place):
    assert counts(place(shown(128), shown(127), shown(255))) == (2, 3)


def test_an_image_without_data_along_the_edge_does_not_count(place):
    west = EVERYWHERE.copy()
    west[:, 12:] = False
    assert counts(place(shown(255), shown(255, west))) == (1, 1)


def test_an_image_with_data_along_most_of_the_edge_counts(place):
    west = EVERYWHERE.copy()
    west[:, 28:] = False
    assert counts(place(shown(255), shown(255, west))) == (2, 2)


def test_an_image_is_seen_where_its_shift_puts_it(place):
    road = np.zeros((40, 40), dtype=np.uint8)
    road[24:27] = 255
    moved = place((road, EVERYWHERE), shifts=[(5.0, 0.0)])
    assert counts(moved) == (1, 1)
    still = place((road, EVERYWHERE))
    assert counts(still) == (0, 1)


def test_a_graph_of_rasters_that_were_not_fused_stays_as_it_is(place):
    raster = replace(place(shown(255)), images=())
    line = np.array([shapely.LineString([(660005, 3999980), (660030, 3999980)])], dtype=object)
    graph = graph_from_lines(line, raster.grid.metric_crs)
    found = with_images(graph, [raster], np.zeros(1, dtype=np.int64), TraceOptions())
    assert found is graph


def test_a_graph_without_edges_has_the_columns(place):
    raster = place(shown(0), shown(0))
    graph = graph_from_lines(np.empty(0, dtype=object), raster.grid.metric_crs)
    found = with_images(graph, [raster], np.zeros(0, dtype=np.int64), TraceOptions())
    assert [len(found.attributes[name]) for name in ("seen", "images")] == [0, 0]


def test_an_image_that_is_gone_is_named(place):
    raster = place(shown(255), shown(255))
    raster.images[1].path.unlink()
    with pytest.raises(
        DataError, match=r"image_1\.tif does not exist, but the raster of its place"
    ):
        counts(raster)
