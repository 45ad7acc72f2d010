"""scaling.json: a scaling comes back; what none can be is refused."""

import json

import pytest

from roadseg.errors import DataError
from roadseg.raster.scaling import Scaling, read_scaling, write_scaling

SCALING = Scaling({"uint16": ((0.0, 900.0), (50.0, 800.0))}, (100.0, 90.0), (50.0, 40.0))


@pytest.fixture
def path(tmp_path):
    write_scaling(tmp_path / "scaling.json", SCALING)
    return tmp_path / "scaling.json"


def test_a_scaling_written_comes_back(path):
    assert read_scaling(path) == SCALING


FAULTS = {
    "no deviation": ({"std": [50, 0]}, "std: expected numbers from 0.001 to 255, got "),
    "a mean beyond bytes": ({"mean": [256, 90]}, "mean: expected numbers from 0 to 255, got "),
    "a mean of text": ({"mean": ["100", 90]}, "mean.0: expected a valid number, got '100'"),
    "another number of bands": (
        {"std": [50]},
        "expected the same number of bands everywhere, got 2 in mean, 1",
    ),
    "an empty range": (
        {"ranges": {"uint16": [[0, 900], [800, 800]]}},
        "ranges.uint16: expected two increasing numbers, from 0 to 65535, got 800.0 and 800.0",
    ),
    "a range beyond the type": (
        {"ranges": {"uint16": [[0, 900], [50, 65537]]}},
        "ranges.uint16: expected two increasing numbers, from 0 to 65535, got 50.0 and 65537.0",
    ),
    "a range that float32 cannot tell apart": (
        {"ranges": {"int32": [[0, 900], [2e9, 2e9 + 1]]}},
        "ranges.int32: expected two increasing numbers",
    ),
    "no list": ({"mean": None}, "mean: expected a valid array, got None"),
}


@pytest.mark.parametrize(("changes", "told"), FAULTS.values(), ids=FAULTS)
def test_what_no_scaling_is_is_refused(path, changes, told):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(
        DataError, match=rf"scaling\.json: .*{told}.*; run `roadseg prepare --force`"
    ):
        read_scaling(path)


def test_a_range_of_the_largest_value_alone_is_taken(path):
    changes = {"ranges": {"uint16": [[0, 900], [65535, 65536]]}}
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    assert read_scaling(path).ranges["uint16"][1] == (65535, 65536)
