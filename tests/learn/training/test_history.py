"""The epochs of a training: the best one, the end, the table."""

import pytest

from roadseg.learn.options import TrainOptions
from roadseg.learn.training.history import best_row, has_ended


def epochs(*losses):
    return [{"epoch": i, "val_loss": loss} for i, loss in enumerate(losses, start=1)]


def test_the_best_epoch_has_the_lowest_validation_loss_and_comes_first():
    assert best_row(epochs(0.5, 0.2, 0.3, 0.2))["epoch"] == 2


def test_where_nothing_is_held_out_the_last_epoch_is_the_best():
    rows = [{"epoch": number, "train_loss": 1.0} for number in (1, 2)]
    assert best_row(rows)["epoch"] == 2
    assert not has_ended(rows, TrainOptions(epochs=3))
    assert has_ended(rows, TrainOptions(epochs=2))


@pytest.mark.parametrize(
    ("losses", "ends"),
    [((), False), ((1, *[2] * 7), False), ((1, *[2] * 8), True), ((2, 2, 1, *[3] * 7), False)],
)
def test_a_training_in_steps_ends_8_epochs_after_the_best(losses, ends):
    assert has_ended(epochs(*losses), TrainOptions(epochs=30, schedule="step")) is ends


@pytest.mark.parametrize(("count", "ends"), [(29, False), (30, True)])
@pytest.mark.parametrize("options", [{}, {"schedule": "step", "minutes": 1.0}])
def test_a_training_with_a_planned_end_ends_with_its_last_epoch(options, count, ends):
    assert has_ended(epochs(*range(count)), TrainOptions(epochs=30, **options)) is ends
