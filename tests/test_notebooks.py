"""The notebooks run, and what they show is whole, small and of no particular machine.

`scripts/notebooks` runs them anew and writes them in place.
"""

import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
MOST_BYTES = 300_000
EPOCHS = re.compile(r"^EPOCHS = \d+\b", re.MULTILINE)
ABSOLUTE = re.compile(r"(?<![\w./:])/(?:home|mnt|private|root|tmp|Users|var|work)/")

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def script(load_script):
    return load_script(ROOT / "scripts" / "notebooks.py")


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def kinds(notebook):
    """Return the kinds of output of every cell: streams by name, values by MIME type.

    The standard error is left aside: a short training warns on some processors.
    """
    return [
        [
            sorted(output.get("data", [output.get("name", "error")]))
            for output in cell.outputs
            if output.get("name") != "stderr"
        ]
        for cell in code_cells(notebook)
    ]


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.mark.slow
@every_notebook
def test_a_notebook_runs_and_shows_what_it_did(path, script, tmp_path, monkeypatch):
    monkeypatch.delenv("ROADSEG_CONFIG", raising=False)
    notebook = nbformat.read(path, as_version=4)
    shown = kinds(notebook)
    for cell in code_cells(notebook):
        cell.source = EPOCHS.sub("EPOCHS = 1", cell.source)  # Training is most of the time.
    script.execute(notebook, tmp_path)
    assert kinds(notebook) == shown


@every_notebook
def test_a_notebook_is_kept_as_it_was_run_from_top_to_bottom(path):
    cells = code_cells(nbformat.read(path, as_version=4))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert outputs
    assert [output for output in outputs if output.output_type == "error"] == []
    assert [output for output in outputs if output.get("name") == "stderr"] == []


@every_notebook
def test_a_notebook_names_no_folder_of_a_machine(path):
    assert ABSOLUTE.findall(path.read_text(encoding="utf-8")) == []


@every_notebook
def test_a_notebook_is_small(path):
    assert path.stat().st_size < MOST_BYTES


@every_notebook
def test_a_notebook_is_on_the_site_and_in_the_guide(path):
    site = (ROOT / "docs" / "site" / "conf.py").read_text(encoding="utf-8")
    assert f'"docs/notebooks/{path.stem}"' in site
    guide = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    assert f"(notebooks/{path.name})" in guide
