"""Tiles become one image, whatever a server does meanwhile."""

import tracemalloc

import numpy as np
import pytest
import rasterio

from roadseg.commands.services.images.fetching import Credit, ImageOrigin
from roadseg.commands.services.images.levels import plan_tiles, xyz_level
from roadseg.commands.services.images.tiles import TileReader, TileService, decode, write_image
from roadseg.errors import ConfigError, DataError, OutputError
from roadseg.raster.images import read_facts
from roadseg.roads.labels.areas import read_area
from roadseg.system.web.answers import BadAnswerError

XYZ = "/xyz/{z}/{x}/{y}.png"
WIDE = "8.68,49.40,8.70,49.41"  # 16 tiles of zoom 16


def files(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("template", "options", "worst"),
    [
        (XYZ, {"zoom": 16}, 0),
        (XYZ, {"gsd_m": 3.1}, 0),
        ("/tms/{z}/{x}/{-y}.png", {"zoom": 16}, 0),
        ("/large/{z}/{x}/{y}.png", {"zoom": 15}, 0),
        ("/xyz/{z}/{x}/{y}.jpg", {"zoom": 16}, 60),
    ],
)
def test_every_pixel_is_that_of_its_place(fetch, off, template, options, worst):
    (image,) = fetch(template, area=WIDE, **options).images
    assert off(image.image) <= worst


def test_the_image_is_one_that_every_command_reads(fetch):
    (image,) = fetch(XYZ, zoom=16).images
    facts = read_facts(image.image)
    assert (facts.bands, facts.dtype, facts.is_masked) == ((1, 2, 3), "uint8", True)
    assert facts.grid.pixel_size_m == pytest.approx((image.gsd_m,) * 2, rel=0.003)
    assert image.gsd_m == pytest.approx(1.555, abs=0.005)


def test_tiles_of_512_pixels_need_a_zoom_less(fetch):
    large, usual = fetch("/large/{z}/{x}/{y}.png", gsd_m=1.6), fetch(XYZ, gsd_m=1.6)
    assert [s.images[0].gsd_m for s in (large, usual)] == [usual.images[0].gsd_m] * 2
    assert "_z15_" in large.images[0].image.name


def test_a_second_fetch_asks_for_nothing(fetch, world):
    fetch(XYZ, zoom=16)
    asked = len(world.asked)
    (image,) = fetch(XYZ, zoom=16).images
    assert (image.state, len(world.asked)) == ("there already", asked)


def lies(maps):
    png = maps.encode(maps.tile(16, 22395, 34349))
    jpeg = maps.encode(maps.tile(16, 22395, 34349), "JPEG")
    return {
        "page": (maps.PAGE, "expected an image"),
        "empty": (b"", "found an empty answer, expected an image"),
        "cut PNG": (png[: len(png) // 2], "damaged image"),
        "cut JPEG": (jpeg[: len(jpeg) // 2], "damaged image"),
        "size": (maps.encode(maps.tile(16, 1, 1, 128)), "found a tile of 128 x 128 pixels"),
        "redirect": (
            lambda h: h.give(302, b"", headers={"Location": "http://localhost:9/"}),
            "redirects to another host",
        ),
        "endless": (maps.endless, "larger than expected"),
    }


LIES = ("page", "empty", "cut PNG", "cut JPEG", "size", "redirect", "endless")


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_told_in_a_line_and_poisons_nothing(  # noqa: PLR0917 - fixtures
    fetch, world, maps, off, tmp_path, lie
):
    how, message = lies(maps)[lie]
    world.fail(r"/16/34349/22395", how)
    with pytest.raises(DataError, match=message) as caught:
        fetch(XYZ, zoom=16)
    assert "\n" not in str(caught.value)
    assert "/xyz/16/34349/22395.png" in str(caught.value)
    assert files(tmp_path / "images") == []
    world.faults.clear()
    assert off(fetch(XYZ, zoom=16).images[0].image) == 0


def test_tiles_that_are_not_there_are_no_data(fetch, world, off):
    world.fail(r"/16/\d+/22394", 404)
    (image,) = fetch(XYZ, zoom=16).images
    with rasterio.open(image.image) as source:
        alpha = source.read(4)
    assert (alpha == 0).any()
    assert (alpha == 255).any()
    assert off(image.image) == 0
    assert "that the service does not have count as no data" in image.remarks[0]


def test_if_all_tiles_are_missing_it_is_an_error(fetch, world, tmp_path):
    world.fail("/xyz", 404)
    with pytest.raises(DataError, match="has none of the 6 tiles of level 16"):
        fetch(XYZ, zoom=16)
    assert files(tmp_path) == []


def test_repeated_tiles_are_told(fetch, world, maps):
    sorry = maps.encode(maps.tile(3, 1, 1))
    world.fail(r"/16/34350/\d+", sorry)
    (told,) = fetch(XYZ, area=WIDE, zoom=16).images[0].remarks
    assert told.startswith("3 tiles with the picture of another tile: look at them")


def test_a_palette_and_grey_become_colours(maps):
    from PIL import Image

    for mode in ("P", "L", "LA", "RGB", "RGBA", "1"):
        picture = Image.new(mode, (256, 256), 1)
        file = maps.io.BytesIO()
        picture.save(file, "PNG")
        assert decode(file.getvalue(), (256, 256)).shape == (256, 256, 4)


def test_16_bits_are_refused(maps):
    from PIL import Image

    file = maps.io.BytesIO()
    Image.new("I;16", (256, 256)).save(file, "PNG")
    with pytest.raises(BadAnswerError, match="expected 8 bits"):
        decode(file.getvalue(), None)


def test_a_damaged_cache_is_fetched_again(fetch, tmp_path, off):
    fetch(XYZ, zoom=16)
    for path in (tmp_path / "cache").rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:200])
    (image,) = fetch(XYZ, zoom=16, output=tmp_path / "other").images
    assert off(image.image) == 0


def test_more_than_the_limit_is_refused_before_it_is_fetched(fetch, world, tmp_path):
    with pytest.raises(ConfigError, match=r"16 tiles, 1 of them in the cache, about .* --limit-mb"):
        fetch(XYZ, area=WIDE, zoom=16, limit_mb=0.005)
    assert len(world.asked) == 1
    assert files(tmp_path / "images") == []


def test_a_dry_run_asks_for_one_tile_and_writes_no_image(fetch, world, tmp_path):
    summary = fetch(XYZ, zoom=16, dry_run=True)
    assert summary.images[0].state == "to be fetched"
    assert len(world.asked) == 1
    assert files(tmp_path / "images") == []


def test_an_image_that_is_not_of_this_fetch_is_kept(fetch):
    (image,) = fetch(XYZ, zoom=16).images
    with pytest.raises(OutputError, match="use another --output"):
        fetch("/xyz/{z}/{x}/{y}.jpg", zoom=16)
    image.image.with_name(f"{image.image.stem}.source.json").unlink()
    image.image.write_bytes(b"mine")
    with pytest.raises(OutputError, match="use another --output"):
        fetch(XYZ, zoom=16)
    assert image.image.read_bytes() == b"mine"


def test_a_full_disk_leaves_nothing_half_written(fetch, tmp_path, largest_file):
    fetch(XYZ, zoom=17, dry_run=True)
    with largest_file(3000), pytest.raises(OutputError):
        fetch(XYZ, zoom=17)
    assert [name for name in files(tmp_path / "images") if not name.startswith(".")] == []


def test_a_large_mosaic_is_not_held_in_memory(tmp_path):
    level = xyz_level(18)
    plan = plan_tiles(level, read_area("8.60,49.40,8.62,49.43"))  # 8587 x 3729 pixels
    tile = np.full((256, 256, 4), 255, np.uint8)
    tile[:, :, 0] = np.arange(256)

    class Reader(TileReader):
        def read(self, place):  # noqa: ARG002 - any tile
            return tile

    reader = Reader(TileService("XYZ tiles", "", level, lambda _, __: ""), None, None)
    origin = ImageOrigin("https://a", "XYZ tiles", "", "18", "a", (0, 0, 0, 0), "", Credit())
    tracemalloc.start()
    write_image(tmp_path / "a.tif", plan, reader, origin)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    pixels = plan.window.height * plan.window.width
    assert pixels > 3e7
    assert peak < pixels * 4 / 3
