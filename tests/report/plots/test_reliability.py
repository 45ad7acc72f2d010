from PIL import Image

from roadseg.report.plots.charts import write_reliability
from roadseg.roads.metrics.reliability import Bin, Reliability


def pixels(path, *bins):
    write_reliability(path, Reliability(bins))
    with Image.open(path) as picture:
        return picture.convert("RGB").tobytes()


def test_the_diagram_shows_what_was_measured(tmp_path):
    usual = pixels(tmp_path / "a.png", Bin(0.25, 0.3, 1.0), Bin(1.0, 0.9, 4.0))
    assert usual != pixels(tmp_path / "b.png", Bin(0.25, 0.5, 1.0), Bin(1.0, 0.9, 4.0))
