from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import shapely

from roadseg.dataset.chips import NO_ZONE
from roadseg.dataset.edge_calibration import (
    ChipEdges,
    MeasuredEdges,
    calibrate,
    cross_fit,
    fit_models,
    measure_chips,
    places_of,
    read_calibration,
    write_calibration,
)
from roadseg.errors import DataError
from roadseg.roads.logistic import EDGE_TERMS, LENGTH, MEAN
from tests.drawing import chip_at
from tests.drawing import drawn as drawn_roads


def measure(road, labels, area):
    """Measure one road against labels in an area."""
    terms = {LENGTH: np.array([7.0])}
    (found,) = measure_chips(drawn_roads(road), terms, drawn_roads(*labels), [area])
    return found


@pytest.mark.parametrize(("aside", "share"), [(4.0, 1), (4.01, 0)])
def test_a_label_4_m_away_is_near(aside, share):
    road = [(0, 0), (100, 0)]
    found = measure(road, [[(0, aside), (100, aside)]], shapely.box(0, -9, 100, 9))
    assert found.share == pytest.approx([share])


def test_what_lies_outside_of_a_chip_does_not_count():
    found = measure([(0, 0), (100, 0)], [[(0, 0), (50, 0)]], shapely.box(20, -9, 60, 9))
    assert (found.length_m, found.terms[LENGTH]) == ([40], [7])
    assert found.share == pytest.approx([0.85], abs=0.001)  # The label ends at 50, and 4 m on.


def test_an_edge_that_enters_a_chip_twice_is_one():
    road = [(0, 0), (50, 0), (50, 20), (0, 20)]
    found = measure(road, [[(0, 0), (40, 0)]], shapely.box(0, -9, 40, 30))
    assert found.length_m == [80]
    assert found.share == pytest.approx([0.5])


LABELS = {"a": Path("spring.png"), "b": Path("autumn.png"), "c": Path("spring.png")}


@pytest.mark.parametrize(
    "chips",
    [
        [chip_at("a", 0.0), chip_at("c", 100.0), chip_at("b", -10.0)],
        [chip_at(n, scene=s, zone=NO_ZONE) for n, s in ("aa", "bb", "ca")],
        [chip_at(n, zone=NO_ZONE) for n in "abc"],
    ],
    ids=["of the same ground", "of a scene without a place", "without a place, of shared labels"],
)
def test_chips_that_may_show_the_same_ground_are_one_place(chips):
    first, second, third = places_of(chips, LABELS)
    assert first == third != second


def drawn(places=12, per_place=20, *, selective=0.5, seed=0, sets=("",)):
    """Draw edges of which those with a higher mean probability are more often real.

    Each place is a chip, and sets take turns; of sets after the first fewer are real.
    """
    random = np.random.default_rng(seed)
    edges, names = [], []
    for number in range(places):
        nth = number % len(sets)
        terms = {name: np.zeros(per_place) for name in EDGE_TERMS}
        terms[MEAN] = random.normal(size=per_place)
        chance = 1 / (1 + np.exp(-2 * terms[MEAN] + selective + 2 * nth))
        share = (random.random(per_place) < chance).astype(float)
        edges.append(ChipEdges(terms, np.full(per_place, 50.0), share))
        names.append(sets[nth])
    return MeasuredEdges.of_chips(edges, list(range(places)), names)


def test_confidence_at_places_left_out_is_right_as_often_as_it_says():
    found = calibrate(drawn(places=40, per_place=50))
    assert found.reliability.error < 0.04


def test_what_was_calibrated_says_on_what():
    found = calibrate(drawn(places=12, per_place=20))
    assert (found.chips, found.places, found.km) == (12, 12, 12)
    assert str(found).startswith(
        "confidence calibrated on 12.00 km of roads on 12 held-out chips ("
    )


def test_one_place_has_a_model_and_nothing_to_measure_it_on():
    found = calibrate(drawn(places=1))
    assert found.reliability is None
    assert "of one place" in str(found)


def test_the_confidence_of_a_place_does_not_depend_on_its_own_labels():
    measured = drawn()
    of_first = measured.chip == 0
    flipped = np.where(of_first, 1 - measured.share, measured.share)
    other = replace(measured, share=flipped)
    assert cross_fit(measured)[of_first] == pytest.approx(cross_fit(other)[of_first])
    assert cross_fit(measured)[~of_first] != pytest.approx(cross_fit(other)[~of_first])


def test_a_set_with_fewer_real_roads_has_a_model_of_its_own():
    models = fit_models(drawn(places=20, sets=("a", "b")))
    terms = {name: np.zeros(1) for name in EDGE_TERMS}
    a, b = (models.by_set[name].probability(terms)[0] for name in "ab")
    assert b < models.overall.probability(terms)[0] < a


def test_images_of_one_place_count_as_one():
    measured = drawn(places=4)
    same = replace(measured, places=[0] * 4)
    assert same.weight == pytest.approx(measured.weight / 4)


@pytest.fixture
def checkpoint(tmp_path):
    (tmp_path / "best.safetensors").write_bytes(b"weights")
    return tmp_path


def test_what_was_found_comes_back_for_the_same_weights(checkpoint):
    found = calibrate(drawn(sets=("a", "b")))
    write_calibration(checkpoint, found)
    again = read_calibration(checkpoint)
    assert replace(again, weights="") == found


def test_what_was_found_for_other_weights_does_not_count(checkpoint):
    write_calibration(checkpoint, calibrate(drawn()))
    (checkpoint / "best.safetensors").write_bytes(b"trained again")
    assert read_calibration(checkpoint) is None


def test_a_checkpoint_that_was_never_measured_has_none(checkpoint):
    assert read_calibration(checkpoint) is None


@pytest.mark.parametrize("text", ["", "{}", '{"weights": 7}'])
def test_a_damaged_file_is_one_line(checkpoint, text):
    (checkpoint / "confidence.json").write_text(text)
    with pytest.raises(DataError, match=r"confidence\.json: .*run"):
        read_calibration(checkpoint)


def test_edges_have_the_confidence_of_the_model_of_their_set():
    measured = drawn(places=20, sets=("a", "b"))
    models, own = fit_models(measured), measured.is_of_set("b")
    terms = measured.take(own).terms
    found = models.confidence(measured)[own]
    assert np.array_equal(found, models.by_set["b"].probability(terms))
    assert not np.array_equal(found, models.overall.probability(terms))


def test_a_set_that_was_not_measured_has_the_model_of_all():
    found = calibrate(drawn(sets=("a", "b")))
    assert found.model_of("a") == found.by_set["a"]
    assert found.model_of("c") == found.model


def test_a_chip_without_roads_has_no_edges():
    found = measure([(0, 0), (100, 0)], [], shapely.box(0, 10, 100, 20))
    assert (len(found.share), len(found.terms[LENGTH])) == (0, 0)


def test_each_chip_of_a_scene_has_its_own_edges():
    roads = drawn_roads([(0, 0), (100, 0)], [(200, 0), (260, 0)])
    terms = {LENGTH: np.array([7.0, 8.0])}
    areas = [shapely.box(150, -9, 300, 9), shapely.box(0, -9, 150, 9)]
    east, west = measure_chips(roads, terms, drawn_roads([(200, 0), (260, 0)]), areas)
    assert (east.length_m, east.terms[LENGTH], east.share) == ([60], [8], [1])
    assert (west.length_m, west.terms[LENGTH], west.share) == ([100], [7], [0])
