"""Tours of the documents: what they show is run, block by block, and says what is shown.

A tour is made of the console blocks that stand below a comment `<!-- tour: NAME -->`. Lines that
start with `$ ` are commands, the lines below one what it says: its words are compared, figures
and spaces are not, `[...]` stands for any part of a line, and a line `...` for any lines; log
lines are left aside. A command of which nothing is shown only has to succeed. Commands run one
after the other in one folder, with data made up for the tour; configs are made small once they
are written.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import geopandas
import numpy as np
import pytest
import rasterio
from affine import Affine
from click.testing import CliRunner
from starter_places import write_places

from roadseg.commands.cli.main import main

ROOT = Path(__file__).parents[1]
DOCUMENTS = ("README.md", "docs/article.md")
TEXT_OF_ALL = "".join((ROOT / name).read_text(encoding="utf-8") for name in DOCUMENTS)
BLOCK = re.compile(r"<!-- tour: (\w+) -->\n+```console\n(.*?)```", re.DOTALL)
SHELL = set("|&;<>$`*?")
SMALL = {
    "split": {"folds": 5, "block_m": 100.0},
    "train": {
        "encoder": "tu-mobilenetv3_small_050",
        "encoder_weights": None,
        "window_px": 64,
        "windows_per_chip": 12,
        "batch_size": 4,
        "epochs": 2,
        "learning_rate": 4e-3,
        "warmup_steps": 0,
        "augment": [],
    },
    "predict": {"window_px": 64, "overlap_px": 16},
    "compute": {"workers": 0},
}


def tours(text):
    """Return the commands of each tour, each with what is shown of it."""
    found = {}
    for name, block in BLOCK.findall(text):
        found.setdefault(name, []).extend(steps(block))
    return found


def steps(block):
    whole = re.sub(r"\\\n>?\s*", "", block)
    parts = re.split(r"^\$ ", whole, flags=re.MULTILINE)
    return [tuple(part.split("\n", 1)) for part in parts[1:]]


def words(text):
    """Return text with all figures alike, without log lines, empty lines, spaces that align."""
    lines = [re.sub(r"\d+(?:[.,]\d+)*", "0", " ".join(line.split())) for line in text.splitlines()]
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("INFO: "))


def says(output, shown):
    """Say whether a command's output is what is shown of it."""
    lines = words(shown).splitlines()
    any_part = (".*".join(map(re.escape, line.split("[...]"))) + "\n" for line in lines)
    pattern = "".join(
        "(?:.*\n)*" if line == "..." else part for line, part in zip(lines, any_part, strict=True)
    )
    return not lines or re.fullmatch(pattern, words(output)) is not None


def answer(command):
    """Run a command; return its exit code and all that it says."""
    first, *rest = shlex.split(command)
    if first != "roadseg" or SHELL & set(command):
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-ec", command],  # noqa: S607 - any bash
            env=os.environ | {"PATH": path},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        return done.returncode, done.stdout
    # In this process, because torch takes seconds to load.
    result = CliRunner().invoke(main, rest, prog_name="roadseg", catch_exceptions=False)
    return result.exit_code, result.output


def shrink(path):
    """Make the settings of a config small enough for a test."""
    settings = json.loads(path.read_text())
    for section, values in SMALL.items():
        settings[section] = settings.get(section, {}) | values
    path.write_text(json.dumps(settings))


def shrink_new(seen):
    """Make the configs in the working folder small that were not there before."""
    for path in Path().glob("*.json"):
        if path.read_text() not in seen and "imagery" in json.loads(path.read_text()):
            shrink(path)
        seen.add(path.read_text())


def walk(tour):
    """Run a tour in the working folder."""
    seen = set()
    for command, shown in tour:
        code, output = answer(command)
        assert (code, command) == (0, command), output
        assert says(output, shown), f"$ {command}\n{output}\n--- shown:\n{shown}"
        shrink_new(seen)


def draw_spacenet(make_scene):
    """Write what scripts/download_spacenet leaves, and the ready configs."""
    city = Path("data/SN5_roads/train/AOI_7_Moscow")
    for number in range(5):
        place = {"epsg": 32637, "origin": (410000.0 + 200 * number, 6170000.0)}
        paths = make_scene(Path("drawn"), f"chip{180 + number}", **place)
        for path, kind in zip(paths, ("PS-RGB", "geojson_roads_speed"), strict=True):
            (city / kind).mkdir(parents=True, exist_ok=True)
            path.rename(city / kind / f"SN5_roads_train_AOI_7_Moscow_{kind}_{path.name}")
    shutil.rmtree("drawn")
    shutil.copytree(ROOT / "configs", "configs")
    for path in Path("configs").glob("*.json"):
        shrink(path)


def draw_own(make_scene):
    """Write five images, one more without labels, and roads as OpenStreetMap's as one file."""
    roads = []
    for number in range(5):
        origin = (660000.0 + 200 * number, 4000000.0)
        _, labels = make_scene(Path(), f"city_{number}", origin=origin)
        roads += json.loads(labels.read_text())["features"]
    for road, kind in zip(roads, ("residential", "secondary") * 5, strict=True):
        road["properties"] = {"highway": kind, "maxspeed": "30 mph", "name": f"{kind} road"}
    geopandas.GeoDataFrame.from_features(roads, crs="EPSG:4326").to_file("roads.gpkg")
    shutil.rmtree("roads")
    image, _ = make_scene(Path("drawn"), "new", origin=(661000.0, 4000000.0))
    image.rename("new.tif")
    shutil.rmtree("drawn")


def draw_masks(_):
    """Write a mask of a grid of streets, 200 m square, its corner at 660000, 4000000."""
    mask = np.zeros((400, 400), dtype=np.uint8)
    for middle in (60, 200, 340):
        mask[middle - 6 : middle + 6] = mask[:, middle - 6 : middle + 6] = 1
    transform = Affine(0.5, 0, 660000, 0, -0.5, 4000000)
    size = {"count": 1, "height": 400, "width": 400, "dtype": "uint8"}
    with rasterio.open("mask.tif", "w", crs="EPSG:32611", transform=transform, **size) as target:
        target.write(mask, 1)


def draw_place(_):
    """Draw a place like those that the starter was trained on."""
    write_places(Path("drawn"), [1001], size_px=512)
    Path("drawn/images/place_1001.tif").rename("city.tif")
    shutil.rmtree("drawn")


@pytest.mark.parametrize(
    ("name", "draw"),
    [
        pytest.param("spacenet", draw_spacenet, marks=pytest.mark.slow),
        ("own", draw_own),
        ("masks", draw_masks),
        ("starter", draw_place),
    ],
)
@pytest.mark.usefixtures("quick_trainings")
def test_a_tour_says_what_is_shown(name, draw, tmp_path, monkeypatch, make_scene):
    tour = tours(TEXT_OF_ALL).get(name)
    assert tour, f"{' and '.join(DOCUMENTS)} have no console block below <!-- tour: {name} -->"
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROADSEG_CONFIG", raising=False)
    draw(make_scene)
    walk(tour)


TEXT = """\
<!-- tour: a -->
```console
$ roadseg x \\
>   --y
one
two
$ ls
```
<!-- tour: b -->
```console
$ b
```
<!-- tour: a -->

```console
$ last
```
```console
$ not run
```
"""


def test_a_tour_is_all_of_its_blocks():
    last, both = ("last", ""), [("roadseg x --y", "one\ntwo\n"), ("ls", "")]
    assert tours(TEXT) == {"a": [*both, last], "b": [("b", "")]}


@pytest.mark.parametrize(
    "shown",
    ["roads  0.12 km in run/a\nnodes 7\n", "", "roads [...] in [...]\nnodes 5", "...\nnodes 1"],
)
def test_words_are_compared_and_figures_are_not(shown):
    assert says("INFO: now\nroads 1,234.5 km  in run/a\n\nnodes 5\n", shown)


@pytest.mark.parametrize("shown", ["roads 5 km", "nodes 5\nroads 5", "roads 5 km\nedges 5"])
def test_other_words_and_missing_lines_are_noticed(shown):
    assert not says("roads 5 km\nnodes 5\n", shown)


def test_a_command_that_fails_is_noticed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError, match=r"no-such\.tif"):
        walk([("roadseg graph no-such.tif --output out", "")])
