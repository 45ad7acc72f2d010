"""The run folder: the only place that knows what each stage's files are called."""

from dataclasses import dataclass
from pathlib import Path

from roadseg.errors import MissingInputError


@dataclass(frozen=True)
class Workspace:
    """Names of the files in one run folder. Makes names, touches no files."""

    root: Path

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
        return self.masks / f"{scene}.tif"

    def scene_record(self, scene: str) -> Path:
        """What prepare found in a scene and made of it, beside its mask."""
        return self.masks / f"{scene}.json"

    def checkpoint(self, fold: int) -> Path:
        """Folder of the weights of one fold, and of the facts beside them: train -> predict."""
        return self.root / "checkpoints" / f"fold-{fold}"

    @property
    def probabilities(self) -> Path:
        """Folder of the probability rasters: predict -> graph, evaluate."""
        return self.root / "probabilities"

    def probability(self, scene: str) -> Path:
        """Probability raster of a scene."""
        return self.probabilities / f"{scene}.tif"

    @property
    def graphs(self) -> Path:
        """Folder of the road graphs: graph -> evaluate, and the user."""
        return self.root / "graphs"

    def graph(self, scene: str) -> Path:
        """Road graph of a scene as a GeoPackage; GeoJSON and GraphML lie beside it."""
        return self.graphs / f"{scene}.gpkg"

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
        return self.pictures / f"{scene}.png"

    @property
    def evaluation(self) -> Path:
        """Metrics of every validation chip: evaluate -> the user."""
        return self.root / "evaluation.csv"


def require(path: Path, *, made_by: str) -> Path:
    """Return `path`, or say which stage makes it.

    Raises:
        MissingInputError: if there is no such file or folder.
    """
    if not path.exists():
        raise MissingInputError(f"{path} does not exist; run `roadseg {made_by}` first")
    return path
