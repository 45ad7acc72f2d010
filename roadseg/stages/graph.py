"""graph: probabilities to road graphs with speeds. Reads probabilities/, writes graphs/."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from roadseg.core.extraction import find_graph
from roadseg.io.graphs import write_graphs
from roadseg.io.probabilities import read_probability
from roadseg.io.records import StageRecord, read_key, read_summary
from roadseg.io.sources import find_images
from roadseg.labels import crs_setting
from roadseg.settings import Config
from roadseg.workspace import Workspace, require


@dataclass(frozen=True)
class GraphSummary:
    """What was found."""

    scenes: list[str]
    nodes: int
    edges: int
    road_km: float
    folder: str

    def __str__(self) -> str:
        """Say it in a sentence."""
        return (
            f"{self.road_km:.2f} km of roads in {len(self.scenes)} scenes: {self.nodes} nodes, "
            f"{self.edges} edges; {self.folder}"
        )


def run(config: Config, workspace: Workspace, *, force: bool = False) -> GraphSummary:
    """Find the road graph of every predicted scene of the run."""
    predicted = require(workspace.record("predict"), made_by="predict")
    record = StageRecord(
        workspace.record("graph"),
        settings=config.graph.model_dump(mode="json"),
        inputs=[read_key(predicted)],
    )
    if not force and (done := record.summary()):
        return GraphSummary(**done)
    scenes = read_summary(predicted)["scenes"]
    record.begin()
    paths = {name: require(workspace.probability(name), made_by="predict") for name in scenes}
    summary = _find_all(paths, workspace.graphs, config)
    record.finish(asdict(summary))
    return summary


def run_images(config: Config, images: Iterable[str], *, output: Path) -> GraphSummary:
    """Find the road graph of any masks or probability rasters."""
    return _find_all(find_images(images), output, config)


def _find_all(paths: dict[str, Path], folder: Path, config: Config) -> GraphSummary:
    nodes, edges, length_m = 0, 0, 0.0
    crs = crs_setting(config.imagery.crs, "imagery.crs")
    for name, path in paths.items():
        found = read_probability(path, crs=crs, gsd_m=config.imagery.gsd_m)
        options = config.graph.model_dump()
        graph = find_graph(
            found.road, found.grid, bins=found.bins, speed_bins=found.speed_bins, **options
        )
        write_graphs(folder, name, graph)
        nodes, edges = nodes + len(graph.nodes), edges + len(graph.lines)
        length_m += float(graph.length_m.sum())
    return GraphSummary(list(paths), nodes, edges, round(length_m / 1000, 3), str(folder))
