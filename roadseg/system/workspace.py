"""The run folder: the only place that knows what each stage's files are called."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from roadseg.errors import DataError, MissingInputError

Fold = int | Literal["all"]  # That a network held out; "all" is one trained on all of them.
FoldOrEach = int | Literal["each"]  # In a prediction: one fold, or each by the network of its own.
AnyFold = Fold | FoldOrEach
ROAD_NETWORK, SUBMISSION = "network", "submission"  # Names of the graphs of all scenes.
EDITS = "edits"  # Name of the edits of a review, which lie beside the graphs of a flat folder.
ADAPTED = "adapted"  # Folder of the network that a map has taught, and the `model` of its roads.
PACKAGE = "roadseg"  # Name of all vectors of a run in one file, which lies there as well.

# The stages of a run in their order; each leaves a record under its name.
STAGES = ("prepare", "split", "train", "predict", "graph", "evaluate", "report")


class _In:
    """A file or folder of a name in the run folder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, workspace: "Workspace", _: type["Workspace"]) -> Path:
        return workspace.root / self._name


@dataclass(frozen=True)
class Workspace:
    """Names of the files in one run folder. Makes names, touches no files.

    Names of scenes that lead out of the folder are refused with a DataError.

    Attributes:
        is_flat: whether graphs and probabilities lie in it as `--output` of graph and predict
            leaves them, without folders of their own.
    """

    root: Path
    is_flat: bool = False

    # Each with the stage or command that makes it, and those that read it.
    sources = _In("sources")  # Fetched images and labels: map -> prepare, predict.
    chips = _In("chips.json")  # List of chips: prepare -> split, train, predict, evaluate.
    scaling = _In("scaling.json")  # Scaling of the bands to uint8: prepare -> train.
    quality = _In("quality")  # Sheets with labels over images: prepare -> the user.
    masks = _In("masks")  # Prepare -> train, evaluate.
    pseudo_labels = _In("pseudo_labels")  # Masks of certain roads: map -> prepare.
    folds = _In("folds.json")  # Fold of every chip: split -> train, predict, evaluate.
    fold_layer = _In("folds.gpkg")  # Footprint and fold of every chip: split -> the user.
    evaluation = _In("evaluation.csv")  # Metrics of every chip: evaluate -> the user.
    reliability = _In("reliability.png")  # Reliability of the edges: evaluate -> the user.
    pictures = _In("pictures")  # Pictures of evaluated scenes: evaluate -> the user.
    edits = _In(f"{EDITS}.gpkg")  # What people decided and drew: review -> review, the user.
    report = _In("report.html")  # Page that shows the run: report -> the user.
    report_pdf = _In("report.pdf")  # The same on one sheet of A4: report -> the user.
    qgis_project = _In("roadseg.qgz")  # All layers of the run: report -> the user.
    package = _In(f"{PACKAGE}.gpkg")  # All vectors of the run in one file: report -> the user.

    def record(self, stage: str) -> Path:
        """Return the path of the record of a stage: what it was made from, and its summary."""
        return self.root / f"{stage}.json"

    def train_record(self, fold: Fold) -> Path:
        """Return the path of the record of the training of one fold, or on all."""
        return self.checkpoint(fold) / "train.json"

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
    def adapted(self) -> "Workspace":
        """Return the run in which `map --adapt` trains a network on the first map."""
        return Workspace(self.root / ADAPTED)

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

    def picture(self, scene: str) -> Path:
        """Return the image of a scene: labels, probabilities and graph side by side."""
        return self.pictures / f"{_inside(scene)}.png"


def _inside(scene: str) -> str:
    """Return the name of a scene, unless it leads out of its folder."""
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
