"""The run folder: the only place that knows what each stage's files are called."""

from dataclasses import dataclass
from pathlib import Path

from roadseg.errors import DataError, MissingInputError

NETWORK, SUBMISSION = "network", "submission"  # names of the graphs of all scenes


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
        """Record that a stage leaves: what it was made from, and its summary."""
        return self.root / f"{stage}.json"

    def train_record(self, fold: int) -> Path:
        """Record of the training of one fold."""
        return self.checkpoint(fold) / "train.json"

    @property
    def chips(self) -> Path:
        """Scenes and the chips cut from them: prepare -> split, train, predict, evaluate."""
        return self.root / "chips.json"

    @property
    def scaling(self) -> Path:
        """Scaling of the bands to uint8: prepare -> train."""
        return self.root / "scaling.json"

    @property
    def folds(self) -> Path:
        """Fold of every chip: split -> train, predict, evaluate."""
        return self.root / "folds.json"

    @property
    def fold_layer(self) -> Path:
        """Footprint and fold of every chip: split -> the user."""
        return self.root / "folds.gpkg"

    @property
    def fold_map(self) -> Path:
        """Picture of the folds on the ground: split -> the user."""
        return self.root / "folds.png"

    @property
    def quality(self) -> Path:
        """Folder of the sheets with labels over images: prepare -> the user."""
        return self.root / "quality"

    @property
    def masks(self) -> Path:
        """Folder of the masks: prepare -> train, evaluate."""
        return self.root / "masks"

    def mask(self, scene: str) -> Path:
        """Mask of speed bins of a scene."""
        return self.masks / f"{_inside(scene)}.tif"

    def scene_record(self, scene: str) -> Path:
        """What prepare found in a scene and made of it, beside its mask."""
        return self.masks / f"{_inside(scene)}.json"

    def checkpoint(self, fold: int) -> Path:
        """Folder of the weights of one fold, and of the facts beside them: train -> predict."""
        return self.root / "checkpoints" / f"fold-{fold}"

    @property
    def probabilities(self) -> Path:
        """Folder of the probability rasters: predict -> graph, evaluate."""
        return self.root if self.is_flat else self.root / "probabilities"

    def probability(self, scene: str) -> Path:
        """Probability raster of a scene."""
        return self.probabilities / f"{_inside(scene)}.tif"

    @property
    def graphs(self) -> Path:
        """Folder of the road graphs: graph -> evaluate, and the user."""
        return self.root if self.is_flat else self.root / "graphs"

    def graph(self, scene: str) -> Path:
        """Road graph of a scene as a GeoPackage; GeoJSON and GraphML lie beside it."""
        return self.graphs / f"{_inside(scene)}.gpkg"

    @property
    def tuning_plot(self) -> Path:
        """Picture of the trials: tune -> the user."""
        return self.root / "tune.png"

    @property
    def tuned_config(self) -> Path:
        """Config with the graph settings found: tune -> the user."""
        return self.root / "tuned.json"

    @property
    def pictures(self) -> Path:
        """Folder of the pictures of evaluated scenes: evaluate -> the user."""
        return self.root / "pictures"

    def picture(self, scene: str) -> Path:
        """Labels, probabilities and graph of a scene, side by side."""
        return self.pictures / f"{_inside(scene)}.png"

    @property
    def plots(self) -> Path:
        """Folder of the pictures for print: plot -> the user."""
        return self.root / "plots"

    @property
    def evaluation(self) -> Path:
        """Metrics of every validation chip: evaluate -> the user."""
        return self.root / "evaluation.csv"

    @property
    def report(self) -> Path:
        """Page that shows the run: report -> the user."""
        return self.root / "report.html"


def _inside(scene: str) -> str:
    """Return the name of a scene, unless it leads out of its folder.

    Raises:
        DataError: if so; the file that names it was not written by roadseg.
    """
    if "/" in scene or "\0" in scene:
        raise DataError(
            f"{scene!r:.100} is no name of a scene, as it leads out of the run folder; run "
            "`roadseg prepare` again with --force"
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
