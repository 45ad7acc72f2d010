from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadseg.dataset.folds import assign_folds, folds_by_name, ground_blocks, join_groups
from tests.drawing import chip_at

CHIPS = ["a_r0_c0", "a_r0_c9", "b"]
SCENES = ["a", "a", "b"]
GROUPS = st.lists(st.integers(0, 30), min_size=1, max_size=80)


@given(GROUPS, st.integers(2, 6))
def test_chips_of_one_block_share_a_fold(groups, folds):
    if len(set(groups)) < folds:
        return
    dealt = assign_folds(groups, folds=folds)
    assert len(set(zip(groups, dealt.tolist(), strict=True))) == len(set(groups))


@given(GROUPS, st.integers(2, 6))
def test_folds_differ_by_no_more_than_the_largest_group(groups, folds):
    if len(set(groups)) < folds:
        return
    sizes = np.bincount(assign_folds(groups, folds=folds), minlength=folds)
    assert sizes.min() > 0
    assert np.ptp(sizes) <= max(groups.count(group) for group in groups)


def test_the_order_of_chips_does_not_move_them_to_another_fold():
    groups = [f"g{number}" for number in range(20)]
    there = dict(zip(groups, assign_folds(groups, folds=5), strict=True))
    back = dict(zip(groups[::-1], assign_folds(groups[::-1], folds=5), strict=True))
    assert there == back


def test_fewer_groups_than_folds_are_refused():
    with pytest.raises(ValueError, match="5 chips in 2 groups cannot fill 3 folds"):
        assign_folds([7, 7, 7, 8, 8], folds=3)


@pytest.mark.parametrize(("x", "column"), [(-0.1, -1), (0, 0), (499.9, 0), (500, 1), (999.9, 1)])
def test_a_centre_on_an_edge_belongs_to_the_higher_block(x, column):
    chip = chip_at("a", x - 50, 800)
    assert ground_blocks([chip], block_m=500) == [(32611, column, 1)]


@pytest.mark.parametrize(
    ("zones", "places"),
    [((32611, 32612, 32611), [32611, 32612, 32611]), ((0, 0, 0), ["a", "b", "a"])],
)
def test_the_same_numbers_in_two_zones_or_scenes_are_two_blocks(zones, places):
    chips = [chip_at(name, 0, 100, zone=zone) for name, zone in zip("aba", zones, strict=True)]
    assert ground_blocks(chips, block_m=500) == [(place, 0, 0) for place in places]


def test_groups_with_chips_in_common_pairs_become_one():
    joined = join_groups(["d", "a", "c", "b", "b"], np.array([[0, 2], [2, 4]]))
    assert joined == ["b", "a", "b", "b", "b"]


@given(GROUPS, st.lists(st.tuples(st.integers(0, 79), st.integers(0, 79)), max_size=20))
def test_joined_groups_do_not_depend_on_the_order_of_chips(groups, pairs):
    here = np.array([p for p in pairs if max(p) < len(groups)], dtype=np.int64).reshape(-1, 2)
    back = join_groups(groups[::-1], len(groups) - 1 - here)
    assert join_groups(groups, here) == back[::-1]


def test_a_fold_given_for_a_chip_comes_before_that_of_its_scene():
    given = {"a": 1, "b": 0, "a_r0_c9": 0}
    assert folds_by_name(CHIPS, SCENES, given, folds=2).tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"a": 0, "b": 1, "c": 1, "d": 0}, r"c is neither a chip nor a scene \(2 of 4\)"),
        ({"a": 0, "b": 2}, r"b \(fold 2\) is in none of the folds 0 to 1 \(1 of 2\)"),
        ({"a": -1, "b": 1}, r"a \(fold -1\) is in none of the folds 0 to 1"),
        ({"a_r0_c9": 0, "b": 1}, r"a_r0_c0 has no fold \(1 of 3\)"),
        ({"a": 1, "b": 1}, "there are 2 folds, but fold 0 has no chip"),
    ],
)
def test_given_folds_that_do_not_fit_the_chips_are_refused(given, told):
    with pytest.raises(ValueError, match=told):
        folds_by_name(CHIPS, SCENES, given, folds=2)


def by_set(folds, sets, name):
    """Count the chips of a set in each fold."""
    return np.bincount(folds[np.array(sets) == name], minlength=folds.max() + 1).tolist()


def test_every_fold_has_its_share_of_every_set():
    sets = ["large"] * 23 + ["small"] * 7
    folds = assign_folds(range(30), sets, folds=5)
    assert sorted(by_set(folds, sets, "large")) == [4, 4, 5, 5, 5]
    assert sorted(by_set(folds, sets, "small")) == [1, 1, 1, 2, 2]
    assert np.bincount(folds).tolist() == [6] * 5


def test_the_first_fold_has_the_smallest_share_of_a_set_with_few_groups():
    sets = ["many"] * 40 + ["few"] * 9
    for x, y, z in permutations("xyz"):
        folds = assign_folds([*range(40), *(4 * x + 3 * y + 2 * z)], sets, folds=5)
        few = by_set(folds, sets, "few")
        assert few[0] == 2
        assert sorted(few) == [0, 0, 2, 3, 4]


def test_a_set_with_two_groups_is_not_moved_to_the_first_fold():
    sets = ["many"] * 41 + ["few"] * 2
    folds = assign_folds(range(43), sets, folds=5)
    assert by_set(folds, sets, "many")[0] == 9
    assert by_set(folds, sets, "few")[0] == 0


def test_a_group_of_two_sets_counts_for_both():
    sets = ["a", "b", "b", "a", "b"]
    folds = assign_folds(["ab", "ab", "ab", "a", "b"], sets, folds=2)
    assert folds.tolist() in ([0, 0, 0, 1, 1], [1, 1, 1, 0, 0])


@given(GROUPS)
def test_one_set_is_dealt_as_none(groups):
    if len(set(groups)) > 1:
        alone, named = (assign_folds(groups, sets, folds=2) for sets in ((), ["x"] * len(groups)))
        assert alone.tolist() == named.tolist()
