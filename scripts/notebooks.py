#!/usr/bin/env python
"""Run notebooks from top to bottom, each in an empty folder, and write them with what they show.

The arguments are files; without any, all notebooks of the documents are run.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
MOST_SECONDS = 900  # One cell may take so long.
# What tqdm says where the widgets of Jupyter are not installed, which the documents do not need.
QUIET = "ignore:IProgress not found"


def execute(notebook: nbformat.NotebookNode, folder: Path) -> None:
    """Run the cells of a notebook in a folder, and keep in it what they show.

    Paths of the folder are shown relative to it, and what is empty in the end, such as a line of
    progress, is left out.

    Raises:
        nbclient.exceptions.CellExecutionError: if a cell ends with an error.
    """
    client = NotebookClient(
        notebook,
        timeout=MOST_SECONDS,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    )
    environment = os.environ | {"PYTHONWARNINGS": QUIET}
    environment.pop("ROADSEG_CONFIG", None)  # A notebook makes its own config.
    client.execute(env=environment)
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [
                relative(output, folder) for output in cell.outputs if not is_empty(output)
            ]


def is_empty(output: nbformat.NotebookNode) -> bool:
    """Return whether an output shows nothing."""
    return output.output_type == "display_data" and not any(output.data.values())


def relative(output: nbformat.NotebookNode, folder: Path) -> nbformat.NotebookNode:
    """Return an output in which paths are relative to the folder."""
    start = f"{folder.resolve()}/"
    for holder in (output, output.get("data", {})):
        for key, value in holder.items():
            if isinstance(value, str):
                holder[key] = value.replace(start, "")
    return output


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:] or sorted(FOLDER.glob("*.ipynb"))):
        begun = time.monotonic()
        notebook = nbformat.read(path, as_version=4)
        with tempfile.TemporaryDirectory() as folder:
            execute(notebook, Path(folder))
        nbformat.write(notebook, path)
        kilobytes = path.stat().st_size / 1000
        print(f"{path.name}: {time.monotonic() - begun:.0f} s, {kilobytes:.0f} kB")
