import numpy as np
import pytest

from roadseg.roads.logistic import (
    LENGTH,
    MEAN,
    EdgeModel,
    LogisticModel,
    edge_model_text,
    fit_near,
    log_odds,
    mean_model,
    parse_edge_model,
)

NOTHING = LogisticModel(0.0, {})


def drawn(rows=4000, seed=0):
    """Outcomes of which the log odds are 0.5 + 2 a - b; c has no effect."""
    random = np.random.default_rng(seed)
    terms = {name: random.normal(size=rows) for name in "abc"}
    truth = LogisticModel(0.5, {"a": 2.0, "b": -1.0})
    return terms, (random.random(rows) < truth.probability(terms)).astype(float)


def fit(terms, share, *, prior=NOTHING, strength=1.0, weight=1.0):
    return fit_near(prior, terms, share, np.full(len(share), weight), strength=strength)


def test_a_probability_is_the_sigmoid_of_the_sum_of_terms():
    model = LogisticModel(1.0, {"a": 2.0})
    found = model.probability({"a": np.array([-0.5, 0.5]), "b": np.array([9.0, 9.0])})
    assert found == pytest.approx([0.5, 1 / (1 + np.exp(-2))])


def test_odds_beyond_all_numbers_are_certain():
    assert LogisticModel(0.0, {"a": 1e300}).probability({"a": np.array([-1.0, 1.0])}) == (
        pytest.approx([0, 1], abs=1e-12)
    )


def test_a_fit_finds_the_coefficients_that_the_outcomes_were_drawn_from():
    found = fit(*drawn())
    assert found.intercept == pytest.approx(0.5, abs=0.15)
    assert list(found.coefficients.values()) == pytest.approx([2, -1, 0], abs=0.15)


def test_a_fit_is_that_of_scikit_learn():
    linear_model = pytest.importorskip("sklearn.linear_model")
    terms, share = drawn(rows=300)
    terms = {name: (column - column.mean()) / column.std() for name, column in terms.items()}
    theirs = linear_model.LogisticRegression(tol=1e-10).fit(
        np.column_stack(list(terms.values())), share
    )
    found = fit(terms, share)
    assert list(found.coefficients.values()) == pytest.approx(theirs.coef_[0].tolist(), abs=1e-3)


@pytest.mark.parametrize(("strength", "near", "far"), [(1e6, 3.0, 2.0), (1e-3, 2.0, 3.0)])
def test_the_stronger_a_prior_the_nearer_a_fit_stays(strength, near, far):
    found = fit(*drawn(), prior=LogisticModel(0.5, {"a": 3.0}), strength=strength)
    assert abs(found.coefficients["a"] - near) < 0.2 < abs(found.coefficients["a"] - far)


def test_few_rows_decide_how_often_it_is_true_and_not_on_what_that_depends():
    terms, share = {"a": np.array([0.0, 1.0, 0.0, 1.0])}, np.array([1.0, 0.0, 0.0, 0.0])
    found = fit(terms, share, prior=LogisticModel(0.0, {"a": 2.0}), strength=100, weight=9.0)
    assert found.coefficients["a"] == pytest.approx(2, abs=0.3)
    assert found.probability(terms).mean() == pytest.approx(0.25, abs=0.03)


def test_outcomes_that_are_all_alike_have_a_fit():
    found = fit({"a": np.arange(5.0)}, np.ones(5))
    assert 0.8 < found.probability({"a": np.array([2.0])})[0] < 1


def test_without_observations_a_fit_is_its_prior():
    prior = LogisticModel(0.3, {"a": 1.0})
    assert fit({"a": np.zeros(0)}, np.zeros(0), prior=prior) == prior


def test_weights_count_as_so_many_rows():
    terms, share = drawn(rows=50)
    twice = {name: np.tile(column, 2) for name, column in terms.items()}
    by_weight = fit(terms, share, weight=2.0).coefficients
    by_rows = fit(twice, np.tile(share, 2)).coefficients
    assert list(by_weight.values()) == pytest.approx(list(by_rows.values()))


def test_log_odds_of_what_is_certain_are_finite():
    assert log_odds(np.array([0.0, 0.5, 1.0])) == pytest.approx([-4.595, 0, 4.595], abs=1e-3)


def test_the_mean_of_models_has_the_mean_of_their_log_odds():
    models = EdgeModel(1.0, {MEAN: 2.0}, 0.9), EdgeModel(0.0, {MEAN: 1.0, LENGTH: 1.0}, 0.7)
    assert mean_model(models) == EdgeModel(0.5, {MEAN: 1.5, LENGTH: 0.5}, 0.8)


def test_the_mean_has_no_threshold_if_a_model_has_none():
    assert mean_model([EdgeModel(1.0, {}, 0.9), EdgeModel(0.0, {})]) == EdgeModel(0.5, {})


def test_there_is_no_mean_of_no_models():
    assert mean_model([]) is None


def test_without_coefficients_all_rows_are_alike():
    assert LogisticModel(0.0, {}).probability({"a": np.arange(3.0)}).tolist() == [0.5] * 3


@pytest.mark.parametrize("threshold", [None, 0.85])
def test_a_model_comes_back_from_its_text(threshold):
    model = EdgeModel(1 / 3, {MEAN: 1.0, LENGTH: -2 / 3}, threshold)
    assert parse_edge_model(edge_model_text(model)) == model


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        "{}",
        '{"intercept": 0, "coefficients": {"colour": 1}}',
        '{"intercept": NaN, "coefficients": {}}',
        '{"intercept": 0, "coefficients": {"log length": "long"}}',
        '{"intercept": 0, "coefficients": {}, "least_threshold": 1}',
    ],
)
def test_what_is_no_model_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        parse_edge_model(text)


def test_an_unknown_term_is_named():
    with pytest.raises(ValueError, match=r"expected coefficients of log odds .* got colour"):
        parse_edge_model('{"intercept": 0, "coefficients": {"colour": 1}}')
