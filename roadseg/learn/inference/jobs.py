"""Jobs: the prediction of many scenes with the networks of some checkpoints."""

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from roadseg.dataset.edge_calibration import read_calibration
from roadseg.dataset.scene_parts import cut_to_area
from roadseg.errors import CheckpointError, DataError, RoadsegError
from roadseg.learn.hardware.cpu import share_cores
from roadseg.learn.hardware.devices import chosen_device
from roadseg.learn.inference.compatibility import scaling_to_predict, scene_to_predict
from roadseg.learn.inference.engines import ROTATIONS
from roadseg.learn.inference.sliding_window import count_touching, whole_of
from roadseg.learn.inference.tasks import (
    Networks,
    SceneToPredict,
    Task,
    WindowSides,
    divide_scene,
    open_networks,
    predict_task,
    predicted_rows,
)
from roadseg.learn.network.checkpoint_facts import (
    Facts,
    checkpoint_path,
    read_checkpoint_facts,
    speed_bins_of,
    threshold_of,
)
from roadseg.learn.network.installed_weights import NAME, starter_folder
from roadseg.learn.options import ComputeOptions, PredictOptions, round_side
from roadseg.raster.extents import ScenePart
from roadseg.raster.grid import Grid
from roadseg.raster.images import RasterFacts
from roadseg.raster.options import ImageryOptions
from roadseg.raster.pixels import SceneReader
from roadseg.raster.scaling import Scaling
from roadseg.raster.strips import require_room
from roadseg.raster.windows import fitting_batch
from roadseg.roads.logistic import EdgeModel, mean_model
from roadseg.roads.masks.probabilities import Probability
from roadseg.system.files import refuse_to_overwrite
from roadseg.system.fingerprints import fingerprint, fingerprints, stamp
from roadseg.system.parallel import each
from roadseg.system.progress import Progress, counted
from roadseg.system.records import key_of
from roadseg.system.schemas import check
from roadseg.system.text import all_failed, count
from roadseg.system.workspace import ADAPTED, Fold, Workspace

logger = logging.getLogger(__name__)


class PredictionJob:
    """Prediction of scenes with the networks of some checkpoints, into a folder.

    Attributes:
        folder: folder of the probability rasters.
        folders: checkpoint folders of the networks, whose probabilities are averaged.
        failed: reasons why scenes were skipped, by name.
    """

    def __init__(
        self,
        checkpoints: tuple[Path, ...],
        folder: Path,
        *,
        imagery: ImageryOptions,
        predict: PredictOptions,
        compute: ComputeOptions,
        imagery_of: Mapping[str, ImageryOptions] | None = None,
        set_of: Mapping[str, str] | None = None,
        part_of: Mapping[str, ScenePart | None] | None = None,
    ) -> None:
        """Read the facts of the networks.

        Args:
            imagery: options for reading scenes that are not in `imagery_of`.
            imagery_of: options for reading the scenes of a run, by name; None if the scenes are
                from elsewhere.
            set_of: name of the set of each scene of the run, by name.
            part_of: part of each scene that its mask shows, by name; None for all of it.

        Raises:
            CheckpointError: if a checkpoint cannot be read, or they cannot predict together.
        """
        self._imagery, self._compute = imagery, compute
        self._options = predict
        self._imagery_of, self._set_of = imagery_of or {}, set_of or {}
        self._part_of = part_of or {}
        self.folder = folder
        self.folders = tuple(path.absolute() for path in checkpoints)
        self.failed: dict[str, str] = {}
        self._facts = _read_alike(self.folders)
        self._weights = [checkpoint_path(folder, "best") for folder in self.folders]

    @property
    def fold(self) -> Fold | None:
        """The fold that the only checkpoint held out; "all" if it was trained on all folds."""
        return self._facts[0].get("fold") if len(self.folders) == 1 else None

    def run(self, images: dict[str, Path], *, force: bool) -> list[SceneToPredict]:
        """Predict the scenes that are not predicted yet; return all that are predicted then.

        Raises:
            DataError: if all scenes fail.
        """
        scenes = self.describe(images)
        waiting = [scene for scene in scenes if force or not scene.is_predicted]
        for scene in waiting:
            if force:
                scene.strips.remove()
            require_room(scene.path, scene.strips.needed_bytes)
        self._predict(waiting, self.networks(scenes))
        done = [scene for scene in scenes if scene.name not in self.failed]
        if self.failed and not done:
            raise DataError(all_failed(self.failed))
        return done

    def in_memory(self, image: Path) -> Probability:
        """Predict a scene without writing anything.

        Raises:
            CheckpointError: if the networks were trained on other pixels.
            DataError: if the scene cannot be read.
        """
        (scene,) = self.describe({image.stem: image}, is_kept=False)
        networks, facts = self.networks([scene])[scene.name], scene.facts
        with SceneReader(facts, rows=networks.sides.read) as source:
            values, known = whole_of(
                predicted_rows(scene, networks, source, [range(facts.grid.height)]),
                classes=len(scene.bins.band_names),
                height=facts.grid.height,
                width=facts.grid.width,
            )
        return Probability(
            facts.grid,
            values[-1],
            values[:-1],
            scene.bins,
            threshold=scene.threshold,
            edge_model=scene.edge_model,
            extent=facts.extent,
            known=known,
        )

    def require_possible(self, scenes: Sequence[SceneToPredict]) -> None:
        """Raise the errors that stop a prediction before it begins.

        Raises:
            RoadsegError: if the disk has no room for a raster, or the device cannot be used.
        """
        for scene in scenes:
            require_room(scene.path, scene.strips.needed_bytes)
        if scenes:
            chosen_device(self._compute)

    def describe(self, images: dict[str, Path], *, is_kept: bool = True) -> list[SceneToPredict]:
        """Return the scenes that the networks can predict; nothing is predicted.

        Args:
            is_kept: whether rasters will be written. Their keys need the fingerprints of the
                images, for which these are read as a whole.

        Raises:
            ConfigError: if a raster would replace its image.
        """
        options, trained = self._options, self._facts
        known = check(trained[0]["scaling"], Scaling)
        bins = speed_bins_of(trained[0])
        paths = images.values()
        content_of = fingerprints(paths) if is_kept else dict.fromkeys(paths, "")
        weights = " ".join(map(fingerprint, self._weights))
        # Scenes of a run are calibrated by `graph`, which measures how sure their edges are.
        edges = None if self._imagery_of else _edge_model_of(self.folders)
        scenes = []
        for name, image in counted(images.items(), "inspect", total=len(images), unit="scenes"):
            path = self.folder.absolute() / f"{name}.tif"
            refuse_to_overwrite(path if is_kept else None, image, option="--output")
            try:
                facts = scene_to_predict(
                    image.absolute(),
                    trained[0],
                    imagery=self._imagery_of.get(name, self._imagery),
                    gsd=options.gsd,
                )
                facts = cut_to_area(
                    facts,
                    self._imagery.area,
                    part=self._part_of.get(name),
                    is_prepared=name in self._part_of,
                )
                scaling = scaling_to_predict(facts, known, unknown=options.scaling)
            except RoadsegError as error:
                self._fail(name, error)
                continue
            settings = options.model_dump(mode="json", exclude={"scenes", "mask", "scaling"}) | {
                "bands": facts.bands,
                "nodata": facts.nodata,
                "size": (facts.grid.height, facts.grid.width),
            }
            settings |= {} if facts.part is None else {"part": facts.part.digest}
            threshold = threshold_of(trained, self._set_of.get(name, ""))
            settings |= {} if threshold is None else {"threshold": threshold}
            scales = self._scales(facts)
            settings |= {} if all(each == [1] for each in scales) else {"scales": scales}
            settings |= {} if scaling is known else {"ranges": scaling.ranges[facts.dtype]}
            settings |= {} if edges is None else {"edges": edges.as_json()}
            settings |= {} if bins.are_known else {"speeds": "assumed"}
            scenes.append(
                SceneToPredict(
                    name,
                    facts,
                    scaling,
                    path,
                    key=key_of(settings, {"image": content_of[image], "weights": weights}),
                    bins=bins,
                    threshold=threshold,
                    edge_model=edges,
                    tags=_tags(image, self.folders, trained),
                    sides=self._sides(facts.whole_grid, scales),
                )
            )
        return scenes

    def _predict(self, scenes: Iterable[SceneToPredict], networks: Mapping[str, Networks]) -> None:
        """Predict scenes, here or in several processes; write a raster once it has all strips."""
        # Scenes with windows of one size follow each other, so that networks stay open.
        scenes = sorted(scenes, key=lambda scene: scene.sides)
        shared = self._compute.workers > 1
        tasks = [task for s in scenes for task in divide_scene(s, networks[s.name], shared=shared)]
        here = min(self._compute.workers, len(tasks)) <= 1
        if tasks:
            self._announce(tasks, here=here)
        left = Counter(task.scene.name for task in tasks)
        total = sum(task.km2 for task in tasks)
        with Progress("predict", total=total, unit="km2") as progress:
            work = partial(predict_task, add_km2=progress.add) if here else predict_task
            for outcome in each(work, tasks, workers=self._compute.workers, begin=share_cores):
                task = tasks[outcome.index]
                left[task.scene.name] -= 1
                if not here:
                    progress.add(task.km2)
                try:
                    if outcome.error is not None:
                        raise outcome.error
                    is_last = not left[task.scene.name]
                    if is_last and not task.is_all and task.scene.name not in self.failed:
                        task.scene.write([])  # Several tasks have made its strips.
                except RoadsegError as error:
                    self._fail(task.scene.name, error)
        open_networks.cache_clear()

    def networks(self, scenes: Sequence[SceneToPredict]) -> dict[str, Networks]:
        """Return the networks for the windows of each scene, by its name."""
        windows_of = defaultdict[WindowSides, list[int]](list)
        for scene in scenes:
            size = {"window_px": scene.sides.read, "overlap_px": self._options.overlap_px}
            windows_of[scene.sides].append(count_touching(scene.facts, **size))
        stamps, turns = tuple(map(stamp, self._weights)), ROTATIONS if self._options.tta else 1
        networks_for = {}
        for sides, windows in windows_of.items():
            most = self._options.most_at_once(max(map(max, sides.resampled)))
            networks_for[sides] = Networks(
                self.folders,
                stamps,
                self._options,
                self._compute,
                sides,
                batch_size=fitting_batch(windows, most=most),
                windows=sum(windows) * turns,
            )
        return {scene.name: networks_for[scene.sides] for scene in scenes}

    def _scales(self, facts: RasterFacts) -> Sequence[Sequence[float]]:
        """Return for each network the factors by which windows of a scene are enlarged for it."""
        size_m = sum(facts.whole_grid.pixel_size_m) / 2
        every = [trained.get("pixel_sizes_m", ()) for trained in self._facts]
        return [[round(size_m / each_m, 3) for each_m in sizes] or [1.0] for sizes in every]

    def _sides(self, grid: Grid, scales: Sequence[Sequence[float]]) -> WindowSides:
        """Return the sides of the windows of a scene that each network sees at some scales."""
        side = self._options.window_for(grid.height, grid.width, enlarged=max(map(max, scales)))
        resampled = ([round_side(side * scale) for scale in some] for some in scales)
        return WindowSides(side, tuple(tuple(dict.fromkeys(sides)) for sides in resampled))

    def _announce(self, tasks: Sequence[Task], *, here: bool) -> None:
        """Log the amount of work and, if this process does it, the engine."""
        scenes = count(len({task.scene.name for task in tasks}), "scene")
        km2 = sum(task.km2 for task in tasks)
        engine = f"; {open_networks(tasks[0].networks).reason}" if here and km2 else ""
        logger.info("to predict: %s, %.3f km2%s", scenes, km2, engine)

    def _fail(self, name: str, error: RoadsegError) -> None:
        if self._compute.on_error == "stop":
            raise error
        if name not in self.failed:  # Scenes may be described more than once.
            logger.warning("skipped %s: %s", name, error)
            self.failed[name] = str(error)


def _tags(
    image: Path, folders: Sequence[Path], trained: Sequence[Facts]
) -> tuple[tuple[str, str], ...]:
    """Return the provenance to write into a probability raster, as pairs of key and value."""

    def listed(values: Iterable[Any]) -> str:
        return ",".join(map(str, values))

    return (
        ("ROADSEG_SOURCE", image.name),
        ("ROADSEG_FOLD", listed(map(_network, folders, trained))),
        ("ROADSEG_EPOCH", listed(facts["epoch"] for facts in trained)),
        ("ROADSEG_VERSION", str(trained[0]["versions"]["roadseg"])),
    )


def _network(folder: Path, facts: Facts) -> object:
    """Return the fold of a network; of the starter and of an adapted network, the name."""
    if folder == starter_folder():
        return NAME
    is_adapted = Workspace(folder.resolve().parent.parent).pseudo_labels.is_dir()
    return ADAPTED if is_adapted else facts.get("fold")


def _read_alike(folders: Sequence[Path]) -> list[Facts]:
    """Read the facts of checkpoints whose predictions are to be averaged.

    Raises:
        CheckpointError: if one cannot be read, or they differ in bands, pixels or speed bins.
    """

    def shared(facts: Facts) -> Facts:
        names = ("bands", "resample_m", "nodata", "bin_edges", "bin_unit")
        return {name: facts[name] for name in names} | {"scaling": facts["scaling"]["ranges"]}

    every = [read_checkpoint_facts(folder, "best") for folder in folders]
    first = shared(every[0])
    for folder, facts in zip(folders, every, strict=True):
        for name, value in shared(facts).items():
            if value != first[name]:
                raise CheckpointError(
                    f"{folder}: trained with {name} {value!s:.200}, but {folders[0]} with "
                    f"{first[name]!s:.200}; average only checkpoints of one run"
                )
    return every


def _edge_model_of(folders: Sequence[Path]) -> EdgeModel | None:
    """Return the model of the confidence of edges for networks whose predictions are averaged.

    Returns:
        The mean of the models that `graph` fitted for each; None if one of them has no model.

    Raises:
        DataError: if the file of a model is damaged.
    """
    calibrations = [read_calibration(folder) for folder in folders]
    known = [each.model for each in calibrations if each is not None]
    return mean_model(known) if len(known) == len(calibrations) else None
