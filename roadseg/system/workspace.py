"""The run folder: the names of the files of all stages, which are defined only here."""

from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Literal

from roadseg.errors import DataError, MissingInputError

Fold = int | Literal["all"]  # Fold that a network held out; "all" if it was trained on all folds.
# Fold whose network predicts; "each" if every chip is predicted by the network that held it out.
FoldOrEach = int | Literal["each"]
AnyFold = Fold | FoldOrEach
ROAD_NETWORK, SUBMISSION = "network", "submission"  # Names of the graphs of all scenes.
EDITS = "edits"  # Name of the edits of a review, which lie beside the graphs of a flat folder.
ADAPTED = "adapted"  # Folder of the network adapted to a map, and the `model` of its roads.
PACKAGE = "roadseg"  # Name of the file with all vectors of a run, in the run folder.

# The stages of a run in their order; each leaves a record under its name.
STAGES = ("prepare", "split", "train", "predict", "graph", "evaluate", "report")


class _InRun:
    """A file or folder in the run folder, as an attribute of `Workspace`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, workspace: "Workspace", _: type["Workspace"]) -> Path:
        return workspace.root / self._name


@dataclass(frozen=True)
class Workspace:
    """Names of the files in one run folder; no file is read or written.

    Names of scenes that lead out of the folder are refused with a DataError.

    Attributes:
        root: the run folder.
        is_flat: whether graphs and probabilities are directly in it, as in an `--output` folder of
            graph and predict.
    """

    root: Path
    is_flat: bool = False

    # Each with the stage or command that writes it -> those that read it.
    sources = _InRun("sources")  # Fetched images and labels: map -> prepare, predict.
    chips = _InRun("chips.json")  # List of chips: prepare -> split, train, predict, evaluate.
    scaling = _InRun("scaling.json")  # Scaling of the bands to uint8: prepare -> train.
    quality = _InRun("quality")  # Sheets with labels over images: prepare -> the user.
    masks = _InRun("masks")  # Prepare -> train, evaluate.
    pseudo_labels = _InRun("pseudo_labels")  # Masks of certain roads: map -> prepare.
    folds = _InRun("folds.json")  # Fold of every chip: split -> train, predict, evaluate.
    fold_layer = _InRun("folds.gpkg")  # Footprint and fold of every chip: split -> the user.
    evaluation = _InRun("evaluation.csv")  # Metrics of every chip: evaluate -> the user.
    reliability = _InRun("reliability.png")  # Reliability of the edges: evaluate -> the user.
    pictures = _InRun("pictures")  # Pictures of evaluated scenes: evaluate -> the user.
    edits = _InRun(f"{EDITS}.gpkg")  # Decisions and drawn roads: review -> review, the user.
    report = _InRun("report.html")  # Page that shows the run: report -> the user.
    report_pdf = _InRun("report.pdf")  # The same on one sheet of A4: report -> the user.
    qgis_project = _InRun("roadseg.qgz")  # All layers of the run: report -> the user.
    package = _InRun(f"{PACKAGE}.gpkg")  # All vectors of the run in one file: report -> the user.

    def record(self, stage: str) -> Path:
        """Return the path of the record of a stage, with its inputs and its summary."""
        return self.root / f"{stage}.json"

    def train_record(self, fold: Fold) -> Path:
        """Return the path of the record of the training with a fold held out, or on all folds."""
        return self.checkpoint(fold) / "train.json"

    def mask(self, scene: str) -> Path:
        """Return the path of the mask of speed bins of a scene."""
        return self.masks / f"{_inside(scene)}.tif"

    def scene_record(self, scene: str) -> Path:
        """Return the path of the record of a scene, beside its mask: prepare -> train."""
        return self.masks / f"{_inside(scene)}.json"

    def checkpoint(self, fold: Fold) -> Path:
        """Return the checkpoint folder of a fold, or of all folds: train -> predict."""
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
        """Return the folder of the rasters of one fold, from which scenes are assembled."""
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
    """Return the name of a scene; refuse a name that leads out of its folder."""
    if PurePath(scene).name != scene or "\0" in scene:
        raise DataError(
            f"{scene!r:.100} is not a valid scene name, because it points outside the run "
            "folder; run `roadseg prepare --force`"
        )
    return scene


def require(path: Path, *, made_by: str) -> Path:
    """Return `path` if it exists.

    Args:
        made_by: command that writes it, for the error.

    Raises:
        MissingInputError: if there is no such file or folder.
    """
    if not path.exists():
        raise MissingInputError(f"{path} does not exist; run `roadseg {made_by}` first")
    return path
