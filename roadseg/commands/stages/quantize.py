"""quantize: quantise the network of a checkpoint to INT8, if it stays accurate.

Reads chips.json, folds.json and a checkpoint; writes checkpoints/fold-<k>/int8/.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from roadseg.arrays import Bools, Bytes
from roadseg.commands.stages.training_jobs import chips_to_learn, scenes_to_learn
from roadseg.config import Config
from roadseg.dataset.chips import ChipList, ChipRecord, read_chips
from roadseg.dataset.fold_files import read_fold_chips
from roadseg.dataset.reference_graphs import Reference, count_roads, mean_apls, read_reference
from roadseg.errors import RoadsegError
from roadseg.learn.hardware.devices import chosen_device
from roadseg.learn.inference import openvino
from roadseg.learn.inference.engines import ROTATIONS, Engine, openvino_precision
from roadseg.learn.inference.int8 import (
    int8_folder,
    is_judged,
    read_int8_facts,
    unusable,
    write_int8_facts,
)
from roadseg.learn.inference.quantisation import quantise
from roadseg.learn.inference.sliding_window import count_windows, predict_parts, whole_of
from roadseg.learn.network.checkpoint_facts import threshold_of
from roadseg.learn.network.checkpoints import Checkpoint, load_checkpoint
from roadseg.learn.training.samples import Chip
from roadseg.raster.pixels import read_window
from roadseg.raster.windows import CERTAIN, Window, fitting_batch, spread
from roadseg.roads.graph.clipping import clip_graph
from roadseg.roads.masks.burning import IGNORE
from roadseg.roads.masks.mask_files import read_mask
from roadseg.roads.masks.probabilities import Probability
from roadseg.roads.metrics.compare import score_apls
from roadseg.roads.metrics.pixels import Counts, count_pixels
from roadseg.roads.options import CompareOptions
from roadseg.roads.tracing.trace import find_graph
from roadseg.system.dry_runs import Plan
from roadseg.system.progress import counted
from roadseg.system.stage_records import MadeFrom, Stage, read_stage_key
from roadseg.system.text import Summary, count
from roadseg.system.workspace import Workspace

_WINDOWS = 64  # Windows of training chips on which a network is calibrated.
_JUDGED = 32  # Held-out chips on which it is judged at most.
# Megapixels left to predict from which on a run quantises its network by itself, by the precision
# of OpenVINO on this CPU: that saves twice what it takes, or more, which is 50 CPU s at least.
PAYS_MPX = {"fp32": 500, "bf16": 3000}
# The least IoU between the masks of the quantised network and of the exact one, and the largest
# losses on the held-out chips, with which it is used.
LIMITS = {"min_mask_iou": 0.97, "max_f1_loss": 0.005, "max_apls_loss": 0.02}

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Accuracy:
    """Accuracy of the quantised network and of the float32 network on the held-out chips.

    Attributes:
        mask_iou: IoU of the road masks of both networks, with pixels pooled over all chips.
        f1: F1 of the pixels of the quantised network with the labels.
        exact_f1: the same of the float32 network.
        apls: APLS length of the graphs of the quantised network, mean over chips with roads.
        exact_apls: the same of the float32 network.
    """

    mask_iou: float
    f1: float
    exact_f1: float
    apls: float
    exact_apls: float

    def misses(self) -> list[str]:
        """Return the figures that miss their limits; a figure equal to its limit is accepted."""
        figures = {
            "mask IoU": (self.mask_iou, LIMITS["min_mask_iou"], "at least"),
            "loss of pixel F1": (self.exact_f1 - self.f1, LIMITS["max_f1_loss"], "at most"),
            "loss of APLS": (self.exact_apls - self.apls, LIMITS["max_apls_loss"], "at most"),
        }
        return [
            f"{name} {value:.4f}, expected {word} {limit:g}"
            for name, (value, limit, word) in figures.items()
            if (value < limit if word == "at least" else value > limit)
        ]


@dataclass(frozen=True)
class QuantizeSummary(Accuracy, Summary):
    """An INT8 network, and how accurate it is."""

    fold: int
    folder: str
    chips: int

    def __str__(self) -> str:
        """Return the figures as a table."""
        rows = [
            ("mask IoU", f"{self.mask_iou:.4f}", "1"),
            ("pixel F1", f"{self.f1:.4f}", f"{self.exact_f1:.4f}"),
            ("APLS length", f"{self.apls:.4f}", f"{self.exact_apls:.4f}"),
        ]
        return "\n".join(
            [
                f"{f'fold {self.fold}':<12} {'INT8':>10} {'float32':>10}",
                *(f"{name:<12} {quantised:>10} {exact:>10}" for name, quantised, exact in rows),
                f"{count(self.chips, 'held-out chip')}; {self.folder}",
            ]
        )


def run(config: Config, workspace: Workspace, *, fold: int, force: bool = False) -> QuantizeSummary:
    """Quantise the network of a fold; calibrate it on training chips, measure it on held-out ones.

    Raises:
        RoadsegError: if the network misses one of the `LIMITS`; then `predict` does not use it.
    """
    folder, stage = workspace.checkpoint(fold), _stage(config, workspace, fold)
    if done := stage.summary(QuantizeSummary, force=force or not _is_ready(folder)):
        return done
    listed = read_chips(workspace.chips)
    parted = read_fold_chips(workspace, listed.chips, fold)
    checkpoint = load_checkpoint(folder)
    window_px, batch_size = _windows(config, listed.chips)
    scenes, scaling = scenes_to_learn(config, listed), checkpoint.scaling
    training, held_out = (
        chips_to_learn(config, workspace, listed, side, scenes=scenes, scaling=scaling)
        for side in (parted.training, spread(parted.held_out, _JUDGED))
    )
    stage.begin()
    engines = quantise(
        checkpoint, folder, training, window_px=window_px, batch_size=batch_size, windows=_WINDOWS
    )
    accuracy = measure(config, checkpoint, listed, held_out, engines)
    misses = accuracy.misses()
    write_int8_facts(folder, {"passed": not misses, **asdict(accuracy), "limits": LIMITS})
    if misses:
        raise RoadsegError(
            f"the INT8 network is refused: {'; '.join(misses)}; predict goes on without it"
        )
    summary = QuantizeSummary(
        fold=fold,
        folder=str(int8_folder(folder)),
        chips=len(held_out),
        **asdict(accuracy),
    )
    # The files of the network lie beside its record.
    beside = sorted(path for path in stage.path.parent.iterdir() if path.is_file())
    stage.finish(summary, [path for path in beside if path != stage.path])
    return summary


def run_if_it_pays(
    config: Config, workspace: Workspace, *, fold: int, megapixels: Callable[[], float]
) -> None:
    """Quantise the network of a fold before it predicts, if that saves time.

    It does from `PAYS_MPX` on, on a CPU, if the engine is "auto", and OpenVINO with NNCF is
    installed. A network that was accepted or refused before is not quantised again. The log says
    what was done, or why not; prediction continues in either case.

    Args:
        megapixels: function that returns the megapixels left to predict; called only if all other
            conditions but the device are met. With `predict.tta`, each rotation counts.

    Raises:
        RoadsegError: if the prediction would fail as well.
        CheckpointError: if there is an INT8 network whose facts are damaged.
    """
    if config.predict.engine != "auto" or not openvino.can_build():
        return
    if is_judged(workspace.checkpoint(fold)):
        return
    left = megapixels() * (ROTATIONS if config.predict.tta else 1)
    if left < min(PAYS_MPX.values()):
        return
    device = chosen_device(config.compute)
    is_native = (device.type, device.backend, device.compiler) == ("cpu", "native", None)
    if not is_native or left < PAYS_MPX[openvino_precision(device)]:
        return
    _log.info("quantising the network first, as there is much to predict")
    try:
        done = run(config, workspace, fold=fold)
    except RoadsegError as error:
        _log.warning("not quantised: %s", error)
    else:
        _log.info(
            "quantised to INT8: mask IoU %.3f with float32 on %s",
            *(done.mask_iou, count(done.chips, "held-out chip")),
        )


def plan(config: Config, workspace: Workspace, *, fold: int, force: bool = False) -> Plan:
    """Return what `run` would do."""
    folder, stage = workspace.checkpoint(fold), _stage(config, workspace, fold)
    is_ready = _is_ready(folder)
    reason = stage.reason(force=force or not is_ready)
    chips = read_chips(workspace.chips).chips
    now = min(len(read_fold_chips(workspace, chips, fold).held_out), _JUDGED)
    planned = stage.plan(reason, now=now)
    if force or is_ready:
        return planned
    return replace(planned, why="the INT8 network is not ready")


def _stage(config: Config, workspace: Workspace, fold: int) -> Stage:
    def made_from() -> MadeFrom:
        key = read_stage_key(workspace.train_record(fold), made_by=f"train --fold {fold}")
        of_windows = {"window_px", "overlap_px", "batch_size"}
        settings = {
            "predict": config.predict.model_dump(mode="json", include=of_windows),
            "graph": config.graph.model_dump(mode="json"),
            "fold": fold,
        }
        return MadeFrom(settings, {"what train made": key}, Config.defaults())

    folder = int8_folder(workspace.checkpoint(fold))
    return Stage(
        folder / "quantize.json",
        made_from,
        writes=(folder,),
        unit="chips",
    )


def _is_ready(folder: Path) -> bool:
    facts = read_int8_facts(folder)
    return facts is not None and not unusable(facts, folder)


def _windows(config: Config, chips: Iterable[ChipRecord]) -> tuple[int, int]:
    """Return the side of the windows that fits most chips, and the batch size."""
    options = config.predict
    sizes = [(chip.window.height, chip.window.width) for chip in chips]
    ((window_px, _),) = Counter(options.window_for(*size) for size in sizes).most_common(1)
    windows = (
        count_windows(*size, window_px=window_px, overlap_px=options.overlap_px) for size in sizes
    )
    return window_px, fitting_batch(windows, most=options.most_at_once(window_px))


def measure(
    config: Config,
    checkpoint: Checkpoint,
    listed: ChipList,
    chips: Sequence[Chip],
    engines: Sequence[Engine],
) -> Accuracy:
    """Predict chips with the quantised and the exact network; compare both, and with the labels."""
    tracing, references = config.graph, dict[str, Reference]()
    masks, pixels, apls = Counts(), [Counts(), Counts()], [list[float](), list[float]()]
    for chip in counted(chips, "compare", total=len(chips), unit="chips"):
        name = chip.mask.stem
        if name not in references:
            scene = listed.scene(name)
            own = config.of_set(scene.set)
            references[name] = read_reference(
                *(scene, chip.mask, chip.scene.grid),
                labels=own.labels,
                imagery=own.imagery,
                tracing=own.graph,
            )
        labels, area = read_mask(chip.mask, chip.window), references[name].area_in(chip.window)
        roads = clip_graph(references[name].roads, area)
        both = [_predict(config, checkpoint, engine, chip) for engine in engines]
        threshold = tracing.threshold_for(both[0].threshold)
        int8, exact = (predicted.road >= threshold * CERTAIN for predicted in both)
        masks += count_pixels(exact, int8, labels != IGNORE)
        for side, predicted in enumerate(both):
            pixels[side] += count_roads(labels, predicted.road, threshold=threshold)
            graph = clip_graph(find_graph(predicted, tracing), area)
            if len(roads.lines) or len(graph.lines):
                apls[side].append(score_apls(roads, graph, CompareOptions()))
    return Accuracy(masks.iou, pixels[0].f1, pixels[1].f1, *map(mean_apls, apls))


def _predict(config: Config, checkpoint: Checkpoint, engine: Engine, chip: Chip) -> Probability:
    top, left, height, width = chip.window
    classes = checkpoint.bins.count + 1

    def read(window: Window) -> tuple[Bytes, Bools]:
        here = window._replace(row=top + window.row, col=left + window.col)
        bands, valid = read_window(chip.scene, here)
        return chip.scaling.apply(bands), valid

    parts = predict_parts(
        engine,
        read,
        classes=classes,
        height=height,
        width=width,
        overlap_px=config.predict.overlap_px,
    )
    bands, _ = whole_of(parts, classes=classes, height=height, width=width)
    grid = chip.scene.grid.crop(*chip.window)
    threshold = threshold_of([checkpoint.facts], chip.set)
    return Probability(grid, bands[-1], bands[:-1], checkpoint.bins, threshold)
