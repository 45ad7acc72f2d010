"""Audits of San Diego's centrelines against the masks that they were made from."""

import numpy as np
import pytest
import shapely

from roadseg.roads.audit.audit import audit_ways
from roadseg.roads.audit.stretches import CONFIRMED, NOT_SEEN
from roadseg.roads.audit.ways import read_ways
from roadseg.roads.masks.probabilities import open_probability
from roadseg.roads.options import AuditOptions

PLACE = "22888-52828-17"
pytestmark = pytest.mark.real


def audit(real_data, vector):
    """Audit the ways of a tile, moved by a vector in metres; return it and its shares by status."""
    folder = real_data / "san_diego"
    raster = open_probability(folder / "masks" / f"{PLACE}.tif")
    ways = read_ways(folder / "roads" / f"{PLACE}.geojson").to_crs(raster.grid.metric_crs)
    lines = shapely.transform(ways.lines, lambda xy: xy + vector)
    found = audit_ways(type(ways)(**{**vars(ways), "lines": lines}), [raster], AuditOptions())
    return found, np.bincount(found.status, found.length_m, minlength=4) / found.length_m.sum()


def test_ways_on_their_roads_are_confirmed(real_data):
    found, shares = audit(real_data, (0, 0))
    assert shares[CONFIRMED] > 0.99
    assert np.hypot(*found.shift_m) < 0.3


@pytest.mark.parametrize("vector", [(5, 0), (-4, 6), (0, -8)])
def test_the_shift_of_a_map_is_measured_to_half_a_metre(real_data, vector):
    found, shares = audit(real_data, vector)
    assert np.add(found.shift_m, vector) == pytest.approx([0, 0], abs=0.5)
    assert shares[NOT_SEEN] < 0.01
