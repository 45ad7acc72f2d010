import pytest

from roadseg.roads.edge_model import LENGTH, MEAN, edge_model_text, parse_edge_model
from roadseg.roads.logistic import LogisticModel


def test_a_model_comes_back_from_its_text():
    model = LogisticModel(1 / 3, {MEAN: 1.0, LENGTH: -2 / 3})
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
    ],
)
def test_what_is_no_model_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        parse_edge_model(text)


def test_an_unknown_term_is_named():
    with pytest.raises(ValueError, match=r"expected coefficients of log odds .* got colour"):
        parse_edge_model('{"intercept": 0, "coefficients": {"colour": 1}}')
