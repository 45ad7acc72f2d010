"""Every example of every --help, run in one tiny project that holds what the examples name.

Stages that take long, or make others run again, are run with --dry-run. Those of PARSED are only
parsed: their options are checked, and nothing is done.
"""

import json
import re
import shlex
import shutil
from functools import partial

import click
import numpy as np
import pytest
import shapely
from click.testing import CliRunner
from pyproj import CRS

from roadseg.commands.cli.main import main
from roadseg.raster.grid import reproject
from roadseg.roads.formats.by_suffix import write_graphs
from roadseg.roads.graph.road_graph import graph_from_lines
from roadseg.roads.graph.travel import add_travel

DRY = ("prepare", "split", "train", "predict", "run", "quantize")
PARSED = {  # and why
    "--ncores": "a machine may have fewer cores",
    "--processes": "the same",
    "--zoom": "needs a service",
    "bench": "measures for minutes",
    "demo": "trains for minutes",
    "map": "the same, and says on stderr what it has done",
    "export": "traces a network for every format, as tests/learn does",
    "fetch": "asks services on the web",
    "review": "serves a page until it is interrupted",
    "improve": "trains for minutes, and needs a review",
    "qgis": "writes into the profile of the user",
}
HEIDELBERG, CALIFORNIA = ((8.65, 49.38), (8.69, 49.41)), ((-122.2, 37.3), (-122.1, 37.2))
TINY = ((-115.2219, 36.1311), (-115.2212, 36.1311))  # on the images
HELD_OUT = ((-115.2174, 36.1312), (-115.2167, 36.1312))  # on the image that was predicted
ZONES = {HEIDELBERG: 32632, CALIFORNIA: 32610, TINY: 32611, HELD_OUT: 32611}


def commands(group=main, words=()):
    """Yield the words of all that can be called, and the command."""
    for name, command in group.commands.items():
        yield (*words, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))


def examples():
    """Yield the examples that the help of every command shows."""
    for command in [main, *(command for _, command in commands())]:
        shown = re.split(r"Examples?:|In one command:", command.help)[-1]
        yield from (line.strip() for line in re.findall(r"^ *roadseg .*", shown, re.MULTILINE))


EXAMPLES = list(dict.fromkeys(examples()))


def draw(path, ends):
    """Write a road between two places as a graph."""
    degrees, crs = np.array([shapely.LineString(ends)]), CRS.from_epsg(ZONES[ends])
    graph = graph_from_lines(reproject(degrees, CRS.from_epsg(4326), crs), crs)
    form = path.suffix[1:]
    write_graphs(path.parent, path.stem, add_travel(graph, np.array([36.0])), formats=[form])


def draw_pbf(path, ends):
    draw(path.with_name("city.pbf"), ends)
    path.with_name("city.pbf").rename(path)


def draw_folder(path):
    draw(path / "a.geojson", TINY)


def write_wkt(path):
    path.write_text('ImageId,WKT_Pix\nAOI_2_Vegas_img0,"LINESTRING (0 0, 300 0)"\n')


def write_shown_config(path):
    path.write_text(CliRunner().invoke(main, ["config", "show"]).stdout)


def copied(source, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, path)


def copy_city(path):
    for name in ("images", "roads"):
        shutil.copytree(name, path / name)


def draw_area(path):
    path.write_text(json.dumps(shapely.geometry.mapping(shapely.LineString(TINY).buffer(0.001))))


PROVIDED = {  # what examples name, and how it is made
    "run/graphs/city.gpkg": partial(draw, ends=HEIDELBERG),
    "labels.geojson": partial(draw, ends=HEIDELBERG),
    "osm.geojson": partial(draw, ends=HEIDELBERG),
    "city.graphml": partial(draw, ends=CALIFORNIA),
    "city.gpkg": partial(draw, ends=TINY),
    "city.osm.pbf": partial(draw_pbf, ends=HEIDELBERG),
    "roads.gpkg": partial(draw, ends=TINY),
    "roads.geojson": partial(draw, ends=TINY),
    "map.geojson": partial(draw, ends=HELD_OUT),
    "labels/": draw_folder,
    "predicted/": draw_folder,
    "truth.csv": write_wkt,
    "submission.csv": write_wkt,
    "other.json": write_shown_config,
    "area.geojson": draw_area,
    "city.tif": partial(copied, "images/city_0.tif"),
    "mask.tif": partial(copied, "run/masks/city_0.tif"),
    "san_diego/": copy_city,
    "tianjin/": copy_city,
    "other-run/": lambda path: shutil.copytree("run", path),
    "roadseg-map": lambda path: shutil.copytree("run", path),
}


@pytest.fixture(scope="module")
def project(finished_city, tmp_path_factory):
    """Return a folder with a finished run."""
    folder = tmp_path_factory.mktemp("examples") / "project"
    shutil.copytree(finished_city, folder)
    return folder


@pytest.fixture
def call(call, project, monkeypatch):
    """Give a function that runs the words of an example in the project."""
    monkeypatch.chdir(project)

    def run(words):
        named = [project / word for word in words if word in PROVIDED]
        for path, name in zip(named, [word for word in words if word in PROVIDED], strict=True):
            PROVIDED[name](path)
        config = (project / "roadseg.json").read_text()
        if words[0] == "init" and "--force" not in words:
            (project / "roadseg.json").unlink()
        result = call("-q", *words)
        (project / "roadseg.json").write_text(config)
        for path in named:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        return result

    return run


def words_of(example):
    """Return the words after `roadseg`, without what is for the shell."""
    words = shlex.split(example)[1:]
    if ">" in words:
        words = words[: words.index(">")]
    return words


UNSURE = "WARNING: no road is certain enough to be kept"  # Its network has hardly been trained.


def is_only_parsed(words):
    return any(word in PARSED for word in words)


@pytest.mark.parametrize("example", [e for e in EXAMPLES if not is_only_parsed(shlex.split(e))])
def test_an_example_works(call, example):
    words = words_of(example)
    result = call([*words, "--dry-run"] if words[0] in DRY else words)
    assert result.exit_code == 0, result.stderr
    assert not result.stderr or result.stderr.startswith(UNSURE)


@pytest.mark.parametrize("example", [e for e in EXAMPLES if is_only_parsed(shlex.split(e))])
def test_an_example_of_long_work_can_be_parsed(example):
    name, *words = shlex.split(example)[1:]
    command = main.commands[name]
    if isinstance(command, click.Group):
        name, *words = words
        command = command.commands[name]
    assert command.make_context(name, words, parent=click.Context(main)).params


@pytest.mark.parametrize("path", [" ".join(p) for p, c in commands() if not hasattr(c, "commands")])
def test_every_command_has_json_and_prints_one_object(call, path):
    example = next(e for e in EXAMPLES if e.startswith(f"roadseg {path}"))
    words = words_of(example)
    command = dict(commands())[tuple(path.split())]
    assert "--json" in [option for parameter in command.params for option in parameter.opts]
    if not is_only_parsed(words):
        more = ["--dry-run"] if words[0] in DRY else []
        assert isinstance(json.loads(call([*words, *more, "--json"]).stdout), dict)
