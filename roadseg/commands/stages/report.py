"""report: show a run. Reads the outputs of all other stages.

Writes a page, a QGIS project, and a GeoPackage with all vectors.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import geopandas as gpd
import shapely

from roadseg.commands.stages.declared_stages import declared_stage, outdated_before
from roadseg.config import Config
from roadseg.dataset.fold_files import read_folds
from roadseg.raster.grid import DEGREES, is_local
from roadseg.report.facts import (
    credit_lines,
    quality_facts,
    read_records,
    read_scores,
    read_training,
    with_short_paths,
)
from roadseg.report.map_data import Precision
from roadseg.report.package import write_package
from roadseg.report.page import as_data, build_page, write_page
from roadseg.report.pictures import sheet_uri
from roadseg.report.qgis_project import write_project
from roadseg.report.run_facts import checkpoint_folders, found_layout, scene_names
from roadseg.report.scenes import (
    ReportScenes,
    describe_map,
    encode_pictures,
    listed_in,
    read_scenes,
)
from roadseg.review.edits import edits_in_force
from roadseg.roads.labels.areas import Area, work_area
from roadseg.roads.metrics.road_lengths import MappedRoads, RoadLengths, road_lengths
from roadseg.system.progress import counted
from roadseg.system.records import versions
from roadseg.system.text import Summary, count, first
from roadseg.system.workspace import ADAPTED, STAGES, Workspace

# Precisions with which lines are drawn, from fine to coarse.
_PRECISIONS = (Precision(0.001, 0.0), Precision(0.1, 0.5), Precision(0.1, 2.0))
_ROADS_SHARE = 0.6  # Share of the page; lines that take more are drawn coarser.
# Sheets of examples that are shown, their longest side, and the share of the room for each.
_SHEETS, _SHEET_PX, _SHEET_SHARE = 4, 1400, 0.04
_WHOLE = 0.99  # Share of a polygon from which images show all of it.
_BYTES = 1_000_000  # Bytes of a megabyte.
_MOST_BYTES = 25 * _BYTES  # Size of the page, unless its roads alone take more.
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReportSummary(Summary):
    """Contents of the page, and its file.

    Attributes:
        left_out: contents that could not be shown, with the reasons.
        lengths: kilometres of road by class.
        pdf: page for a client, if it was requested.
    """

    path: str
    scenes: int
    megabytes: float
    left_out: list[str] = field(default_factory=list)
    lengths: RoadLengths = field(default_factory=RoadLengths, repr=False)
    pdf: str = field(default="", repr=False)

    def __str__(self) -> str:
        """Return the path, the contents and the size of the page."""
        page = f"{self.path}: {count(self.scenes, 'scene')}, {self.megabytes:.1f} MB"
        if self.left_out:
            page += f"; {count(len(self.left_out), 'item')} left out (listed in the report)"
        return f"{page}\n{self.pdf}: one page of A4" if self.pdf else page


def run(
    config: Config, workspace: Workspace, *, force: bool = False, pdf: bool = False
) -> ReportSummary:
    """Show a run on one page; parts that it does not have are left out.

    The folder may also be the `--output` of graph or predict.

    Args:
        pdf: whether to write report.pdf as well, also if the page is up to date.

    Raises:
        MissingInputError: if there is neither a graph nor a probability raster.
    """
    workspace = found_layout(workspace)
    names = scene_names(workspace)
    stage = declared_stage("report", config, workspace)
    summary = stage.summary(ReportSummary, force=force)
    if summary and not pdf:
        return summary
    if summary is None:
        stage.begin()
    shown = read_scenes(config, workspace, names)
    facts, lengths = _facts(config, workspace, shown), _lengths(config, shown)
    if summary is None:
        folds, edits = _folds(workspace, shown), _edits(workspace, shown)
        page = {**_page(config, workspace, shown, facts), "lengths": asdict(lengths)}
        size = write_page(workspace.report, build_page(f"{page['title']} · roadseg", page))
        write_project(workspace.qgis_project, workspace, shown)
        outputs, scores = [workspace.report, workspace.qgis_project], page["scores"]
        if write_package(workspace.package, shown, folds=folds, scores=scores, edits=edits):
            outputs.append(workspace.package)
        path, megabytes = str(workspace.report), round(size / _BYTES, 2)
        summary = ReportSummary(path, len(names), megabytes, shown.left_out, lengths)
        stage.finish(summary, outputs)
    if pdf:
        from roadseg.report.client_page import client_page
        from roadseg.report.plots.one_page import draw_one_page

        one_page = client_page(shown, facts, lengths, area=config.imagery.area)
        draw_one_page(workspace.report_pdf, one_page)
        summary = replace(summary, pdf=str(workspace.report_pdf))
    return summary


def _lengths(config: Config, shown: ReportScenes) -> RoadLengths:
    """Measure the roads, also in each polygon of the area; roads in several scenes count once."""
    area = work_area(config.imagery.area)
    named = area.by_name() if area else {}
    if area:
        _warn_of_unseen(named or {"the area to work in": area}, shown)
    return road_lengths(
        MappedRoads(
            ground.crs,
            [graph for _, _, graph in shown.graphs_on(number)],
            {name: ground.inside(part) for name, part in named.items()},
        )
        for number, ground in enumerate(shown.areas)
    )


def _warn_of_unseen(areas: Mapping[str, Area], shown: ReportScenes) -> None:
    """Warn of areas that the images cover only in part, with the share that they cover."""
    grids = [scene.grid for scene in shown.scenes if not scene.grid.is_local]
    ground = shapely.union_all([grid.footprint_in(DEGREES) for grid in grids])
    shares = {
        name: area.degrees.intersection(ground).area / area.degrees.area
        for name, area in areas.items()
    }
    parts = [f"{name} ({100 * share:.0f} %)" for name, share in shares.items() if share < _WHOLE]
    if parts:
        _log.warning(
            "images show only a part of %s; lengths of roads are of this part alone",
            first(parts),
        )


def _folds(workspace: Workspace, shown: ReportScenes) -> dict[str, int] | None:
    """Return the fold of every chip by its name; None if they are not known."""
    with listed_in(shown.left_out):
        if shown.chips and workspace.folds.exists():
            return read_folds(workspace.folds, shown.chips)
    return None


def _edits(workspace: Workspace, shown: ReportScenes) -> gpd.GeoDataFrame | None:
    """Return the edits of a review that are in force; None without edits or georeference."""
    with listed_in(shown.left_out):
        if workspace.edits.exists():
            edits = edits_in_force(workspace.edits)
            return None if is_local(edits.crs) else edits
    return None


def _page(
    config: Config, workspace: Workspace, shown: ReportScenes, facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the data of the page; images fill the room that facts and roads leave."""
    page = dict(facts)
    # Roads get the room first, then sheets of examples, then images of the scenes.
    most = _MOST_BYTES - len(build_page("", {})) - len(as_data(page))
    page["map"] = _drawn_map(config, shown, most)
    room = most - len(as_data(page["map"]))
    # A sheet that is too large for its share is left out.
    paths, share = sorted(workspace.quality.glob("sheet_*.png")), int(_SHEET_SHARE * room)
    drawn = (sheet_uri(path, side_px=_SHEET_PX, most_bytes=share) for path in paths[:_SHEETS])
    page["quality"] = facts["quality"] | {"sheets": [uri for uri in drawn if uri]}
    room -= sum(map(len, page["quality"]["sheets"]))
    scenes, many = page["map"]["scenes"], len(shown.scenes)
    rows = counted(range(many), "report: images", total=many, unit="scenes")
    # Each scene may take an equal share of the room that is left; what one saves, later ones get.
    for row in rows:
        scenes[row]["layers"] = encode_pictures(config, shown, row, most_bytes=room // (many - row))
        room -= len(as_data(scenes[row]["layers"]))
    page["outdated"] = outdated_before("report", config, workspace)
    page["left_out"] = with_short_paths(shown.left_out, workspace.root.resolve().parent)
    return page


def _drawn_map(config: Config, shown: ReportScenes, most: int) -> dict[str, Any]:
    """Return areas, graphs and scenes without images, drawn as finely as there is room."""
    for precision in _PRECISIONS:
        drawn = describe_map(config, shown, precision)
        size = len(as_data(drawn))
        if size <= _ROADS_SHARE * most:
            break
    if size > most:
        _log.warning(
            "the roads of %s take %.0f MB, so the page has no room for images; %s shows them",
            *(count(len(shown.scenes), "scene"), size / _BYTES, "roadseg.qgz"),
        )
    return drawn


def _facts(config: Config, workspace: Workspace, shown: ReportScenes) -> dict[str, Any]:
    """Return the facts of the run in its records, tables and config."""
    records = read_records(workspace.record(stage) for stage in STAGES[:-1])
    root, area = workspace.root.resolve(), work_area(config.imagery.area)
    trained_in = checkpoint_folders(workspace)
    if ADAPTED in shown.models:
        trained_in += checkpoint_folders(workspace.adapted)
    training = [
        {"name": str(folder.relative_to(workspace.root)), **curves}
        for folder in trained_in
        if (curves := read_training(folder))
    ]
    seconds = {name: record.seconds for name, record in records.items()}
    # Each fold has a record of its training, whose name is "train"; their times add up.
    folds = [read_records([folder / "train.json"]) for folder in trained_in]
    if trained := [record for of_fold in folds for record in of_fold.values()]:
        seconds["train"] = sum(record.whole_seconds for record in trained)
    facts = {
        "title": root.parent.name if root.name == "run" else root.name,
        "folder": f"{root.parent.name}/{root.name}",
        "graph_folder": root.name if workspace.is_flat else f"{root.name}/{workspace.graphs.name}",
        "made": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "versions": versions(),
        "seconds": {name: seconds[name] for name in STAGES[:-1] if name in seconds},
        "summaries": {name: record.summary for name, record in records.items()},
        "credits": credit_lines(config, shown, records.get("prepare")),
        "km2": sum(ground.km2(area) for ground in shown.areas),
        "scores": read_scores(workspace.evaluation),
        "scene_of": {chip.name: chip.scene for chip in shown.chips},
        "training": training,
        "quality": {"facts": quality_facts(records.get("prepare"))},
        "config": config.model_dump(mode="json"),
    }
    short: dict[str, Any] = with_short_paths(facts, root.parent)
    return short
