"""The front door for Python: the same results as the commands, errors in one line, values shown."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import rasterio
from click.testing import CliRunner

import roadseg
from roadseg.commands.cli.main import main
from roadseg.errors import ConfigError, DataError, RoadsegError

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
FLAT = {"window_px": 64, "overlap_px": 16, "device": "cpu"}


def test_the_package_has_the_names_of_its_interface():
    assert set(roadseg.__all__) - {"__version__"} == set(roadseg.api.__all__)


def test_the_page_runs_block_by_block(finished, monkeypatch):
    config, _ = finished
    folder = config.run.parent
    monkeypatch.chdir(folder)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102 - our own page
    assert len(blocks) == 8
    assert (folder / "city_0.gpkg").exists()


@pytest.mark.parametrize("path_type", [str, Path])
def test_a_prediction_in_memory_is_that_of_the_command(city, path_type):
    name = next((city / "run" / "probabilities").glob("*.tif")).name
    image, checkpoint = city / "images" / name, city / "run" / "checkpoints" / "fold-0"
    found = roadseg.predict(path_type(image), path_type(checkpoint), **FLAT)
    with rasterio.open(city / "run" / "probabilities" / name) as source:
        written = source.read()
    np.testing.assert_array_equal(np.concatenate([found.bins, found.road[np.newaxis]]), written)


def test_a_saved_prediction_is_read_as_it_was(image, checkpoint, tmp_path):
    found = roadseg.predict(image, [checkpoint, checkpoint], **FLAT)
    path = found.save(tmp_path / "p.tif")
    in_memory, of_file = (roadseg.trace(each, threshold=0.1) for each in (found, path))
    assert in_memory.edges.equals(of_file.edges)


def test_a_graph_of_a_mask_has_what_the_files_have(city):
    found = roadseg.trace(city / "run" / "masks" / "city_0.tif")
    assert {"u", "v", "key", "length", "speed_kph", "travel_time"} <= set(found.edges.columns)
    assert found.length_km == pytest.approx(found.edges.length.sum() / 1000)


@pytest.mark.parametrize("suffix", ["gpkg", "geojson", "graphml", "parquet"])
def test_a_saved_graph_scores_1_against_itself(labels, tmp_path, suffix):
    path = labels.save(tmp_path / f"city.{suffix}")
    found = roadseg.score(path, labels)
    assert (found.apls.length, found.apls.time) == pytest.approx((1, 1), abs=1e-3)


def test_scores_are_those_of_the_command(city):
    graph = next((city / "run" / "graphs").glob("*.gpkg"))
    reference = city / "roads" / f"{graph.stem}.geojson"
    told = CliRunner().invoke(main, ["score", str(reference), str(graph), "--json"])
    found = roadseg.score(reference, roadseg.read_graph(graph))
    assert f'"score": {found.apls.length}' in told.stdout
    assert f'"quality": {found.buffer.quality}' in told.stdout


def test_networkx_has_both_directions_and_degrees(labels):
    network = labels.to_networkx()
    assert network.graph["crs"] == "epsg:4326"
    assert network.number_of_edges() == 2 * len(labels.edges)
    assert all(abs(data["x"]) <= 180 for _, data in network.nodes(data=True))
    (u, v, data) = next(iter(network.edges(data=True)))
    assert data["geometry"].coords[0] == (network.nodes[u]["x"], network.nodes[u]["y"])
    assert network.edges[v, u, 0]["reversed"] is not data["reversed"]


def test_a_route_is_driven_from_end_to_end(labels):
    longest = labels.edges.length.argmax()
    line = labels.edges.to_crs(4326).geometry.iloc[longest]
    way = roadseg.route(labels, line.coords[0], line.coords[-1], weight="length")
    assert way.length_m <= labels.edges.length.iloc[longest] + 0.01
    assert way.seconds > 0


def test_what_is_missing_is_all_where_there_is_nothing(labels, city):
    nothing = roadseg.trace(city / "run" / "masks" / "city_0.tif", min_component_m=1e6)
    found = roadseg.diff(nothing, labels, min_length_m=0)
    assert found.missing_in_predicted.length.sum() == pytest.approx(1000 * labels.length_km)
    assert len(found.missing_in_reference) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_gap": 3}, "max_gap: no such option, expected one of default_speed_mph, "),
        ({"max_gap_m": -3}, 'max_gap_m: expected a number from 0 to 1000, or "auto", got -3'),
    ],
)
def test_options_that_cannot_be_are_told_in_one_line(city, options, message):
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        roadseg.trace(city / "run" / "masks" / "city_0.tif", **options)
    assert "\n" not in str(caught.value)


def test_bad_files_and_words_are_errors_of_roadseg(labels, tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        roadseg.read_graph(tmp_path / "none.gpkg")
    with pytest.raises(ConfigError, match=r"city\.xyz: use a file name that ends in \.gpkg"):
        labels.save(tmp_path / "city.xyz")
    with pytest.raises(ConfigError, match="weight: expected 'time' or 'length', got 'beauty'"):
        roadseg.route(labels, (0, 0), (0, 0), weight="beauty")
    with pytest.raises(RoadsegError, match="the nearest road is"):
        roadseg.route(labels, (0, 0), (0, 0))


def test_values_show_themselves(labels, image, checkpoint):
    shown = labels._repr_html_()
    assert re.fullmatch(r"<Graph: [\d.]+ km, \d+ nodes, \d+ edges; .*>", repr(labels))
    assert shown.count("<path") == 1
    assert 'style="background: white"' in shown  # Readable where notebooks are dark, too.
    assert "apls_length         1.000" in roadseg.score(labels, labels)._repr_html_()
    found = roadseg.predict(image, checkpoint, **FLAT)
    assert found._repr_png_().startswith(b"\x89PNG")
    assert re.fullmatch(r"<Probability: \d+ x \d+ pixels, 7 speed bins>", repr(found))


def test_overrides_are_options_by_their_keys(finished):
    config, _ = finished
    with pytest.raises(ConfigError, match=r"train\.epoch: "):
        roadseg.train(config.run.parent / "roadseg.json", overrides={"train.epoch": 1})


def test_importing_loads_nothing_and_names_all(tmp_path):
    code = """
import sys, roadseg
assert not {"numpy", "click", "torch", "pydantic"} & set(sys.modules), sorted(sys.modules)
assert {"predict", "trace", "score", "__version__"} <= set(dir(roadseg))
for name in dir(roadseg):
    getattr(roadseg, name)
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        roadseg.nothing  # noqa: B018 - asking is the test


def test_roads_of_an_image_are_mapped_in_one_call(image, checkpoint, tmp_path):
    done = roadseg.map_roads(image, tmp_path, checkpoints=checkpoint)
    assert (done.scenes, Path(done.report).exists()) == (1, True)
    assert (tmp_path / "graphs" / "city_0.gpkg").exists()
