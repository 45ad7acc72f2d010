"""A drawn crossroads, its files, and the server of its review."""

import http.client
import json
import shutil
import sqlite3
import threading
from contextlib import closing

import numpy as np
import pytest
import shapely
from affine import Affine
from pyproj import CRS

from roadseg.config import load_config
from roadseg.raster.grid import Grid
from roadseg.report.run_facts import scene_names
from roadseg.report.scenes import read_scenes
from roadseg.review.edits import EditFile
from roadseg.review.server import ReviewServer
from roadseg.review.session import ReviewSession, crs_of_edits
from roadseg.review.sheets import sheets_of
from roadseg.roads.formats.files import write_gpkg
from roadseg.roads.graph.road_graph import graph_from_lines
from roadseg.roads.graph.travel import add_travel
from roadseg.roads.masks.probabilities import write_probability
from roadseg.roads.speeds import DEFAULT_BINS
from roadseg.system.workspace import Workspace

UTM = CRS.from_epsg(32611)
WEST, NORTH = 480_000, 3_650_200
# Four roads that meet in the middle of 200 by 200 metres, and one apart.
ROADS = {
    "west": [(10, 100), (50, 100), (100, 100)],
    "east": [(100, 100), (190, 100)],
    "north": [(100, 100), (100, 190)],
    "south": [(100, 100), (100, 10)],
    "apart": [(20, 20), (60, 20)],
}


def line(*places):
    """Return a line of places that count from the south-west corner."""
    return shapely.LineString(np.add(places, (WEST, NORTH - 200)))


@pytest.fixture(scope="session")
def drawn():
    """Give the function that returns a line of places."""
    return line


@pytest.fixture(scope="session")
def crossroads():
    """Draw the roads as a graph with speeds and confidences."""
    lines = np.array([line(*places) for places in ROADS.values()], dtype=object)
    attributes = {
        "inferred": np.zeros(5, dtype=np.uint8),
        "confidence": np.array([0.9, 0.8, 0.9, 0.9, 0.2]),
        "width_m": np.full(5, 8.0),
        "highway": np.full(5, "residential", dtype=object),
    }
    return add_travel(graph_from_lines(lines, UTM, attributes), np.full(5, 40.0))


@pytest.fixture(scope="session")
def written_run(tmp_path_factory, crossroads):
    """Write the graph and probabilities of a scene; return the folder.

    There is a road of high probability from (120, 150) to (180, 150) and on to (180, 180).
    """
    workspace = Workspace(tmp_path_factory.mktemp("written") / "run")
    workspace.graphs.mkdir(parents=True)
    write_gpkg(workspace.graph("city"), crossroads)
    grid = Grid(UTM, Affine(1, 0, WEST, 0, -1, NORTH), 200, 200)
    road = np.zeros((200, 200), dtype=np.float32)
    road[48:53, 118:183] = road[18:53, 178:183] = 0.95
    values = np.stack([*np.zeros((DEFAULT_BINS.count, 200, 200), dtype=np.float32), road])
    rows = [(0, values, np.ones((200, 200), dtype=bool))]
    write_probability(
        workspace.probability("city"), rows, grid, bins=DEFAULT_BINS, key="drawn", tags={}
    )
    return workspace.root


@pytest.fixture
def run(tmp_path, written_run):
    """Copy the run; return it as a workspace."""
    return Workspace(shutil.copytree(written_run, tmp_path / "run"))


def open_session(workspace):
    """Open a session on a run."""
    names = scene_names(workspace)
    shown = read_scenes(load_config(None), workspace, names, with_labels=False)
    sheets = sheets_of(shown)
    return ReviewSession(sheets, EditFile(workspace.edits, crs_of_edits(sheets)), "Ana")


class Asking:
    """Requests to a server, as its page makes them, or with other headers."""

    def __init__(self, server):
        self.server = server

    def __call__(self, path, body=None, *, token=None, **headers):
        """Return status and answer; without a body it is a GET."""
        own = {"Host": self.server.host, "Origin": f"http://{self.server.host}"}
        if body is not None:
            own["Content-Type"] = "application/json"
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
        own |= {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {name: value for name, value in own.items() if value is not None}
        address = f"/{self.server.token if token is None else token}/{path}"
        with closing(http.client.HTTPConnection("127.0.0.1", self.server.server_port)) as link:
            link.putrequest("GET" if body is None else "POST", address, skip_host=True)
            for name, value in sent.items():
                link.putheader(name, value)
            if body is not None and "Content-Length" not in sent:
                link.putheader("Content-Length", str(len(body)))
            link.endheaders(body)
            answer = link.getresponse()
            return answer.status, answer.read()


@pytest.fixture(scope="module")
def serving(tmp_path_factory, written_run):
    """Serve a copy of the run; give its workspace and the server."""
    workspace = Workspace(shutil.copytree(written_run, tmp_path_factory.mktemp("served") / "run"))
    with ReviewServer(open_session(workspace), title="<run>") as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield workspace, server
        server.shutdown()
        thread.join()


@pytest.fixture
def server(serving):
    """Give the server, with no edits yet."""
    workspace, server = serving
    with closing(sqlite3.connect(workspace.edits)) as file, file:
        file.execute("DELETE FROM edits")
    server.session.changes()  # it notices that
    return server


@pytest.fixture
def served(serving, server):  # noqa: ARG001 - which has no edits yet
    """Give the workspace of what is served."""
    return serving[0]


@pytest.fixture
def ask(server):
    """Give what asks the server."""
    return Asking(server)
