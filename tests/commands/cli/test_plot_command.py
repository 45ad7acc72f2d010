import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from roadseg.commands.cli.main import main


def plot(*arguments):
    return CliRunner().invoke(main, ["plot", *map(str, arguments)])


@pytest.fixture
def roads(make_scene, tmp_path):
    return make_scene(tmp_path, "city")[1]


def test_files_are_drawn_without_a_config(roads, tmp_path):
    path = tmp_path / "graph.png"
    found = plot("graph", "--graph", roads, "--output", path, "--dpi", 50, "--json")
    assert json.loads(found.stdout) == {"pictures": [str(path)]}
    assert path.exists()


@pytest.mark.parametrize("more", [[], ["--output", "a", "--scene", "b"]])
def test_files_go_with_an_output_and_without_a_scene(roads, more):
    found = plot("--graph", roads, *more)
    assert found.exit_code == 2
    assert "--graph, --labels and --image need --output" in found.output


@pytest.mark.parametrize(
    "wrong", [("--dpi", 49), ("--dpi", 601), ("--width", 1.9), ("--width", 12.1)]
)
def test_sizes_beyond_those_of_paper_are_refused(roads, tmp_path, wrong):
    found = plot("graph", "--graph", roads, "--output", tmp_path / "a.png", *wrong)
    assert found.exit_code == 2
    assert "is not in the range" in found.output


def test_an_unknown_kind_is_refused_with_those_that_there_are():
    found = plot("map")
    assert found.exit_code == 2
    assert "'scene', 'graph', 'errors'" in found.output


def test_help_loads_no_plotting_library():
    code = (
        "import sys\nfrom roadseg.commands.cli.main import main\n"
        "try: main(['plot', '--help'])\nexcept SystemExit: pass\n"
        "sys.exit('matplotlib' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
