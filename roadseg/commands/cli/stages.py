"""The commands of the stages, from prepare to report, and run for all."""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from roadseg.commands.cli.command import (
    announce,
    require_images,
    stage,
    stage_command,
    stage_function,
)
from roadseg.commands.cli.options import (
    AREA,
    DEVICES,
    FOLD_OR_EACH,
    FOLDER,
    FUSE,
    LAUNCHING,
    LAUNCHING_SEVERAL,
    NETWORK_OF_FOLD,
    ON_ERROR,
    OUTPUT,
    PRECISION,
    PREDICTING,
    SCHEDULER,
    TRAINED_FOLD,
    WORKERS,
    shard_of,
)

if TYPE_CHECKING:
    from roadseg.config import Config
    from roadseg.system.workspace import Fold, FoldOrEach, Workspace


@stage_command(AREA, WORKERS, SCHEDULER, ON_ERROR)
def prepare(config: "Config", workspace: "Workspace", *, do: str, force: bool) -> object:
    """Make masks, cut scenes into chips, and divide these into folds.

    \b
    Examples:
      roadseg prepare --set labels.buffer_m=3
      roadseg prepare --workers 8 --on-error skip
    """
    pipeline = importlib.import_module("roadseg.commands.stages.pipeline")
    if do == "plan":
        return pipeline.plan_prepare(config, workspace, force=force)
    return pipeline.prepare(config, workspace, force=force)


@stage_command()
def split(config: "Config", workspace: "Workspace", *, do: str, force: bool) -> object:
    """Divide the chips into folds again (the last step of prepare).

    \b
    Example: roadseg split --set split.method=random
    """
    return stage_function("split", do)(config, workspace, force=force)


@stage_command(
    TRAINED_FOLD,
    click.option(
        "--profile",
        type=click.IntRange(min=0, max=100),
        default=0,
        metavar="N",
        help="Profile N training steps; each process writes a file to profile/ in the checkpoint "
        "folder.",
    ),
    *DEVICES,
    *LAUNCHING_SEVERAL,
)
def train(
    config: "Config",
    workspace: "Workspace",
    *,
    do: str,
    force: bool,
    fold: "Fold | FoldOrEach",
    profile: int,
) -> object:
    """Train on all folds but one, and validate on that fold.

    Run the same command to resume an interrupted training. --fold each trains one network per fold,
    one after the other. --fold all trains a final network on all chips, for new images. It needs at
    least one trained fold, which determines the number of epochs.

    \b
    Examples:
      roadseg train --fold 0 --set train.epochs=10
      roadseg train --fold 0 --ncores 16 --allocator auto
      roadseg train --fold 0 --processes 2 --profile 4
      roadseg train --fold each
      roadseg train --fold all
    """
    if fold == "each":
        return _cross_validate(config, workspace, do=do, force=force, profile=profile)
    if do == "plan":
        return stage("train").plan(config, workspace, fold=fold, force=force)
    return stage("train").run(config, workspace, fold=fold, force=force, profile=profile)


@stage_command(
    NETWORK_OF_FOLD,
    click.option(
        "--checkpoint",
        "checkpoints",
        type=FOLDER,
        multiple=True,
        help="Checkpoint folder of the network for IMAGES; may be repeated, to average several. "
        "[default: that of the run]",
    ),
    OUTPUT,
    click.option(
        "--mosaic",
        metavar="NAME",
        help="Treat IMAGES as adjoining tiles of one scene with this name.",
    ),
    AREA,
    shard_of("scene"),
    *PREDICTING,
    FUSE,
    WORKERS,
    SCHEDULER,
    ON_ERROR,
    *DEVICES,
    *LAUNCHING,
    click.argument("images", nargs=-1),
)
def predict(
    config: "Config",
    workspace: "Workspace",
    *,
    do: str,
    force: bool,
    fold: "Fold | FoldOrEach | None",
    checkpoints: tuple[Path, ...],
    output: Path | None,
    mosaic: str | None,
    shard: tuple[int, int] | None,
    images: tuple[str, ...],
) -> object:
    """Predict roads in the scenes of the run, or in any IMAGES.

    If all folds are trained, each scene of the run is predicted by the network that has not seen
    it. Run the same command to resume an interrupted prediction.

    \b
    Examples:
      roadseg predict --fold 0
      roadseg predict --output out city.tif
      roadseg predict --checkpoint run/checkpoints/fold-0 --output out city.tif
      roadseg predict --checkpoint run/checkpoints/fold-0 --output out --mosaic city tiles/
      roadseg predict --output out --fuse spring.tif summer.tif
      roadseg predict --output out --area area.geojson city.tif
    """
    if not _all_or_none(images, output) or ((mosaic or checkpoints) and not images):
        msg = (
            "IMAGES need --output with a folder for the results, and --output, --checkpoint and "
            "--mosaic need IMAGES; without all of them, the scenes of the run are predicted"
        )
        raise click.UsageError(msg)
    if output is None:
        if fold is None:
            fold = stage("predict").usual_fold(config, workspace)
        function = stage_function("predict", do)
        return function(config, workspace, fold=fold, force=force, shard=shard)
    usual = stage("predict").usual_checkpoints
    require_images(images)
    return stage_function("predict", f"{do}_images")(
        config,
        images,
        checkpoints=list(checkpoints) or usual(workspace, fold),
        output=output,
        mosaic=mosaic,
        force=force,
        shard=shard,
    )


@stage_command(
    PRECISION, OUTPUT, AREA, WORKERS, SCHEDULER, ON_ERROR, click.argument("images", nargs=-1)
)
def graph(
    config: "Config",
    workspace: "Workspace",
    *,
    do: str,
    force: bool,
    output: Path | None,
    images: tuple[str, ...],
) -> object:
    """Turn probabilities of the run, or any IMAGES, into road graphs.

    IMAGES are masks or probability rasters, such as `roadseg predict` writes.

    \b
    Examples:
      roadseg graph
      roadseg graph --precision 0.95
      roadseg graph --output out mask.tif --set graph.min_spur_m=15
    """
    if not _all_or_none(images, output):
        msg = (
            "IMAGES need --output with a folder for the results, and --output needs IMAGES; "
            "without both, the scenes of the run are traced"
        )
        raise click.UsageError(msg)
    if output is None:
        return stage_function("graph", do)(config, workspace, force=force)
    require_images(images)
    return stage_function("graph", f"{do}_images")(config, images, output=output)


@stage_command(AREA, WORKERS, SCHEDULER)
def evaluate(config: "Config", workspace: "Workspace", *, do: str, force: bool) -> object:
    """Compute metrics of pixels and graphs on the held-out chips.

    \b
    Example: roadseg evaluate --json
    """
    return stage_function("evaluate", do)(config, workspace, force=force)


@stage_command(needs_config=False)
def report(config: "Config", workspace: "Workspace", *, do: str, force: bool) -> object:
    """Show a run on one page for the browser: map, metrics, errors.

    The page is one file that works offline. Missing parts are left out.

    \b
    Examples:
      roadseg report
      roadseg report --run run --set report.max_mb=10
    """
    return stage_function("report", do)(config, workspace, force=force)


@stage_command(FOLD_OR_EACH, AREA, *PREDICTING, WORKERS, SCHEDULER, ON_ERROR, *DEVICES, *LAUNCHING)
def run(
    config: "Config", workspace: "Workspace", *, do: str, force: bool, fold: "FoldOrEach"
) -> object:
    """Run all stages in order, skipping those that are up to date.

    --fold each trains one network per fold, and measures every scene with the network that has not
    seen it.

    \b
    Examples:
      roadseg run --config roadseg.json
      roadseg run --fold each
    """
    pipeline = importlib.import_module("roadseg.commands.stages.pipeline")
    if do == "plan":
        return pipeline.plan(config, workspace, fold=fold, force=force)
    return pipeline.run(config, workspace, fold=fold, force=force, say=announce)


def _cross_validate(
    config: "Config", workspace: "Workspace", *, do: str, force: bool, profile: int
) -> object:
    """Train with each fold held out in turn, or return the dry run of that."""
    if do == "plan":
        pipeline = importlib.import_module("roadseg.commands.stages.pipeline")
        return pipeline.plan(config, workspace, fold="each", force=force, stages=["train"])
    return stage("cross_validation").run(config, workspace, force=force, profile=profile)


def _all_or_none(*values: object) -> bool:
    """Return whether all of some options are given, or none of them."""
    return len({bool(value) for value in values}) == 1
