"""The JSON config that all stages share: find, read and check it."""

import difflib
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from pathlib import Path, PurePath
from types import MappingProxyType, NoneType
from typing import Any, Literal, TypeGuard, get_args, get_origin, overload

from pydantic import ValidationError, model_validator

from roadseg.dataset.options import RunImageryOptions, SetLabelOptions, SplitOptions
from roadseg.dataset.sets import SceneSet, scene_sets
from roadseg.errors import ConfigError
from roadseg.learn.options import ComputeOptions, PredictOptions, TrainOptions
from roadseg.options import Section, setting
from roadseg.raster.options import ImageryOptions, box_numbers
from roadseg.roads.options import GraphOptions, LabelOptions
from roadseg.system.files import in_folder, with_home
from roadseg.system.records import changes, parse_json, write_json
from roadseg.system.schemas import expected_and_got, first_faults

FILE_NAME = "roadseg.json"
VARIABLE = "ROADSEG_CONFIG"

SCHEMA_NAME = "roadseg.schema.json"
SCHEMA = "$schema"  # A key for editors, which is not a setting.

_NOTES = {
    SCHEMA: {"type": "string", "description": "File by which editors explain the keys."},
    "$why": {"type": "object", "description": "Notes of earlier versions; they are not read."},
}
_MOST_FAULTS = 10  # Faults of a config that one error names.


class Config(Section):
    """Everything a run depends on, apart from the data."""

    retired = MappingProxyType(
        {
            "quantize": {
                "windows": 64,
                "min_mask_iou": 0.97,
                "max_f1_loss": 0.005,
                "max_apls_loss": 0.02,
            },
            "evaluate": {"spacing_m": 50.0, "snap_m": 4.0, "pictures": 12},
            "report": {"max_mb": 25.0},
            "tune": {"goal": "apls", "trials": 40, "seed": 0},
        }
    )
    run: Path = setting(
        Path("run"),
        "path",
        "Run folder for all outputs, relative to the config file.",
        strict=False,
    )
    imagery: RunImageryOptions = RunImageryOptions()
    labels: LabelOptions = LabelOptions()
    split: SplitOptions = SplitOptions()
    train: TrainOptions = TrainOptions()
    predict: PredictOptions = PredictOptions()
    graph: GraphOptions = GraphOptions()
    compute: ComputeOptions = ComputeOptions()

    @model_validator(mode="after")
    def _sets_are_whole(self) -> "Config":
        if self.imagery.sets and self.labels.roads:
            raise ValueError(
                "labels.roads: cannot be combined with imagery.sets, which have their own "
                "labels; remove one of them"
            )
        scene_sets(self.imagery, self.labels)
        return self

    @property
    def sets(self) -> list[SceneSet]:
        """The sets of scenes with all their options; one without a name if there are none."""
        return scene_sets(self.imagery, self.labels)

    @property
    def folds(self) -> int:
        """The number of folds; where each set is one, that of the sets."""
        return len(self.sets) if self.split.method == "sets" else self.split.folds

    def of_set(self, name: str) -> "Config":
        """Return the config with which the scenes of a set are read, as if there were no others.

        Args:
            name: of the set; without one the options of the run count.

        Raises:
            ConfigError: if there is no such set.
        """
        if not name:
            return self
        for own in self.sets:
            if own.name == name:
                given = own.imagery.model_fields_set
                imagery = RunImageryOptions.model_construct(given, **dict(own.imagery))
                return self.model_copy(update={"imagery": imagery, "labels": own.labels})
        raise ConfigError(
            f"imagery.sets.{name}: missing, but chips.json contains scenes of this set; restore "
            "it, or run `roadseg prepare` again"
        )

    def imagery_of(self, set_of: Mapping[str, str]) -> dict[str, ImageryOptions]:
        """Return how each scene is read, by its name.

        Args:
            set_of: the name of the set of each scene, by the name of the scene.

        Raises:
            ConfigError: if there is no such set.
        """
        imagery = {name: self.of_set(name).imagery for name in set(set_of.values())}
        return {scene: imagery[name] for scene, name in set_of.items()}

    def __str__(self) -> str:
        """Return as JSON what differs from the defaults, as a config file has it."""
        return self.model_dump_json(exclude_defaults=True, indent=2)


@overload
def find_config(
    given: Path | None, run: Path | None = ..., *, required: Literal[True] = ...
) -> Path: ...
@overload
def find_config(given: Path | None, run: Path | None = ..., *, required: bool) -> Path | None: ...
def find_config(
    given: Path | None, run: Path | None = None, *, required: bool = True
) -> Path | None:
    """Return the path of the config file: the first of four that is named or there.

    These are `given`, the one in the run folder `run`, as `map` leaves it, the one that
    ROADSEG_CONFIG names, and ./roadseg.json.

    Raises:
        ConfigError: if there is none; unless it was not named and is not required: then None.
    """
    if given is None and run is not None and (run / FILE_NAME).is_file():
        return run / FILE_NAME
    named = given or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    path = named or Path(FILE_NAME)
    if path.is_file():
        return path
    if named is None and not required:
        return None
    raise ConfigError(
        f"{path} does not exist; create a config with `roadseg init`, use another one with "
        "--config, or name a run folder that has one"
    )


def load_config(path: Path | None, assignments: Sequence[str] = ()) -> Config:
    """Read a JSON config and make its paths absolute.

    Args:
        path: the file; relative paths in it start at its folder. None: the defaults.
        assignments: changes such as "train.epochs=3"; the value is JSON, or else a string.
            Relative paths in them start at the working folder.

    Raises:
        ConfigError: naming the file, the dotted key, what was expected and what was found.
    """
    values = {} if path is None else _settings_in(_read_all(path))
    assigned = [_assign(values, assignment) for assignment in assignments]
    config = check_config(values, path or Path("--set"), assigned=assigned)
    if path is None:
        return with_absolute_paths(config, Path.cwd())
    of_file = with_absolute_paths(config, path.resolve().parent)
    if not assigned:
        return of_file
    typed = with_absolute_paths(config, Path.cwd())
    return reduce(lambda made, key: _with_value(made, typed, key.split(".")), assigned, of_file)


def _with_value(section: Any, other: Any, names: Sequence[str]) -> Any:  # noqa: ANN401 - or sets
    """Return a section, or sets by their names, with one value, named by its keys, of another."""
    if not names:
        return other
    name, *rest = names
    if name not in (section if isinstance(section, dict) else type(section).model_fields):
        return section  # The setting is retired, or a later assignment has replaced its set.
    if isinstance(section, dict):
        return section | {name: _with_value(section[name], other[name], rest)}
    value = _with_value(getattr(section, name), getattr(other, name), rest)
    return section.model_copy(update={name: value})


def _settings_in(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in _NOTES}


def config_schema() -> dict[str, Any]:
    """Return the JSON Schema of a config file."""
    schema = Config.model_json_schema()
    return schema | {"properties": _NOTES | schema["properties"]}


def _read_all(path: Path) -> dict[str, Any]:
    twice: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        twice.extend(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        return dict(pairs)

    try:
        values = json.loads(path.read_bytes(), object_pairs_hook=collect)
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not a readable JSON file ({error})") from error
    if twice:  # Of which the last one would count without a word.
        raise ConfigError(
            f"{path}: {twice[0]!r:.60} appears twice; keep one, with all that it holds"
        )
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected a JSON object with sections, got {values!r:.60}")
    return values


def check_config(values: Mapping[str, Any], path: Path, *, assigned: Sequence[str] = ()) -> Config:
    """Check the values of a config file.

    Args:
        values: of the file, with those that were assigned on the command line.
        assigned: dotted keys that were assigned; faults of these are not blamed on the file.

    Raises:
        ConfigError: with a sentence for each wrong key or value.
    """

    def where(*keys: str) -> str:
        is_own = all(any(f"{key}.".startswith(f"{own}.") for own in assigned) for key in keys)
        return "--set" if is_own else str(path)

    known = _without_retired(values, Config, where)
    try:
        return Config.model_validate_json(json.dumps(known))
    except ValidationError as error:
        wrong = [".".join(map(str, fault["loc"])) for fault in error.errors(include_url=False)]
        faults = first_faults(error, _explain, most=_MOST_FAULTS)
        raise ConfigError(f"{where(*wrong)}: {faults}") from error


def _without_retired(
    values: Mapping[str, Any], section: type[Section], where: Callable[[str], str], prefix: str = ""
) -> dict[str, Any]:
    """Return the values of a section without those of retired settings, see `Section`.

    Raises:
        ConfigError: if one of these has another value than the one that is fixed now; it says
            `where` its dotted key stands.
    """
    kept = {}
    for name, value in values.items():
        key, field = f"{prefix}{name}", section.model_fields.get(name)
        if name in section.retired:
            _require_fixed(key, value, section.retired[name], where)
        elif field and _is_section(field.annotation) and isinstance(value, dict):
            kept[name] = _without_retired(value, field.annotation, where, f"{key}.")
        else:
            kept[name] = value
    return kept


def _require_fixed(key: str, value: object, fixed: object, where: Callable[[str], str]) -> None:
    if isinstance(fixed, dict) and isinstance(value, dict) and value.keys() <= fixed.keys():
        for name in value:
            _require_fixed(f"{key}.{name}", value[name], fixed[name], where)
    elif value != fixed:
        raise ConfigError(
            f"{where(key)}: {key}: no longer a setting, and only {json.dumps(fixed)} is still "
            "accepted; remove it; the changelog names what to use instead"
        )


def _assign(values: dict[str, Any], assignment: str) -> str:
    """Put an assignment such as "train.epochs=3" into the values of a config; return its key.

    A setting that is a list takes its items with commas between, or JSON.
    """
    key, equals, text = assignment.partition("=")
    option = f"--set {' '.join(assignment.split()):.200}"
    *sections, name = key.split(".")
    if not equals or not name:
        raise ConfigError(f"{option}: expected section.key=value, such as train.epochs=3")
    for section in sections:
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            raise ConfigError(f"{option}: {section} is not a section")
    value = _json_or_text(text)
    if _is_list(key) and not isinstance(value, list | NoneType):
        value = [_json_or_text(part) for part in text.split(",")]
    values[name] = value
    return key


def _json_or_text(text: str) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return parse_json(text)
    except ValueError:
        return text


def _is_list(key: str) -> bool:
    """Return whether the setting with a dotted key takes a list."""
    kind: Any = Config
    parts = iter(key.split("."))
    for part in parts:
        field = kind.model_fields.get(part) if _is_section(kind) else None
        if field is None:
            return False
        kind = field.annotation
        if get_origin(kind) is dict and next(parts, None):  # the name of a set
            kind = get_args(kind)[1]
    return tuple in {get_origin(each) for each in (kind, *get_args(kind))}


def _is_section(kind: Any) -> TypeGuard[type[Section]]:  # noqa: ANN401 - of any field
    return isinstance(kind, type) and issubclass(kind, Section)


def change_config(path: Path, assignments: Sequence[str]) -> None:
    """Write a config file with other values for some settings; all else in it stays as it is.

    Args:
        assignments: changes such as "train.epochs=3", see `load_config`; but relative paths are
            written as they are, and so start at the folder of the file.

    Raises:
        ConfigError: if the file could not be used with them, and is left as it was.
        OutputError: if it cannot be written.
    """
    values = _read_all(path)
    assigned = [_assign(values, assignment) for assignment in assignments]
    check_config(_settings_in(values), path, assigned=assigned)
    write_json(path, values)


def differences(there: Config, here: Config) -> dict[str, list[Any]]:
    """Return the settings in which two configs differ: both values by dotted key."""
    found = changes(there.model_dump(mode="json"), here.model_dump(mode="json"))
    return {key: [one, other] for key, one, other in found}


def with_absolute_paths(config: Config, folder: Path) -> Config:
    """Return a config whose relative paths, which start at `folder`, are absolute."""

    def absolute(path: str) -> str:
        if path.startswith("@"):
            return f"@{absolute(path[1:])}"
        return in_folder(path, folder)

    return _with_paths(config, absolute)


def with_relative_paths(config: Config, folder: Path) -> Config:
    """Return a config whose paths in an absolute folder start there, so that it can be moved."""

    def relative(path: str) -> str:
        is_inside = Path(path).is_relative_to(folder)
        return Path(path).relative_to(folder).as_posix() if is_inside else path

    return _with_paths(config, relative)


def _with_paths(config: Config, change: Callable[[str], str]) -> Config:
    """Return a config in which all paths are changed; globs keep the tilde of a home folder."""

    def change_path(path: Path | None) -> Path | None:
        return path and Path(change(str(with_home(path))))

    def change_weights(name: str | None) -> str | None:
        # Weights are a file, or a name that the library of encoders knows, such as "imagenet".
        is_path = name is not None and (PurePath(name).name != name or "." in name)
        return str(change_path(Path(str(name)))) if is_path else name

    def change_area(text: str | None) -> str | None:
        if text is None or box_numbers(text) is not None:
            return text
        return change(str(with_home(text)))

    sets = {
        name: own.model_copy(
            update={
                "images": tuple(map(change, own.images)),
                "roads": tuple(map(change, own.roads)),
                "labels": _with_area(own.labels, change),
            }
        )
        for name, own in config.imagery.sets.items()
    }
    sections: dict[str, dict[str, Any]] = {
        "imagery": {
            "images": tuple(map(change, config.imagery.images)),
            "area": change_area(config.imagery.area),
            "sets": sets,
        },
        "labels": {
            "roads": tuple(map(change, config.labels.roads)),
            "area": tuple(map(change, config.labels.area)),
        },
        "split": {
            "file": change_path(config.split.file),
            "target": tuple(map(change, config.split.target)),
        },
        "train": {
            "init": change_path(config.train.init),
            "encoder_weights": change_weights(config.train.encoder_weights),
        },
    }
    changed = {
        name: getattr(config, name).model_copy(update=paths) for name, paths in sections.items()
    }
    run = Path(os.path.normpath(change(str(with_home(config.run)))))
    return config.model_copy(update={"run": run, **changed})


def _with_area(labels: SetLabelOptions, change: Callable[[str], str]) -> SetLabelOptions:
    """Return the labels of a set with changed paths of their area, if they have one."""
    if "area" not in labels.model_fields_set:
        return labels
    return labels.model_copy(update={"area": tuple(map(change, labels.area))})


def _explain(fault: Mapping[str, Any]) -> str:
    """Return a sentence for a fault that pydantic reports, with the dotted key."""
    key = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        return f"{key}: unknown key; {_nearest(key)}"
    if fault["type"] == "value_error":
        return f"{key}.{fault['ctx']['error']}".lstrip(".")
    return f"{key}: {expected_and_got(fault)}"


def _nearest(key: str) -> str:
    """Return a question for the key that was probably meant, or else the keys of the section."""
    section, _, name = key.rpartition(".")
    known = _known_keys(_set_in(key))
    here = [k for k in known if k.rpartition(".")[0] == section]
    for candidates in (here, known):
        by_name = {k.rpartition(".")[2]: k for k in candidates}
        if near := difflib.get_close_matches(name, by_name, n=1):
            return f"did you mean {by_name[near[0]]}?"
    return f"known keys: {', '.join(here)}"


def keys_named(name: str) -> list[str]:
    """Return the dotted keys of the settings with a name, such as ["train.epochs"] of "epochs"."""
    return [key for key in _known_keys("") if key.rpartition(".")[2] == name]


def completions(begun: str) -> list[str]:
    """Return the dotted keys of settings that begin so, each with the = that has to follow.

    Keys of sets, whose names are unknown, are completed after the name.
    """
    known = _known_keys(_set_in(begun))
    sections = {key.rpartition(".")[0] for key in known}
    return [f"{key}=" for key in known if key.startswith(begun) and key not in sections]


def _set_in(key: str) -> str:
    """Return the name of the set in a dotted key, empty if there is none."""
    _, _, rest = key.partition("imagery.sets.")
    name, dot, _ = rest.partition(".")
    return name if dot else ""


def _known_keys(of_set: str, section: type[Section] = Config, prefix: str = "") -> list[str]:
    """Return the dotted keys of a section and of those in it, sections included.

    Args:
        of_set: name of the set whose keys are among them; empty for none.
        prefix: its own key, with a dot after it.
    """
    keys = []
    left_out = SetLabelOptions.left_out if issubclass(section, SetLabelOptions) else ()
    for name, field in section.model_fields.items():
        if name in left_out:
            continue
        keys.append(prefix + name)
        inner, among = field.annotation, ""
        if name == "sets" and of_set:
            inner, among = get_args(inner)[1], f"{of_set}."
        if _is_section(inner):
            keys += _known_keys(of_set, inner, f"{prefix}{name}.{among}")
    return keys
