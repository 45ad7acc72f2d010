"""A browser of the system, and the run that it is shown."""

import os
import shutil

import numpy as np
import pytest

from roadseg.commands.stages import graph, pipeline, report
from roadseg.config import load_config
from roadseg.raster.images import read_facts
from roadseg.roads.masks.mask_files import read_mask
from roadseg.roads.masks.probabilities import write_probability
from roadseg.roads.speeds import DEFAULT_BINS
from roadseg.system.workspace import Workspace

SCENES = ("city_0", "city_2")


@pytest.fixture(scope="session")
def browser():
    """Start Chromium; skip the test where it, or playwright, is missing."""
    playwright = pytest.importorskip("playwright.sync_api")
    names = ("chromium", "google-chrome", "chromium-browser")
    found = os.environ.get("ROADSEG_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip("no Chromium here; ROADSEG_CHROMIUM names one")
    options = ["--no-sandbox"] if os.geteuid() == 0 else []  # root may not use the sandbox
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=found, args=options)
        yield chromium
        chromium.close()


def _predict_the_labels(workspace, scene):
    """Write the mask of a scene, without its upper quarter, as what was predicted for it."""
    mask = read_mask(workspace.mask(scene))
    mask[: len(mask) // 4] = 0
    values = [*(mask == number for number in range(1, 8)), (mask > 0) & (mask < 255)]
    rows = [(0, np.stack(values).astype(np.float32), mask < 255)]
    grid = read_facts(workspace.mask(scene)).grid
    path = workspace.probability(scene)
    write_probability(path, rows, grid, bins=DEFAULT_BINS, key="labels", tags={})


@pytest.fixture(scope="session")
def shown_run(tmp_path_factory, write_city):
    """Make a run of two scenes with graphs and metrics, but without training, and its report."""
    config = load_config(write_city(tmp_path_factory.mktemp("<b>shown")))
    workspace = Workspace(config.run)
    pipeline.prepare(config, workspace)
    for scene in SCENES:
        _predict_the_labels(workspace, scene)
    rasters = [str(workspace.probability(scene)) for scene in SCENES]
    graph.run_images(config, rasters, output=workspace.graphs)
    workspace.evaluation.write_text("chip,iou,apls_length\ncity_0,0.9,0.2\ncity_2,0.8,0.7\n")
    report.run(config, workspace)
    return workspace
