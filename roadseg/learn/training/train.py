"""Training: from chips to checkpoints; wherever it is interrupted, it goes on from there."""

import hashlib
import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from roadseg.errors import CheckpointError, DataError
from roadseg.learn.hardware.devices import Device
from roadseg.learn.hardware.distributed import Parallel, freeze_unused
from roadseg.learn.hardware.interrupts import postponed
from roadseg.learn.network.checkpoint_facts import Facts
from roadseg.learn.network.checkpoints import (
    is_sound,
    read_tensors,
    write_facts_beside,
)
from roadseg.learn.network.models import check_batch, check_window
from roadseg.learn.network.pretrained import build_pretrained, init_from
from roadseg.learn.options import DistributedOptions, TrainOptions
from roadseg.learn.training.epochs import LOSS, Epochs, Progress, seed_step
from roadseg.learn.training.history import Row, has_ended, read_last
from roadseg.learn.training.learner import Learner, new_learner
from roadseg.learn.training.loaders import TrainingBatches, validation_batches
from roadseg.learn.training.profiles import profiled
from roadseg.learn.training.recipe import first_weights, fixed
from roadseg.learn.training.samples import Chip
from roadseg.learn.training.tensorboard import open_board, require_tensorboard
from roadseg.raster.scaling import Scaling
from roadseg.roads.speeds import SpeedBins
from roadseg.system.files import remove_partial

_log = logging.getLogger(__name__)


def train(
    training: Sequence[Chip],
    validation: Sequence[Chip],
    folder: Path,
    *,
    recipe: TrainOptions,
    facts: Mapping[str, Any],
    bins: SpeedBins,
    device: Device,
    parallel: Parallel,
    sharing: DistributedOptions,
    workers: int,
    save_minutes: float,
    tensorboard: bool,
    profile: int = 0,
    anew: bool = False,
    started: Callable[[], None] = lambda: None,
    after_epoch: Callable[[list[Row]], None] = lambda _: None,
) -> list[Row]:
    """Train a network, or go on with the training that `folder` holds.

    `last.safetensors` holds all that the next step needs; it is written after every epoch,
    every few minutes, and when the process is asked to stop (SIGINT, SIGTERM). Every finished
    epoch also leaves `best.safetensors` (the epoch that is best by `recipe.best_by`),
    and `metrics.csv`. Called again with the same recipe it goes on after the last
    step that was kept, and on a CPU ends with the same weights, bit for bit, as if it had never
    stopped. Nothing random has a state that could get lost: every window with its augmentation,
    and every step, has a generator of its own, seeded by the seed and its number.

    Args:
        training: chips to learn from.
        validation: chips to measure on.
        folder: where checkpoints and metrics are written, by the first process.
        recipe: what decides about the weights.
        facts: JSON values to keep in the checkpoint beside those known here (bands, GSD, ...);
            a training goes on only with the same ones.
        bins: speed bins of the masks.
        device: where the network runs.
        parallel: the processes that train together.
        sharing: how they do.
        workers: processes that read and augment windows; 0 does it here.
        save_minutes: minutes between two writings of `last` inside an epoch.
        tensorboard: whether to write scalars and pictures for TensorBoard.
        profile: steps of which each process writes a trace into `profile/`.
        anew: whether to begin again, whatever the folder holds; that is removed only once all
            is ready to begin.
        started: called then, or once the folder is known to hold this training or none.
        after_epoch: called in the first process with one row for each epoch so far, after each.

    Returns:
        One row an epoch, as in metrics.csv.

    Raises:
        ConfigError: if the settings do not go together, or the folder holds a training that had
            others.
        DataError: if a chip cannot be read, or no validation pixel has data.
        RoadsegError: if the loss is no longer a number.
    """
    if tensorboard:
        require_tensorboard()
    same: dict[str, Any] = {
        "recipe": recipe,
        "facts": facts,
        "bins": bins,
        "device": device,
        "sharing": sharing,
    }
    settings = settings_of(training, validation, **same) | {"processes": parallel.size}
    last = None if anew else read_last(folder, settings)
    parallel.wait()  # until all have read it

    def begin() -> None:
        if parallel.first:
            if anew:
                shutil.rmtree(folder, ignore_errors=True)
            started()
            remove_partial(folder)
        parallel.wait()

    if last and has_ended(last["history"], recipe):
        begin()
        if parallel.first:
            write_facts_beside(folder, "best")
        return list(last["history"])
    loading: dict[str, Any] = {
        "parallel": parallel,
        "workers": workers,
        "pin_memory": device.pin_memory,
    }
    batches = TrainingBatches(training, recipe, **loading)
    covers = validation_batches(validation, recipe, **loading)
    progress = _progress(folder, last, device)
    next_step = len(progress.history) * batches.steps + progress.step + 1
    with torch.random.fork_rng(_accelerators(device)):
        learner = _learner(
            folder, last, recipe, settings, device=device, parallel=parallel, sharing=sharing
        )
        begin()
        shown = tensorboard and parallel.first
        with (
            open_board(folder / "tensorboard" if shown else None, first_step=next_step) as board,
            profiled(
                folder / "profile", steps=profile, device=device, rank=parallel.rank
            ) as stepped,
            postponed() as stop,
        ):
            return Epochs(
                learner=learner,
                batches=batches,
                covers=covers,
                folder=folder,
                recipe=recipe,
                settings=settings,
                progress=progress,
                parallel=parallel,
                save_minutes=save_minutes,
                board=board,
                stop=stop,
                stepped=stepped,
                after_epoch=after_epoch,
            ).run()


def settings_of(
    training: Sequence[Chip],
    validation: Sequence[Chip],
    *,
    recipe: TrainOptions,
    facts: Mapping[str, Any],
    bins: SpeedBins,
    device: Device,
    sharing: DistributedOptions,
) -> Facts:
    """Return what has to stay as it is for a training to go on, but for the processes; see `train`.

    Raises:
        ConfigError: if the settings do not go together.
        DataError: if the chips are not scaled alike.
    """
    check_window(recipe.window_px)
    return {
        **facts,
        **_settings(recipe, _shared_scaling([*training, *validation]), bins),
        **{f"first_{name}": told for name, told in first_weights(recipe).items()},
        "sharing": sharing.model_dump(),
        "training_chips": _digest(training),
        "validation_chips": _digest(validation),
        "precision": device.precision,
        "backend": device.backend,
    }


def _settings(recipe: TrainOptions, scaling: Scaling, bins: SpeedBins) -> Facts:
    """Return what a checkpoint says of its network, and what has to stay as it is."""
    return {
        **fixed(recipe),
        "in_channels": len(scaling.mean),
        "classes": bins.count + 1,
        "bin_edges": bins.edges,
        "bin_unit": bins.unit,
        "scaling": asdict(scaling),
    }


def _learner(
    folder: Path,
    last: Facts | None,
    recipe: TrainOptions,
    settings: Facts,
    *,
    device: Device,
    parallel: Parallel,
    sharing: DistributedOptions,
) -> Learner:
    """Build the network and its optimizer, as new or as the folder has them."""
    seed_step(recipe.seed, 0, 0)
    new = last is None
    model = build_pretrained(
        architecture=recipe.architecture,
        encoder=recipe.encoder,
        encoder_weights=recipe.encoder_weights if new and recipe.init is None else None,
        in_channels=settings["in_channels"],
        classes=settings["classes"],
    )
    if new and recipe.init is not None:
        taken = init_from(
            model,
            recipe.init,
            architecture=recipe.architecture,
            encoder=recipe.encoder,
            in_channels=settings["in_channels"],
            bins=SpeedBins(settings["bin_edges"], settings["bin_unit"]),
        )
        _log.info("%s: starting from %s", recipe.init, taken)
    check_batch(
        model.train(),
        in_channels=settings["in_channels"],
        window_px=recipe.window_px,
        batch_size=recipe.batch_size,
    )
    model = device.to(model)
    if parallel.size > 1:
        side = recipe.window_px
        freeze_unused(model, torch.zeros(1, settings["in_channels"], side, side).to(device.type))
    return new_learner(
        model,
        recipe,
        state=None if last is None else (read_tensors(folder, "last"), last),
        scaling=Scaling.from_json(settings["scaling"]),
        device=device,
        parallel=parallel,
        sharing=sharing,
    )


def _progress(folder: Path, last: Facts | None, device: Device) -> Progress:
    """Say how far the training in the folder has come."""
    if last is None:
        return Progress([], torch.zeros((), device=device.type))
    history, step = last["history"], last["step"]
    _log.info("%s: going on after epoch %d, step %d", folder, len(history), step)
    loss = read_tensors(folder, "last", LOSS).get("")
    if loss is None or loss.shape or not (loss.is_floating_point() and is_sound(loss)):
        raise CheckpointError(
            f"{folder / 'last.safetensors'}: {LOSS}: expected a number; restore the file, or train "
            "anew with --force"
        )
    return Progress(list(history), loss.to(device.type), step, last["seconds"])


def _accelerators(device: Device) -> list[int]:
    """Return whose random generators a training must leave as they were."""
    return [torch.cuda.current_device()] if device.type == "cuda" else []


def _shared_scaling(chips: Sequence[Chip]) -> Scaling:
    first = chips[0]
    for chip in chips:
        if chip.scaling != first.scaling:
            raise DataError(
                f"{chip.scene.path} has another scaling than {first.scene.path}, "
                "expected one for all"
            )
    return first.scaling


def _digest(chips: Sequence[Chip]) -> str:
    """Return what tells one list of chips from another, wherever their folder lies."""
    text = repr([(chip.scene.path.name, tuple(chip.window)) for chip in chips])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
