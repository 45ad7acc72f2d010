import csv
import json

import numpy as np
import pytest

from roadseg.core.pixel_metrics import Counts
from roadseg.errors import MissingInputError
from roadseg.io.probabilities import write_probability
from roadseg.io.rasters import read_facts, read_mask
from roadseg.stages import evaluate, graph


def replace_by_the_truth(workspace, scene):
    """Write the mask of a scene in place of what was predicted for it."""
    mask = read_mask(workspace.mask(scene))
    values = [*(mask == b for b in range(1, 8)), (mask > 0) & (mask < 255)]
    rows = [(0, np.stack(values).astype(np.float32), mask < 255)]
    grid = read_facts(workspace.mask(scene)).grid
    write_probability(workspace.probability(scene), rows, grid, key="truth", tags={})


def held_out(workspace):
    return json.loads(workspace.record("predict").read_text())["summary"]["scenes"]


def test_perfect_predictions_score_one(finished):
    config, workspace = finished
    for scene in held_out(workspace):
        replace_by_the_truth(workspace, scene)
    graph.run(config, workspace, force=True)
    summary = evaluate.run(config, workspace, force=True)
    assert (summary.iou, summary.f1) == (1, 1)
    assert summary.apls_length == pytest.approx(1, abs=0.02)
    assert summary.apls_time == pytest.approx(1, abs=0.02)


def test_every_chip_held_out_has_a_row(finished):
    with finished[1].evaluation.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["chip"] for row in rows] == held_out(finished[1])


def test_a_picture_is_drawn_of_every_scene_held_out(finished):
    _, workspace = finished
    for scene in held_out(workspace):
        assert workspace.picture(scene).read_bytes().startswith(b"\x89PNG")


def test_evaluate_before_graph_names_graph(finished):
    config, workspace = finished
    workspace.record("graph").unlink()
    with pytest.raises(MissingInputError, match="run `roadseg graph` first"):
        evaluate.run(config, workspace)


def test_chips_that_are_rightly_empty_do_not_raise_the_mean_apls():
    empty = evaluate.ChipScore("a", Counts(), 1.0, 1.0, 0.0, 0.0)
    missed = evaluate.ChipScore("b", Counts(false_negative=9), 0.0, 0.0, 0.5, 0.0)
    pooled = evaluate._pool([empty, missed], fold=0, threshold=0.4)  # noqa: SLF001
    assert (pooled.chips, pooled.apls_length) == (2, 0)
    assert evaluate._pool([empty], fold=0, threshold=0.4).apls_length == 1  # noqa: SLF001
