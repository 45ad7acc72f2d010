"""Training learns, stops, goes on where it was, and says what is wrong."""

import json
import logging
import math
import os
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from roadseg.errors import ConfigError, DataError, RoadsegError
from roadseg.learn.hardware.devices import Device
from roadseg.learn.hardware.distributed import Parallel
from roadseg.learn.network.checkpoint_facts import read_checkpoint_facts
from roadseg.learn.network.checkpoints import load_checkpoint, save_checkpoint
from roadseg.learn.options import LossOptions, TrainOptions
from roadseg.learn.training import epochs, history, trainer
from roadseg.learn.training import train as training
from roadseg.learn.training.samples import TrainingWindows
from roadseg.learn.training.train import TrainingJob, fixed_options, train
from roadseg.learn.training.trainer import Trainer
from roadseg.learn.training.validation import Scores
from roadseg.roads.metrics.pixels import Histogram
from roadseg.roads.speeds import DEFAULT_BINS, SpeedBins

RECIPE = TrainOptions(
    encoder="tu-test_resnet",  # small
    decoder_channels=(32, 16, 16, 8, 8),
    encoder_weights=None,
    window_px=64,
    windows_per_chip=2,
    batch_size=2,
    epochs=3,
    learning_rate=1e-3,
    schedule="step",
    warmup_steps=0,
)
JOB = {
    "facts": {"gsd_m": 0.5, "bands": (1, 2, 3), "resample_m": None, "nodata": None},
    "bins": DEFAULT_BINS,
}
HOW = {"parallel": Parallel(), "workers": 0}


@pytest.fixture(scope="module")
def start(cpu):
    """Give a function that trains on some chips and validates on others."""

    def start(chips, validation, folder, **changes):
        job, how = JOB | {"device": cpu}, dict(HOW)
        options = {}
        for key, value in changes.items():
            part = options if key in TrainOptions.model_fields else job if key in job else how
            part[key] = value
        options = RECIPE.model_copy(update=options)
        return train(TrainingJob(chips, validation, options, **job), folder, **how)

    return start


@pytest.fixture(scope="module")
def run(chips_in, tmp_path_factory, start):
    """Give a function that trains on two chips and validates on one."""
    chips = chips_in(tmp_path_factory.mktemp("chips"), chip_px=64)

    def run(folder, **changes):
        return start(chips[:2], chips[2:3], folder, **changes)

    return run


@pytest.fixture(scope="module")
def straight(run, tmp_path_factory):
    """Give the folder of a training that nothing interrupted."""
    folder = tmp_path_factory.mktemp("straight")
    run(folder)
    return folder


class StoppedError(Exception):
    """Stands for a kill."""


def at_call(monkeypatch, owner, name, call, act):
    """Let something happen before the n-th call of a function."""
    calls, original = [], getattr(owner, name)

    def counted(*args, **kwargs):
        calls.append(1)
        if len(calls) == call:
            act()
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, counted)


def die():
    raise StoppedError


def pixels(*, found, missed):
    """Return pixels with road, so many of which are certain, and so many certainly not."""
    levels = np.zeros((2, 256), dtype=np.int64)
    levels[1, [0, 255]] = missed, found
    return Histogram(*levels)


def weights(folder, which="last"):
    return load_file(folder / f"{which}.safetensors")


def same_weights(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def same_checkpoints(one, other):
    return all(same_weights(weights(one, which), weights(other, which)) for which in WHICH)


WHICH = ("last", "best")


def test_training_leaves_checkpoints_and_one_line_an_epoch(run, tmp_path):
    history = run(tmp_path / "fold", epochs=2)
    names = {p.name for p in (tmp_path / "fold").iterdir()}
    checkpoints = {f"{w}.{suffix}" for w in WHICH for suffix in ("json", "safetensors")}
    assert names == checkpoints | {"metrics.csv"}
    header, *lines = (tmp_path / "fold" / "metrics.csv").read_text().splitlines()
    assert header == (
        "epoch,train_loss,val_loss,val_iou,val_f1,val_best_iou,threshold,"
        "learning_rate,seconds,windows_per_s"
    )
    assert len(lines) == len(history) == 2


def test_the_training_loss_of_an_epoch_is_the_mean_of_its_own_steps(run, tmp_path, monkeypatch):
    losses = iter([1.0, 3.0, 5.0, 9.0])
    monkeypatch.setattr(Trainer, "step", lambda *_, **__: torch.tensor(next(losses)))
    assert [row["train_loss"] for row in run(tmp_path, epochs=2)] == [2, 7]


def test_sets_are_measured_apart_and_their_weights_kept(make_chips, start, tmp_path):
    training, validation = (
        [replace(chip, set=name, weight=weight) for chip, name, weight in zip(*each, strict=True)]
        for chips in [make_chips(chip_px=64)]
        for each in ((chips[:2], "ab", (2.0, 1.0)), (chips[1::-1], "ab", (2.0, 1.0)))
    )
    (row,) = start(training, validation, tmp_path, epochs=1)
    assert min(row["val_iou_a"], row["val_iou_b"]) <= row["val_iou"]
    assert row["val_iou"] <= max(row["val_iou_a"], row["val_iou_b"])
    facts = read_checkpoint_facts(tmp_path, "last")
    assert facts["set_weights"] == {"a": 2.0, "b": 1.0}
    assert facts["thresholds"] == {"a": row["threshold_a"], "b": row["threshold_b"]}
    with pytest.raises(ConfigError, match="started with set_weights"):
        start([replace(chip, weight=1.0) for chip in training], validation, tmp_path, epochs=2)


def test_a_set_held_out_without_roads_has_no_threshold(make_chips, start, tmp_path):
    chips = make_chips(chip_px=64)  # the third has no road
    held_out = [replace(chips[2], set="a"), replace(chips[3], set="b")]
    (row,) = start([replace(chips[0], set="a")], held_out, tmp_path, epochs=1, batch_size=1)
    assert "threshold_b" in row
    assert not {"threshold_a", "val_iou_a"} & row.keys()


def test_the_best_checkpoint_holds_the_facts_to_predict(run, tmp_path):
    history = run(tmp_path, epochs=2)
    facts = load_checkpoint(tmp_path).facts
    best = min(history, key=lambda row: row["val_loss"])
    assert facts["epoch"] == best["epoch"]
    assert facts["score"]["val_loss"] == best["val_loss"]
    assert facts["threshold"] == best["threshold"]
    assert read_checkpoint_facts(tmp_path, "last")["threshold"] == history[-1]["threshold"]
    assert (facts["gsd_m"], facts["bands"], facts["encoder"]) == (0.5, [1, 2, 3], "tu-test_resnet")


@pytest.fixture
def two_speeds():
    """Draw a slow road and a fast one."""
    mask = np.zeros((128, 128), dtype=np.uint8)
    mask[30:36], mask[:, 60:66] = 1, 2
    return mask


def test_a_network_has_a_logit_for_each_bin_and_one_for_any_road(
    make_chips, two_speeds, start, tmp_path
):
    chips, bins = make_chips(mask=two_speeds, chip_px=64), SpeedBins((50.0,), "km/h")
    start(chips[:2], chips[2:3], tmp_path, bins=bins, epochs=1)
    loaded = load_checkpoint(tmp_path)
    assert (loaded.facts["classes"], loaded.bins) == (3, bins)
    assert loaded.model(torch.zeros(1, 3, 64, 64)).shape == (1, 3, 64, 64)


LEARNING = {"windows_per_chip": 20, "batch_size": 2, "learning_rate": 5e-3}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"schedule": "cosine"},
        {"loss": LossOptions(focal=0.5, dice=0.3, bce=0.2), "warmup_steps": 8},
    ],
)
def test_a_network_learns_the_crossing(make_chips, start, tmp_path, changes):
    chips = make_chips(size_px=64, chip_px=64)
    history = start(chips, chips, tmp_path, **LEARNING | changes)
    assert history[-1]["val_iou"] > 0.75


# a run of 3 epochs takes 2 steps each
@pytest.mark.parametrize(
    "moment",
    [
        (Trainer, "step", 1),  # before anything is there
        (Trainer, "step", 4),  # in the middle of the second epoch
        (epochs, "save_checkpoint", 1),  # before the first checkpoint
        (epochs, "save_checkpoint", 3),  # between best and last
        (epochs, "validate", 3),
    ],
)
@pytest.mark.parametrize("save_s", [0.0, epochs.SAVE_S])
def test_a_killed_training_goes_on_to_the_same_weights(run, straight, tmp_path, moment, save_s):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(epochs, "SAVE_S", save_s)
        at_call(patch, *moment, die)
        with pytest.raises(StoppedError):
            run(tmp_path)
    run(tmp_path)
    assert same_checkpoints(straight, tmp_path)
    for which in WHICH:
        one, other = (read_checkpoint_facts(folder, which) for folder in (straight, tmp_path))
        assert one["threshold"] == other["threshold"]
    lasts = [read_checkpoint_facts(folder, "last") for folder in (straight, tmp_path)]
    losses, again = ([row["train_loss"] for row in last["history"]] for last in lasts)
    assert losses == again


def test_within_an_epoch_the_training_is_saved_from_time_to_time(run, tmp_path, monkeypatch):
    monkeypatch.setattr(epochs, "SAVE_S", 0.0)
    at_call(monkeypatch, Trainer, "step", 2, die)
    with pytest.raises(StoppedError):
        run(tmp_path)
    assert read_checkpoint_facts(tmp_path, "last")["step"] == 1


@pytest.mark.parametrize("moment", [(Trainer, "step", 2), (epochs, "save_checkpoint", 3)])
def test_a_killed_training_on_all_chips_goes_on_to_the_same_weights(
    make_chips, start, tmp_path, monkeypatch, moment
):
    chips = make_chips(chip_px=64)[:2]
    facts = JOB["facts"] | {
        "fold": "all",
        "threshold": 0.6,
        "from_folds": {"epochs": 2, "scores": {"0": {"val_loss": 0.5}}},
    }
    history = start(chips, [], tmp_path / "straight", facts=facts, epochs=2)
    assert list(history[0]) == [
        *("epoch", "train_loss", "learning_rate", "seconds", "windows_per_s")
    ]
    with monkeypatch.context() as patch:
        patch.setattr(epochs, "SAVE_S", 0.0)
        at_call(patch, *moment, die)
        with pytest.raises(StoppedError):
            start(chips, [], tmp_path / "killed", facts=facts, epochs=2)
    start(chips, [], tmp_path / "killed", facts=facts, epochs=2)
    assert same_checkpoints(tmp_path / "straight", tmp_path / "killed")
    best = read_checkpoint_facts(tmp_path / "killed", "best")
    assert (best["epoch"], best["threshold"], best["score"]) == (2, 0.6, {})


PLAIN: dict[str, object] = {}
PIECES = {"windows_per_chip": 0.5, "batch_size": 1, "epochs": 3}
COSINE = {"batch_size": 4, "windows_per_chip": 4, "schedule": "cosine"}
ENDINGS = {signal.SIGTERM: SystemExit, signal.SIGINT: KeyboardInterrupt}


# Intel's extension, if another test has loaded it, replaces the group norm of the decoder of fpn.
@pytest.mark.filterwarnings("ignore:aten..group_norm. an autograd kernel was not registered")
@pytest.mark.parametrize(
    ("moment", "changes"),
    [
        ((signal.SIGTERM, "step"), PLAIN),
        ((signal.SIGINT, "step"), COSINE),
        ((signal.SIGINT, "evaluate"), PIECES),
        ((signal.SIGTERM, "step"), {"architecture": "fpn"}),  # Its decoder has dropout.
        ((signal.SIGTERM, "evaluate"), COSINE),
        ((signal.SIGINT, "evaluate"), PLAIN),
    ],
)
def test_a_training_asked_to_stop_keeps_its_last_step(run, straight, tmp_path, moment, changes):
    number, place = moment
    if changes:
        straight = tmp_path / "straight"
        run(straight, **changes)
    with pytest.MonkeyPatch.context() as patch:
        at_call(patch, Trainer, place, 2, lambda: os.kill(os.getpid(), number))
        with pytest.raises(ENDINGS[number]):
            run(tmp_path / "stopped", **changes)
    assert read_checkpoint_facts(tmp_path / "stopped", "last")["step"] > 0
    run(tmp_path / "stopped", **changes)
    assert same_checkpoints(straight, tmp_path / "stopped")


class Watch:
    """A clock on which a step takes some seconds, and so does a batch of the validation."""

    def __init__(self, step_s, check_s=0.5):
        self.now_s, self.step_s, self.check_s = 0.0, step_s, check_s

    def __call__(self):
        return self.now_s


@pytest.fixture
def run_by(run, monkeypatch):
    """Give a function that trains for 30 s of a watch, planned for 4 epochs of 3 steps."""
    watches, step, evaluate = [], Trainer.step, Trainer.evaluate

    def timed_step(*args, **options):
        watches[-1].now_s += watches[-1].step_s
        return step(*args, **options)

    def timed_evaluate(*args):
        watches[-1].now_s += watches[-1].check_s
        return evaluate(*args)

    monkeypatch.setattr(Trainer, "step", timed_step)
    monkeypatch.setattr(Trainer, "evaluate", timed_evaluate)
    limited = {"minutes": 0.5, "epochs": 4, "schedule": "cosine", "windows_per_chip": 3}

    def run_by(watch, folder, **changes):
        watches.append(watch)
        return run(folder, tick=watch, **limited | changes)

    return run_by


def seconds(history):
    return sum(row["seconds"] for row in history)


def steps_of(folder):
    return read_checkpoint_facts(folder, "last")["steps_before"]


def test_a_machine_that_becomes_slow_takes_fewer_steps_in_the_same_time(
    run_by, tmp_path, monkeypatch
):
    watch = Watch(step_s=2.0)
    at_call(monkeypatch, Trainer, "step", 5, lambda: setattr(watch, "step_s", 4.0))
    history = run_by(watch, tmp_path)
    assert len(history) == 4
    assert 25 < seconds(history) <= 30
    assert 5 < steps_of(tmp_path) < 12
    rates = [row["learning_rate"] for row in history]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.1 * RECIPE.learning_rate


def test_the_rate_is_that_of_the_time(run_by, tmp_path):
    history = run_by(Watch(step_s=1.25, check_s=0.0), tmp_path, warmup_steps=3)
    # The warm-up takes 3 of 12 planned steps, and so a quarter of the time.
    assert history[0]["learning_rate"] == pytest.approx(RECIPE.learning_rate)
    share = (seconds(history[:2]) - 7.5) / 22.5
    expected = RECIPE.learning_rate * (1 + math.cos(math.pi * share)) / 2
    assert history[1]["learning_rate"] == pytest.approx(expected)


def test_a_machine_that_is_faster_takes_more_steps_on_other_windows(run_by, tmp_path, monkeypatch):
    drawn, draw = [], TrainingWindows.__getitem__

    def watched(windows, index):
        drawn.append(index)
        return draw(windows, index)

    monkeypatch.setattr(TrainingWindows, "__getitem__", watched)
    history = run_by(Watch(step_s=1.0), tmp_path)
    assert 25 < seconds(history) <= 30
    assert steps_of(tmp_path) == len(drawn) / 2 > 24
    assert len(set(drawn)) == len(drawn)
    assert set(range(6, 6 + 6 * (len(drawn) // 6))) <= set(drawn)


@pytest.mark.parametrize(("place", "number"), [("step", 3), ("step", 8), ("evaluate", 3)])
def test_a_limited_training_that_was_stopped_keeps_its_time_and_rates(
    run_by, tmp_path, monkeypatch, place, number
):
    straight = run_by(Watch(step_s=2.0, check_s=1.0), tmp_path / "straight")
    at_call(monkeypatch, Trainer, place, number, lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(SystemExit):
        run_by(Watch(step_s=2.0, check_s=1.0), tmp_path / "stopped")
    history = run_by(Watch(step_s=2.0, check_s=1.0), tmp_path / "stopped")
    assert 25 < seconds(history) <= 30
    if place == "step":  # What a validation that was broken off took is not repeated.
        assert [row["seconds"] for row in history] == [row["seconds"] for row in straight]
        assert same_checkpoints(tmp_path / "straight", tmp_path / "stopped")


def test_a_training_whose_time_was_lost_ends_with_its_epoch_and_stays_ended(run_by, tmp_path):
    watch = Watch(step_s=2.0)

    def wait(history):
        watch.now_s += 100.0 * (len(history) == 1)

    assert len(run_by(watch, tmp_path, after_epoch=wait)) == 1
    assert len(run_by(Watch(step_s=2.0), tmp_path)) == 1


def test_a_training_whose_first_epoch_took_all_its_time_has_one(run_by, tmp_path):
    assert len(run_by(Watch(step_s=31.0), tmp_path)) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_fails_after_a_signal_has_come_ends_as_the_signal_does(
    run, tmp_path, monkeypatch, number
):
    def fail_as_a_compiler_that_was_interrupted():
        os.kill(os.getpid(), number)
        raise RuntimeError("C++ compile error")

    at_call(monkeypatch, Trainer, "step", 1, fail_as_a_compiler_that_was_interrupted)
    with pytest.raises(ENDINGS[number]):
        run(tmp_path)


def test_what_a_killed_process_left_half_written_is_removed(run, tmp_path):
    (tmp_path / ".partial-last.safetensors").write_text("half")
    run(tmp_path, epochs=1)
    assert not list(tmp_path.glob(".partial*"))


def test_more_epochs_go_on_from_an_ended_training(run, straight, tmp_path):
    run(tmp_path, epochs=2)
    run(tmp_path, epochs=3)
    assert same_weights(weights(straight), weights(tmp_path))


@pytest.mark.parametrize("seed", [0, 1])
def test_only_the_seed_decides_and_torchs_own_generator_stays_untouched(run, tmp_path, seed):
    torch.manual_seed(seed)
    run(tmp_path / "a", epochs=1)
    after = torch.rand(1)
    torch.manual_seed(seed)
    assert torch.equal(after, torch.rand(1))
    torch.manual_seed(99)
    run(tmp_path / "b", epochs=1)
    assert same_weights(weights(tmp_path / "a"), weights(tmp_path / "b"))


def test_an_ended_training_returns_at_once(run, tmp_path, monkeypatch):
    history = run(tmp_path, epochs=1)
    at_call(monkeypatch, training, "new_network", 1, die)
    assert run(tmp_path, epochs=1) == history


def test_a_training_of_a_version_without_an_option_goes_on_while_it_has_its_default(run, tmp_path):
    run(tmp_path, epochs=1)
    facts = read_checkpoint_facts(tmp_path, "last")
    del facts["augment"], facts["loss"]["focal"]
    save_checkpoint(tmp_path, "last", weights(tmp_path), facts)
    with pytest.raises(ConfigError, match=r"started with loss\.focal None \(now 0.5\)"):
        run(tmp_path, epochs=2, loss=LossOptions(focal=0.5))
    assert len(run(tmp_path, epochs=2)) == 2


def test_training_stops_early_and_stays_stopped(run, tmp_path, monkeypatch):
    losses, original = iter([0.5, 0.4, 0.6, 0.4, 0.1]), epochs.validate

    def validate(*args, **options):
        return replace(original(*args, **options), loss=next(losses))

    monkeypatch.setattr(epochs, "validate", validate)
    monkeypatch.setattr(history, "PATIENCE", 2)
    assert len(run(tmp_path, epochs=5)) == 4
    assert len(run(tmp_path, epochs=5)) == 4
    assert load_checkpoint(tmp_path).facts["epoch"] == 2


def test_every_step_of_all_epochs_has_a_seed_of_its_own(run, tmp_path, monkeypatch):
    seeds = []
    monkeypatch.setattr(epochs, "seed_step", lambda *seed: seeds.append(seed))
    run(tmp_path, epochs=2)
    assert [number for _, number, _ in seeds] == [1, 2, 3, 4]


def test_seeds_differ_between_trainings_steps_and_processes():
    drawn = set()
    with torch.random.fork_rng():
        for seed in ((0, 1, 0), (1, 1, 0), (0, 2, 0), (0, 1, 1)):
            epochs.seed_step(*seed)
            drawn.add(torch.rand(1).item())
    assert len(drawn) == 4


def test_the_learning_rate_drops_after_a_milestone_also_when_going_on(run, tmp_path, monkeypatch):
    monkeypatch.setattr(trainer, "_MILESTONES", (1, 2))
    run(tmp_path, epochs=1)
    history = run(tmp_path, epochs=3)
    assert [row["learning_rate"] for row in history] == pytest.approx([1e-3, 2e-4, 4e-5])


def test_what_is_kept_while_validating_after_resuming_says_the_rate_of_the_last_step(
    run, tmp_path, monkeypatch
):
    monkeypatch.setattr(epochs, "SAVE_S", 0.0)
    monkeypatch.setattr(trainer, "_MILESTONES", (1,))
    straight = run(tmp_path / "straight", epochs=2)
    with monkeypatch.context() as patch:
        at_call(patch, epochs, "validate", 2, die)
        with pytest.raises(StoppedError):
            run(tmp_path / "stopped", epochs=2)
    at_call(monkeypatch, Trainer, "evaluate", 1, lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(SystemExit):
        run(tmp_path / "stopped", epochs=2)
    groups = read_checkpoint_facts(tmp_path / "stopped", "last")["optimizer_state"]["groups"]
    assert {group["lr"] for group in groups} == {straight[-1]["learning_rate"]}


def test_a_checkpoint_says_where_its_first_weights_came_from(run, tmp_path):
    run(tmp_path, epochs=1)
    run(tmp_path, epochs=2)
    assert read_checkpoint_facts(tmp_path, "last")["began_with"] == "none"


def test_a_training_starts_from_the_weights_of_another(run, tmp_path, caplog):
    run(tmp_path / "first", epochs=1)
    with caplog.at_level(logging.INFO):
        run(tmp_path / "second", epochs=1, init=tmp_path / "first", learning_rate=1e-9)
    before, after = (weights(tmp_path / name, "best") for name in ("first", "second"))
    name = "model.decoder.blocks.0.conv1.0.weight"
    assert torch.allclose(before[name], after[name], atol=1e-7)
    assert "starting from" in caplog.text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"learning_rate": 0.1},
            r"last\.safetensors: .* started with learning_rate 0.001 \(now 0.1\)",
        ),
        ({"encoder": "resnet18"}, r"started with encoder tu-test_resnet \(now resnet18\)"),
        ({"facts": {"gsd_m": 0.3}}, r"started with gsd_m 0.5 \(now 0.3\); .* --force"),
        ({"facts": {"bands": ("red",)}}, r"started with bands \[1, 2, 3\] \(now \['red'\]\)"),
        ({"bins": SpeedBins((50.0,), "km/h")}, r"classes 8 \(now 3\), bin_edges .*, bin_unit mph"),
        ({"loss": LossOptions(dice=0.4)}, r"started with loss\.dice 0\.5 \(now 0\.4\); restore"),
        ({"seed": 1, "batch_size": 1}, r"started with batch_size 2 \(now 1\), seed 0 \(now 1\)"),
        ({"schedule": "cosine", "epochs": 5}, r"schedule step \(now cosine\)"),
    ],
)
def test_another_training_in_the_folder_is_refused(run, tmp_path, changes, words):
    run(tmp_path, epochs=1)
    with pytest.raises(ConfigError, match=words):
        run(tmp_path, **changes)


@pytest.mark.parametrize(("batches", "resumes"), [(1, True), (2, False)])
def test_a_training_with_a_setting_that_is_retired_goes_on_if_it_had_the_value_of_now(
    run, tmp_path, batches, resumes
):
    run(tmp_path, epochs=1)
    facts = read_checkpoint_facts(tmp_path, "last") | {"accumulate": batches}
    save_checkpoint(tmp_path, "last", weights(tmp_path), facts)
    if resumes:
        assert len(run(tmp_path, epochs=2)) == 2
        return
    with pytest.raises(ConfigError, match=r"started with accumulate 2 \(now 1\)"):
        run(tmp_path, epochs=2)


def test_more_epochs_are_refused_where_the_rate_was_planned_to_the_end(run, tmp_path):
    run(tmp_path, epochs=1, schedule="cosine")
    with pytest.raises(ConfigError, match=r"started with epochs 1 \(now 2\)"):
        run(tmp_path, epochs=2, schedule="cosine")


def test_a_loss_that_is_no_number_stops_before_anything_is_saved(run, tmp_path, monkeypatch):
    def nan(self, batch, **_):  # noqa: ARG001
        return torch.tensor(math.nan)

    monkeypatch.setattr(Trainer, "step", nan)
    with pytest.raises(RoadsegError, match="is NaN or infinite"):
        run(tmp_path / "fold")
    assert not (tmp_path / "fold").exists()


def test_a_validation_loss_that_is_no_number_stops_too(run, tmp_path, monkeypatch):
    scores = Scores(math.nan, pixels(found=1, missed=1))
    monkeypatch.setattr(epochs, "validate", lambda *_, **__: scores)
    with pytest.raises(RoadsegError, match="is NaN or infinite"):
        run(tmp_path / "fold")
    assert not (tmp_path / "fold" / "metrics.csv").exists()


def test_a_step_larger_than_an_epoch_is_refused(run, tmp_path):
    assert run(tmp_path / "fitting", epochs=1, batch_size=4)
    with pytest.raises(ConfigError, match="batch_size: expected at most 4 windows"):
        run(tmp_path / "larger", epochs=1, batch_size=5)


def test_validation_chips_without_data_are_refused(make_chips, start, tmp_path):
    mask = np.full((128, 128), 255, dtype=np.uint8)
    mask[:64] = 1
    chips = make_chips(mask=mask, chip_px=64)
    with pytest.raises(DataError, match="no pixel with data"):
        start(chips[:2], chips[2:], tmp_path, epochs=1)


@pytest.mark.parametrize(("schedule", "free"), [("cosine", set()), ("step", {"epochs"})])
def test_all_but_the_epochs_in_steps_is_fixed_and_can_be_written_as_json(schedule, free):
    found = fixed_options(TrainOptions(schedule=schedule, init=Path("run")))
    assert set(found) == set(TrainOptions.model_fields) - free
    assert json.loads(json.dumps(found))["init"] == "run"


@pytest.mark.parametrize(
    ("device", "workers", "cores", "readers"),
    [
        ("cpu", 1, 16, 1),
        ("cuda", 1, 16, 4),
        ("cuda", 1, 2, 2),
        ("cuda", 8, 16, 8),
        ("xpu", 0, 9, 0),
    ],
)
def test_several_processes_read_for_an_accelerator(monkeypatch, device, workers, cores, readers):
    machine = SimpleNamespace(usable_cores=2 * cores)
    monkeypatch.setattr(training, "read_machine", lambda: machine)
    made = []
    monkeypatch.setattr(training, "TrainingBatches", lambda *_, **how: made.append(how))
    job = TrainingJob([], [], RECIPE, **JOB, device=Device(device, device))
    job.batches(Parallel(0, 2, 0, 2), workers)
    assert [each["workers"] for each in made] == [readers]
