"""The number of processes does not change what a training learns, beyond rounding."""

import pytest

pytestmark = pytest.mark.slow  # tests/learn/hardware/test_distributed.py shows it for two processes


@pytest.fixture(scope="module")
def curves(tmp_path_factory, seen_by):
    """Give the names of the columns and the rows of trainings with different processes."""
    return seen_by("counts", tmp_path_factory.mktemp("counts"))


@pytest.mark.parametrize("processes", ["3", "3 and 2"])
def test_processes_that_share_a_batch_learn_what_one_does_with_all_of_it(curves, processes):
    names, rows = curves["1"]
    assert names[:3] == ["epoch", "train_loss", "val_loss"]
    assert len(rows) == 2
    assert curves[processes][0] == names
    for row, expected in zip(curves[processes][1], rows, strict=True):
        assert row == pytest.approx(expected, abs=1e-5, rel=0)


def test_the_curves_are_those_of_a_network_that_learns(curves):
    losses = [row[1] for row in curves["1"][1]]
    assert losses[0] - losses[1] > 1e-3
