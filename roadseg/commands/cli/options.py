"""Options: those that several commands of the command line share."""

import functools
import importlib
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, cast, get_args, get_origin

import click

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic.fields import FieldInfo

Command = Callable[..., Any]
Option = Callable[[Command], Command]

_OF_NULL = re.compile(r" null: [^.]*\.")  # What null means in a config, which no option takes.

# The folder and the class of the options of each section of the config.
_SECTIONS = {
    "imagery": ("raster", "ImageryOptions"),
    "compute": ("learn", "ComputeOptions"),
    "train": ("learn", "TrainOptions"),
    "predict": ("learn", "PredictOptions"),
    "graph": ("roads", "GraphOptions"),
}


class FieldOption(click.Option):
    """An option of the command line that stands for a field of some `options.py`.

    Its choices, limits, default and help are those of the field. They are read when they are
    needed and not before, because that loads libraries.
    """

    def __init__(
        self,
        words: Sequence[str],
        *,
        field: tuple[str, str, str],
        key: str,
        metavar: str | None,
        usual: str | None = None,
        **others: Any,  # noqa: ANN401 - of click.Option
    ) -> None:
        """Take the words of `click.Option`, and the folder, the class and the name of the field.

        Args:
            words: how the option is written, such as ["--device"].
            field: folder, class and name, such as ("learn", "ComputeOptions", "device").
            key: of the config, which counts where the option is not given; "" for none.
            metavar: what its value is called in the help; None leaves that to its type.
            usual: the value that counts without a config; None for the default of the field.
        """
        # Click asks for type and help while it builds an option. The field is not read then, so
        # that no library is loaded before it is known which command runs.
        self.key = key
        self._field, self._usual, self._is_made = field, usual, False
        super().__init__(words, default=None, metavar=metavar, **others)
        self._is_made = True

    @property
    def type(self) -> click.ParamType[Any]:
        """The values that are taken."""
        if not self._is_made or self.is_flag:
            return self._type
        return _click_type(_read_field(self._field))

    @type.setter  # noqa: A003 - click names it
    def type(self, kind: click.ParamType[Any]) -> None:
        self._type = kind

    def make_metavar(self, ctx: click.Context) -> str:
        """Return what the value is called in the help: a number if nothing else is said."""
        is_number = self.metavar is None and self.type.name.endswith("range")
        return "NUMBER" if is_number else super().make_metavar(ctx)

    @property
    def help(self) -> str:
        """The description of the field, and what counts if the option is not given."""
        if not self._is_made:
            return ""
        field = _read_field(self._field)
        usual = field.default if self._usual is None else self._usual
        if isinstance(usual, bool):
            usual = "yes" if usual else "no"
        elif isinstance(usual, float):
            usual = _plain(usual)
        counts = [] if usual is None else [f"default: {usual}"]
        counts += [f"config: {self.key}"] if self.key else []
        description = _OF_NULL.sub("", field.description or "")
        return f"{description} [{'; '.join(counts)}]" if counts else description

    @help.setter  # noqa: A003 - the same
    def help(self, _text: str | None) -> None:
        """Ignore the text of click: the field has one."""


def _read_field(field: tuple[str, str, str]) -> "FieldInfo":
    folder, kind, name = field
    return _options_class(folder, kind).model_fields[name]


def _options_class(folder: str, kind: str) -> "type[BaseModel]":
    """Import a class of options when it is needed, because pydantic is slow to import."""
    options = importlib.import_module(f"roadseg.{folder}.options")
    return cast("type[BaseModel]", getattr(options, kind))


def _click_type(field: "FieldInfo") -> click.ParamType[Any]:
    """Return the type of click that takes what a field takes."""
    if get_origin(field.annotation) is Literal:
        return click.Choice(get_args(field.annotation))
    # An option that is not given stands for None, if the field takes that.
    is_union = get_origin(field.annotation) in (Union, UnionType)
    kinds = get_args(field.annotation) if is_union else (field.annotation,)
    kind, *others = [each for each in kinds if each is not NoneType]
    if others and any(float in get_args(each) for each in kinds):
        return _NumberOrWord()
    # Texts are checked with the options that they become a part of.
    if others or kind not in (int, float):
        return click.STRING
    limits = {
        name: _plain(limit)
        for bound in field.metadata
        for name in ("ge", "gt", "le", "lt")
        if (limit := getattr(bound, name, None)) is not None
    }
    limits_type = click.IntRange if kind is int else click.FloatRange
    return limits_type(
        min=limits.get("ge", limits.get("gt")),
        max=limits.get("le", limits.get("lt")),
        min_open="gt" in limits,
        max_open="lt" in limits,
    )


def _plain(number: float) -> Any:  # noqa: ANN401 - an int or a float, as click's ranges take
    """Return a number as people write it: whole ones without decimals."""
    return int(number) if float(number).is_integer() else number


class _NumberOrWord(click.ParamType[Any]):
    """A number, or a word that stands for one, such as "auto"."""

    name = "text"

    def convert(
        self,
        value: object,
        param: click.Parameter | None,  # noqa: ARG002 - as click declares it
        ctx: click.Context | None,  # noqa: ARG002 - the same
    ) -> object:
        """Return a number, or else the word as it is."""
        with suppress(ValueError):
            return float(str(value))
        return value


def options_of(folder: str, kind: str, values: Mapping[str, object]) -> Any:  # noqa: ANN401 - a class of that folder
    """Return options of a class, with its defaults where the command line gives None."""
    given = {name: value for name, value in values.items() if value is not None}
    try:
        return _options_class(folder, kind).model_validate(given)
    except ValueError as error:  # Click lets some of them through, such as a number "nan".
        from roadseg.system.schemas import expected_and_got

        fault: dict[str, Any] = dict(cast("ValidationError", error).errors()[0])
        if fault["loc"]:
            words = _words_of(fault["loc"][0])
            raise click.UsageError(f"{words}: {expected_and_got(fault)}") from error
        words = ", ".join(f"{_words_of(name)} {value}" for name, value in given.items())
        raise click.UsageError(f"{words}: {fault['ctx']['error']}") from error


def _words_of(name: str) -> str:
    """Return how the option of a setting is written."""
    return f"--{name.replace('_', '-')}"


def of_config(section: str, words: str, **how: Any) -> Option:  # noqa: ANN401 - of `FieldOption`
    """Return an option that sets a key of a section of the config for one command.

    Args:
        words: how the option is written, such as "--device".
        how: arguments of `FieldOption`, such as the value that counts without a config.
    """
    return of_field(*_SECTIONS[section], words, section=section, **how)


def of_field(folder: str, kind: str, words: str, *, section: str = "", **how: Any) -> Option:  # noqa: ANN401 - the same
    """Return an option for a field of some options; what is not given is left to the field.

    Args:
        folder: folder of the package whose options these are.
        words: how the option is written, and what its value is called in the help if the type of
            the field does not say that, such as "--on-error stop|skip".
        section: of the config, whose key the option sets; empty for a command without a config.
        how: further arguments of `FieldOption`.
    """
    words, _, metavar = words.partition(" ")
    name = _name_of(words.split("/", maxsplit=1)[0])
    key = f"{section}.{name}" if section else ""
    field = (folder, kind, name)
    return click.option(
        words, cls=FieldOption, field=field, key=key, metavar=metavar or None, **how
    )


def section(parameter: str, folder: str, kind: str, *options: str) -> Option:
    """Return a decorator that gives a command options of one class, and passes it these as one.

    Args:
        parameter: of the command, which is an instance of the class.
    """
    names = [_name_of(words.partition(" ")[0]) for words in options]

    def decorate(function: Command) -> Command:
        @functools.wraps(function)
        def command(**values: Any) -> Any:  # noqa: ANN401 - of any command
            given = {name: values.pop(name) for name in names}
            return function(**values, **{parameter: options_of(folder, kind, given)})

        return together(*(of_field(folder, kind, words) for words in options))(command)

    return decorate


def _name_of(option: str) -> str:
    """Return the name of the setting that an option such as "--spacing-m" stands for."""
    return option.removeprefix("--").replace("-", "_")


FOLDER = click.Path(path_type=Path, file_okay=False)
FOLDER.name = "folder"  # The help calls it so.
FILE = click.Path(path_type=Path, dir_okay=False)
CONFIG = click.option(
    "--config",
    "config_path",
    type=FILE,
    help="Config file. [default: roadseg.json in the run folder that is named, else "
    "$ROADSEG_CONFIG, else ./roadseg.json]",
)


def output_file(meaning: str) -> Option:
    """Return the option of a file to write."""
    return click.option("--output", type=FILE, metavar="FILE", help=meaning)


def _complete_setting(_ctx: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Complete a key of the config, and after it a value if there is a choice of few."""
    from roadseg.config import completions

    return completions(begun)


SET = click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="SECTION.KEY=VALUE",
    shell_complete=_complete_setting,
    help="Change one setting for this command; may be repeated.",
)
RUN = click.option(
    "--run", "run_folder", type=FOLDER, help="Run folder. [default: run; config: run]"
)


def _take_run(ctx: click.Context, _param: click.Parameter, folder: Path | None) -> None:
    if folder is not None:
        ctx.params["run_folder"] = folder


# The same as an argument, beside `RUN`.
RUN_ARGUMENT = click.argument(
    "run", metavar="[RUN]", type=FOLDER, required=False, expose_value=False, callback=_take_run
)
FORCE = click.option("--force", is_flag=True, help="Run again even if nothing has changed.")
DRY_RUN = click.option(
    "--dry-run",
    is_flag=True,
    help="Show what would run, with its files and time, without running it.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


class _FoldOrWord(click.ParamType[Any]):
    """The number of a fold, or a word for several."""

    def __init__(self, *words: str) -> None:
        self._words = words
        self.name = "|".join(["N", *words])

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        """Return a number, or a word."""
        if value in self._words:
            return value
        if not str(value).isdecimal():
            expected = " or ".join(["the number of a fold", *self._words])
            self.fail(f"expected {expected}, got {value!r}", param, ctx)
        return int(str(value))


def _fold(meaning: str, *words: str, default: int | None = 0) -> Option:
    """Return the option of a fold, or of some words for several."""
    kind, is_shown = _FoldOrWord(*words), default is not None
    return click.option("--fold", type=kind, default=default, show_default=is_shown, help=meaning)


FOLD = _fold("Number of the held-out fold.")
TRAINED_FOLD = _fold(
    "Number of the held-out fold. each: hold out every fold in turn; all: train on all chips, for "
    "the number of epochs that worked best on the folds.",
    *("each", "all"),
)
FOLD_OR_EACH = _fold("Number of the held-out fold. each: every fold, with its own network.", "each")
NETWORK_OF_FOLD = _fold(
    "Fold whose network to use. each: predict every chip with the network that held it out "
    "(default if all folds are trained, otherwise 0). For IMAGES, the default is all if it is "
    "trained, otherwise 0; each averages the networks of all folds.",
    *("each", "all"),
    default=None,
)
OUTPUT = click.option("--output", type=FOLDER, help="Folder for the results of IMAGES.")


AREA = of_config("imagery", "--area FILE|BOX")
WORKERS = of_config("compute", "--workers")
ON_ERROR = of_config("compute", "--on-error")
DEVICES = (
    of_config("compute", "--device"),
    of_config("compute", "--precision"),
    of_config("compute", "--backend"),
    of_config("compute", "--compile/--no-compile"),
)


def _predicting(
    *, gsd: str | None = None, scaling: str | None = None, tta: str | None = None
) -> tuple[Option, ...]:
    """Return options of predictions, of which some have another default."""
    return (
        of_config("predict", "--engine"),
        of_config("predict", "--tta/--no-tta", usual=tta),
        of_config("predict", "--gsd", usual=gsd),
        of_config("predict", "--scaling", usual=scaling),
        of_config("predict", "--mask/--no-mask"),
    )


PREDICTING = _predicting()
PREDICTING_IN_MAP = _predicting(
    gsd="auto", scaling="auto", tta="no; with --labels: yes for small areas"
)


LAUNCHING = (
    click.option(
        "--launcher",
        type=click.Choice(["none", "pin", "run_cpu"]),
        help="Restart the command bound to CPU cores. pin: directly (default if an option below "
        "is used); run_cpu: by PyTorch's launcher.",
    ),
    click.option(
        "--ncores", type=click.IntRange(min=1), metavar="N", help="Physical cores to use."
    ),
    click.option("--nodes", metavar="N,N", help="NUMA nodes to use, such as 0,1."),
    click.option(
        "--allocator",
        type=click.Choice(["auto", "tcmalloc", "jemalloc", "default"]),
        help="Memory allocator to load. auto: tcmalloc if it is installed.",
    ),
    click.option(
        "--omp", type=click.Choice(["auto", "intel", "gnu"]), help="OpenMP library to load."
    ),
)
PROCESSES = click.option(
    "--processes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of processes that train together (torchrun), each on a GPU or a part of the "
    "cores.",
)
_LAUNCH = ("launcher", "ncores", "nodes", "allocator", "omp", "processes")


def together(*options: Option) -> Option:
    """Return a decorator that gives a command several options."""

    def decorate(function: Command) -> Command:
        # Decorators act from the last to the first; the help lists options in the order given.
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def take_settings(values: dict[str, Any], *, start: bool = True) -> tuple[str, ...]:
    """Take out of the options of a command how to start, and what they set in the config.

    If one of them asks for another launcher or for some cores, the command is restarted, and this
    function does not return.

    Args:
        values: the options of a command by name; those that are taken are removed.
        start: False checks that the command could be restarted, but does not start it.

    Returns:
        Assignments such as "compute.device=cpu", as --set takes them.
    """
    launch = {key: values.pop(key, None) for key in _LAUNCH}
    if any(value is not None for value in launch.values()):
        from roadseg.learn.hardware import launchers

        nodes = launch["nodes"].split(",") if launch["nodes"] else []
        if not all(node.strip().isdecimal() for node in nodes):
            expected = "expected numbers separated by commas, such as 0,1"
            msg = f"--nodes: {expected}, got {launch['nodes']!r}"
            raise click.UsageError(msg)
        launch["nodes"] = tuple(map(int, nodes))
        launchers.launch(launchers.LaunchOptions(**launch), sys.argv[1:], start=start)
    params = click.get_current_context().command.params
    fields = [param for param in params if isinstance(param, FieldOption) and param.key]
    settings = {param.key: values.pop(str(param.name)) for param in fields}
    # A flag becomes true or false, as JSON has them; all else is text that the config checks.
    return tuple(
        f"{key}={json.dumps(value) if isinstance(value, bool) else value}"
        for key, value in settings.items()
        if value is not None
    )


def _shard(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> tuple[int, int] | None:
    """Read a shard such as "1/8": its number, and how many there are."""
    if value is None:
        return None
    number, _, count = value.partition("/")
    if number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count):
        return int(number), int(count)
    msg = f"expected I/N with I from 1 to N, such as 1/8, got {value!r}"
    raise click.BadParameter(msg)


SHARD = click.option(
    "--shard",
    metavar="I/N",
    callback=_shard,
    help="Process only every N-th scene, starting with the I-th; for job arrays.",
)
