"""A rehearsal says how long an epoch takes, and changes nothing."""

import pytest
import torch

from roadseg.errors import ConfigError
from roadseg.learn.options import LossOptions, TrainOptions
from roadseg.learn.training import rehearsal
from roadseg.learn.training.train import TrainingJob
from roadseg.roads.speeds import DEFAULT_BINS

FACTS = {"gsd_m": 0.5, "bands": (1, 2, 3), "resample_m": None, "nodata": None}


@pytest.fixture
def job(make_chips, cpu):
    """Give a function that makes a training of two chips, with one held out."""
    chips = make_chips(chip_px=64)

    def job(**options):
        small = {"encoder": "tu-test_resnet", "encoder_weights": None, "window_px": 32}
        options = TrainOptions(**small | options)
        return TrainingJob(chips[:2], chips[2:3], options, FACTS, DEFAULT_BINS, cpu)

    return job


def test_an_epoch_is_its_windows_and_those_held_out(job, monkeypatch):
    times = iter([3.0, 0.5])
    monkeypatch.setattr(rehearsal, "_window_seconds", lambda *_: next(times))
    windows, held_out = 2 * 5, 4  # 64 px in windows of 32
    seconds = rehearsal.epoch_seconds(job(windows_per_chip=5), workers=1)
    assert seconds == pytest.approx(windows * 3.0 + held_out * 0.5)


def test_reading_takes_time_where_no_worker_reads(job, monkeypatch):
    monkeypatch.setattr(rehearsal, "_window_seconds", lambda *_: 0.0)
    assert rehearsal.epoch_seconds(job(), workers=0) > 0
    assert rehearsal.epoch_seconds(job(), workers=1) == 0


@pytest.mark.parametrize("loss", [LossOptions(), LossOptions(cldice=0.5)])
def test_torchs_own_generator_stays_untouched(job, loss):
    before = torch.get_rng_state()
    assert rehearsal.epoch_seconds(job(loss=loss), workers=0) > 0
    assert torch.equal(before, torch.get_rng_state())


def test_what_the_network_does_not_take_is_refused_as_by_the_training(job):
    with pytest.raises(ConfigError, match="this network cannot train on 2 windows of 32 pixels"):
        rehearsal.epoch_seconds(
            job(architecture="pan", encoder="resnet18", batch_size=2), workers=0
        )


def test_the_last_round_counts(cpu, monkeypatch):
    clock = iter([0.0, 50.0, 100.0, 104.0])
    monkeypatch.setattr(rehearsal.time, "perf_counter", lambda: next(clock))
    assert rehearsal._window_seconds(lambda: None, cpu) == 4.0 / 2  # noqa: SLF001
