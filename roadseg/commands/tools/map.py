"""map: images in, their road network out. Writes a config, a run in its folder, and the report."""

import json
import logging
import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from os.path import normpath, realpath
from pathlib import Path
from typing import Any

import numpy as np

from roadseg.commands.services.fetch_images import is_service
from roadseg.commands.services.images.fetching import FetchOptions
from roadseg.commands.services.map_sources import fetch_sources
from roadseg.commands.stages import graph, pipeline, predict, report
from roadseg.commands.stages.declared_stages import prepared_files
from roadseg.commands.stages.evaluate import EvaluateSummary
from roadseg.commands.stages.graph import DOUBTFUL, GraphSummary
from roadseg.commands.survey.cities import area_from, path_from
from roadseg.commands.survey.contents import survey_corners, survey_images
from roadseg.commands.survey.defaults import choose_nodata
from roadseg.commands.tools import adapt as adapting
from roadseg.commands.tools import init
from roadseg.config import FILE_NAME, Config, change_config, differences, load_config
from roadseg.dataset.footprints import overlapping_pairs
from roadseg.dataset.scene_parts import open_scene_probability
from roadseg.dataset.sets import find_scenes, find_sources
from roadseg.errors import ConfigError, RoadsegError
from roadseg.learn.network.checkpoint_facts import read_checkpoint_facts
from roadseg.learn.network.installed_weights import NAME, checkpoint_folder
from roadseg.raster.grid import Grid
from roadseg.raster.images import read_facts
from roadseg.raster.inputs import find_images, image_paths, source_path
from roadseg.roads.formats.files import read_gpkg
from roadseg.roads.masks.probabilities import ProbabilityFile
from roadseg.roads.metrics.road_lengths import RoadLengths
from roadseg.system.locks import lock
from roadseg.system.records import write_json
from roadseg.system.stage_records import read_record
from roadseg.system.text import Summary, count, first
from roadseg.system.units import area_text, choose_units, road_text
from roadseg.system.workspace import Workspace

LEAST_DENSITY = 0.5  # Kilometres of road in a square kilometre, of which even villages have more.
MINUTES = {"labels": 20.0, "adapt": 2.0}  # Of a training, by what it learns from.
_RGB = 3  # Bands of the starter.
_SHARED = 0.1  # Share of the smaller of two images; adjoining tiles overlap less.
_M2 = 1_000_000  # Square metres of a square kilometre.
_OF_THE_STARTER = (
    "mapped with the starter network, which was trained on other places: expect missed and false "
    "roads, and no speeds; with --adapt, it first learns from the roads of these images that it is "
    "sure of, and with --labels, a network is trained for them (this needs another --output)"
)
_ADAPTED = (
    "mapped with a network that was adapted to these images without labels: expect missed and "
    "false roads; with --labels, a network is trained for these images (this needs another "
    "--output)"
)
_USUAL = FetchOptions()
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MapSummary(Summary):
    """A map of roads, and how far it can be trusted.

    Attributes:
        config: config file, for all other commands.
        km2: ground that the images show.
        confidence: mean confidence of all roads by length; None if no road was found.
        doubtful: share of the length of roads whose confidence is below `DOUBTFUL`.
        inferred: share of the length across gaps.
        can_improve: whether `roadseg improve` can learn from edits; images need a georeference.
        measured: metrics on the held-out chips, if there are labels.
        lengths: kilometres of road by class, and by polygon of the area.
        report: page that shows the map.
        project: QGIS project with all layers; empty for images without georeference.
        failed: reasons why scenes were skipped, by name.
    """

    config: str
    scenes: int
    km2: float
    graphs: GraphSummary
    confidence: float | None
    doubtful: float
    inferred: float
    can_improve: bool
    measured: EvaluateSummary | None
    report: str
    project: str
    lengths: RoadLengths = field(default_factory=RoadLengths)
    failed: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return a table with a row for each subject, and one of lengths by class."""
        use = "for all other commands" if self.measured else "the settings of this map"
        learn = "; then `roadseg improve` learns from that" if self.can_improve else ""
        folder = shlex.quote(str(Path(self.config).parent))
        network, joined = "", len(self.graphs.joined)
        if joined:
            of = f"of {joined} adjoining images; roads that several show count once"
            network = f"{self.graphs.network} ({of})"
        rows = {
            "roads": f"{road_text(self.graphs.road_km)} in {count(self.scenes, 'image')} of "
            f"{area_text(self.km2)}: {count(self.graphs.nodes, 'node')}, "
            f"{count(self.graphs.edges, 'edge')}",
            "certainty": self._certainty(),
            "measured": self._measured(),
            "graphs": self.graphs.folder,
            "network": network,
            "report": self.report,
            "QGIS": self.project and f"{self.project} (a project with all layers)",
            "config": f"{self.config} ({use})",
            "next": f"roadseg review {folder} (correct the roads{learn})",
        }
        lines = [f"{name:<10} {text}" for name, text in rows.items() if text]
        return "\n".join([*lines, *filter(None, [str(self.lengths)])])

    def _certainty(self) -> str:
        if self.confidence is None:
            return ""
        return (
            f"mean confidence {self.confidence:.2f} along the roads; {self.doubtful:.0%} of "
            f"the length is below {DOUBTFUL:g}, {self.inferred:.0%} is links across gaps"
        )

    def _measured(self) -> str:
        if self.measured is None:
            # There is no file of all roads if images have no georeference.
            run = Workspace(Path(self.config).parent)
            known, found = "labels/", run.graphs
            if self.project:
                known, found = "roads.gpkg", run.package
            return (
                "not possible without labels; to compare the map with known roads of the same "
                f"ground: roadseg score {known} {shlex.quote(str(found))}"
            )
        metrics = self.measured
        return (
            f"on {count(metrics.chips, 'held-out chip')}, on which the network was not trained: "
            f"correctness {metrics.correctness:.2f}, completeness {metrics.completeness:.2f}, "
            f"APLS {metrics.apls_length:.2f}, IoU {metrics.iou:.2f}"
        )


def run(
    images: Sequence[str],
    output: Path,
    *,
    labels: Sequence[str] = (),
    checkpoints: Sequence[Path] = (),
    adapt: bool = False,
    minutes: float | None = None,
    settings: Sequence[str] = (),
    service: FetchOptions = _USUAL,
    force: bool = False,
    say: pipeline.Say,
) -> MapSummary:
    """Map the roads of images with existing networks, or with one that is trained on labels.

    The config that the first call writes into `output`, with its settings, is kept, so that the
    same call resumes an interrupted one. Without labels, images may be added later.

    Args:
        images: files, folders, globs, or addresses of services.
        labels: known roads of these images, to train on: files, folders, globs, or "overpass".
        checkpoints: folders of networks, instead of labels; without both, the starter is used.
        adapt: whether the network first learns from the roads of the images of which it is sure.
        minutes: time limit of the training; None for that of the first call, or else `MINUTES`.
        settings: changes of the config, such as "graph.threshold=0.4".
        service: options for fetching images from a service.
        say: called with the name and the summary of every finished step.

    Raises:
        ConfigError: if labels and networks are given, if `adapt` is combined with labels or several
            networks, if `minutes` is given without a training, or if the folder contains the map
            of other images.
    """
    _require_one_way(labels, checkpoints, adapt=adapt, minutes=minutes)
    path = output / FILE_NAME
    # Missing networks and images are reported before anything is written.
    start = _networks(checkpoints)
    if files := [image for image in images if not is_service(image)]:
        image_paths(files, setting="IMAGES")
    with lock(output):
        given = load_config(None, [f"run={output.absolute()}", *settings])
        is_begun = _is_begun(path, given.run)
        choose_units((load_config(path, settings) if is_begun else given).compute.units)
        images, labels = fetch_sources(
            images,
            labels,
            Workspace(output).sources,
            imagery=given.imagery,
            options=service,
            is_begun=is_begun,
            say=say,
        )
        if labels or adapt:
            minutes = _minutes(minutes, output, adapt=adapt, is_begun=is_begun)
            settings = [f"train.minutes={json.dumps(minutes)}", *settings]
        if not is_begun:
            path.unlink(missing_ok=True)
            say("init", _write_config(path, images, labels, settings))
        config = load_config(path, settings)
        _require_same(load_config(path), config, path, images, labels)
        if not labels:
            config = _update_images(path, images, settings, say=say)
        workspace = Workspace(config.run)
        if labels:
            done = pipeline.run(config, workspace, force=force, say=say).stages
        else:
            networks = start
            if adapt:
                with lock(workspace.adapted.root):
                    adapted = adapting.run(
                        path, workspace, images, *start, settings=settings, force=force, say=say
                    )
                networks = [adapted]
            done = _predict_and_trace(config, workspace, images, networks, force=force, say=say)
            if networks != start:
                _log.warning(_ADAPTED)
            elif not checkpoints:
                _log.warning(_OF_THE_STARTER)
            if not checkpoints:
                tell_bands(config)
        return _summary(path, config, workspace, done)


def _networks(checkpoints: Sequence[Path]) -> list[Path]:
    """Return the checkpoint folders of the networks, or of the starter if none is named.

    Raises:
        CheckpointError: if there is no network in one of them.
    """
    folders = [checkpoint_folder(each) for each in checkpoints or (Path(NAME),)]
    for folder in folders:
        read_checkpoint_facts(folder, "best")
    return folders


def _require_one_way(
    labels: Sequence[str], checkpoints: Sequence[Path], *, adapt: bool, minutes: float | None
) -> None:
    """Refuse labels together with networks or `adapt`, and a time limit without a training."""
    if labels and checkpoints:
        raise ConfigError(
            "--labels and --checkpoint cannot be combined: the first trains a network, the "
            "second uses a trained one"
        )
    if adapt and (labels or len(checkpoints) > 1):
        raise ConfigError(
            "--adapt cannot be combined with --labels, or with more than one --checkpoint: it "
            "trains one network on images without labels"
        )
    if minutes is not None and not (labels or adapt):
        raise ConfigError(
            "--minutes limits a training, expected --labels or --adapt with it; without them, a "
            "network maps the images as it is"
        )


def _minutes(given: float | None, output: Path, *, adapt: bool, is_begun: bool) -> float | None:
    """Return the given time limit, else that of the first call, else the default."""
    path, adapted = output / FILE_NAME, Workspace(output).adapted.root / FILE_NAME
    usual = MINUTES["adapt" if adapt else "labels"]
    if given is not None or not is_begun:
        return usual if given is None else given
    if adapt and not adapted.exists():  # The map may be one that was not adapted.
        return load_config(path).train.minutes or usual
    return load_config(adapted if adapt else path).train.minutes


def _is_begun(path: Path, run: Path) -> bool:
    """Return whether a folder contains more of a map than its config.

    Raises:
        ConfigError: if it contains the config of another run, or a run without its config.
    """
    made = Workspace(path.parent)
    if not path.exists():
        if made.record("prepare").exists():
            raise ConfigError(
                f"{path.parent}: has a run whose config lies elsewhere; use another --output"
            )
        return False
    places = made.masks, made.checkpoint(0), made.probabilities, made.adapted.probabilities
    if any(place.exists() for place in places):
        return True
    if realpath(found := load_config(path).run) != realpath(run):
        raise ConfigError(f"{path}: is the config of the run {found}; use another --output")
    return False


def _write_config(
    path: Path, images: Sequence[str], labels: Sequence[str], settings: Sequence[str]
) -> object:
    """Write the config of a map: found by a survey if there are labels, else with few settings."""
    folder = path.resolve().parent
    own = [f"run={folder}", "predict.scenes=all"]
    if labels:
        given = load_config(None, [*own, *settings])
        found = init.run(images, labels, path, settings=given)
        return replace(found, rows={**found.rows, "wrote": str(path)})
    given = load_config(None, settings)
    imagery: dict[str, Any] = {"images": _listed(images, path)}
    if "nodata" in given.imagery.model_fields_set:  # Null says that black borders are ground.
        imagery["nodata"] = given.imagery.nodata
    if (area := given.imagery.area) is not None:
        imagery["area"] = area_from(area, folder)
    values: dict[str, Any] = {
        "run": ".",
        "imagery": imagery,
        "predict": {"gsd": "auto", "scaling": "auto"},
    }
    write_json(path, values)
    changed = differences(load_config(path), load_config(path, settings))
    changed.pop("imagery.area", None)
    if changed:
        change_config(path, [f"{key}={json.dumps(now)}" for key, (_, now) in changed.items()])
    return f"wrote {path}"


def _update_images(
    path: Path, images: Sequence[str], settings: Sequence[str], *, say: pipeline.Say
) -> Config:
    """Write the images of a map without labels, and their nodata value, into its config."""
    config = load_config(path, settings)
    changes: dict[str, Any] = {}
    if _real_files(images) != _real_files(config.imagery.images):
        changes["images"] = _listed(images, path)
    nodata, told = choose_nodata(survey_corners(find_images(images), config.imagery), config)
    if nodata:
        say("init", f"no data: {told}")
    if changes := changes | nodata:
        change_config(path, [f"imagery.{key}={json.dumps(now)}" for key, now in changes.items()])
    return load_config(path, settings)


def _require_same(
    begun: Config, config: Config, path: Path, images: Sequence[str], labels: Sequence[str]
) -> None:
    """Refuse a folder that contains the map of other images or labels, or of another area."""
    mapped, given = _real_files(config.imagery.images), _real_files(images)
    roads, area = config.labels.roads, begun.imagery.area
    is_same = (
        len({each and realpath(each) for each in (area, config.imagery.area)}) == 1
        and given >= mapped
        and list(map(_real_path, roads)) == list(map(_real_path, labels))
        and _has_its_scenes(config, Workspace(path.parent), images, added=given - mapped)
    )
    if not is_same:
        of = first([normpath(each) for each in (*config.imagery.images, *roads)])
        raise ConfigError(
            f"{path}: this folder already contains the map of {of} in {area or 'all images'}; "
            "without labels, images may be added to it, but nothing else may change; use another "
            "--output, or delete it"
        )


def _has_its_scenes(
    config: Config, workspace: Workspace, images: Sequence[str], *, added: set[str]
) -> bool:
    """Return whether no scene of a map is gone, and none is new to a network trained for it.

    Args:
        added: images that are not in the config; among them may be masks of roads.
    """
    if not config.labels.roads:
        before = {raster.stem for raster in workspace.probabilities.glob("[!.]*.tif")}
        return before <= set(find_images(images))
    if added:
        skip = config.compute.on_error == "skip"
        usable = survey_images(images, config.imagery, skip=skip).scenes.values()
        if not added.isdisjoint(realpath(facts.path) for facts in usable):
            return False
    record = read_record(workspace.record("prepare"))
    if not (workspace.checkpoint(0).exists() and record):  # Nothing is lost with other images.
        return True
    before = {scene for role, scene in prepared_files(record) if role == "image"}
    return before == set(find_sources(find_scenes(config.sets), area_setting=config.imagery.area))


def _listed(images: Sequence[str], path: Path) -> list[str]:
    """Return images in the form in which a config lists them."""
    folder = path.resolve().parent
    return [
        text if "://" in text else path_from(normpath(source_path(text).absolute()), folder)
        for text in images
    ]


def _real_files(images: Iterable[str]) -> set[str]:
    """Return the files of paths and globs of images, with links resolved."""
    return set(map(realpath, image_paths(images)))


def _real_path(place: str) -> str:
    """Return the absolute path of a file, folder or glob, with links resolved."""
    return realpath(source_path(place))


def _predict_and_trace(
    config: Config,
    workspace: Workspace,
    images: Iterable[str],
    checkpoints: Sequence[Path],
    *,
    force: bool = False,
    say: pipeline.Say,
) -> dict[str, Any]:
    """Predict images with networks, trace their roads, and write the report; return summaries."""
    predicted = predict.run_images(
        config,
        images,
        checkpoints=checkpoints,
        output=workspace.probabilities,
        force=force,
    )
    say("predict", predicted)
    rasters = [str(workspace.probability(name)) for name in predicted.scenes]
    traced = graph.run_images(config, rasters, output=workspace.graphs)
    say("graph", traced)
    page = report.run(config, workspace, force=force)
    return {"predict": predicted, "graph": traced, "report": page}


def tell_bands(config: Config) -> None:
    """Log which bands the starter takes for red, green and blue, if an image has more bands."""
    if config.imagery.bands is not None:
        return
    for path in image_paths(config.imagery.images):
        bands = 0
        with suppress(RoadsegError):  # It may be one that was skipped.
            bands = len(read_facts(path, config.imagery).bands)
        if bands > _RGB:
            _log.warning(
                "%s: has %d bands, of which the first three were taken for red, green and blue; if "
                "they are others, choose them, such as --set imagery.bands=3,2,1 with another "
                "--output",
                *(path.name, bands),
            )
            return


def _summary(path: Path, config: Config, workspace: Workspace, done: dict[str, Any]) -> MapSummary:
    traced: GraphSummary = done["graph"]
    rasters = {
        name: open_scene_probability(workspace.probability(name), config.imagery)
        for name in traced.scenes
    }
    grids = {name: each.grid for name, each in rasters.items()}
    km2 = math.fsum(map(_km2, rasters.values()))
    has_place = not all(grid.is_local for grid in grids.values())
    _tell_of_shared_ground(grids)
    if traced.road_km < LEAST_DENSITY * km2:
        how = (
            "if there should be more, train longer (--minutes), or check the labels"
            if config.labels.roads
            else "the network was not trained on such images; add labels with --labels"
        )
        _log.warning(
            "almost no roads found (%s in %s): %s",
            *(road_text(traced.road_km), area_text(km2), how),
        )
    edges = [read_gpkg(workspace.graph(name)) for name in traced.scenes]
    lengths = np.concatenate([each.length_m for each in edges])
    confidence, inferred = (
        np.concatenate([each.attributes[name] for each in edges]).astype(np.float64)
        for name in ("confidence", "inferred")
    )
    total = lengths.sum()
    return MapSummary(
        config=str(path),
        scenes=len(traced.scenes),
        km2=round(km2, 4),
        graphs=traced,
        confidence=float(lengths @ confidence / total) if total else None,
        doubtful=float(lengths[confidence < DOUBTFUL].sum() / total) if total else 0.0,
        inferred=float(lengths @ inferred / total) if total else 0.0,
        can_improve=not any(grid.is_local for grid in grids.values()),
        measured=done.get("evaluate"),
        lengths=done["report"].lengths,
        report=str(workspace.report),
        project=str(workspace.qgis_project) if has_place else "",
        failed={**done["predict"].failed, **traced.failed},
    )


def _tell_of_shared_ground(grids: Mapping[str, Grid]) -> None:
    """Log that ground counts several times if several images show it."""
    names, corners = list(grids), np.array([grid.corners_m for grid in grids.values()])
    zones = [grid.metric_epsg for grid in grids.values()]
    pairs = overlapping_pairs(corners, zones, share=_SHARED).tolist()
    if pairs:
        others = f" (and {count(len(pairs) - 1, 'more pair')})" if pairs[1:] else ""
        _log.warning(
            "%s and %s%s show the same ground: its roads count for each image in the lines roads "
            "and certainty, but only once in the line network; to compare such images, map each "
            "into a folder of its own (--output)",
            *(*(names[row] for row in pairs[0]), others),
        )


def _km2(pixels: ProbabilityFile) -> float:
    grid = pixels.grid
    width, height = grid.pixel_size_m
    size_px = pixels.extent.pixels if pixels.extent else grid.width * grid.height
    return size_px * width * height / _M2
