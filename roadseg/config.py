"""The JSON config that all stages share: every setting, its default, unit and limits."""

import difflib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pyproj import CRS
from pyproj.exceptions import CRSError

from roadseg.errors import ConfigError

FILE_NAME = "roadseg.json"
VARIABLE = "ROADSEG_CONFIG"


def _setting(default: Any, unit: str, description: str, **limits: Any) -> Any:  # noqa: ANN401
    """Declare a setting: its default, its unit ("-" for none), what it does, its limits."""
    return Field(default, description=description, json_schema_extra={"unit": unit}, **limits)


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class ImageryConfig(_Section):
    """The scenes, and how their pixels become the input of the network."""

    images: tuple[str, ...] = _setting(
        (), "paths", "Scenes: files, folders or globs of GeoTIFF/VRT, relative to the config file."
    )
    bands: tuple[int, ...] | None = _setting(
        None, "band numbers", "Bands to use, from 1; null takes all but alpha.", min_length=1
    )
    crs: str | None = _setting(None, "CRS", "CRS of scenes that name none, such as EPSG:32611.")
    gsd_m: float | None = _setting(
        None, "metres", "Resample scenes to pixels of this size; null takes them as they are.", gt=0
    )
    chip_px: int = _setting(
        1300, "pixels", "Scenes larger than this are cut into chips for training.", ge=32
    )
    percentiles: tuple[float, float] = _setting(
        (2.0, 98.0), "percent", "Percentiles over all scenes that become 0 and 255 (not of uint8)."
    )

    @model_validator(mode="after")
    def _percentiles_rise(self) -> "ImageryConfig":
        low, high = self.percentiles
        if not 0 <= low < high <= 100:  # noqa: PLR2004 - percent
            raise ValueError(
                f"percentiles: expected two numbers that rise from 0 to 100, got {[low, high]}"
            )
        return self


class LabelsConfig(_Section):
    """The road lines, and how they become masks."""

    roads: tuple[str, ...] = _setting(
        (), "paths", "Road lines: one vector file for all scenes, or a folder or glob of one each."
    )
    crs: str | None = _setting(None, "CRS", "CRS of label files that name none.")
    buffer_m: float = _setting(
        2.0, "metres", "Half the width of a road in the mask, around its centreline.", gt=0
    )
    default_speed_mph: float = _setting(
        25.0, "mph", "Speed of roads whose attributes say nothing of it.", gt=0
    )


class SplitConfig(_Section):
    """How chips are dealt into folds."""

    folds: int = _setting(5, "folds", "Number of folds; 5 holds out 20 % of the chips.", ge=2)
    method: Literal["blocks", "random"] = _setting(
        "blocks", "-", "blocks: neighbouring chips share a fold; random: chip by chip."
    )
    block_m: float = _setting(
        500.0, "metres", "Side of the square of ground whose chips share a fold.", gt=0
    )
    seed: int = _setting(0, "-", "Decides which block goes to which fold.", ge=0)


class TrainConfig(_Section):
    """The network and its training."""

    architecture: str = _setting("unet", "-", "Architecture, by its segmentation-models name.")
    encoder: str = _setting("resnet34", "-", "Encoder, by its segmentation-models name.")
    encoder_weights: str | None = _setting(
        None,
        "-",
        '"imagenet" downloads pretrained weights once (better); null trains from scratch.',
    )
    window_px: int = _setting(
        512, "pixels", "Side of the random windows; a multiple of 32.", ge=32, multiple_of=32
    )
    windows_per_chip: int = _setting(8, "windows", "Windows drawn from each chip an epoch.", ge=1)
    batch_size: int = _setting(8, "windows", "Windows a training step.", ge=1)
    epochs: int = _setting(30, "epochs", "Passes over the chips.", ge=1)
    patience: int = _setting(
        8, "epochs", "Stop when the validation loss has not improved for so long.", ge=1
    )
    learning_rate: float = _setting(3e-4, "-", "Learning rate of Adam.", gt=0)
    lr_milestones: tuple[int, ...] = _setting(
        (20, 25), "epochs", "Epochs after which the learning rate drops."
    )
    lr_gamma: float = _setting(0.2, "factor", "The learning rate drops by this.", gt=0, le=1)
    clip_norm: float = _setting(1.0, "norm", "Largest norm of the gradient.", gt=0)
    focal: float = _setting(0.75, "weight", "Weight of the focal loss.", ge=0)
    dice: float = _setting(0.25, "weight", "Weight of the soft dice loss.", ge=0)
    seed: int = _setting(0, "-", "Decides first weights, windows and augmentation.", ge=0)


class PredictConfig(_Section):
    """Inference."""

    scenes: Literal["validation", "all"] = _setting(
        "validation", "-", "Scenes of the run to predict: those with validation chips, or all."
    )
    window_px: int = _setting(
        512, "pixels", "Side of the windows; a multiple of 32.", ge=64, multiple_of=32
    )
    overlap_px: int = _setting(
        128, "pixels", "Overlap of neighbouring windows, blended smoothly.", ge=0
    )
    batch_size: int = _setting(4, "windows", "Windows predicted at once.", ge=1)

    @model_validator(mode="after")
    def _overlap_fits(self) -> "PredictConfig":
        if self.overlap_px > self.window_px // 2:
            raise ValueError(
                f"overlap_px: expected at most half of window_px ({self.window_px // 2})"
            )
        return self


class GraphConfig(_Section):
    """From probabilities to the road graph."""

    threshold: float = _setting(
        0.4, "probability", "Road where the probability is at least this.", gt=0, lt=1
    )
    min_blob_m2: float = _setting(30.0, "m2", "Smaller patches of road are removed.", ge=0)
    min_hole_m2: float = _setting(30.0, "m2", "Smaller holes in roads are filled.", ge=0)
    min_spur_m: float = _setting(10.0, "metres", "Shorter dead ends are pruned.", ge=0)
    max_gap_m: float = _setting(
        20.0, "metres", "Longest gap across which a dead end is linked to the road ahead.", ge=0
    )
    min_component_m: float = _setting(
        20.0, "metres", "Connected pieces with less road than this are dropped.", ge=0
    )
    simplify_m: float = _setting(1.0, "metres", "How far a line may move when simplified.", ge=0)
    default_speed_mph: float = _setting(
        25.0, "mph", "Speed of edges for which the probabilities show none.", gt=0
    )


class EvaluateConfig(_Section):
    """Metrics on the validation fold."""

    spacing_m: float = _setting(50.0, "metres", "APLS: distance of control points.", gt=0)
    snap_m: float = _setting(4.0, "metres", "APLS: how far a control point may snap.", gt=0)
    pictures: int = _setting(12, "scenes", "Scenes of which a picture is drawn, at most.", ge=0)


class ComputeConfig(_Section):
    """Where the work is done; no stage is repeated when this changes."""

    device: Literal["auto", "cpu", "cuda"] = _setting("auto", "-", "Where networks run.")
    precision: Literal["auto", "fp32", "bf16"] = _setting(
        "auto", "-", "bf16: mixed precision; auto takes it where the device is fast at it."
    )
    workers: int = _setting(1, "processes", "Processes that load and augment windows.", ge=0)


class Config(_Section):
    """Everything a run depends on, apart from the data."""

    run: Path = _setting(
        Path("run"),
        "path",
        "Run folder for all outputs, relative to the config file.",
        strict=False,
    )
    imagery: ImageryConfig = ImageryConfig()
    labels: LabelsConfig = LabelsConfig()
    split: SplitConfig = SplitConfig()
    train: TrainConfig = TrainConfig()
    predict: PredictConfig = PredictConfig()
    graph: GraphConfig = GraphConfig()
    evaluate: EvaluateConfig = EvaluateConfig()
    compute: ComputeConfig = ComputeConfig()


def find_config(given: Path | None, *, required: bool = True) -> Path | None:
    """Return the config file: the one given, else that of ROADSEG_CONFIG, else ./roadseg.json.

    Raises:
        ConfigError: if there is none; unless it was not named and is not required: then None.
    """
    named = given or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    path = named or Path(FILE_NAME)
    if path.is_file():
        return path
    if named is None and not required:
        return None
    raise ConfigError(
        f"{path}: no config file there; `roadseg init` writes one, --config names another"
    )


def load_config(path: Path | None, assignments: Sequence[str] = ()) -> Config:
    """Read a JSON config and make its paths absolute.

    Args:
        path: the file; relative paths in it start at its folder. None takes the defaults.
        assignments: changes such as "train.epochs=3"; the value is JSON, or else a string.

    Raises:
        ConfigError: naming the file, the dotted key, what was expected and what was found.
    """
    values = {} if path is None else _read(path)
    for assignment in assignments:
        _assign(values, assignment)
    config = check_config(values, path or Path("--set"))
    return _with_absolute_paths(config, path.resolve().parent if path else Path.cwd())


def _read(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: not a readable JSON file ({error})") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected a JSON object with sections, got {values!r:.60}")
    values.pop("$schema", None)
    return values


def crs_setting(text: str | None, key: str) -> CRS | None:
    """Return the CRS that a setting names, None where it is null.

    Raises:
        ConfigError: if there is no such CRS.
    """
    try:
        return CRS.from_user_input(text) if text else None
    except CRSError as error:
        raise ConfigError(f"{key}: expected a CRS such as EPSG:32611, got {text!r}") from error


def check_config(values: Mapping[str, Any], path: Path) -> Config:
    """Check the values of a config file.

    Raises:
        ConfigError: with a sentence for each wrong key or value.
    """
    try:
        return Config.model_validate_json(json.dumps(values))
    except ValidationError as error:
        text = "; ".join(_explain(dict(found)) for found in error.errors())
        raise ConfigError(f"{path}: {text}") from error


def _assign(values: dict[str, Any], assignment: str) -> None:
    key, equals, text = assignment.partition("=")
    *sections, name = key.split(".")
    if not equals or not name:
        raise ConfigError(f"--set {assignment}: expected section.key=value, such as train.epochs=3")
    for section in sections:
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            raise ConfigError(f"--set {assignment}: {section} is not a section")
    try:
        values[name] = json.loads(text)
    except ValueError:
        values[name] = text


def _with_absolute_paths(config: Config, folder: Path) -> Config:
    def absolute(paths: Iterable[str]) -> tuple[str, ...]:
        return tuple(p if p.startswith(("/", "~")) else str(folder / p) for p in paths)

    return config.model_copy(
        update={
            "run": folder / config.run.expanduser(),
            "imagery": config.imagery.model_copy(
                update={"images": absolute(config.imagery.images)}
            ),
            "labels": config.labels.model_copy(update={"roads": absolute(config.labels.roads)}),
        }
    )


def _explain(found: Mapping[str, Any]) -> str:
    key = ".".join(str(part) for part in found["loc"])
    if found["type"] == "extra_forbidden":
        return f"{key}: unknown key; {_nearest(key)}"
    if found["type"] == "value_error":
        return f"{key}.{found['ctx']['error']}"
    told = found["msg"].replace("Input should be", "expected")
    return f"{key}: {told}, got {found['input']!r:.60}"


def _nearest(key: str) -> str:
    section, _, name = key.rpartition(".")
    known = _known_keys()
    here = [k for k in known if k.rpartition(".")[0] == section]
    for candidates in (here, known):
        by_name = {k.rpartition(".")[2]: k for k in candidates}
        if near := difflib.get_close_matches(name, by_name, n=1):
            return f"did you mean {by_name[near[0]]}?"
    return f"known here: {', '.join(here)}"


def _known_keys() -> list[str]:
    keys = []
    for name, field in Config.model_fields.items():
        keys.append(name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, _Section):
            keys += [f"{name}.{key}" for key in field.annotation.model_fields]
    return keys
