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
from roadseg.roads.masks.fusion import FusedImage, day_tags, image_path, images_tags
from roadseg.roads.masks.probabilities import open_probability, write_probability
from roadseg.roads.options import TraceOptions
from roadseg.roads.speeds import DEFAULT_BINS


@pytest.fixture
def place(tmp_path, write_raster):
    """Give a function that writes a place and its images: what each shows, where, and when."""
    grid = Grid(*_place_of(write_raster), 40, 40)

    def write(*images, shifts=None, days=None):
        names = [f"image_{number}" for number in range(len(images))]
        for name, (road, known), day in zip(names, images, days or names, strict=True):
            tags = day_tags(day) if days else {}
            _write(image_path(tmp_path, name), grid, road, known, **tags)
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


FIRST = np.zeros(1, dtype=np.int64)  # The raster of an edge.


def road_on(raster, line=((5.0, 20.5), (35.0, 20.5))):
    """Return the graph of a road that is drawn by rows and columns."""
    metres = raster.grid.to_metric(np.array(line)[:, ::-1])
    lines = np.array([shapely.LineString(metres)], dtype=object)
    return graph_from_lines(lines, raster.grid.metric_crs)


def counts(raster):
    """Return `seen` and `images` of a road."""
    found = with_images(road_on(raster), [raster], FIRST, TraceOptions()).attributes
    return int(found["seen"][0]), int(found["images"][0])


def test_an_edge_is_seen_where_its_mean_probability_reaches_the_threshold(place):
    assert counts(place(shown(128), shown(127), shown(255))) == (2, 3)


@pytest.mark.parametrize(("columns", "images"), [(12, 1), (28, 2)])
def test_an_image_with_data_along_most_of_the_edge_counts(place, columns, images):
    west = EVERYWHERE.copy()
    west[:, columns:] = False
    assert counts(place(shown(255), shown(255, west))) == (images, images)


def test_an_image_is_seen_where_its_shift_puts_it(place):
    road = np.zeros((40, 40), dtype=np.uint8)
    road[24:27] = 255
    moved = place((road, EVERYWHERE), shifts=[(5.0, 0.0)])
    assert counts(moved) == (1, 1)
    still = place((road, EVERYWHERE))
    assert counts(still) == (0, 1)


@pytest.fixture
def days_of(place):
    """Give a function that returns when a road is seen in images of some days."""

    def found(*images):
        raster = place(*(shown(value) for value, _ in images), days=[day for _, day in images])
        attributes = with_images(road_on(raster), [raster], FIRST, TraceOptions()).attributes
        return [attributes[name].tolist() for name in ("first_seen", "last_seen")]

    return found


def test_an_edge_has_the_days_of_the_images_in_which_it_is_seen(days_of):
    images = (255, "2023-06-01"), (0, "2019-01-01"), (255, "2021-03-04"), (255, "")
    assert days_of(*images) == [["2021-03-04"], ["2023-06-01"]]


def test_an_edge_that_no_dated_image_shows_has_no_day(days_of):
    assert days_of((0, "2023-06-01"), (255, "")) == [[""], [""]]


def test_an_edge_of_a_single_image_has_its_day(place):
    raster = place(shown(255), days=["2023-06-01"])
    raster = replace(raster, path=raster.images[0].path, images=())
    found = with_images(road_on(raster), [raster], FIRST, TraceOptions()).attributes
    assert found["last_seen"].tolist() == ["2023-06-01"]


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
