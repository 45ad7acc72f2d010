"""adapt: train a network on images without labels, with the roads of which it is sure.

One round of self-training (D.-H. Lee, Pseudo-Label, 2013), in which the labels are edges of the
traced graph rather than pixels. Reads images; writes a run folder of its own inside that of their
map: first probabilities, masks of the certain roads in them, and the network trained on these.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from os.path import normpath
from pathlib import Path
from typing import Any

import numpy as np

from roadseg.arrays import Bools
from roadseg.commands.stages import graph, pipeline, predict, quantize, train
from roadseg.commands.tools import init
from roadseg.config import FILE_NAME, Config, load_config
from roadseg.dataset.edge_calibration import read_calibration, write_calibration
from roadseg.learn.network.checkpoint_facts import checkpoint_path, read_checkpoint_facts
from roadseg.learn.network.models import NetworkSpec
from roadseg.raster.grid import Grid
from roadseg.raster.images import read_scene_grid
from roadseg.raster.inputs import find_images
from roadseg.review.masks import PSEUDO_LABELS, SURE, SURE_WIDTHS_M, Decided, decided_labels
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.masks.mask_files import read_raster_key, write_mask
from roadseg.roads.masks.probabilities import ProbabilityFile
from roadseg.roads.options import TraceOptions
from roadseg.roads.speeds import DEFAULT_BINS
from roadseg.roads.tracing.trace import rate_edges
from roadseg.system.progress import counted
from roadseg.system.records import key_of
from roadseg.system.stage_records import read_stage_key
from roadseg.system.text import Summary
from roadseg.system.units import road_text
from roadseg.system.workspace import Workspace

LEAST_KM = 0.5  # Kilometres of certain roads from which on a network is adapted.
_FOLD = 0
_KM = 1000  # Metres.
_OFF = 0.01  # Share by which pixels may differ from those of their image.
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AdaptSummary(Summary):
    """Figures of an adaptation of a network.

    Attributes:
        checkpoint: checkpoint folder of the adapted network.
        images: number of images with certain roads, on which it was trained.
        sure_km: kilometres of these roads.
        road_km: kilometres of all roads of the first map.
        trained: summary of the training on chips of these images.
    """

    checkpoint: str
    images: int
    sure_km: float
    road_km: float
    trained: train.TrainSummary

    def __str__(self) -> str:
        """Return the figures as a sentence."""
        return (
            f"learned from {road_text(self.sure_km)} of {road_text(self.road_km)} of roads, whose "
            f"confidence was at least {SURE:g}: {self.trained.epochs} epochs on "
            f"{self.trained.training_chips} chips in {self.trained.seconds:.0f} s; "
            f"{self.checkpoint}"
        )


@dataclass(frozen=True)
class _Labels:
    """Masks of the certain roads of a first map.

    Attributes:
        images: absolute paths of the images with such roads.
        gsd_m: pixel size to which images were resampled for the map, metres; None if they were not.
    """

    images: tuple[str, ...]
    sure_km: float
    road_km: float
    gsd_m: float | None


def run(
    path: Path,
    workspace: Workspace,
    images: Sequence[str],
    start: Path,
    *,
    settings: Sequence[str],
    force: bool = False,
    say: pipeline.Say,
) -> Path:
    """Adapt a network to images.

    If it is sure of too few roads, a warning is logged and `start` is returned. Finished work is
    not repeated.

    Args:
        path: config of the map.
        start: checkpoint folder of the network.
        settings: settings of this call, such as "train.minutes=2".

    Returns:
        The checkpoint folder of the adapted network, which is quantised if that shortens the
        remaining prediction.
    """
    config = load_config(path, settings)
    made = workspace.adapted
    own_path = made.root / FILE_NAME
    labels = _write_labels(config, made, images, start, force=force)
    if labels.sure_km < LEAST_KM:
        _log.warning(
            "the network is not adapted to these images, as it is sure of only %s of the roads "
            "that it found (confidence of at least %g); at least %s are needed",
            *(road_text(labels.sure_km), SURE, road_text(LEAST_KM)),
        )
        return start
    # The map is predicted as its own config says, whatever suits a training of this time.
    changes = [
        *_network_settings(start),
        *settings,
        f"predict.tta={str(config.predict.tta).lower()}",
    ]
    planned = load_config(own_path, changes) if own_path.exists() else None
    if planned is None or set(map(normpath, planned.imagery.images)) != set(labels.images):
        size = [] if labels.gsd_m is None else [f"imagery.gsd_m={labels.gsd_m}"]
        own = [f"run={made.root.absolute()}", f"labels.licence=none: {PSEUDO_LABELS}"]
        given = load_config(path, [*changes, *size, *own])
        masks = [str(made.pseudo_labels)]
        init.run(labels.images, masks, own_path, settings=given, force=True)
        planned = load_config(own_path, changes)
    pipeline.prepare(planned, made, force=force)
    _log.info("the labels are roads of the first map, so its IoU does not measure accuracy")
    network, again = made.checkpoint(_FOLD), force
    if checkpoint_path(network, "last").exists():  # Of other labels, it is of no use.
        before = read_checkpoint_facts(network, "last")["prepared_data"]
        again = force or before != read_stage_key(made.record("split"))
    trained = train.run_fold(planned, made, fold=_FOLD, force=again)
    # The confidence cannot be measured without labels; that of the first network is kept.
    if (calibration := read_calibration(start)) is not None:
        write_calibration(network, calibration)
    say(
        "adapt",
        AdaptSummary(str(network), len(labels.images), labels.sure_km, labels.road_km, trained),
    )

    def left() -> float:
        output = workspace.probabilities
        return predict.megapixels_left_of_images(
            config, images, network, output=output, force=force
        )

    # Its own labels can judge it, as INT8 has to find what float32 finds, right or wrong.
    quantize.run_if_it_pays(planned, made, fold=_FOLD, megapixels=left)
    return network


def _network_settings(start: Path) -> list[str]:
    """Return the settings of a training that starts from a network."""
    bands = read_checkpoint_facts(start, "best")["bands"]
    own = [f"imagery.bands={list(bands)}", f"train.init={start.absolute()}"]
    return own + [
        f"train.{key}={list(value) if isinstance(value, tuple) else value}"
        for key, value in network_form(start).items()
    ]


def network_form(start: Path) -> dict[str, Any]:
    """Return the options of `train` with which a training can start from a network."""
    spec = NetworkSpec.from_facts(read_checkpoint_facts(start, "best"))
    return {key: getattr(spec, key) for key in ("architecture", "encoder", "decoder_channels")}


def _write_labels(
    config: Config, made: Workspace, images: Sequence[str], start: Path, *, force: bool
) -> _Labels:
    """Map images for the first time, and write masks of the certain roads.

    This map is predicted without rotations (`predict.tta`), which are for the final map.
    """
    once = config.predict.model_copy(update={"tta": False})
    config = config.model_copy(update={"predict": once})
    predicted = predict.run_images(
        config, images, checkpoints=[start], output=made.probabilities, force=force
    )
    image_of = find_images(images)
    # What is doubtful is neither a label nor background.
    options = config.graph.model_copy(update={"precision": None, "min_confidence": 0.0})
    used, sure_km, road_km, gsd_m = [], 0.0, 0.0, None
    names = predicted.scenes
    for name in counted(names, "find certain roads", total=len(names), unit="scenes"):
        scene = graph.SceneToTrace(name, made.probability(name))
        found = scene.open(config)
        roads = graph.find_roads(config, scene, workers=config.compute.workers)
        roads = rate_edges(roads, found, options)
        road_km += roads.length_m.sum() / _KM
        if (km := roads.length_m[_are_sure(roads)].sum() / _KM) == 0:
            continue  # A mask without roads would teach that there are none.
        sure_km += km
        _write_mask(config, made.pseudo_labels / f"{name}.tif", found, roads)
        used.append(str(image_of[name].resolve()))
        gsd_m = resampled_m(found.grid, read_scene_grid(image_of[name], config.imagery)) or gsd_m
    return _Labels(tuple(used), float(sure_km), float(road_km), gsd_m)


def resampled_m(grid: Grid, image: Grid) -> float | None:
    """Return the pixel size of a grid, metres, if it differs from that of its image; else None.

    Images that were resampled for a network, such as the starter, are resampled in training too.
    """
    size_m = grid.pixel_size_m[0]
    return None if abs(size_m / image.pixel_size_m[0] - 1) <= _OFF else round(size_m, 4)


def _write_mask(config: Config, path: Path, found: ProbabilityFile, roads: RoadGraph) -> None:
    """Write the mask of an image, unless the same roads were found in the same probabilities."""
    tracing = config.graph.model_dump(mode="json", include=set(TraceOptions.model_fields))
    key = key_of(tracing, {"probability": read_raster_key(found.path) or ""})
    if path.exists() and read_raster_key(path) == key:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    near = _decided(roads).near(found.grid)
    with found.opened() as source:
        labels = decided_labels(source, near, bins=DEFAULT_BINS, options=config.graph)
        write_mask(path, labels, found.grid, bins=None, key=key)


def _decided(roads: RoadGraph) -> Decided:
    """Return roads as a review has them about which nobody decided, all of one speed."""
    width_m = np.nan_to_num(roads.attributes["width_m"].astype(np.float64))
    return Decided(
        crs=roads.crs,
        lines=roads.lines,
        state=np.where(_are_sure(roads), "sure", "doubtful").astype(object),
        width_m=width_m.clip(*SURE_WIDTHS_M),
        speed_mph=np.full(len(roads.lines), DEFAULT_BINS.speeds_mph[0]),
    )


def _are_sure(roads: RoadGraph) -> Bools:
    return np.asarray(roads.attributes["confidence"] >= SURE)
