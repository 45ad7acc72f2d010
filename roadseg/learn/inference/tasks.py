"""Scenes to predict, in tasks that predict rows of them in any process."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from roadseg.arrays import Bools, Bytes
from roadseg.learn.hardware.cpu import keep_freed_memory
from roadseg.learn.hardware.devices import chosen_device
from roadseg.learn.inference.engines import Engine, at_sizes, ensemble, open_engine, with_tta
from roadseg.learn.inference.sliding_window import predict_parts, rows_and_cols
from roadseg.learn.network.checkpoints import load_checkpoint
from roadseg.learn.options import ComputeOptions, PredictOptions
from roadseg.raster.images import RasterFacts
from roadseg.raster.pixels import SceneReader
from roadseg.raster.scaling import Scaling
from roadseg.raster.strips import Strips
from roadseg.raster.windows import Rows, Window
from roadseg.roads.logistic import EdgeModel
from roadseg.roads.masks.mask_files import read_raster_key
from roadseg.roads.masks.probabilities import network_tags, unless_made, write_probability
from roadseg.roads.speeds import SpeedBins
from roadseg.system.files import writing

_STRIPS_OF_A_TASK = 2  # Each task predicts some rows of windows above it once more.

AddKm2 = Callable[[float], object]


class WindowSides(NamedTuple):
    """Sides of the square windows of a scene, pixels.

    Attributes:
        read: of the windows that are read from the scene.
        resampled: for each network, those to which its windows are resampled; its predictions at
            several sides are averaged.
    """

    read: int
    resampled: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Networks:
    """Networks whose predictions are averaged, and how they are opened.

    Attributes:
        folders: checkpoint folders of the networks.
        stamps: stamps of their weights, so that changed weights are opened anew.
        windows: number of windows in all scenes with these sides, finished or not, so that every
            process, and a command that resumes, chooses the same engine.
    """

    folders: tuple[Path, ...]
    stamps: tuple[str, ...]
    options: PredictOptions
    compute: ComputeOptions
    sides: WindowSides
    batch_size: int
    windows: int


@dataclass(frozen=True)
class SceneToPredict:
    """A scene, and the probability raster to write for it.

    Attributes:
        path: path of the raster.
        key: digest of everything that the raster is made from.
        bins: speed bins of the bands of the raster.
        threshold: probability from which a pixel counts as road; None if not known.
        edge_model: model of the confidence of edges; None if not known, or if the stage graph
            fits one for this scene.
        tags: provenance, as pairs of key and value.
    """

    name: str
    facts: RasterFacts
    scaling: Scaling
    path: Path
    key: str
    bins: SpeedBins
    threshold: float | None
    edge_model: EdgeModel | None
    tags: tuple[tuple[str, str], ...]
    sides: WindowSides

    @property
    def is_predicted(self) -> bool:
        """Whether its raster is complete and up to date."""
        return read_raster_key(self.path) == self.key

    @property
    def strips(self) -> Strips:
        """Strips of the raster, which are removed when it is complete."""
        bands = len(self.bins.band_names)
        return Strips.beside(self.path, self.key, grid=self.facts.grid, bands=bands)

    @property
    def pixel_km2(self) -> float:
        """Ground that a pixel covers, square kilometres."""
        width_m, height_m = self.facts.grid.pixel_size_m
        return width_m * height_m / 1e6

    def write(self, rows: Iterable[Rows]) -> None:
        """Write the raster from these rows and the strips of the others."""
        write_probability(
            self.path,
            rows,
            self.facts.grid,
            bins=self.bins,
            key=self.key,
            tags=dict(self.tags) | network_tags(self.threshold, self.edge_model),
        )


@dataclass(frozen=True)
class Task:
    """Rows of a scene to predict.

    Attributes:
        rows: rows of missing strips, each range a number of whole strips.
        is_all: whether no other rows are missing, so that the task can write the raster.
    """

    scene: SceneToPredict
    rows: tuple[range, ...]
    is_all: bool
    networks: Networks

    @property
    def km2(self) -> float:
        """Ground to predict, square kilometres."""
        pixels = sum(map(len, self.rows)) * self.scene.facts.grid.width
        return pixels * self.scene.pixel_km2


@lru_cache(maxsize=1)
def open_networks(networks: Networks) -> Engine:
    """Open networks as one engine, which stays open until others are opened.

    Raises:
        CheckpointError: if a checkpoint cannot be read, or its engine is not ready.
        DeviceError: if the machine lacks the device, or software for the engine.
    """
    keep_freed_memory()
    device, options = chosen_device(networks.compute), networks.options

    def opened(folder: Path, side: int) -> Engine:
        return open_engine(
            load_checkpoint(folder),
            folder,
            name=options.engine,
            device=device,
            window_px=side,
            batch_size=networks.batch_size,
            windows=networks.windows,
        )

    engine = ensemble(
        [
            at_sizes([opened(folder, side) for side in resampled], networks.sides.read)
            for folder, resampled in zip(networks.folders, networks.sides.resampled, strict=True)
        ]
    )
    return with_tta(engine) if options.tta else engine


def predict_task(task: Task, *, add_km2: AddKm2 = lambda _: None) -> None:
    """Predict the rows of a task; write the raster if no other rows are missing.

    Args:
        add_km2: called with the square kilometres of every finished part.

    Raises:
        DataError: if the scene cannot be read.
        OutputError: if the raster cannot be written.
    """
    scene = task.scene
    with SceneReader(scene.facts, rows=task.networks.sides.read) as source:
        parts = predicted_rows(scene, task.networks, source, task.rows, add_km2)
        if task.is_all:
            scene.write(parts)
        else:  # The process that writes the last strips makes the raster.
            with unless_made(scene.path, scene.key), writing(scene.path):
                scene.strips.write(parts)


def predicted_rows(
    scene: SceneToPredict,
    networks: Networks,
    source: SceneReader,
    strips: Iterable[range],
    add_km2: AddKm2 = lambda _: None,
) -> Iterator[Rows]:
    """Predict rows of a scene or of a part of it, in the windows of the whole scene."""

    def read(window: Window) -> tuple[Bytes, Bools]:
        bands, valid = source.read(scene.facts.in_part(window))
        return scene.scaling.apply(bands), valid

    whole, (down, across) = scene.facts.whole_grid, rows_and_cols(scene.facts)
    for strip in strips:
        parts = predict_parts(
            open_networks(networks),
            read,
            classes=len(scene.bins.band_names),
            height=whole.height,
            width=whole.width,
            overlap_px=networks.options.overlap_px,
            rows=range(down.start + strip.start, down.start + strip.stop),
            cols=across,
        )
        with closing(parts):
            for part in parts:
                yield part._replace(start=part.start - down.start, col=part.col - across.start)
                add_km2(part.known.size * scene.pixel_km2)


def divide_scene(scene: SceneToPredict, networks: Networks, *, shared: bool) -> Iterator[Task]:
    """Divide the missing parts of a scene into tasks for one or several processes."""
    missing = scene.strips.missing
    # What is there already stays with this process, which finishes the raster.
    is_all = not (shared and scene.strips.is_begun)
    size = _STRIPS_OF_A_TASK if shared else max(len(missing), 1)
    for first in range(0, max(len(missing), 1), size):
        rows = tuple(_joined(missing[first : first + size]))
        yield Task(scene, rows, is_all and len(missing) <= size, networks)


def _joined(strips: Sequence[range]) -> Iterator[range]:
    """Join the rows of adjoining strips."""
    start: int | None = None
    for strip, following in itertools.zip_longest(strips, strips[1:]):
        start = strip.start if start is None else start
        if following is None or following.start != strip.stop:
            yield range(start, strip.stop)
            start = None
