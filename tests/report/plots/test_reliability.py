import pytest
from PIL import Image

from roadseg.report.plots.charts import write_reliability
from roadseg.roads.metrics.reliability import Bin, Reliability

MEASURED = Reliability((Bin(0.25, 0.3, 1.0), Bin(1.0, 0.9, 4.0)))


def pixels(path, measured):
    write_reliability(path, measured)
    with Image.open(path) as picture:
        return picture.convert("RGB").tobytes()


def test_the_diagram_has_a_line_for_each_set(tmp_path):
    alone = pixels(tmp_path / "a.png", {"": MEASURED})
    assert alone != pixels(tmp_path / "b.png", {"": MEASURED, "city": MEASURED})


@pytest.mark.parametrize(("sets", "are_drawn"), [(3, True), (4, False)])
def test_up_to_three_sets_are_drawn(tmp_path, sets, are_drawn):
    several = {"": MEASURED} | dict.fromkeys("abcd"[:sets], MEASURED)
    alone = pixels(tmp_path / "a.png", {"": MEASURED})
    assert (alone != pixels(tmp_path / "b.png", several)) == are_drawn
