"""Learning curves as a picture."""

import pytest
from matplotlib.image import imread

from roadseg.report.plots import charts
from roadseg.report.plots.charts import write_curves

KEYS = ("train_loss", "val_loss", "val_iou", "val_f1", "learning_rate")


def history(epochs):
    return [{"epoch": e, **dict.fromkeys(KEYS, 1 / (e + 1))} for e in range(1, epochs + 1)]


@pytest.fixture
def figure(tmp_path, monkeypatch):
    """Draw six epochs, of which the fourth is the best; give the figure."""
    figures, save = [], charts.save_figure
    monkeypatch.setattr(charts, "save_figure", lambda f, path: figures.append(f) or save(f, path))
    write_curves(tmp_path / "curves.png", history(6), best_epoch=4)
    return figures[0]


@pytest.mark.parametrize("epochs", [1, 2, 40])
def test_any_number_of_epochs_is_drawn(tmp_path, epochs):
    write_curves(tmp_path / "a.png", history(epochs), best_epoch=1)
    assert imread(tmp_path / "a.png").shape == (900, 1000, 4)


def test_epochs_of_which_nothing_was_measured_are_drawn_without(tmp_path):
    rows = [{"epoch": e, "train_loss": 1 / e, "learning_rate": 1e-3} for e in (1, 2)]
    write_curves(tmp_path / "a.png", rows, best_epoch=2)
    assert imread(tmp_path / "a.png").shape == (900, 1000, 4)


def test_losses_are_above_scores_and_the_rate_is_at_the_right(figure):
    names = [[line.get_label() for line in axis.get_lines()][:2] for axis in figure.axes]
    assert names[:2] == [["training", "validation"], ["IoU", "F1"]]
    assert figure.axes[2].get_ylabel() == "learning rate"


def test_lines_run_through_the_values_of_the_history(figure):
    epochs, losses = figure.axes[0].get_lines()[1].get_data()
    assert list(epochs) == [1, 2, 3, 4, 5, 6]
    assert list(losses) == [row["val_loss"] for row in history(6)]


def test_the_best_epoch_is_marked_in_both_panels_and_named(figure):
    marks = [axis.get_lines()[-1].get_xdata() for axis in figure.axes[:2]]
    assert marks == [[4, 4], [4, 4]]
    assert figure.axes[0].get_title().startswith("best epoch 4 of 6: validation loss 0.2000")
