"""Training learns, stops, goes on where it was, and says what is wrong."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from roadseg.core.scaling import Scaling
from roadseg.core.speeds import DEFAULT_BINS, SpeedBins
from roadseg.errors import ConfigError, DataError, RoadsegError
from roadseg.learn import training
from roadseg.learn.checkpoints import load_checkpoint
from roadseg.learn.training import train

SETTINGS = {
    "facts": {"gsd_m": 0.5, "bands": (1, 2, 3)},
    "bins": DEFAULT_BINS,
    "architecture": "unet",
    "encoder": "tu-test_resnet",  # small
    "encoder_weights": None,
    "window_px": 64,
    "windows_per_chip": 2,
    "batch_size": 2,
    "epochs": 3,
    "patience": 9,
    "learning_rate": 1e-3,
    "lr_milestones": (1,),
    "lr_gamma": 0.5,
    "clip_norm": 1.0,
    "focal": 0.75,
    "dice": 0.25,
    "seed": 0,
    "workers": 0,
}


@pytest.fixture
def run(make_chips, cpu):
    """Give a function that trains on two chips and validates on one."""
    chips = make_chips(chip_px=64)

    def run(folder, **changes):
        return train(chips[:2], chips[2:3], folder, **SETTINGS | {"device": cpu} | changes)

    return run


class StoppedError(Exception):
    """Stands for a kill."""


def stop_at_call(monkeypatch, name, call):
    """Let a function of the training module raise at its n-th call."""
    calls, original = [], getattr(training, name)

    def counted(*args, **kwargs):
        calls.append(1)
        if len(calls) == call:
            raise StoppedError
        return original(*args, **kwargs)

    monkeypatch.setattr(training, name, counted)


def weights(folder, which="last"):
    return load_file(folder / f"{which}.safetensors")


def same_weights(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_training_leaves_checkpoints_and_one_line_an_epoch(run, tmp_path):
    history = run(tmp_path / "fold", epochs=2)
    names = {p.name for p in (tmp_path / "fold").iterdir()}
    checkpoints = {f"{w}.{suffix}" for w in ("best", "last") for suffix in ("json", "safetensors")}
    assert names == checkpoints | {"metrics.csv"}
    header, *lines = (tmp_path / "fold" / "metrics.csv").read_text().splitlines()
    assert header == (
        "epoch,train_loss,val_loss,val_iou,val_f1,learning_rate,seconds,windows_per_s"
    )
    assert len(lines) == len(history) == 2


def test_the_best_checkpoint_holds_the_facts_to_predict(run, tmp_path):
    history = run(tmp_path, epochs=2)
    facts = load_checkpoint(tmp_path).facts
    best = min(history, key=lambda row: row["val_loss"])
    assert facts["epoch"] == best["epoch"]
    assert facts["score"]["val_loss"] == best["val_loss"]
    assert (facts["gsd_m"], facts["bands"], facts["encoder"]) == (0.5, [1, 2, 3], "tu-test_resnet")


@pytest.fixture
def two_speeds():
    """Draw a slow road and a fast one."""
    mask = np.zeros((128, 128), dtype=np.uint8)
    mask[30:36], mask[:, 60:66] = 1, 2
    return mask


def test_a_network_has_a_logit_for_each_bin_and_one_for_any_road(
    make_chips, two_speeds, cpu, tmp_path
):
    chips = make_chips(mask=two_speeds, chip_px=64)
    changes = {"bins": SpeedBins((50.0,), "km/h"), "epochs": 1, "device": cpu}
    train(chips[:2], chips[2:3], tmp_path, **SETTINGS | changes)
    loaded = load_checkpoint(tmp_path)
    assert (loaded.facts["classes"], loaded.bins) == (3, changes["bins"])
    assert loaded.model(torch.zeros(1, 3, 64, 64)).shape == (1, 3, 64, 64)


def test_a_network_learns_the_crossing(make_chips, cpu, tmp_path):
    chips = make_chips(size_px=64, chip_px=64)
    history = train(
        *(chips, chips, tmp_path),
        **SETTINGS
        | {"epochs": 3, "windows_per_chip": 64, "batch_size": 4, "learning_rate": 3e-3}
        | {"lr_milestones": (), "device": cpu},
    )
    assert history[-1]["val_iou"] > 0.8


# a run of 3 epochs takes 2 steps each, and so calls the loss 3 times an epoch
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("road_loss", 1),  # before anything is there
        ("road_loss", 5),  # in the middle of the second epoch
        ("save_checkpoint", 1),  # before the first checkpoint
        ("save_checkpoint", 2),  # between best and last
        ("_validate", 3),
    ],
)
def test_a_stopped_training_goes_on_to_the_same_weights(run, tmp_path, monkeypatch, name, call):
    run(tmp_path / "straight")
    with monkeypatch.context() as patch:
        stop_at_call(patch, name, call)
        with pytest.raises(StoppedError):
            run(tmp_path / "stopped")
    run(tmp_path / "stopped")
    for which in ("last", "best"):
        assert same_weights(*(weights(tmp_path / n, which) for n in ("straight", "stopped")))


def test_each_epoch_learns_from_other_windows(run, tmp_path, monkeypatch):
    seen = []

    def watch(network, optimizer, batches, device, **_):  # noqa: ARG001
        seen.append(torch.cat([images for images, _ in batches]).float().mean().item())
        return 1.0

    monkeypatch.setattr(training, "_train_epoch", watch)
    run(tmp_path)
    assert len(set(seen)) == 3


def test_more_epochs_go_on_from_an_ended_training(run, tmp_path):
    run(tmp_path / "straight")
    run(tmp_path / "longer", epochs=2)
    run(tmp_path / "longer", epochs=3)
    assert same_weights(weights(tmp_path / "straight"), weights(tmp_path / "longer"))


def test_worker_processes_change_nothing(run, tmp_path):
    run(tmp_path / "here", epochs=2)
    run(tmp_path / "workers", epochs=2, workers=1)
    assert same_weights(weights(tmp_path / "here"), weights(tmp_path / "workers"))


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
    stop_at_call(monkeypatch, "build_model", 1)
    assert run(tmp_path, epochs=1) == history


def test_training_stops_early_and_stays_stopped(run, tmp_path, monkeypatch):
    scores = iter([0.5, 0.4, 0.6, 0.4, 0.1])

    def validate(*_, **__):
        return {"val_loss": next(scores), "val_iou": 0.0, "val_f1": 0.0}

    monkeypatch.setattr(training, "_validate", validate)
    assert len(run(tmp_path, epochs=5, patience=2)) == 4
    assert len(run(tmp_path, epochs=5, patience=2)) == 4
    assert load_checkpoint(tmp_path).facts["epoch"] == 2


def test_the_learning_rate_drops_after_a_milestone_also_when_going_on(run, tmp_path):
    run(tmp_path, epochs=1, lr_milestones=(1, 2))
    history = run(tmp_path, epochs=3, lr_milestones=(1, 2))
    assert [row["learning_rate"] for row in history] == [1e-3, 5e-4, 2.5e-4]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"learning_rate": 0.1},
            r"last\.safetensors: .* began with learning_rate 0.001, now it is 0.1",
        ),
        ({"encoder": "resnet18"}, "began with encoder tu-test_resnet, now it is resnet18"),
        ({"facts": {"gsd_m": 0.3}}, "began with gsd_m 0.5, now it is 0.3; .* --force"),
        ({"facts": {"bands": ("red",)}}, r"began with bands \[1, 2, 3\], now it is \['red'\]"),
        ({"bins": SpeedBins((50.0,), "km/h")}, r"began with classes 8, now it is 3"),
        (
            {"bins": SpeedBins(DEFAULT_BINS.edges, "km/h")},
            "began with bin_unit mph, now it is km/h",
        ),
    ],
)
def test_another_training_in_the_folder_is_refused(run, tmp_path, changes, words):
    run(tmp_path, epochs=1)
    with pytest.raises(ConfigError, match=words):
        run(tmp_path, **changes)


def test_a_loss_that_is_no_number_stops_before_anything_is_saved(run, tmp_path, monkeypatch):
    def nan(logits, *_, **__):
        return logits.sum() * math.nan

    monkeypatch.setattr(training, "road_loss", nan)
    with pytest.raises(RoadsegError, match="no longer a number"):
        run(tmp_path / "fold")
    assert not (tmp_path / "fold").exists()


@pytest.mark.parametrize(("batch_size", "refused"), [(4, False), (5, True)])
def test_a_batch_larger_than_an_epoch_is_refused(run, tmp_path, batch_size, refused):
    if not refused:
        assert run(tmp_path, epochs=1, batch_size=batch_size)
        return
    with pytest.raises(ConfigError, match="batch_size: expected at most 4"):
        run(tmp_path, epochs=1, batch_size=batch_size)


def test_validation_chips_without_data_are_refused(make_chips, cpu, tmp_path):
    mask = torch.full((128, 128), 255, dtype=torch.uint8).numpy()
    mask[:64] = 1
    chips = make_chips(mask=mask, chip_px=64)
    with pytest.raises(DataError, match="no pixel with data"):
        train(chips[:2], chips[2:], tmp_path, **SETTINGS | {"device": cpu, "epochs": 1})


def test_chips_with_several_scalings_are_refused(make_chips, cpu, tmp_path):
    chips = make_chips(chip_px=64)
    other = replace(chips[0], scaling=Scaling({}, mean=(0.0,) * 3, std=(1.0,) * 3))
    with pytest.raises(DataError, match="another scaling"):
        train(chips, [other], tmp_path, **SETTINGS | {"device": cpu})


def test_iou_counts_the_valid_pixels_of_any_road():
    logits = torch.full((1, 8, 1, 5), -1.0)
    logits[0, 7, 0, [0, 1, 4]] = 1.0
    mask = torch.tensor([[[2, 0, 7, 0, 255]]], dtype=torch.uint8)
    valid, found, wrong, missed = training._count(logits, mask).tolist()  # noqa: SLF001
    assert (valid, found, wrong, missed) == (4, 1, 1, 1)
