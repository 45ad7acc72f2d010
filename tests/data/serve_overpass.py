"""A small drawn map of OpenStreetMap: as a PBF file, and on a stand-in for an Overpass server."""

import json
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

import shapely

DATE = "2026-11-20T20:21:02Z"
CENTRE = "8.6000,49.4000,8.6100,49.4100"  # An area that all ways but "Far Road" touch.
# Longitude and latitude of nodes, from 8.60 and 49.40 on in units of 1e-4 degrees.
PLACES = {
    11: (0, 50), 12: (50, 50), 13: (100, 50), 14: (50, 0), 15: (50, 100), 16: (60, 70),
    17: (80, 90), 18: (20, 90), 19: (90, 20), 20: (-300, 60), 21: (300, 60), 22: (900, 900),
    23: (950, 900), 24: (10, 10), 25: (20, 10), 26: (20, 20), 27: (70, 10), 28: (70, 30),
}  # fmt: skip
NODES = {
    node: (round(8.6 + x / 1e4, 7), round(49.4 + y / 1e4, 7)) for node, (x, y) in PLACES.items()
}
WAYS = {
    101: ([11, 12, 13], {"highway": "primary", "name": "Main Road", "maxspeed": "50"}),
    102: ([14, 12], {"highway": "residential", "maxspeed": "30", "oneway": "yes"}),
    103: ([12, 15], {"highway": "residential", "name": "High Street"}),
    104: ([12, 16, 17], {"highway": "service"}),
    105: ([18, 19], {"highway": "secondary", "bridge": "yes", "layer": "1", "maxspeed": "70"}),
    106: ([20, 21], {"highway": "tertiary", "name": "Straight Through"}),  # no node in the area
    107: ([22, 23], {"highway": "primary", "name": "Far Road"}),
    108: ([24, 25, 26, 24], {"highway": "pedestrian", "area": "yes"}),
    109: ([27, 28], {"railway": "rail"}),
    110: ([24, 25, 26, 24], {"building": "yes"}),
}
SIGNALS = {"highway": "traffic_signals"}  # Tags of node 12.


def line_of(way):
    return shapely.LineString([NODES[node] for node in WAYS[way][0]])


def write_map(path):
    """Write the map as PBF or XML, with ids and versions; each way has version 7."""
    import osmium
    from osmium.osm.mutable import Node, Way

    writer = osmium.SimpleWriter(str(path))
    for node, place in sorted(NODES.items()):
        tags = SIGNALS if node == 12 else {}
        writer.add_node(Node(id=node, location=place, version=3, tags=tags))
    for way, (nodes, tags) in WAYS.items():
        writer.add_way(Way(id=way, nodes=nodes, version=7, tags=tags))
    writer.close()
    return path


def answer_to(question):
    """Answer a query for ways with some keys in a box, as Overpass does."""
    elements = []
    for key, *sides in re.findall(
        r'way\["(\w+)"\]\(([\d.-]+),([\d.-]+),([\d.-]+),([\d.-]+)\)', question
    ):
        south, west, north, east = map(float, sides)
        box = shapely.box(west, south, east, north)
        elements += [
            {
                "type": "way",
                "id": way,
                "version": 7,
                "user": "somebody",
                "nodes": nodes,
                "tags": tags,
            }
            for way, (nodes, tags) in WAYS.items()
            if key in tags and shapely.intersects(box, line_of(way))
        ]
    used = {node for each in elements for node in each["nodes"]}
    for node in sorted(used):
        lon, lat = NODES[node]
        tags = {"tags": SIGNALS} if node == 12 else {}
        elements.append({"type": "node", "id": node, "version": 3, "lon": lon, "lat": lat, **tags})
    return {"version": 0.6, "osm3s": {"timestamp_osm_base": DATE}, "elements": elements}


class Overpass:
    """A server, what it was asked, and what it answers instead if a test says so.

    Attributes:
        faults: answers to the next questions, each a status, a body and headers.
        always: an answer to every question, made of the question; None for the right one.
    """

    def __init__(self):
        self.questions, self.headers, self.faults, self.always = [], [], [], None
        self.address = ""

    def answer(self, question, headers):
        self.questions.append(question)
        self.headers.append(headers)
        if self.faults:
            return self.faults.pop(0)
        return 200, json.dumps((self.always or answer_to)(question)), {}


@contextmanager
def serve_overpass():
    """Give an Overpass server on a free port of this machine."""
    overpass = Overpass()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            form = self.rfile.read(int(self.headers["content-length"])).decode()
            question = parse_qs(form)["data"][0]
            status, body, headers = overpass.answer(question, dict(self.headers))
            content = body.encode()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True  # An answer that nobody awaits any more is not waited for.
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    overpass.address = f"http://127.0.0.1:{server.server_port}/api/interpreter"
    try:
        yield overpass
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
