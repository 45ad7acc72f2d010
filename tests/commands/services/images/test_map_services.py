"""WMTS and WMS: capabilities choose layer, level and terms."""

import json
import re

import pytest
import rasterio

from roadseg.errors import ConfigError, DataError

XML = "text/xml"


@pytest.fixture(autouse=True)
def served(world, maps):
    """Serve capabilities of a WMTS, with and without templates, and of a WMS."""
    world.put("/WMTSCapabilities.xml", maps.wmts_capabilities(world.address), XML)
    world.put("/wmts", maps.wmts_capabilities(world.address, template=False), XML)
    world.put("/ows", maps.wms_capabilities(world.address), XML)
    return world


@pytest.mark.parametrize("path", ["/WMTSCapabilities.xml", "/wmts", "/wmts?service=WMTS"])
def test_tiles_of_a_wmts_are_an_image(fetch, off, path):
    (image,) = fetch(path, layer="ortho", zoom=16).images
    assert (off(image.image), image.gsd_m) == (0, pytest.approx(1.555, abs=0.005))


def test_terms_and_date_of_a_wmts_are_kept(fetch):
    (image,) = fetch("/WMTSCapabilities.xml", layer="ortho", zoom=15).images
    record = json.loads(image.image.with_suffix(".source.json").read_text())
    assert record["credit"] == {
        "attribution": "Survey of Testland",
        "licence": "CC-BY-4.0",
        "date": "2024-05-17",
    }
    assert "_ortho_z15_2024-05-17_" in image.image.name


@pytest.mark.parametrize("layer", [None, "roads"])
def test_layers_are_listed(fetch, layer):
    with pytest.raises(ConfigError, match=r"ortho \(Orthophotos\), map \(Map\)"):
        fetch("/WMTSCapabilities.xml", layer=layer, zoom=15)


@pytest.mark.parametrize(("address", "zoom"), [("/WMTSCapabilities.xml", 20), ("/wmts", 1)])
def test_a_level_that_a_wmts_lacks_is_told(fetch, address, zoom):
    with pytest.raises(ConfigError, match=f"--zoom {zoom}: .* no such level; it has 14, 15, 16"):
        fetch(address, layer="ortho", zoom=zoom)


def test_the_key_of_the_capabilities_goes_to_the_tiles(served, fetch, maps, monkeypatch):
    monkeypatch.setenv("MAPS_KEY", maps.KEY)
    served.key = True
    fetch("/wmts?key={env:MAPS_KEY}", layer="ortho", zoom=16)
    fetch("/WMTSCapabilities.xml?key={env:MAPS_KEY}", layer="ortho", zoom=15)
    fetch("/ows?key={env:MAPS_KEY}", gsd_m=2)


@pytest.mark.parametrize("path", ["/ows", "/ows?service=WMS", "/ows?map=a.map"])
def test_a_wms_draws_an_image(fetch, off, path):
    (image,) = fetch(path, gsd_m=1).images
    assert (off(image.image), image.gsd_m) == (0, pytest.approx(1, rel=0.05))
    assert image.credit == "City of Testburg, dl-de/by-2-0"


def test_a_wms_draws_no_more_at_once_than_it_allows(served, fetch):
    fetch("/ows", gsd_m=1)
    assert "width=400&height=400" in served.asked[-1]


@pytest.mark.parametrize(
    ("codes", "low", "high"),
    [
        (["EPSG:4326"], (49.3, 8.6), (49.5, 8.8)),
        (["CRS:84"], (8.6, 49.3), (8.8, 49.5)),
        (["EPSG:4326", "EPSG:3035"], (2_920_000, 4_220_000), (2_940_000, 4_240_000)),
    ],
)
def test_a_wms_is_asked_in_the_order_of_the_axes(served, fetch, maps, codes, low, high):  # noqa: PLR0917 - fixtures
    text = maps.wms_capabilities(served.address).replace(b"<CRS>EPSG:3857</CRS>", b"")
    served.put("/ows", text.replace(b"EPSG:4326", "</CRS><CRS>".join(codes).encode()), XML)
    (image,) = fetch("/ows", gsd_m=1, dry_run=True).images
    assert image.crs in (codes[-1], "OGC:CRS84")
    box = [float(number) for number in served.asked[-1].split("bbox=")[1].split(",")]
    assert [*low] < box[:2] < box[2:] < [*high]
    assert low[1] < box[1] < box[3] < high[1]


def test_a_wms_needs_the_size_of_pixels(fetch):
    with pytest.raises(ConfigError, match="--gsd-m in metres"):
        fetch("/ows")


def test_an_exception_of_a_wms_is_told_by_its_words(served, fetch):
    text = (
        b'<?xml version="1.0"?><ServiceExceptionReport><ServiceException>msWMSLoadGetMapParams(): '
        b"no such layer</ServiceException></ServiceExceptionReport>"
    )
    served.fail("GetMap", lambda h: h.give(200, text, XML))
    with pytest.raises(DataError, match="no such layer"):
        fetch("/ows", gsd_m=1)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (rb"<TopLeftCorner>[^<]*", b"<TopLeftCorner>1", "level 15 of the WMTS: expected a corner"),
        (rb"<ScaleDenominator>[^<]*", b"<ScaleDenominator>", "expected a corner, a scale and siz"),
        (rb"<TileWidth>[^<]*", b"<TileWidth>2.5", r"invalid literal .*2\.5"),
        (rb"http://127", b"http://[::1", "not a valid address"),
        (rb"EPSG::3857", b"EPSG::5703", "no set of tiles in a known coordinate system"),
        (rb'"1.0"', b'"1.0" encoding="none"', "expected capabilities in XML"),
    ],
)
def test_a_wmts_whose_levels_cannot_be_is_told(world, maps, fetch, old, new, message):  # noqa: PLR0917 - fixtures
    world.put("/odd.xml", re.sub(old, new, maps.wmts_capabilities(world.address)), "text/xml")
    with pytest.raises(DataError, match=message):
        fetch("/odd.xml", layer="ortho", zoom=16)


def test_addresses_in_capabilities_may_be_relative(world, maps, fetch, off):
    near = world.address.encode()
    world.put("/wmts.xml", maps.wmts_capabilities(world.address).replace(near, b""), "text/xml")
    world.put("/wms.xml", maps.wms_capabilities(world.address).replace(near, b""), "text/xml")
    (tiles,) = fetch("/wmts.xml", layer="ortho", zoom=16).images
    (drawn,) = fetch("/wms.xml", gsd_m=1).images
    assert (off(tiles.image), off(drawn.image)) == (0, 0)


def test_a_level_that_is_not_as_fine_as_wanted_is_told(fetch, caplog):
    fetch("/wmts", layer="ortho", gsd_m=0.1)
    assert "the finest level of the service has pixels of 1.5" in caplog.text


def test_a_pole_has_no_map_in_web_mercator(fetch):
    with pytest.raises(DataError, match="outside of what the coordinate system of the service"):
        fetch("/ows", gsd_m=1, area="0,89.999,1,90")


def test_tiles_cannot_ask_for_keys(world, maps, fetch, monkeypatch):
    monkeypatch.setenv("OTHER_KEY", "abcdefgh")
    lies = maps.wmts_capabilities(world.address).replace(b".png", b".png?a={env:OTHER_KEY}")
    world.put("/odd.xml", lies, "text/xml")
    with pytest.raises(DataError, match=r"asks for \{env:OTHER_KEY\}"):
        fetch("/odd.xml", layer="ortho", zoom=16)
    assert "abcdefgh" not in "".join(world.asked)


@pytest.mark.parametrize("limit", [b"9" * 5000, b"1", b"0", b"-5", b"many"])
def test_a_limit_of_a_wms_that_cannot_be_is_none(world, maps, fetch, limit):
    text = maps.wms_capabilities(world.address)
    world.put("/odd.xml", re.sub(rb"<MaxWidth>[^<]*", b"<MaxWidth>" + limit, text), XML)
    fetch("/odd.xml", gsd_m=1)
    assert "width=400&height=400" in world.asked[-1]


def test_a_wms_that_names_no_address_is_told(world, maps, fetch):
    text = maps.wms_capabilities(world.address).replace(b"http://127", b"http://[::1")
    world.put("/odd.xml", text, XML)
    with pytest.raises(DataError, match="not a valid address"):
        fetch("/odd.xml", gsd_m=1)


@pytest.mark.parametrize(("path", "options"), [("/wmts", {"zoom": 16}), ("/ows", {"gsd_m": 1})])
def test_a_key_stays_on_its_host_if_maps_are_on_another(world, maps, fetch, path, options):
    elsewhere = world.address.replace("127.0.0.1", "localhost")
    world.put("/wmts", maps.wmts_capabilities(elsewhere, template=False), XML)
    world.put("/ows", maps.wms_capabilities(elsewhere), XML)
    fetch(f"{path}?key=abcdefgh", layer={"/wmts": "ortho"}.get(path), **options)
    assert [number for number, asked in enumerate(world.asked) if "abcdefgh" in asked] == [0]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html><body>Hello</body></html>", "found XML <html>, expected a template"),
        (b"<html><body>Hello<br></body></html>", 'a web page that begins "Hello"'),
        (b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "declares entities"),
        (b"GIF89a", "expected capabilities in XML"),
        (b'{"type": "Catalog"}', "expected a STAC item"),
        (b'{"type": ', "expected a JSON object"),
    ],
)
def test_what_is_no_service_is_told(world, fetch, body, message):
    world.put("/what", body, "text/html")
    with pytest.raises((DataError, ConfigError), match=message):
        fetch("/what", zoom=3)


def test_a_wmts_in_degrees_covers_the_area(served, fetch, maps):
    text = maps.wmts_capabilities(served.address).replace(b"EPSG::3857", b"EPSG::4326")
    text = re.sub(rb"<TopLeftCorner>[^<]*", b"<TopLeftCorner>90 -180", text)
    served.put("/degrees.xml", text, XML)
    (image,) = fetch("/degrees.xml", layer="ortho", zoom=16).images
    with rasterio.open(image.image) as source:
        assert source.transform.a == pytest.approx(360 / 256 / 2**16)
        assert source.bounds == pytest.approx((8.68, 49.40, 8.69, 49.405), abs=1e-4)
