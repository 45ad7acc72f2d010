"""A rehearsal says how fast a training goes, and changes nothing."""

import itertools
import math
from dataclasses import replace

import pytest
import torch

from roadseg.errors import CheckpointError, ConfigError
from roadseg.learn.hardware.distributed import Parallel
from roadseg.learn.options import TrainOptions
from roadseg.learn.training import rehearsal, trainer
from roadseg.learn.training.rehearsal import measure_pace
from roadseg.learn.training.train import TrainingJob
from roadseg.roads.speeds import DEFAULT_BINS

FACTS = {"gsd_m": 0.5, "bands": (1, 2, 3), "resample_m": None, "nodata": None}
SMALL = {"encoder": "tu-test_resnet", "encoder_weights": None, "window_px": 32}


@pytest.fixture
def pace(make_chips, cpu):
    """Give a function that measures a training of two chips, with one held out."""
    chips = make_chips(chip_px=64)

    def pace(*, device=cpu, **options):
        options = TrainOptions(minutes=1, **SMALL | options)
        job = TrainingJob(chips[:2], chips[2:3], options, FACTS, DEFAULT_BINS, device)
        return measure_pace(job, parallel=Parallel(), workers=0)

    return pace


@pytest.fixture
def batches(monkeypatch):
    """Sizes of the batches that trainers learn from and validate on."""
    sizes = {"step": [], "evaluate": []}

    def step(_trainer, batch, **_):
        sizes["step"].append(len(batch[0]))

    def evaluate(_trainer, batch):
        sizes["evaluate"].append(len(batch[0]))

    monkeypatch.setattr(rehearsal.Trainer, "step", step)
    monkeypatch.setattr(rehearsal.Trainer, "evaluate", evaluate)
    return sizes


def test_first_weights_that_are_missing_are_told_before_any_step(pace, batches, tmp_path):
    missing = tmp_path / "encoder.pth"
    with pytest.raises(CheckpointError, match=r"encoder.pth does not exist"):
        pace(encoder_weights=str(missing))
    assert batches == {"step": [], "evaluate": []}


def test_learning_takes_time_and_torchs_own_generator_stays_untouched(pace):
    before = torch.get_rng_state()
    measured = pace()
    assert min(measured.window_s, measured.held_out_s) > 0
    assert torch.equal(before, torch.get_rng_state())


def test_batches_are_those_of_the_training(pace, batches):
    pace(batch_size=3)
    assert set(batches["step"]) == set(batches["evaluate"]) == {3}


def test_large_windows_are_measured_two_at_a_time(pace, batches):
    pace(window_px=544, batch_size=8)
    assert set(batches["step"]) == set(batches["evaluate"]) == {2}


def test_a_gpu_is_prepared_for_the_batches_of_the_training(pace, batches, cpu):
    pace(device=replace(cpu, name="cuda"), window_px=544, batch_size=8)
    assert set(batches["step"]) == set(batches["evaluate"]) == {8}


def test_few_windows_make_smaller_batches(pace, batches):
    pace(batch_size=1, windows_per_chip=1, window_px=64)
    assert set(batches["step"]) == {1}


def test_what_the_network_does_not_take_is_refused_as_by_the_training(pace):
    with pytest.raises(ConfigError, match="this network cannot train on 2 windows of 32 pixels"):
        pace(architecture="pan", encoder="resnet18", batch_size=2)


def test_a_rehearsal_keeps_freed_memory_as_the_training_does(pace, monkeypatch):
    kept = []
    monkeypatch.setattr(trainer, "keep_freed_memory", lambda: kept.append(True))
    pace()
    assert kept


def test_the_first_batches_do_not_count_and_of_the_others_the_median_does(monkeypatch):
    clock = iter([0, 2, 2, 4, 4, 5, 9, 10.5])
    monkeypatch.setattr(rehearsal.time, "perf_counter", lambda: next(clock))
    done = []
    # Two batches warm up for 3 s, three are timed for 6 s: they take 1, 4 and 1.5 s.
    assert seconds_of_one(done.append, range(99)) == 1.5
    assert done == [0, 1, 2, 3, 4]


def seconds_of_one(work, batches, most_s=math.inf):
    return rehearsal._seconds_of_one(work, batches, Parallel(), most_s=most_s)  # noqa: SLF001


def test_a_training_is_as_slow_as_its_windows_are_read(monkeypatch):
    now_s = [0.0]
    monkeypatch.setattr(rehearsal.time, "perf_counter", lambda: now_s[0])

    def take(seconds):
        now_s[0] += seconds

    batches = (take(20 if number == 0 else 2) for number in range(99))  # 18 s to start reading.
    pace = seconds_of_one(lambda _: take(1), batches)
    assert (pace, now_s) == (3, [20 + 1 + 3 + 2 * 3])


def test_quick_batches_are_few(monkeypatch):
    monkeypatch.setattr(rehearsal.time, "perf_counter", lambda: 0.0)
    done = []
    seconds_of_one(done.append, range(99))
    assert len(done) == 13


@pytest.mark.parametrize(("most_s", "rehearsed"), [(2, 2), (4, 4), (6, 6)])
def test_the_rehearsal_of_a_short_training_is_short(monkeypatch, most_s, rehearsed):
    clock = itertools.count()  # Batches take 1 s each.
    monkeypatch.setattr(rehearsal.time, "perf_counter", lambda: next(clock))
    done = []
    seconds_of_one(done.append, range(99), most_s)
    assert len(done) == rehearsed
