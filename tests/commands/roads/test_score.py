import csv
import json
import subprocess
import sys

import numpy as np
import pytest
import rasterio
from affine import Affine

from roadseg.commands.roads.score import run
from roadseg.errors import ConfigError
from roadseg.roads.options import CompareOptions
from roadseg.system.units import shown_in
from tests.drawing import LAS_VEGAS as ORIGIN
from tests.drawing import write_lines

STREETS = [[(0, 0), (200, 0), (400, 0)], [(200, 0), (200, 300)], [(400, 0), (400, 300)]]
GAP = [STREETS[0], STREETS[1]]


@pytest.fixture
def draw(tmp_path):
    """Give a function that writes lines, metres from a place in Las Vegas, as GeoJSON."""

    def write(name, lines, epsg=4326, **facts):
        return write_lines(tmp_path / f"{name}.geojson", lines, epsg, **facts)

    return write


def score(*sides, **options):
    return run(*sides, options=CompareOptions(**options))


def only(*sides, **options):
    (pair,) = score(*sides, **options).pairs
    return pair


def routes(pair, weight="length"):
    found = pair["apls"][weight]
    return found["score"], found["reference_to_predicted"], found["predicted_to_reference"]


def test_the_same_roads_score_1_in_all(draw):
    pair = only(draw("a", STREETS), draw("b", STREETS, epsg=3857))
    assert routes(pair) == routes(pair, "time") == pytest.approx((1, 1, 1))
    assert pair["topo"]["f1"] == pair["buffer"]["quality"] == 1


def test_times_follow_the_speeds_of_the_files(draw):
    slow, fast = {"speed_mph": 20}, {"speed_mph": 25}
    pair = only(draw("a", STREETS, **slow), draw("b", STREETS, **fast))
    assert routes(pair) == pytest.approx((1, 1, 1))
    assert routes(pair, "time")[1:] == pytest.approx((0.8, 0.75))


def test_the_facts_of_both_sides_are_told(draw):
    pair = only(draw("a", STREETS, speed_mph=20), draw("b", STREETS[1:]))
    one = {"road_km": 1.0, "components": 1, "assumed_speed_km": 0}
    assert pair["reference"] == pytest.approx(
        {**one, "largest_km": 1.0, "largest_share": 1}, abs=1e-6
    )
    two = {"road_km": 0.6, "components": 2, "assumed_speed_km": 0.6}
    assert pair["predicted"] == pytest.approx(
        {**two, "largest_km": 0.3, "largest_share": 0.5}, abs=1e-6
    )


def test_breaks_and_connectivity_are_told(draw):
    """A street is interrupted, and its side road 2 m further on."""
    broken = [[(0, 0), (100, 0)], [(140, 0), (202, 0), (400, 0)], [(202, 0), (202, 300)]]
    pair = only(draw("a", STREETS), draw("b", [*broken, STREETS[2]]))
    assert (pair["breaks"]["count"], pair["breaks"]["per_km"]) == (1, pytest.approx(1))
    assert pair["connectivity"] == pytest.approx(0.86 / 0.96, abs=1e-3)


def test_nothing_found_has_no_breaks_per_km(folders):
    assert score(*folders).pairs[1]["breaks"]["per_km"] is None


@pytest.mark.parametrize(("reach", "radius"), [(500, 150), (501, 300)])
def test_topo_looks_further_on_more_than_a_chip(draw, reach, radius):
    lines = [[(0, 0), (reach, 0)]]
    assert only(draw("a", lines, epsg=32611), draw("b", lines))["topo"]["radius_m"] == radius


@pytest.fixture
def folders(draw):
    """Write references of three places, predictions for two of them and for another."""
    draw("truth/img1", STREETS)
    draw("truth/img2", STREETS)
    draw("found/img1", STREETS)
    draw("found/img9", STREETS)
    return draw("truth/img3", GAP).parent, draw("found/img3", GAP).parent


@pytest.mark.parametrize(
    ("others", "compared"), [(["img3"], ["img3"]), ([], ["network"])], ids=["beside", "alone"]
)
def test_the_network_of_two_runs_counts_only_without_their_other_graphs(draw, others, compared):
    for name in ("network", *others):
        folders = [draw(f"{side}/{name}", STREETS).parent for side in ("one", "two")]
    assert [pair["name"] for pair in score(*folders).pairs] == compared


def test_a_missing_prediction_scores_0_and_is_listed(folders):
    summary = score(*folders)
    assert [pair["apls"]["length"]["score"] for pair in summary.pairs] == pytest.approx([1, 0, 1])
    assert (summary.missing, summary.pairs[1]["predicted_path"]) == (["img2"], None)
    assert routes(summary.pairs[1], "time") == (0, 0, 0)
    assert summary.pairs[1]["topo"]["f1"] == 0


def test_pooled_are_means_of_routes_and_sums_of_lengths(folders):
    pooled = score(*folders).pooled
    assert routes(pooled) == pytest.approx((2 / 3, 2 / 3, 2 / 3))
    assert (pooled["topo"]["precision"], pooled["topo"]["f1"]) == pytest.approx((2 / 3, 2 / 3))
    assert pooled["reference"]["road_km"] == pytest.approx(2.7)
    assert pooled["buffer"]["completeness"] == pytest.approx(1.7 / 2.7, abs=1e-6)


def test_a_prediction_without_reference_is_named_once(folders, caplog):
    assert score(*folders).left_over == ["img9"]
    assert [record.message for record in caplog.records] == [
        "not scored, because no reference matches: 1 prediction (img9)"
    ]


def test_the_network_beside_the_graphs_of_scenes_is_not_missed(folders, caplog):
    (folders[1] / "img9.geojson").rename(folders[1] / "network.geojson")
    assert score(*folders).left_over == []
    assert not caplog.records


def test_no_file_that_is_scored_is_overwritten(folders):
    for path in (path for folder in folders for path in folder.iterdir()):
        before = path.read_bytes()
        with pytest.raises(ConfigError, match="is a file to read"):
            run(*folders, options=CompareOptions(), table=path)
        assert path.read_bytes() == before


def test_the_table_has_a_row_for_each_pair_and_one_for_all(folders, tmp_path):
    run(*folders, options=CompareOptions(), table=tmp_path / "out" / "scores.csv")
    with (tmp_path / "out" / "scores.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == ["img1", "img2", "img3", "pooled"]
    assert float(rows[3]["apls_length_score"]) == pytest.approx(2 / 3)


def test_people_read_an_aligned_table(folders):
    lines = str(score(*folders)).splitlines()
    assert [line.split()[0] for line in lines[:5]] == ["APLS", "img1", "img2", "img3", "all"]
    assert len({len(line) for line in lines[:5]}) == 1
    assert "breaks/km" in lines[0]
    assert "scored 0, because no prediction matches: 1 place (img2)" in lines
    assert any("40 km/h assumed on 1.70 of 1.70 km of the predicted" in line for line in lines)


@pytest.fixture
def paint(write_raster):
    """Give a function that writes a mask of streets 6 m wide, one pixel a metre."""

    def write(name, *streets, side=300, **place):
        pixels = np.zeros((side, side), dtype=np.uint8)
        for rows, cols in streets:
            pixels[rows, cols] = 255
        there = {"transform": Affine(1, 0, ORIGIN[0], 0, -1, ORIGIN[1])}
        return write_raster(pixels, name=f"{name}.tif", **there | place)

    return write


ACROSS = slice(97, 103), slice(0, 300)
DOWN = slice(0, 300), slice(147, 153)


def test_people_read_miles_where_they_chose_them(draw):
    files = draw("a", STREETS), draw("b", [STREETS[0], [(201, 0), (201, 300)], STREETS[2]])
    with shown_in("miles"):
        lines = str(score(*files)).splitlines()
    assert "breaks/mi" in lines[0]
    assert lines[0].endswith("ref mi  pred mi")


def test_masks_are_compared_by_pixels_too(paint):
    pair = only(paint("a", ACROSS, DOWN), paint("b", ACROSS))
    assert pair["pixels"]["recall"] == pytest.approx(1800 / 3564)
    assert pair["pixels"]["precision"] == 1
    assert pair["predicted"]["road_km"] == pytest.approx(0.3, abs=0.002)


def test_pixels_without_data_in_the_reference_do_not_count(paint):
    reference = paint("a", ACROSS, nodata=9)
    with rasterio.open(reference, "r+") as file:
        pixels = file.read(1)
        pixels[:90], pixels[110:] = 9, 9
        file.write(pixels, 1)
    pair = only(reference, paint("b", ACROSS, DOWN))
    assert pair["pixels"]["precision"] == pytest.approx(1800 / (1800 + 14 * 6))


def test_pixels_of_masks_that_lie_elsewhere_are_not_compared(paint):
    moved = Affine(1, 0, ORIGIN[0] + 1, 0, -1, ORIGIN[1])
    pair = only(paint("a", ACROSS), paint("b", ACROSS, transform=moved))
    assert pair["pixels"] is None


def test_a_mask_without_prediction_lacks_all_its_pixels(paint, tmp_path):
    for name in ("truth/img1", "truth/img2", "found/img1"):
        paint(name, ACROSS)
    summary = score(tmp_path / "truth", tmp_path / "found")
    assert summary.pairs[1]["pixels"]["iou"] == 0
    assert summary.pooled["pixels"]["iou"] == pytest.approx(0.5)


def test_places_have_no_common_metrics_of_pixels_if_one_has_none(paint, tmp_path):
    for name in ("truth/img1", "truth/img2", "found/img1"):
        paint(name, ACROSS)
    paint("found/img2", ACROSS, side=200)
    summary = score(tmp_path / "truth", tmp_path / "found")
    assert summary.pairs[0]["pixels"]["iou"] == 1
    assert summary.pooled["pixels"] is None


def test_a_mask_and_lines_have_no_pixels_in_common(paint, draw):
    pair = only(paint("a", ACROSS), draw("b", [[(0, -100), (300, -100)]]))
    assert pair["pixels"] is None
    assert routes(pair)[0] == pytest.approx(1, abs=0.01)


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_lines_in_pixels_lie_in_those_of_the_mask_they_are_compared_with(paint, tmp_path):
    (tmp_path / "a.csv").write_text('ImageId,WKT_Pix\nimg1,"LINESTRING (0 100, 300 100)"\n')
    mask = paint("img1", ACROSS, crs=None, transform=None)
    summary = run(tmp_path / "a.csv", mask, options=CompareOptions(), gsd_m=0.5)
    assert routes(summary.pairs[0])[0] == pytest.approx(1, abs=0.01)
    assert summary.pairs[0]["buffer"]["quality"] == 1


def test_scoring_files_of_lines_loads_no_heavy_library(draw):
    files = [str(draw(name, STREETS)) for name in "ab"]
    code = f"""
import sys
from roadseg.commands.cli.main import main
main(["score", *{files!r}, "--json"], standalone_mode=False)
heavy = {{"torch", "rasterio", "skimage", "networkx", "matplotlib"}}
sys.exit(" ".join(sorted(heavy & set(sys.modules))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


def recorded(facts):
    return json.loads((facts / "apls_reference.json").read_text())


@pytest.mark.real
def test_label_files_score_as_the_repaired_reference_code_does(facts):
    folders = [facts / "apls" / "speeds" / side for side in ("spacenetroads", "osm")]
    for pair in score(*folders).pairs:
        case = recorded(facts)["cases"][pair["name"].rpartition("_")[2]]
        by_length, by_time = case["repaired_length"]["apls"], case["repaired_travel_time"]["apls"]
        assert routes(pair)[0] == pytest.approx(by_length["total"], abs=2e-3)
        assert routes(pair, "time")[0] == pytest.approx(by_time["total"], abs=2e-3)


@pytest.mark.real
@pytest.mark.parametrize("write", ["geojson", "degrees"])
def test_graphs_score_as_recorded_when_they_come_from_files(facts, draw, write):
    for chip in ("img991", "img997"):
        files = []
        for side in ("gt", "prop"):
            path = facts / "apls" / "graphs_fixed" / f"{chip}_{side}.json"
            lines = [np.array(e["coords"]) - ORIGIN for e in json.loads(path.read_text())["edges"]]
            files.append(draw(side, lines, epsg=32611 if write == "geojson" else 4326))
        case = recorded(facts)["cases"][chip]
        total = case["repaired_length"]["apls"]["total"]
        found = only(*files)
        assert routes(found)[0] == pytest.approx(total, abs=1e-6)
        assert found["topo"]["f1"] == pytest.approx(case["sat2graph_topo"]["f1"], abs=1e-6)


@pytest.mark.real
def test_lines_in_pixels_score_as_in_the_official_scorer(facts):
    files = [facts / "apls" / f"wkt_{side}_utm031.csv" for side in ("truth", "proposal")]
    for pair in run(*files, options=CompareOptions(), gsd_m=0.31).pairs:
        chip = pair["name"].rpartition("_")[2]
        case = recorded(facts)["cases"][chip if chip != "img0" else "img0_json_wkt"]
        expected = case["java_official_sn3"]["utm_metres/0.31 (isotropic)"]
        values = [expected[key] for key in ("score", "gt_to_prop", "prop_to_gt")]
        assert routes(pair) == pytest.approx(values, abs=5e-6)


@pytest.mark.real
def test_a_city_without_every_ninth_way_is_scored(real_data, tmp_path):
    city = real_data / "osm/monaco_highways.geojson"  # Matched as a whole it took hours.
    ways = json.loads(city.read_text())
    del ways["features"][::9]
    (tmp_path / "less.geojson").write_text(json.dumps(ways))
    pair = only(city, tmp_path / "less.geojson")
    assert pair["topo"]["precision"] > 0.99
    assert 0.6 < pair["topo"]["recall"] < 8 / 9
