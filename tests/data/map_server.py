"""A map server for tests: tiles, WMTS, WMS, STAC and files by ranges, of one picture of the world.

The picture is a function of the place, so that every way to it gives the same pixels. What a
path is to do wrong is put into `faults`.
"""

import io
import json
import math
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import numpy as np
from PIL import Image

HALF_M = 20037508.342789244
PAGE = b"<html><head><title>Sorry</title></head><body><p>Pay first.</p></body></html>"
KEY = "s3cr3t+/=key"


def colours(x, y):
    """Give the red, green and blue of places in Web Mercator, shape (..., 3).

    Stripes of 64 m, with a grey road that runs west to east every 256 m.
    """
    red = np.where(x // 64 % 2 == 0, 60, 120)
    green = np.where(y // 64 % 2 == 0, 90, 150)
    rgb = np.stack([red, green, np.broadcast_to(70, red.shape)], axis=-1)
    rgb[np.asarray(y % 256 < 12)] = 180
    return rgb.astype(np.uint8)


def picture(west, south, east, north, height, width):  # noqa: PLR0917 - box and shape
    """Draw a box of Web Mercator."""
    x = west + (np.arange(width) + 0.5) * (east - west) / width
    y = north - (np.arange(height) + 0.5) * (north - south) / height
    return colours(*np.meshgrid(x, y))


def tile(zoom, row, col, side=256):
    """Draw a tile of the square of Web Mercator."""
    size = 2 * HALF_M / 2**zoom
    west, north = col * size - HALF_M, HALF_M - row * size
    return picture(west, north - size, west + size, north, side, side)


def encode(pixels, form="PNG"):
    """Give the bytes of a picture."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, form)
    return file.getvalue()


def mercator(lon, lat):
    """Convert degrees to metres of Web Mercator."""
    return (
        HALF_M * lon / 180,
        HALF_M * math.log(math.tan(math.pi * (90 + lat) / 360)) / math.pi,
    )


class Handler(BaseHTTPRequestHandler):
    """Answers like a map server, except where it is told to fail."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Say nothing of each request."""

    def do_GET(self):
        """Answer a request, or fail as the next fault for its path says."""
        world = self.server.world
        with world.lock:
            world.asked.append(self.path)
            world.headers.append(dict(self.headers))
            fault = next((f for f in world.faults if re.search(f[0], self.path) and f[2] > 0), None)
            if fault:
                fault[2] -= 1
        keys = [*parse_qs(urlsplit(self.path).query).get("key", []), self.headers.get("X-Key")]
        if world.key and KEY not in keys:
            self.give(403, b"who are you?", "text/plain")
            return
        if fault:
            fault[1](self)
            return
        self.answer()

    def do_HEAD(self):
        """Answer the same without a body."""
        self.do_GET()

    def answer(self):
        """Answer as asked."""
        world, parts = self.server.world, urlsplit(self.path)
        query = {name.lower(): value[0] for name, value in parse_qs(parts.query).items()}
        if found := re.fullmatch(r"/(\w+)/(\d+)/(\d+)/(\d+)\.(png|jpg)", parts.path):
            zoom, col, row = int(found[2]), int(found[3]), int(found[4])
            row = 2**zoom - 1 - row if found[1] == "tms" else row
            side = 512 if found[1] == "large" else 256
            form = "PNG" if found[5] == "png" else "JPEG"
            self.give(200, encode(tile(zoom, row, col, side), form), f"image/{form.lower()}")
        elif query.get("request") == "GetMap":
            box = [float(number) for number in query["bbox"].split(",")]
            pixels = picture(*box, int(query["height"]), int(query["width"]))
            self.give(200, encode(pixels), "image/png")
        elif query.get("request") == "GetTile":
            z, row, col = (int(query[n]) for n in ("tilematrix", "tilerow", "tilecol"))
            self.give(200, encode(tile(z, row, col)), "image/png")
        elif parts.path in world.files:
            self.give_part(*world.files[parts.path])
        else:
            self.give(404, b"no such thing", "text/plain")

    def give_part(self, body, kind):
        """Answer with a file, or with the part of it that is asked for."""
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range") or "")
        if not wanted or not self.server.world.gives_ranges:
            self.give(200, body, kind)
            return
        first, last = int(wanted[1]), min(int(wanted[2]), len(body) - 1)
        of = {"Content-Range": f"bytes {first}-{last}/{len(body)}"}
        self.give(206, body[first : last + 1], kind, of)

    def give(self, status, body, kind="text/plain", headers=None, *, size=None):
        """Send an answer; a size that is not that of the body is a lie."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body) if size is None else size))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        if size is not None:
            self.close_connection = True


class QuietServer(ThreadingHTTPServer):
    """A server that says nothing of clients that hang up."""

    daemon_threads = True

    def handle_error(self, *_):
        """Say nothing."""


class World:
    """A server that runs in this process.

    Attributes:
        address: of the server.
        files: body and media type by path.
        faults: [pattern of paths, what to do instead, how often].
        asked: paths that were asked for.
        headers: of these requests.
        key: whether it asks for the key.
        gives_ranges: whether it gives parts of files.
    """

    def __init__(self):
        """Start to serve."""
        self.files, self.faults, self.asked, self.headers = {}, [], [], []
        self.key, self.gives_ranges, self.lock = False, True, threading.Lock()
        self.server = QuietServer(("127.0.0.1", 0), Handler)
        self.server.world = self
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def fail(self, pattern, how, times=10**9):
        """Fail for paths: a status, bytes of a body, a file name of PAGE, or a function."""
        if isinstance(how, int):
            status = how
            how = lambda handler: handler.give(status, b"")  # noqa: E731
        elif isinstance(how, bytes):
            body = how
            how = lambda handler: handler.give(200, body, "image/png")  # noqa: E731
        self.faults.append([pattern, how, times])

    def put(self, path, body, kind="application/json"):
        """Serve a file, or JSON."""
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.files[path] = (body, kind)
        return self.address + path


@contextmanager
def serving():
    """Give a server, and stop it at the end."""
    world = World()
    try:
        yield world
    finally:
        world.server.shutdown()
        world.server.server_close()


def endless(handler):
    """Send a body that does not end."""
    handler.send_response(200)
    handler.end_headers()
    handler.close_connection = True
    try:
        while True:
            handler.wfile.write(bytes(2**20))
    except OSError:
        return


def wmts_capabilities(address, *, template=True):
    """Give the capabilities of a WMTS with a layer in Web Mercator, zoom 14 to 16."""
    matrices = "".join(
        f"<TileMatrix><ows:Identifier>{zoom}</ows:Identifier>"
        f"<ScaleDenominator>{2 * HALF_M / 256 / 2**zoom / 0.00028!r}</ScaleDenominator>"
        f"<TopLeftCorner>{-HALF_M} {HALF_M}</TopLeftCorner>"
        "<TileWidth>256</TileWidth><TileHeight>256</TileHeight>"
        f"<MatrixWidth>{2**zoom}</MatrixWidth><MatrixHeight>{2**zoom}</MatrixHeight></TileMatrix>"
        for zoom in (15, 14, 16)
    )
    resource = (
        f'<ResourceURL format="image/png" resourceType="tile" template="{address}'
        '/xyz/{TileMatrix}/{TileCol}/{TileRow}.png"/>'
    )
    layers = "".join(
        f"<Layer><ows:Title>{title}</ows:Title><ows:Identifier>{name}</ows:Identifier>"
        '<Style isDefault="true"><ows:Identifier>default</ows:Identifier></Style>'
        "<Format>image/png</Format><Dimension><ows:Identifier>Time</ows:Identifier>"
        "<Default>2024-05-17</Default></Dimension><TileMatrixSetLink>"
        f"<TileMatrixSet>google</TileMatrixSet></TileMatrixSetLink>{resource * template}</Layer>"
        for name, title in (("ortho", "Orthophotos"), ("map", "Map"))
    )
    get = f'<ows:Get xlink:href="{address}/wmts?"/>'
    return (
        '<?xml version="1.0"?><Capabilities xmlns="http://www.opengis.net/wmts/1.0" '
        'xmlns:ows="http://www.opengis.net/ows/1.1" xmlns:xlink="http://www.w3.org/1999/xlink" '
        'version="1.0.0"><ows:ServiceIdentification><ows:Fees>none</ows:Fees>'
        "<ows:AccessConstraints>CC-BY-4.0</ows:AccessConstraints></ows:ServiceIdentification>"
        "<ows:ServiceProvider><ows:ProviderName>Survey of Testland</ows:ProviderName>"
        '</ows:ServiceProvider><ows:OperationsMetadata><ows:Operation name="GetTile"><ows:DCP>'
        f"<ows:HTTP>{get}</ows:HTTP></ows:DCP></ows:Operation></ows:OperationsMetadata>"
        f"<Contents>{layers}<TileMatrixSet><ows:Identifier>google</ows:Identifier>"
        "<ows:SupportedCRS>urn:ogc:def:crs:EPSG::3857</ows:SupportedCRS>"
        f"{matrices}</TileMatrixSet></Contents></Capabilities>"
    ).encode()


def wms_capabilities(address):
    """Give the capabilities of a WMS 1.3.0 with one layer, whose CRS its parent names."""
    return (
        '<?xml version="1.0"?><WMS_Capabilities xmlns="http://www.opengis.net/wms" '
        'xmlns:xlink="http://www.w3.org/1999/xlink" version="1.3.0"><Service><Name>WMS</Name>'
        "<Fees>none</Fees><AccessConstraints>dl-de/by-2-0</AccessConstraints>"
        "<MaxWidth>400</MaxWidth><MaxHeight>400</MaxHeight></Service><Capability><Request><GetMap>"
        "<Format>image/jpeg</Format><Format>image/png</Format><DCPType><HTTP><Get>"
        f'<OnlineResource xlink:href="{address}/ows?map=a.map&amp;"/></Get></HTTP></DCPType>'
        "</GetMap></Request><Layer><Title>All</Title><CRS>EPSG:4326</CRS><CRS>EPSG:3857</CRS>"
        "<Attribution><Title>City of Testburg</Title></Attribution>"
        "<Layer><Name>dop20</Name><Title>Aerial 20 cm</Title></Layer></Layer></Capability>"
        "</WMS_Capabilities>"
    ).encode()
