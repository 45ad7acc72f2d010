"""Local and hierarchical SGD: who averages what with whom, and when.

Four processes; groups of two average every second step, all four every fourth step, after two
steps of warm-up. So steps 1 and 2 are shared, 4 and 8 are of groups, 6 is of all, and the rest
are each process's own.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from roadseg.errors import ConfigError
from roadseg.learn.hardware.distributed import Parallel
from roadseg.learn.training.local_sgd import (
    HierarchicalAverager,
    check_hierarchy,
    statistics,
)

SHARED, LOCAL, OF_GROUPS, OF_ALL = (1, 2), (3, 5, 7, 9), (4, 8), (6,)


@pytest.fixture(scope="module")
def quartet(tmp_path_factory, seen_by):
    """Give what four processes saw."""
    return seen_by("quartet", tmp_path_factory.mktemp("quartet"))


@pytest.fixture(scope="module")
def steps(quartet):
    """Give a function that tells one thing of some steps."""
    return lambda numbers, name: [quartet["steps"][str(number)][name] for number in numbers]


def test_replicas_are_equal_while_gradients_are_shared(steps):
    assert steps(SHARED, "weights") == [0, 0]


def test_replicas_are_equal_once_all_have_averaged(steps):
    assert steps(OF_ALL, "weights") == [0]


def test_replicas_differ_after_a_step_of_their_own(steps):
    assert min(steps(LOCAL, "pairs")) > 1e-4


def test_a_group_is_equal_once_it_has_averaged_and_differs_from_others(steps):
    assert steps(OF_GROUPS, "pairs") == [0, 0]
    assert min(steps(OF_GROUPS, "weights")) > 1e-4


def test_weights_become_the_mean_of_all(steps):
    assert steps(OF_ALL, "from_mean") == pytest.approx([0], abs=1e-6)


def test_weights_become_the_mean_of_their_group(steps):
    assert steps(OF_GROUPS, "from_pair_mean") == pytest.approx([0, 0], abs=1e-6)


def test_statistics_and_moments_are_averaged_with_all_and_not_before(steps):
    assert steps(OF_ALL, "statistics") == steps(OF_ALL, "moments") == [0]
    assert min(steps(OF_GROUPS, "statistics") + steps(OF_GROUPS, "moments")) > 1e-4


def test_the_averager_knows_when_replicas_agree(steps):
    assert all(steps((*SHARED, *OF_ALL), "agree"))
    assert not any(steps((*LOCAL, *OF_GROUPS), "agree"))


def test_only_the_warm_up_is_synchronous(steps):
    assert all(steps(SHARED, "synchronous"))
    assert not any(steps((*LOCAL, *OF_GROUPS, *OF_ALL), "synchronous"))


def test_all_can_average_at_any_step(quartet):
    end = quartet["end"]
    assert (end["weights"], end["statistics"], end["moments"]) == (0, 0, 0)


def test_a_group_under_1_shares_every_step_and_meets_the_others_at_theirs(quartet):
    near = quartet["near"]["steps"].values()
    assert {(step["pairs"], step["pairs_of_moments"]) for step in near} == {(0, 0)}
    agree = [number for number, step in enumerate(near, start=1) if step["weights"] == 0]
    assert agree == [1, 2, 6]
    assert [number for number, step in enumerate(near, start=1) if step["agree"]] == agree


def test_sums_of_a_loss_are_of_those_who_share_the_step(quartet):
    """Its gradient is 2 x total x processes, of which averaging gradients leaves 2 x total."""
    of_all = [10, 2 * 10 * 4]
    assert quartet["sums"] == [[of_all, [total, 2 * total * 2]] for total in (3, 3, 7, 7)]


def test_weights_stay_channels_last(quartet):
    assert quartet["channels_last"] == [True, True]


def test_frozen_weights_are_left_alone(quartet):
    assert quartet["frozen_unchanged"]


def test_statistics_are_those_of_batch_norm_alone():
    model = nn.Sequential(nn.BatchNorm2d(3))
    model.register_buffer("mean", torch.ones(1))
    assert [tuple(found.shape) for found in statistics(model)] == [(3,), (3,)]


def test_without_a_hierarchy_every_step_is_shared():
    averager = HierarchicalAverager(Parallel(), nn.Linear(1, 1), hierarchy={}, warmup_steps=0)
    averager.average(1)
    assert averager.synchronous(1)
    assert averager.replicas_agree(1)


@pytest.mark.parametrize("hierarchy", [{}, {4: 8}, {1: 8}, {4: 2, 16: 8}, {16: 8, 2: 2, 4: 4}])
def test_whole_groups_that_grow_to_all_processes_are_a_hierarchy(hierarchy):
    check_hierarchy(hierarchy, size=8)


@pytest.mark.parametrize(
    ("hierarchy", "message"),
    [
        ({0: 8}, "periods of at least 1 step"),
        ({4: 1, 8: 8}, "groups of at least 2 processes, got 4: 1, 8: 8"),
        ({4: 3, 8: 8}, "made of whole smaller ones, got 4: 3, 8: 8"),
        ({4: 8, 8: 8}, "groups that grow with the period"),
        ({4: 8, 8: 4}, "groups that grow with the period"),
        ({4: 2, 8: 4}, "average all 8 processes, got 4: 2, 8: 4; change it, or start 4 processes"),
        ({4: 2, 8: 16}, "start 16 processes with torchrun"),
    ],
)
def test_anything_else_is_not(hierarchy, message):
    with pytest.raises(ConfigError, match=f"train.distributed.hierarchy: .*{message}"):
        check_hierarchy(hierarchy, size=8)


@pytest.mark.slow
def test_the_bench_of_stragglers_tells_speed_and_loss_of_each_way():
    bench = Path(__file__).parents[3] / "scripts" / "bench_stragglers.py"
    small = ["--processes=4", "--steps=8", "--rounds=1", "--period=2", "--compute-ms=1"]
    run = [sys.executable, "-W", "error", bench, *small, "--delay-ms=2", "--json"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    said = subprocess.run(run, env=environment, capture_output=True, timeout=300, check=True)
    rows = json.loads(said.stdout.splitlines()[-1])["rows"]  # gloo of torch 2.8 prints before
    assert [row["way"] for row in rows] == ["synchronous", "local", "hierarchical"]
    assert rows[0]["speed_up"] == 1
    assert all(row["final_loss"] > 0 and row["ms_per_step"] >= 1 for row in rows)
