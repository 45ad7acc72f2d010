import pytest

from roadseg.commands.tools import bench
from roadseg.config import check_config
from roadseg.learn.hardware.devices import pick_device
from roadseg.learn.inference import openvino

SETTINGS = {
    "train": {"encoder": "tu-test_resnet", "window_px": 64, "batch_size": 2},
    "predict": {"window_px": 64, "overlap_px": 16, "batch_size": 2},
    "compute": {"device": "cpu", "precision": "fp32"},
}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Map a smaller scene, without converting the network for OpenVINO, which takes 10 s."""
    monkeypatch.setattr(bench, "_SCENE_PX", 192)
    monkeypatch.setattr(openvino, "why_missing", lambda: "not here")


def measured(tmp_path):
    return bench.run(check_config(SETTINGS, tmp_path / "roadseg.json"), steps=1, rounds=1)


def test_the_table_says_what_was_measured(tmp_path):
    summary = measured(tmp_path)
    lines = str(summary).splitlines()
    assert min(summary.training, summary.inference) > 0
    assert lines[0].startswith("device     cpu")
    assert "unet with tu-test_resnet, 3 bands; batches of 2 x 64 px" in lines[1]
    names = ["training", "inference", "map", "engine", "eager", "plan", "by"]
    assert [line.split()[0] for line in lines[2:]] == names


def test_a_city_takes_as_long_as_its_scenes_after_the_network_is_open(tmp_path):
    found = measured(tmp_path).map
    assert found.km2 == pytest.approx((192 * found.gsd_m / 1000) ** 2)
    assert found.passes == pytest.approx(1 + (0.7 / 1.0) ** 2)  # The starter sees two sizes.
    scene_s = found.predict_s["eager"] + found.graph_s
    assert found.km2_per_hour["eager"] * scene_s == pytest.approx(3600 * found.km2)
    city_s = found.open_s["eager"] + scene_s * 1000 / found.km2
    assert found.city_hours["eager"] * 3600 == pytest.approx(city_s)


def test_openvino_is_measured_where_it_is_installed(monkeypatch):
    assert bench.engines_here(pick_device("cpu")) == ["eager"]
    monkeypatch.setattr(openvino, "why_missing", lambda: None)
    assert bench.engines_here(pick_device("cpu")) == ["eager", "openvino"]


def test_the_plan_is_that_of_the_starter_and_of_networks_that_see_each_pixel_once():
    each = {"eager": 2.0, "openvino": 1.0}
    rates = bench.MapRates(0.5, 1.25, 1.0, 10.0, each, each, 1.0, each, each)
    starter, trained = str(rates).splitlines()[-2:]
    assert starter.endswith("1,000 km2 with openvino: 60.0 min by the starter")
    assert trained.endswith("train: 83.4 min at 0.3 m; 30.0 min at 0.5 m; 7.5 min at 1 m")
