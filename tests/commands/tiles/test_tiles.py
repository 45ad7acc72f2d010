"""The commands on tiles: list, trace, cut and join, and the catalogue that they keep."""

import itertools
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import geopandas as gpd
import numpy as np
import pystac
import pytest
import rasterio
import shapely
from affine import Affine
from jsonschema import Draft7Validator
from pystac.validation.local_validator import get_local_schema_cache
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT7

from roadseg.commands.tiles import cutting, joining, listing, tracing
from roadseg.config import load_config
from roadseg.errors import ConfigError, DataError, OutputError
from roadseg.roads.formats.files import read_gpkg
from roadseg.roads.metrics.canonical import canonical_graph
from roadseg.roads.tiles import tile_files
from roadseg.roads.tiles.tile_files import COLLECTION, is_done, tile_path, tiles_in
from roadseg.roads.tiles.tiling import parse_tile

CORNER = (474_000, 5_472_000)  # of four tiles of 1 km
NAMES = ["32UMV7470", "32UMV7471", "32UMV7570", "32UMV7571"]
ONE_FORMAT = ("graph.formats=gpkg",)


def write_mask(path, *, crs="EPSG:32632", corner=CORNER, roads=(300, 1200), size=1000):
    """Write a mask of 2 m with roads 8 m wide from west to east and from north to south."""
    band = np.zeros((size, size), dtype=np.uint8)
    for metres in roads:
        at = slice(metres // 2 - 2, metres // 2 + 2)
        band[at], band[:, at] = 1, 1
    place = Affine(2, 0, corner[0], 0, -2, corner[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    profile = {"crs": crs, "transform": place} if crs else {}
    options = {"count": 1, "dtype": "uint8", "compress": "deflate"} | profile
    with rasterio.open(path, "w", "GTiff", size, size, **options) as file:
        file.write(band, 1)
    return str(path)


@pytest.fixture
def mask(tmp_path):
    return write_mask(tmp_path / "mask.tif")


def trace(images, folder, *, settings=(), **options):
    images = [images] if isinstance(images, str) else images
    config = load_config(None, [*ONE_FORMAT, *settings])
    force = options.pop("force", False)
    choice = tracing.TileChoice(**{"km": 1} | options)
    return tracing.run(config, images, output=folder, choice=choice, force=force)


def bytes_of(folder):
    """The bytes of the graphs of all tiles, whose time is not in them."""
    return {path.stem: read_gpkg(path).lines.tolist() for path in sorted(folder.glob("*/*.gpkg"))}


def test_tiles_are_traced_and_joined_to_the_whole(mask, tmp_path):
    made = trace(mask, tmp_path / "tiles")
    assert made.made == NAMES
    assert made.road_km == pytest.approx(8, abs=0.05)
    joined = joining.run(tmp_path / "tiles", tmp_path / "all.gpkg")
    assert (joined.shared, joined.near, joined.loose) == (4, 0, 0)
    assert joined.road_km == made.road_km


def test_nodes_at_borders_say_which_they_are(mask, tmp_path):
    trace(mask, tmp_path)
    layers = [gpd.read_file(tile_path(tmp_path, parse_tile(n)), layer="nodes") for n in NAMES]
    of_tile = [set(layer["border"]) - {"", None} for layer in layers]
    assert len(of_tile[0] & of_tile[2]) == len(of_tile[0] & of_tile[1]) == 1


def errors(thing, kind):
    """What the schemas of STAC that come with pystac find wrong."""
    schemas = get_local_schema_cache()
    registry = Registry().with_resources(
        (uri, Resource.from_contents(schema, default_specification=DRAFT7))
        for uri, schema in schemas.items()
    )
    uri = f"https://schemas.stacspec.org/v1.1.0/{kind}-spec/json-schema/{kind}.json"
    found = Draft7Validator(schemas[uri], registry=registry).iter_errors(thing.to_dict())
    return [error.message for error in found]


def test_the_schemas_find_what_is_wrong(mask, tmp_path):
    trace(mask, tmp_path, tiles=NAMES[:1])
    item = pystac.Item.from_file(tile_path(tmp_path, parse_tile(NAMES[0]), "json"))
    item.properties["created"] = "yesterday"
    item.extra_fields["links"] = "none"
    item.id = ""
    assert errors(item, "item") != []


def test_the_catalogue_is_valid_stac(mask, tmp_path):
    trace(mask, tmp_path)
    collection = pystac.Collection.from_file(tmp_path / COLLECTION)
    items = list(collection.get_items())
    assert sorted(item.id for item in items) == NAMES
    assert errors(collection, "collection") == []
    for item in items:
        assert errors(item, "item") == []
        assert item.properties["grid:code"] == f"MGRS-{item.id}"
        assert item.properties["roadseg:inputs"].keys() == {"mask"}
        asset = item.assets["gpkg"]
        assert Path(asset.get_absolute_href()).stat().st_size == asset.extra_fields["file:size"]


def test_what_is_up_to_date_is_kept(mask, tmp_path):
    trace(mask, tmp_path)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/*.gpkg")}
    again = trace(mask, tmp_path)
    assert (again.made, again.kept) == ([], 4)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/*.gpkg")} == times
    assert trace(mask, tmp_path, force=True).made == NAMES


def test_only_tiles_whose_images_have_changed_are_made_again(tmp_path):
    left = write_mask(tmp_path / "left.tif", size=500)
    right = write_mask(tmp_path / "right.tif", size=400, corner=(475_300, 5_472_000))
    trace([left, right], tmp_path / "tiles")
    write_mask(tmp_path / "right.tif", size=400, corner=(475_300, 5_472_000), roads=(500,))
    made = trace([left, right], tmp_path / "tiles").made
    assert "32UMV7571" in made
    assert "32UMV7471" not in made


def test_other_settings_make_tiles_again(mask, tmp_path):
    trace(mask, tmp_path)
    assert trace(mask, tmp_path, settings=["graph.min_spur_m=13"]).made == NAMES


def test_a_tile_made_again_alone_is_what_it_was(mask, tmp_path):
    trace(mask, tmp_path)
    before = bytes_of(tmp_path)
    tile_path(tmp_path, parse_tile(NAMES[2])).unlink()
    assert trace(mask, tmp_path, tiles=[NAMES[2]]).made == [NAMES[2]]
    assert bytes_of(tmp_path) == before


def test_shards_make_all_tiles_between_them(mask, tmp_path):
    whole = trace(mask, tmp_path / "whole").made
    parts = [trace(mask, tmp_path / "parts", shard=(n, 3)).made for n in (1, 2, 3)]
    assert sorted(itertools.chain(*parts)) == whole
    assert bytes_of(tmp_path / "parts") == bytes_of(tmp_path / "whole")
    links = json.loads((tmp_path / "parts" / COLLECTION).read_text())["links"]
    assert sum(link["rel"] == "item" for link in links) == 4


def test_several_processes_make_the_same_tiles(mask, tmp_path):
    trace(mask, tmp_path / "one")
    trace(mask, tmp_path / "two", settings=["compute.workers=2"])
    assert bytes_of(tmp_path / "one") == bytes_of(tmp_path / "two")


def test_a_cluster_makes_the_same_tiles(mask, tmp_path, dask):
    formats = ['graph.formats=["gpkg","shp"]']
    settings = [*formats, f'compute.scheduler="{dask.scheduler_address}"']
    trace(mask, tmp_path / "here", settings=formats)
    trace(mask, tmp_path / "there", settings=settings)
    assert bytes_of(tmp_path / "here") == bytes_of(tmp_path / "there")
    assert trace(mask, tmp_path / "there", settings=settings).kept == 4


def test_an_area_chooses_tiles_which_stay_whole(mask, tmp_path):
    box = parse_tile("32UMV7571").degrees.centroid.buffer(0.001).bounds
    assert trace(mask, tmp_path, area=",".join(map(str, box))).made == ["32UMV7571"]


def test_a_tile_without_roads_is_done_as_well(tmp_path):
    empty = write_mask(tmp_path / "empty.tif", roads=())
    assert trace(empty, tmp_path / "tiles").made == NAMES
    assert trace(empty, tmp_path / "tiles").kept == 4
    assert joining.run(tmp_path / "tiles", tmp_path / "all.gpkg").edges == 0


def test_a_folder_of_tiles_can_move(mask, tmp_path):
    trace(mask, tmp_path / "tiles")
    shutil.move(tmp_path / "tiles", tmp_path / "moved")
    assert trace(mask, tmp_path / "moved").kept == 4
    assert len(list(pystac.Collection.from_file(tmp_path / "moved" / COLLECTION).get_items())) == 4


def test_a_tile_whose_file_is_lost_or_cut_short_is_made_again(mask, tmp_path):
    trace(mask, tmp_path)
    path = tile_path(tmp_path, parse_tile(NAMES[0]))
    path.write_bytes(path.read_bytes()[:-100])
    tile_path(tmp_path, parse_tile(NAMES[1])).unlink()
    assert [is_done(tmp_path, tile) for tile in tiles_in(tmp_path)] == [False, False, True, True]
    assert trace(mask, tmp_path).made == NAMES[:2]


@pytest.mark.parametrize("damage", ["gone", "cut", "of another tile", "a folder"])
def test_a_tile_that_is_not_that_of_its_item_is_not_joined_and_made_again(mask, tmp_path, damage):
    trace(mask, tmp_path)
    path, other = (tile_path(tmp_path, parse_tile(name)) for name in NAMES[1:3])
    content = {"cut": path.read_bytes()[:-9], "of another tile": other.read_bytes()}.get(damage)
    path.unlink()
    if content:
        path.write_bytes(content)
    elif damage == "a folder":
        path.mkdir()
    told = r"32UMV7471\.gpkg: is missing, or not the file that 32UMV7471\.json describes; make"
    with pytest.raises(DataError, match=told):
        joining.run(tmp_path, tmp_path / "all.gpkg")
    if damage == "a folder":
        path.rmdir()
    assert trace(mask, tmp_path).made == [NAMES[1]]


@pytest.mark.parametrize(
    "change",
    [
        {"assets": {"gpkg": {}}},
        {"assets": {"gpkg": "a"}},
        {"assets": {}},
        {"bbox": None},
        {"bbox": [1, 2]},
        {"properties": {"roadseg:key": "a"}},
        {"id": "32UMV7470"},
    ],
)
def test_an_item_that_lacks_something_is_told(mask, tmp_path, change):
    trace(mask, tmp_path, tiles=[NAMES[1]])
    path = tile_path(tmp_path, parse_tile(NAMES[1]), "json")
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    for command in (
        lambda: joining.run(tmp_path, tmp_path / "a.gpkg"),
        lambda: trace(mask, tmp_path),
    ):
        with pytest.raises(
            DataError, match=r"7471\.json: expected the STAC item of this tile; delete"
        ):
            command()


def test_a_tile_in_two_places_is_told(mask, tmp_path):
    trace(mask, tmp_path / "tiles", tiles=[NAMES[1]])
    shutil.copytree(tmp_path / "tiles/32UMV", tmp_path / "tiles/copy")
    with pytest.raises(DataError, match=r"copy/32UMV7471\.json: found a tile of 32UMV there"):
        joining.run(tmp_path / "tiles", tmp_path / "all.gpkg")


def test_tiles_of_different_settings_are_joined_with_a_warning(mask, tmp_path, caplog):
    trace(mask, tmp_path, tiles=NAMES[:2])
    joining.run(tmp_path, tmp_path / "all.gpkg")
    assert "different settings" not in caplog.text
    trace(mask, tmp_path, tiles=NAMES[2:], settings=["graph.simplify_m=2"])
    joining.run(tmp_path, tmp_path / "all.gpkg")
    assert "its tiles were made with 2 different settings" in caplog.text


def test_a_network_does_not_take_the_place_of_a_tile(mask, tmp_path):
    trace(mask, tmp_path / "tiles")
    with pytest.raises(ConfigError, match="lies among the tiles; write the network elsewhere"):
        joining.run(tmp_path / "tiles", tile_path(tmp_path / "tiles", parse_tile(NAMES[0])))
    joining.run(tmp_path / "tiles", tmp_path / "all.gpkg")
    with pytest.raises(ConfigError, match=r"its tile 32UMV7470 was made from mask; use another fo"):
        cutting.run(tmp_path / "all.gpkg", output=tmp_path / "tiles", km=1)
    cutting.run(tmp_path / "all.gpkg", output=tmp_path / "tiles", km=1, force=True)


def test_a_shard_without_a_tile_says_so(mask, tmp_path):
    assert str(trace(mask, tmp_path, shard=(9, 9))).startswith("no tile to make; ")


def test_images_at_a_pole_show_no_tile(tmp_path):
    mask = write_mask(tmp_path / "pole.tif", crs="EPSG:3413", corner=(0, 0), size=50, roads=())
    with pytest.raises(ConfigError, match="no tile that the images show; there are tiles from -80"):
        trace(mask, tmp_path / "tiles")


def test_there_are_no_tiles_to_list_near_the_poles():
    with pytest.raises(ConfigError, match="found no tile; there are tiles from -80 to 84 degrees"):
        listing.run("0,84.5,1,85", km=10)


def test_a_tile_that_cannot_be_written_has_no_item(mask, tmp_path, monkeypatch):
    trace(mask, tmp_path)

    def fail(*_args, **_others):
        raise OutputError("no space left")

    monkeypatch.setattr(tile_files, "write_gpkg", fail)
    with pytest.raises(OutputError):
        trace(mask, tmp_path, tiles=[NAMES[0]], force=True)
    assert not tile_path(tmp_path, parse_tile(NAMES[0]), "json").exists()


def test_a_killed_command_leaves_whole_tiles_only(mask, tmp_path):
    words = ["tiles", "trace", "--km", "1", "--output", "tiles", "--set", ONE_FORMAT[0], mask]
    process = subprocess.Popen([sys.executable, "-m", "roadseg", *words], cwd=tmp_path)
    end = time.monotonic() + 60
    while not list(tmp_path.glob("tiles/*/[!.]*.json")) and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = [tile for tile in tiles_in(tmp_path / "tiles") if is_done(tmp_path / "tiles", tile)]
    assert done
    made = trace(mask, tmp_path / "tiles")
    assert made.kept >= len(done)
    assert trace(mask, tmp_path / "again").made == NAMES
    assert bytes_of(tmp_path / "tiles") == bytes_of(tmp_path / "again")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tiles": ["32UMV7"]}, "32UMV7: no such tile"),
        ({"tiles": ["32UMV8080"]}, "32UMV8080: found no ground of 1 tile"),
        ({"tiles": ["32UMV74", "32UMV7470"]}, "expected tiles that are equally large"),
        ({"area": "1,1,2,2"}, "found no tile that both the images and the area show"),
        ({"km": 10}, "holds tiles of 1 km, expected 10 km"),
    ],
)
def test_what_cannot_be_traced_is_refused(mask, tmp_path, options, message):
    trace(mask, tmp_path)
    with pytest.raises(ConfigError, match=message):
        trace(mask, tmp_path, **options)


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_a_mask_without_a_place_is_refused(tmp_path):
    nowhere = write_mask(tmp_path / "nowhere.tif", crs=None)
    with pytest.raises(DataError, match=r"nowhere\.tif: has no georeference"):
        trace(nowhere, tmp_path / "tiles", settings=["imagery.gsd_m=2"])


def test_a_folder_without_tiles_or_with_other_files_is_refused(mask, tmp_path):
    with pytest.raises(ConfigError, match="found no tiles"):
        joining.run(tmp_path, tmp_path / "all.gpkg")
    trace(mask, tmp_path / "tiles")
    (tmp_path / "tiles" / "32UMV" / "notes.json").write_text("{}")
    with pytest.raises(DataError, match=r"notes\.json: expected the STAC item of a tile"):
        joining.run(tmp_path / "tiles", tmp_path / "all.gpkg")


def test_a_network_is_cut_into_tiles_and_joined_again(mask, tmp_path):
    trace(mask, tmp_path / "traced")
    joining.run(tmp_path / "traced", tmp_path / "all.gpkg")
    cut = cutting.run(tmp_path / "all.gpkg", output=tmp_path / "cut", km=1)
    assert cut.made == NAMES
    assert cutting.run(tmp_path / "all.gpkg", output=tmp_path / "cut", km=1).kept == 4
    again = joining.run(tmp_path / "cut", tmp_path / "again.gpkg")
    graphs = [canonical_graph(read_gpkg(tmp_path / f"{n}.gpkg")) for n in ("all", "again")]
    assert again.near == 0
    assert np.allclose(*(np.sort(graph.length_m) for graph in graphs), atol=0.003)


def test_a_part_of_the_tiles_is_joined(mask, tmp_path):
    trace(mask, tmp_path / "tiles")
    box = shapely.union_all([parse_tile(n).degrees.centroid.buffer(1e-4) for n in NAMES[:2]]).bounds
    area = ",".join(map(str, box))
    assert joining.run(tmp_path / "tiles", tmp_path / "part.geojson", area=area).tiles == 2
    with pytest.raises(ConfigError, match="found no tile of the area 1,1,2,2"):
        joining.run(tmp_path / "tiles", tmp_path / "part.geojson", area="1,1,2,2")


def test_the_tiles_of_an_area_are_listed_with_those_that_are_done(mask, tmp_path):
    trace(mask, tmp_path / "tiles", tiles=[NAMES[3]])
    box = shapely.union_all([parse_tile(n).degrees.centroid.buffer(1e-4) for n in NAMES]).bounds
    area = ",".join(map(str, box))
    found = listing.run(area, km=1, folder=tmp_path / "tiles", output=tmp_path / "tiles.gpkg")
    assert (found.tiles, found.done, found.km2) == (NAMES, [NAMES[3]], 4)
    assert str(found).startswith("4 tiles, 4.00 km2 in all, 1 done; ")
    layer = gpd.read_file(tmp_path / "tiles.gpkg", layer="tiles")
    (style,) = gpd.read_file(tmp_path / "tiles.gpkg", layer="layer_styles")["styleQML"]
    assert 'attr="done"' in style
    assert dict(zip(layer["tile"], layer["done"], strict=True)) == dict(
        zip(NAMES, [0, 0, 0, 1], strict=True)
    )
    with pytest.raises(ConfigError, match=r"ends in \.gpkg or \.geojson"):
        listing.run(area, km=1, output=tmp_path / "tiles.txt")


def test_a_dry_run_says_what_is_missing_and_writes_nothing(mask, tmp_path):
    trace(mask, tmp_path, tiles=NAMES[:1])
    before = sorted(tmp_path.rglob("*"))
    plan = tracing.plan(
        load_config(None, list(ONE_FORMAT)),
        [mask],
        output=tmp_path,
        choice=tracing.TileChoice(km=1),
    )
    assert "3 of 4 tiles are missing or not up to date" in str(plan)
    assert sorted(tmp_path.rglob("*")) == before
