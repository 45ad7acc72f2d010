import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadseg.core.folds import deal_folds, ground_blocks

GROUPS = st.lists(st.integers(0, 30), min_size=1, max_size=80)


@given(GROUPS, st.integers(2, 6), st.integers(0, 99))
def test_chips_of_one_block_share_a_fold(groups, folds, seed):
    if len(set(groups)) < folds:
        return
    dealt = deal_folds(groups, folds=folds, seed=seed)
    assert len(set(zip(groups, dealt.tolist(), strict=True))) == len(set(groups))


@given(GROUPS, st.integers(2, 6), st.integers(0, 99))
def test_folds_differ_by_no_more_than_the_largest_group(groups, folds, seed):
    if len(set(groups)) < folds:
        return
    sizes = np.bincount(deal_folds(groups, folds=folds, seed=seed), minlength=folds)
    assert sizes.min() > 0
    assert np.ptp(sizes) <= max(groups.count(group) for group in groups)


def test_chips_alone_in_their_group_fill_the_folds_evenly():
    sizes = np.bincount(deal_folds(range(23), folds=5, seed=0))
    assert sorted(sizes.tolist()) == [4, 4, 5, 5, 5]


def test_a_seed_decides_the_folds():
    deals = [deal_folds(range(20), folds=5, seed=seed).tolist() for seed in (1, 1, 2)]
    assert deals[0] == deals[1] != deals[2]


def test_the_order_of_chips_does_not_move_them_to_another_fold():
    groups = [f"g{number}" for number in range(20)]
    there = dict(zip(groups, deal_folds(groups, folds=5, seed=0), strict=True))
    back = dict(zip(groups[::-1], deal_folds(groups[::-1], folds=5, seed=0), strict=True))
    assert there == back


def test_as_many_groups_as_folds_give_each_fold_one():
    assert set(deal_folds([7, 7, 7, 8, 9], folds=3, seed=0).tolist()) == {0, 1, 2}


def test_fewer_groups_than_folds_are_refused():
    with pytest.raises(ValueError, match="5 chips in 2 groups cannot fill 3 folds"):
        deal_folds([7, 7, 7, 8, 8], folds=3, seed=0)


@pytest.mark.parametrize(("x", "column"), [(-0.1, -1), (0, 0), (499.9, 0), (500, 1), (999.9, 1)])
def test_a_centre_on_an_edge_belongs_to_the_higher_block(x, column):
    assert ground_blocks(np.array([[x, 750]]), [32611], block_m=500) == [(32611, column, 1)]


def test_the_same_numbers_in_two_zones_are_two_blocks():
    blocks = ground_blocks(np.zeros((2, 2)), [32611, 32612], block_m=500)
    assert len(set(blocks)) == 2


def test_no_chips_have_no_blocks():
    assert ground_blocks(np.zeros((0, 2)), [], block_m=500) == []
