"""The model card of a checkpoint, from the records of its run."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import shapely

from roadseg.config import Config
from roadseg.dataset.chips import NO_ZONE, ChipRecord, SceneRecord, read_chips
from roadseg.dataset.fold_files import read_fold_chips
from roadseg.dataset.footprints import Corners, corners_degrees, unbroken
from roadseg.dataset.scenes import SceneSummary, read_scene_summary
from roadseg.learn.network.checkpoint_facts import checkpoint_path, read_checkpoint_facts
from roadseg.report.card_files import read_weights, write_card
from roadseg.report.facts import copyrights
from roadseg.roads.labels.origins import credits_of, read_origins
from roadseg.roads.speeds import SpeedBins
from roadseg.system.stage_records import Record, read_record, read_summary, stage_key
from roadseg.system.text import first
from roadseg.system.workspace import Fold, Workspace

_LOOKED_AT = 100  # Images whose copyright is read; images of one source have the same.
_NAMES = 5  # Names of files that a card lists; the others are counted.
_DECIMALS = 6  # Decimals of degrees, about 0.1 m.
# Settings of the training that a card says elsewhere.
_NO_SETTINGS = ("architecture", "encoder", "encoder_weights", "init")


@dataclass(frozen=True)
class _Trained:
    """The part of the summary of a training with the number of its epochs."""

    epochs: int


def write_model_card(config: Config, workspace: Workspace, *, fold: Fold) -> None:
    """Write the card of the network that held out a fold, if the present folds trained it.

    It has the metrics of `evaluate` if these are of its present weights. The card of a network
    trained on all folds has the figures of the single folds. A training that was interrupted, or
    whose folds are others now, keeps the card that it has.

    Args:
        fold: held-out fold; "all" without one.

    Raises:
        OutputError: if it cannot be written.
    """
    folder = workspace.checkpoint(fold)
    path, record = checkpoint_path(folder, "best"), workspace.train_record(fold)
    if not path.is_file() or not _follows(
        read_record(workspace.record("split")), read_record(record)
    ):
        return
    facts, listed = read_checkpoint_facts(folder, "best"), read_chips(workspace.chips)
    parted = read_fold_chips(workspace, listed.chips, fold)
    training = parted.training
    records = _scene_records(workspace, listed.scenes)
    origins = read_origins(scene.labels for scene in listed.scenes)
    licences = " and ".join(dict.fromkeys(origin.licence for origin in origins)) or None
    told: dict[str, Any] = {
        "training": {
            "fold": fold,
            "chips": len(training),
            "area_km2": _area_km2(training),
            "road_km": _road_km(training, records),
            "epochs": read_summary(record, _Trained).epochs,
            "best_epoch": facts["epoch"],
            "command": f"roadseg train --fold {fold}",
        },
        "validation": {
            "chips": len(parted.held_out),
            **_scores(facts["score"]),
            **_scores_of_folds(facts),
        },
        "imagery": {
            "files": _files(scene.image for scene in listed.scenes),
            "licence": config.imagery.licence or _copyrights(listed.scenes),
            "gsd_range_m": facts.get("gsd_range_m", [facts["gsd_m"]] * 2),
            "nodata": facts["nodata"],
        },
        "labels": {
            "files": _files(scene.labels for scene in listed.scenes),
            "licence": config.labels.licence or licences,
            "credits": credits_of(origins),
            "schemes": sorted({record.scheme for record in records.values()}),
            "have_speeds": facts.get("labels_have_speeds", True),
        },
    }
    settings = {name: facts[name] for name in type(config.train).model_fields if name in facts}
    network = describe_network(facts, read_weights(path), settings=settings)
    told |= {"degrees": box_of(_degrees(training)), "evaluation": _evaluation(workspace, fold)}
    write_card(folder, {**network, **told})


def _evaluation(workspace: Workspace, fold: Fold) -> Mapping[str, Any] | None:
    """Return the metrics of a network on its held-out chips; None if it was not measured."""
    stages = map(workspace.record, ("predict", "graph", "evaluate"))
    records = [read_record(path) for path in (workspace.train_record(fold), *stages)]
    if not all(itertools.starmap(_follows, itertools.pairwise(records))):
        return None
    summary: dict[str, Any] = (records[-1] and records[-1].summary) or {}
    return summary if summary.get("fold") == fold else summary.get("by_fold", {}).get(str(fold))


def _follows(before: Record | None, after: Record | None) -> bool:
    """Return whether a stage has ended that was made from what another one has made now."""
    if before is None or after is None or not after.is_done:
        return False
    return stage_key(before) in after.inputs.values()


def describe_network(
    facts: Mapping[str, Any], weights: Mapping[str, Any], *, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what a card says of a trained network itself.

    Args:
        weights: see `card_files.read_weights`.
        settings: of its training; those that are None are left out.
    """
    fold, bins = facts["fold"], SpeedBins(tuple(facts["bin_edges"]), facts["bin_unit"])
    subject = "Roads and their speeds" if facts.get("labels_have_speeds", True) else "Roads"
    held_out = "all folds, none held out" if fold == "all" else f"fold {fold} held out"
    measured = {name: facts[name] for name in ("threshold", "thresholds") if name in facts}
    settings = {name: value for name, value in settings.items() if value is not None}
    return {
        "title": f"{subject}, roadseg {facts['architecture']} {facts['encoder']}, {held_out}",
        "network": {
            "architecture": facts["architecture"],
            "encoder": facts["encoder"],
            "started_from": _start(facts),
            "settings": {key: each for key, each in settings.items() if key not in _NO_SETTINGS},
        },
        "input": {
            "bands": _band_names(facts),
            "gsd_m": facts["gsd_m"],
            "pixel_sizes_m": facts.get("pixel_sizes_m", []),
            "scaling": facts["scaling"],
        },
        "output": {"classes": [*bins.names, "any road"], **measured},
        "weights": dict(weights),
        "versions": facts["versions"],
    }


def box_of(degrees: Corners) -> list[float] | None:
    """Return the box around chips on earth: west, south, east, north; None without chips.

    West is above east where the box crosses longitude 180.

    Args:
        degrees: shape (n, 4, 2), longitude and latitude of their corners.
    """
    if len(degrees) == 0:
        return None
    whole = unbroken(degrees)
    (west, south), (east, north) = whole.min(axis=(0, 1)), whole.max(axis=(0, 1))
    sides = ((west + 180) % 360 - 180, south, (east + 180) % 360 - 180, north)
    return [round(float(side), _DECIMALS) for side in sides]


def _band_names(facts: Mapping[str, Any]) -> list[str]:
    """Return distinct names of the bands that a network reads, in their order."""
    given = facts.get("band_names") or [""] * len(facts["bands"])
    names = [name or f"band {band}" for name, band in zip(given, facts["bands"], strict=True)]
    doubled = len(set(names)) < len(names)
    return [f"{name} ({n})" for n, name in enumerate(names, 1)] if doubled else names


def _start(facts: Mapping[str, Any]) -> str | None:
    """Return the weights that the training started from; of a path only the last part."""
    # Earlier checkpoints only store which weights were requested, not where they came from.
    source = facts.get("init") or facts.get("began_with", facts.get("encoder_weights"))
    name = str(source or "none").replace("\\", "/").rstrip("/").rpartition("/")[2]
    return None if name == "none" else name


def _copyrights(scenes: Sequence[SceneRecord]) -> str | None:
    """Return the copyright tags of the first images; None if they have none."""
    some = [scene.image for scene in scenes[:_LOOKED_AT] if scene.image.is_file()]
    return first(list(dict.fromkeys(filter(None, copyrights(some)))), 3) or None


def _scores(columns: Mapping[str, float]) -> dict[str, float]:
    return {name.removeprefix("val_"): value for name, value in columns.items()}


def _scores_of_folds(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scores of the folds for the card of a training on all chips."""
    if (fold_facts := facts.get("from_folds")) is None:
        return {}
    return {"folds": {fold: _scores(columns) for fold, columns in fold_facts["scores"].items()}}


def _scene_records(workspace: Workspace, scenes: Sequence[SceneRecord]) -> dict[str, SceneSummary]:
    """Return the summaries of scenes that prepare has stored."""
    paths = {scene.name: workspace.scene_record(scene.name) for scene in scenes}
    summaries = {name: read_scene_summary(path) for name, path in paths.items()}
    return {name: summary for name, summary in summaries.items() if summary is not None}


def _files(paths: Iterable[Path]) -> dict[str, Any]:
    names = sorted({path.name for path in paths})
    return {"count": len(names), "names": names[:_NAMES]}


def _degrees(chips: Sequence[ChipRecord]) -> Corners:
    """Return the corners of the chips with georeference."""
    placed = [chip for chip in chips if chip.zone != NO_ZONE]
    corners = np.array([chip.corners_m for chip in placed], dtype=np.float64).reshape(-1, 4, 2)
    return corners_degrees(corners, [chip.zone for chip in placed])


def _area_km2(chips: Sequence[ChipRecord]) -> float:
    """Return the area of chips; overlaps count once, except without georeference."""
    zones = {chip.zone for chip in chips} - {NO_ZONE}
    areas = [shapely.Polygon(chip.corners_m).area for chip in chips if chip.zone == NO_ZONE]
    for zone in zones:
        here = [shapely.Polygon(chip.corners_m) for chip in chips if chip.zone == zone]
        areas.append(shapely.union_all(here).area)
    return round(sum(areas) / 1e6, 4)


def _road_km(chips: Sequence[ChipRecord], records: Mapping[str, SceneSummary]) -> float | None:
    """Return the length of labelled road on chips, in proportion to their road pixels in the scene.

    None if a scene has no length, as raster labels have no lines.
    """
    total = 0.0
    for chip in chips:
        record = records.get(chip.scene)
        if record is None or not record.road_km:
            return None
        pixels = sum(n for value, n in record.pixels.items() if value not in {"0", "255"})
        share = chip.road_share * chip.window.height * chip.window.width / max(pixels, 1)
        total += share * sum(record.road_km.values())
    return round(total, 3)
