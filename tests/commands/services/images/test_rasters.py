"""Rasters on servers and in buckets: the part in the area is copied as it is."""

import json

import numpy as np
import pytest
import rasterio
import urllib3
from affine import Affine
from rasterio.enums import ColorInterp

from roadseg.commands.services.images import stac
from roadseg.errors import DataError

SIDE = 1500


@pytest.fixture(scope="session")
def drawn(maps, tmp_path_factory):
    """Write the drawn world around Heidelberg as a COG of 1500 x 1500 pixels; return its path."""
    box = (*maps.mercator(8.67, 49.39), *maps.mercator(8.70, 49.42))
    path = tmp_path_factory.mktemp("drawn") / "source.tif"
    profile = {"driver": "COG", "count": 3, "dtype": "uint8", "crs": "EPSG:3857"}
    place = Affine((box[2] - box[0]) / SIDE, 0, box[0], 0, (box[1] - box[3]) / SIDE, box[3])
    with rasterio.open(path, "w", **profile, height=SIDE, width=SIDE, transform=place) as target:
        target.update_tags(TIFFTAG_COPYRIGHT="Testsat")
        target.write(np.moveaxis(maps.picture(*box, SIDE, SIDE), 2, 0))
    return path


@pytest.fixture
def cog(drawn):
    """Return the bytes of the drawn COG."""
    return drawn.read_bytes()


@pytest.fixture(autouse=True)
def served(world, cog):
    world.put("/d/a.tif", cog, "image/tiff")
    return world


def item(name, **properties):
    sides = [[8, 49], [9, 49], [9, 50], [8, 50], [8, 49]]
    return {
        "type": "Feature",
        "stac_version": "1.1.0",
        "id": name,
        "geometry": {"type": "Polygon", "coordinates": [sides]},
        "properties": {"datetime": "2023-06-01T10:00:00Z"} | properties,
        "assets": {
            "visual": {"href": "/d/a.tif", "type": "image/tiff; profile=cloud-optimized"},
            "nir": {"href": "/d/a.tif", "type": "image/tiff"},
            "thumbnail": {"href": "/d/a.png", "type": "image/png"},
        },
        "links": [{"rel": "collection", "href": "/collections/aerial"}],
    }


COLLECTION = {
    "type": "Collection",
    "license": "CC-BY-4.0",
    "providers": [
        {"name": "Testsat", "roles": ["producer"]},
        {"name": "Shop", "roles": ["host"]},
    ],
    "links": [{"rel": "items", "href": "/collections/aerial/items"}],
}


@pytest.fixture
def catalogue(served):
    served.put("/collections/aerial", COLLECTION)
    page = {"type": "FeatureCollection", "features": [item("a/1")]}
    served.put("/search", page | {"links": [{"rel": "next", "href": "/page2"}]})
    far = item("far") | {"geometry": {"type": "Point", "coordinates": [0, 0]}}
    served.put("/page2", {"type": "FeatureCollection", "features": [item("b"), far]})
    served.put("/collections/aerial/items", page)
    served.put("/item.json", item("c"))
    return served


def names(summary):
    return [image.image.name.partition("_")[0] for image in summary.images]


def test_a_part_of_a_raster_is_copied(fetch, off):
    (image,) = fetch("/d/a.tif").images
    assert off(image.image) == 0
    assert (image.height, image.width) < (SIDE, SIDE)
    assert image.credit == "Testsat"


def test_bands_names_nodata_and_types_stay(world, fetch, write_raster):
    values = np.arange(4 * 60 * 60, dtype=np.uint16).reshape(4, 60, 60)
    names = ["blue", "green", "red", "nir"]
    path = write_raster(values, name="s.tif", names=names, nodata=0)
    world.put("/s.tif", path.read_bytes(), "image/tiff")
    (image,) = fetch("/s.tif", area="-117,34,-112,38").images
    with rasterio.open(image.image) as source:
        assert (source.descriptions, source.nodata) == (tuple(names), 0)
        assert np.array_equal(source.read(), values)


def test_a_mask_stays(world, fetch, write_raster):
    path, is_known = write_raster(shape=(60, 60), name="m.tif"), np.tri(60, dtype=bool)
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(path, "r+") as source:
        source.write_mask(is_known)
    world.put("/m.tif", path.read_bytes(), "image/tiff")
    (image,) = fetch("/m.tif", area="-117,34,-112,38").images
    with rasterio.open(image.image) as source:
        assert np.array_equal(source.dataset_mask() > 0, is_known)


def test_an_alpha_band_stays(world, fetch, write_raster):
    path = write_raster(bands=4, shape=(60, 60), name="t.tif", transparent=True)
    world.put("/t.tif", path.read_bytes(), "image/tiff")
    (image,) = fetch("/t.tif", area="-117,34,-112,38").images
    with rasterio.open(image.image) as source:
        assert source.colorinterp[3] == ColorInterp.alpha


def test_a_palette_stays(world, fetch, drawn, tmp_path):
    colours = {number: (number, 0, 255 - number, 255) for number in range(256)}
    with rasterio.open(drawn) as source:
        profile = source.profile | {"driver": "GTiff", "count": 1, "photometric": "palette"}
        band = source.read(1)
    profile.pop("interleave")
    with rasterio.open(tmp_path / "palette.tif", "w", **profile) as target:
        target.write(band, 1)
        target.write_colormap(1, colours)
    world.put("/d/palette.tif", (tmp_path / "palette.tif").read_bytes(), "image/tiff")
    (image,) = fetch("/d/palette.tif").images
    with rasterio.open(image.image) as copy:
        assert copy.colormap(1) == colours


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_a_raster_that_cannot_be_used_is_told_by_its_address(world, fetch, write_raster):
    path = write_raster(bands=1, crs=None, transform=Affine.identity())
    world.put("/d/nowhere.tif", path.read_bytes(), "image/tiff")
    with pytest.raises(DataError, match=rf"^{world.address}/d/nowhere\.tif: no georeference found"):
        fetch("/d/nowhere.tif")


def test_a_raster_elsewhere_is_told(fetch):
    with pytest.raises(DataError, match="lies outside of 1,1,2,2"):
        fetch("/d/a.tif", area="1,1,2,2")


def test_a_server_that_fails_in_the_middle_is_told(served, fetch, tmp_path, monkeypatch, cog):
    from roadseg.system.web import ranges

    monkeypatch.setattr(ranges, "_BLOCK", 2**14)
    served.fail("/d/a.tif", lambda h: h.answer(), times=2)
    served.fail("/d/a.tif", 500)
    with pytest.raises(DataError, match="500 Internal Server Error"):
        fetch("/d/a.tif")
    assert not (tmp_path / "images").exists() or not list((tmp_path / "images").iterdir())
    assert len(cog) > 2**15


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>Hello</html>", 'begins "Hello", expected a raster'),
        (b"II*\0oh", "cannot be read"),
        (b"", "found an empty answer, expected a raster"),
    ],
)
def test_what_is_no_raster_is_told(world, fetch, body, message):
    world.put("/b.tif", body, "text/html" if b"html" in body else "image/tiff")
    with pytest.raises(DataError, match=message):
        fetch("/b.tif")


def test_a_raster_cut_short_is_told(served, fetch, cog):
    served.put("/d/a.tif", cog[: len(cog) // 2], "image/tiff")
    with pytest.raises(DataError, match=r"/d/a\.tif: cannot be read as a raster"):
        fetch("/d/a.tif")


def test_a_search_gives_the_items_that_touch_the_area(catalogue, fetch, off):
    summary = fetch(f"stac:{catalogue.address}?collections=aerial&limit=7", asset="visual")
    assert names(summary) == ["a-1", "b"]
    assert [off(image.image) for image in summary.images] == [0, 0]
    assert "/search?collections=aerial&limit=7&bbox=8.68" in catalogue.asked[0]


@pytest.mark.usefixtures("catalogue")
@pytest.mark.parametrize(
    ("source", "found"), [("/item.json", ["c"]), ("/collections/aerial", ["a-1"])]
)
def test_an_item_and_a_collection_are_read(fetch, source, found):
    assert names(fetch(source)) == found


def test_an_item_in_a_file_is_read(catalogue, fetch, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = json.dumps(item("d")).replace('"/d/a.tif"', f'"{catalogue.address}/d/a.tif"')
    (tmp_path / "item.json").write_text(text)
    assert names(fetch("item.json")) == ["d"]


@pytest.mark.parametrize(
    "change",
    [
        {"properties": ["a"]},
        {"links": "a", "properties": {"providers": [{"name": None, "roles": 5}], "license": 5}},
        {"id": None, "links": [{"rel": "collection"}]},
    ],
)
def test_what_an_item_says_wrong_of_itself_is_left_out(catalogue, fetch, change):
    catalogue.put("/item.json", item("c") | change)
    assert len(fetch("/item.json").images) == 1


def test_json_may_begin_with_a_byte_order_mark(catalogue, fetch):
    catalogue.put("/item.json", b"\xef\xbb\xbf" + json.dumps(item("c")).encode())
    assert names(fetch("/item.json")) == ["c"]


BROKEN = "http://[::1"


@pytest.mark.parametrize(
    ("href", "message"),
    [
        *((href, "not a valid address") for href in (BROKEN, "//a:b/c.tif", "http://x:99999/")),
        *(
            (f"{scheme}:///etc/hostname", "expected")
            for scheme in ("vrt", "WMS:http", "zip+file", "GTI", "ftp")
        ),
    ],
)
def test_an_asset_at_no_address_or_out_of_the_web_is_refused(catalogue, fetch, href, message):
    catalogue.put("/item.json", item("c") | {"assets": {"visual": {"href": href}}})
    with pytest.raises(DataError, match=message):
        fetch("/item.json", asset="visual")


@pytest.mark.parametrize("rel", ["next", "items", "item", "collection"])
def test_a_link_to_no_address_is_told(catalogue, fetch, rel):
    link = {"links": [{"rel": rel, "href": BROKEN}]}
    catalogue.put("/search", {"features": [item("a")]} | link)
    catalogue.put("/collections/aerial", COLLECTION | link)
    catalogue.put("/item.json", item("c") | link)
    path = {"next": f"stac:{catalogue.address}/search", "collection": "/item.json"}
    with pytest.raises(DataError, match="not a valid address"):
        fetch(path.get(rel, "/collections/aerial"))


def test_an_empty_page_is_the_last_one(catalogue, fetch):
    links = [{"rel": "next", "href": "/nowhere"}]
    catalogue.put("/search", {"features": [], "links": links})
    with pytest.raises(DataError, match="found no item that touches"):
        fetch(f"stac:{catalogue.address}/search")


@pytest.mark.parametrize("items", [20, 21])
def test_a_page_of_very_many_items_is_told(catalogue, fetch, monkeypatch, items):
    monkeypatch.setattr(stac, "_MOST_ITEMS", 20)
    page = {"type": "FeatureCollection", "features": [item("same")] * items}
    catalogue.put("/many.json", page)
    with pytest.raises(ValueError, match="more than 20" if items > 20 else "have the id same"):
        fetch("/many.json")


@pytest.mark.usefixtures("catalogue")
def test_licence_and_date_of_an_item_are_kept(fetch):
    (image,) = fetch("/item.json").images
    record = json.loads(image.image.with_suffix(".source.json").read_text())
    assert record["credit"] == {
        "attribution": "Testsat",
        "licence": "CC-BY-4.0",
        "date": "2023-06-01T10:00:00Z",
    }
    with rasterio.open(image.image) as source:
        assert source.tags()["TIFFTAG_DATETIME"] == "2023:06:01 00:00:00"


@pytest.mark.parametrize(
    ("change", "asset", "message"),
    [
        (lambda i: i["assets"].pop("visual"), "swir", "no asset 'swir'; it has nir, thumbnail"),
        (
            lambda i: i["assets"].update(
                visual={"href": "a", "type": "text/plain"}, red=i["assets"]["nir"]
            ),
            None,
            "2 images, name one with --asset: nir, red",
        ),
        (
            lambda i: i.update(
                assets={k: {"href": f"{k}.tif", "roles": ["data"]} for k in ("nir", "red")}
            ),
            None,
            "2 images, name one with --asset: nir, red",
        ),
        (lambda i: i.update(geometry={"type": "Point", "coordinates": [0, 0]}), None, "no item"),
        (lambda i: i.update(geometry={"type": "Blob"}), None, "geometry cannot be read"),
        (lambda i: i.update(type="Catalog"), None, "found JSON of type Catalog"),
        (lambda i: i.update(assets=["a"]), None, "has 0 images, name one with --asset: none"),
        (lambda i: i["assets"]["nir"].pop("href"), "nir", "its asset nir is at '', expected"),
        (
            lambda i: i["assets"]["nir"].update(href="file:///etc/passwd"),
            "nir",
            "at 'file:///etc/passwd', expected an address on a server",
        ),
        (
            lambda i: i["assets"]["nir"].update(href="a.tif?k={env:HOME}"),
            "nir",
            "asks for {env:HOME}, which is not in the address that you gave",
        ),
    ],
)
def test_an_item_that_cannot_be_used_is_told(catalogue, fetch, change, asset, message):
    changed = item("c")
    change(changed)
    catalogue.put("/item.json", changed)
    with pytest.raises((DataError, ValueError), match=message):
        fetch("/item.json", asset=asset)


OF_OTHER_FILES = {
    "VRT": b"<VRTDataset rasterXSize='64' rasterYSize='64'><VRTRasterBand dataType='Byte' band='1'>"
    b"<SimpleSource><SourceFilename>HERE</SourceFilename></SimpleSource></VRTRasterBand>"
    b"</VRTDataset>",
    "MRF": b"<MRF_META><Raster><Size x='64' y='64'/><DataFile>HERE</DataFile></Raster></MRF_META>",
    "STACIT": b'{"type": "FeatureCollection", "stac_version": "1.0.0", "features": [{"type": '
    b'"Feature", "stac_version": "1.0.0", "assets": {"a": {"href": "HERE"}}, "properties": {}}]}',
    "GTI": b"<GDALTileIndexDataset><IndexDataset>HERE</IndexDataset></GDALTileIndexDataset>",
    "WMS": b"<GDAL_WMS><Service name='TMS'><ServerUrl>file://HERE</ServerUrl></Service></GDAL_WMS>",
}


@pytest.mark.parametrize("kind", OF_OTHER_FILES)
def test_a_raster_on_a_server_that_may_lead_to_other_files_is_refused(world, fetch, kind):
    world.put("/a.tif", OF_OTHER_FILES[kind].replace(b"HERE", b"/etc/hostname"), "image/tiff")
    with pytest.raises(DataError, match="is read in no other format, as others may name any file"):
        fetch("/a.tif")


def test_a_tiff_on_a_server_that_names_its_overviews_is_refused(world, fetch, cog, tmp_path):
    (tmp_path / "source.tif").write_bytes(cog)
    with rasterio.open(tmp_path / "source.tif", "r+", IGNORE_COG_LAYOUT_BREAK="YES") as target:
        target.update_tags(ns="OVERVIEWS", OVERVIEW_FILE=str(tmp_path / "private.tif"))
    world.put("/a.tif", (tmp_path / "source.tif").read_bytes(), "image/tiff")
    with pytest.raises(DataError, match="names another file for its overviews"):
        fetch("/a.tif")


def test_files_beside_a_raster_on_a_server_are_not_asked_for(served, fetch):
    served.put("/d/a.tif.aux.xml", b"<PAMDataset/>", "text/xml")
    fetch("/d/a.tif")
    assert set(served.asked) == {"/d/a.tif"}


BAND = b"<VRTRasterBand dataType='Byte' band='1'/>"
PLACE = b"<GeoTransform>8, 1e-5, 0, 49, 0, -1e-5</GeoTransform>"
VRT = b"<VRTDataset rasterXSize='64' rasterYSize='64'>" + PLACE + BAND + b"</VRTDataset>"


@pytest.fixture
def bucket(cog, monkeypatch):
    """Serve a bucket with the raster in it; GDAL takes the way there from the environment."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_S3_ENDPOINT": f"{host}:{port}",
        "AWS_HTTPS": "NO",
        "AWS_VIRTUAL_HOSTING": "FALSE",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "never-write-this-key",
    }.items():
        monkeypatch.setenv(name, value)
    with urllib3.PoolManager(timeout=10) as pool:
        pool.request("PUT", f"http://{host}:{port}/bucket")
        pool.request("PUT", f"http://{host}:{port}/bucket/d/a.tif", body=cog)
        pool.request("PUT", f"http://{host}:{port}/bucket/b.vrt", body=VRT)
    yield server
    server.stop()


@pytest.mark.usefixtures("bucket")
def test_a_raster_in_a_bucket_is_copied(fetch, off, tmp_path):
    (image,) = fetch("s3://bucket/d/a.tif").images
    assert off(image.image) == 0
    kept = b"".join(path.read_bytes() for path in (tmp_path / "images").rglob("*"))
    assert b"never-write-this-key" not in kept
    with pytest.raises(DataError, match=r"s3://bucket/none.tif: .*AWS_NO_SIGN_REQUEST"):
        fetch("s3://bucket/none.tif")
    with pytest.raises(DataError, match=r"s3://bucket/b.vrt: cannot be read as a GeoTIFF, JPEG 20"):
        fetch("s3://bucket/b.vrt")
