"""The run folder: the only place that knows what each stage's files are called."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from roadseg.errors import DataError, MissingInputError

Fold = int | Literal["all"]  # That a network held out; "all" is one trained on all of them.
FoldOrEach = int | Literal["each"]  # In a prediction: one fold, or each by the network of its own.
NETWORK, SUBMISSION = "network", "submission"  # Names of the graphs of all scenes.

# The stages of a run in their order; each leaves a record under its name.
STAGES = ("prepare", "split", "train", "predict", "graph", "evaluate", "report")


@dataclass(frozen=True)
class Workspace:
    """Names of the files in one run folder. Makes names, touches no files.

    Names of scenes that lead out of the folder are refused with a DataError.

    Attributes:
        root: the folder.
        is_flat: whether graphs and probabilities lie in it as `--output` of graph and predict
            leaves them, without folders of their own.
    """

    root: Path
    is_flat: bool = False

    def record(self, stage: str) -> Path:
        """Return the path of the record of a stage: what it was made from, and its summary."""
        return self.root / f"{stage}.json"

    def train_record(self, fold: Fold) -> Path:
        """Return the path of the record of the training of one fold, or on all."""
        return self.checkpoint(fold) / "train.json"

    @property
    def sources(self) -> Path:
        """Return the folder of images and labels that were fetched: map -> prepare, predict."""
        return self.root / "sources"

    @property
    def chips(self) -> Path:
        """Return the path of the list of chips: prepare -> split, train, predict, evaluate."""
        return self.root / "chips.json"

    @property
    def scaling(self) -> Path:
        """Return the path of the scaling of the bands to uint8: prepare -> train."""
        return self.root / "scaling.json"

    @property
    def folds(self) -> Path:
        """Return the path of the fold of every chip: split -> train, predict, evaluate."""
        return self.root / "folds.json"

    @property
    def fold_layer(self) -> Path:
        """Return the path of the footprint and fold of every chip: split -> the user."""
        return self.root / "folds.gpkg"

    @property
    def fold_map(self) -> Path:
        """Return the path of the map of the folds: split -> the user."""
        return self.root / "folds.png"

    @property
    def quality(self) -> Path:
        """Return the folder of the sheets with labels over images: prepare -> the user."""
        return self.root / "quality"

    @property
    def masks(self) -> Path:
        """Return the folder of the masks: prepare -> train, evaluate."""
        return self.root / "masks"

    def mask(self, scene: str) -> Path:
        """Return the path of the mask of speed bins of a scene."""
        return self.masks / f"{_inside(scene)}.tif"

    def scene_record(self, scene: str) -> Path:
        """Return the path of the record of a scene, beside its mask: prepare -> train."""
        return self.masks / f"{_inside(scene)}.json"

    def checkpoint(self, fold: Fold) -> Path:
        """Return the folder of the weights and facts of one fold, or of all: train -> predict."""
        return self.root / "checkpoints" / (fold if fold == "all" else f"fold-{fold}")

    @property
    def probabilities(self) -> Path:
        """Return the folder of the probability rasters: predict -> graph, evaluate."""
        return self.root if self.is_flat else self.root / "probabilities"

    def fold_probabilities(self, fold: int) -> Path:
        """Return the folder of the rasters of one fold, of which scenes are put together."""
        return self.probabilities / f"fold-{fold}"

    def probability(self, scene: str) -> Path:
        """Return the path of the probability raster of a scene."""
        return self.probabilities / f"{_inside(scene)}.tif"

    @property
    def graphs(self) -> Path:
        """Return the folder of the road graphs: graph -> evaluate, and the user."""
        return self.root if self.is_flat else self.root / "graphs"

    def graph(self, scene: str) -> Path:
        """Return the path of the graph of a scene as a GeoPackage; other formats lie beside it."""
        return self.graphs / f"{_inside(scene)}.gpkg"

    @property
    def tuning_plot(self) -> Path:
        """Return the path of the chart of the trials: tune -> the user."""
        return self.root / "tune.png"

    @property
    def tuned_config(self) -> Path:
        """Return the path of the config with the graph settings found: tune -> the user."""
        return self.root / "tuned.json"

    @property
    def pictures(self) -> Path:
        """Return the folder of the images of evaluated scenes: evaluate -> the user."""
        return self.root / "pictures"

    def picture(self, scene: str) -> Path:
        """Return the image of a scene: labels, probabilities and graph side by side."""
        return self.pictures / f"{_inside(scene)}.png"

    @property
    def plots(self) -> Path:
        """Return the folder of the figures for print: plot -> the user."""
        return self.root / "plots"

    @property
    def evaluation(self) -> Path:
        """Return the path of the metrics of every validation chip: evaluate -> the user."""
        return self.root / "evaluation.csv"

    @property
    def reliability(self) -> Path:
        """Return the path of the reliability diagram of the edges: evaluate -> the user."""
        return self.root / "reliability.png"

    @property
    def qgis_project(self) -> Path:
        """Return the path of the QGIS project with all layers of the run: report -> the user."""
        return self.root / "roadseg.qgz"

    @property
    def report(self) -> Path:
        """Return the path of the page that shows the run: report -> the user."""
        return self.root / "report.html"


def _inside(scene: str) -> str:
    """Return the name of a scene, unless it leads out of its folder.

    Raises:
        DataError: if so; the file that names it was not written by roadseg.
    """
    if "/" in scene or "\0" in scene:
        raise DataError(
            f"{scene!r:.100} is not a valid scene name, because it points outside the run "
            "folder; run `roadseg prepare --force`"
        )
    return scene


def require(path: Path, *, made_by: str) -> Path:
    """Return `path`, or say which stage makes it.

    Raises:
        MissingInputError: if there is no such file or folder.
    """
    if not path.exists():
        raise MissingInputError(f"{path} does not exist; run `roadseg {made_by}` first")
    return path
