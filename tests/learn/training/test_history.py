"""The epochs of a training: the best one, the end, the table."""

import pytest

from roadseg.learn.options import TrainOptions
from roadseg.learn.training.history import best_row, has_ended


def epochs(*losses):
    return [{"epoch": i, "val_loss": loss} for i, loss in enumerate(losses, start=1)]


def ended(losses, epochs_, patience):
    return has_ended(epochs(*losses), TrainOptions(epochs=epochs_, patience=patience))


def test_the_best_epoch_has_the_lowest_validation_loss_and_comes_first():
    assert best_row(epochs(0.5, 0.2, 0.3, 0.2))["epoch"] == 2


def test_where_nothing_is_held_out_the_last_epoch_is_the_best():
    rows = [{"epoch": number, "train_loss": 1.0} for number in (1, 2)]
    assert best_row(rows)["epoch"] == 2
    assert not has_ended(rows, TrainOptions(epochs=3, patience=1))
    assert has_ended(rows, TrainOptions(epochs=2, patience=1))


@pytest.mark.parametrize(
    ("losses", "has_to_end"),
    [((), False), ((3, 2), False), ((3, 2, 1), True), ((1, 2), False), ((1, 2, 2), True)],
)
def test_a_training_ends_after_all_epochs_or_when_patience_does(losses, has_to_end):
    assert ended(losses, 3, 2) is has_to_end


def test_patience_counts_from_the_best_epoch():
    assert not ended((1, 2, 0, 2), 9, 2)
    assert ended((1, 2, 0, 2, 2), 9, 2)
