import numpy as np
import pytest
from matplotlib.image import imread

from roadseg.report.plots import charts
from roadseg.report.plots.charts import write_tuning_plot
from roadseg.roads.tracing.tuning import PARAMETERS


def rows(*scores):
    middles = {p.name: p.at(0.5) for p in PARAMETERS}
    return [{**middles, "threshold": 0.2 + 0.1 * i} for i in range(len(scores))], scores


@pytest.fixture
def draw(tmp_path, monkeypatch):
    """Give the function that draws trials and returns the figure."""
    figures, save = [], charts.save_figure
    monkeypatch.setattr(charts, "save_figure", lambda f, path: figures.append(f) or save(f, path))

    def drawn(tried, *, parameters=PARAMETERS, is_better=True):
        path = tmp_path / "tune.png"
        facts = {"goal": "APLS", "parameters": parameters, "is_better": is_better}
        write_tuning_plot(path, *tried, **facts)
        return figures[-1]

    return drawn


def test_every_setting_has_a_panel(draw):
    labels = [axis.get_xlabel() for axis in draw(rows(0.1, 0.9)).axes if axis.axison]
    assert labels == [f"graph.{parameter.name}" for parameter in PARAMETERS]


def test_all_trials_are_dots_and_the_first_and_the_best_stand_out(draw):
    dots, given, best = draw(rows(0.1, 0.3, 0.9)).axes[0].collections
    assert np.allclose(dots.get_offsets(), [[0.2, 0.1], [0.3, 0.3], [0.4, 0.9]])
    assert given.get_offsets().tolist() == [[0.2, 0.1]]
    assert np.allclose(best.get_offsets(), [[0.4, 0.9]])


def test_the_goal_names_the_scores(draw):
    assert draw(rows(0.1, 0.9)).axes[0].get_ylabel() == "APLS"


@pytest.mark.parametrize(("is_better", "words"), [(True, "0.900"), (False, "within chance")])
def test_the_title_says_whether_it_paid(draw, is_better, words):
    assert draw(rows(0.1, 0.9), is_better=is_better).get_suptitle().endswith(words)


def test_a_number_of_settings_that_fills_no_row_is_drawn(draw, tmp_path):
    draw(rows(0.5), parameters=PARAMETERS[:4])
    assert imread(tmp_path / "tune.png").shape == (800, 1300, 4)
