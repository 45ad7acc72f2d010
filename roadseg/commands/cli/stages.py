"""The commands of the stages, from prepare to report, run for all, and quantize."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from roadseg.commands.cli.command import announce, require_images, stage_command
from roadseg.commands.cli.options import (
    AREA,
    DEVICES,
    FOLD,
    FOLD_OR_EACH,
    FOLDER,
    LAUNCHING,
    NETWORK_OF_FOLD,
    ON_ERROR,
    OUTPUT,
    PREDICTING,
    PROCESSES,
    RUN_ARGUMENT,
    SHARD,
    TRAINED_FOLD,
    WORKERS,
)

if TYPE_CHECKING:
    from roadseg.config import Config
    from roadseg.system.workspace import Fold, FoldOrEach, Workspace


@stage_command(AREA, WORKERS, ON_ERROR)
def prepare(config: "Config", workspace: "Workspace", *, dry_run: bool, force: bool) -> object:
    """Make masks, cut scenes into chips, and divide these into folds.

    \b
    Examples:
      roadseg prepare --set labels.buffer_m=3
      roadseg prepare --workers 8 --on-error skip
    """
    from roadseg.commands.stages import pipeline

    if dry_run:
        return pipeline.plan(config, workspace, force=force, stages=["prepare", "split"])
    return pipeline.prepare(config, workspace, force=force)


@stage_command()
def split(config: "Config", workspace: "Workspace", *, dry_run: bool, force: bool) -> object:
    """Divide the chips into folds again (the last step of prepare).

    \b
    Example: roadseg split --set split.method=random
    """
    if dry_run:
        return _plan("split", config, workspace, force=force)
    from roadseg.commands.stages import split

    return split.run(config, workspace, force=force)


@stage_command(TRAINED_FOLD, *DEVICES, *LAUNCHING, PROCESSES)
def train(
    config: "Config",
    workspace: "Workspace",
    *,
    dry_run: bool,
    force: bool,
    fold: "Fold | FoldOrEach",
) -> object:
    """Train on all folds but one, and validate on that fold.

    Run the same command to resume an interrupted training. --fold each trains one network per fold,
    one after the other. --fold all trains a final network on all chips, for new images. It needs at
    least one trained fold, which determines the number of epochs.

    \b
    Examples:
      roadseg train --fold 0 --set train.epochs=10
      roadseg train --fold 0 --ncores 16 --allocator auto
      roadseg train --fold 0 --processes 2
      roadseg train --fold each
      roadseg train --fold all
    """
    if dry_run:
        return _plan("train", config, workspace, fold=fold, force=force)
    from roadseg.commands.stages import train

    return train.run(config, workspace, fold=fold, force=force)


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
    AREA,
    SHARD,
    *PREDICTING,
    WORKERS,
    ON_ERROR,
    *DEVICES,
    *LAUNCHING,
    click.argument("images", nargs=-1),
)
def predict(
    config: "Config",
    workspace: "Workspace",
    *,
    dry_run: bool,
    force: bool,
    fold: "Fold | FoldOrEach | None",
    checkpoints: tuple[Path, ...],
    output: Path | None,
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
      roadseg predict --output out --area area.geojson city.tif
    """
    if not _all_or_none(images, output) or (checkpoints and not images):
        msg = (
            "IMAGES need --output with a folder for the results, and --output and --checkpoint "
            "need IMAGES; without all of them, the scenes of the run are predicted"
        )
        raise click.UsageError(msg)
    require_images(images)
    from roadseg.commands.stages import predict

    if output is None:
        fold = predict.default_fold(config, workspace) if fold is None else fold
        chosen: dict[str, Any] = {"fold": fold, "force": force, "shard": shard}
        if dry_run:
            return _plan("predict", config, workspace, **chosen)
        return predict.run(config, workspace, **chosen)
    return (predict.plan_images if dry_run else predict.run_images)(
        config,
        images,
        checkpoints=list(checkpoints) or predict.default_checkpoints(workspace, fold),
        output=output,
        force=force,
        shard=shard,
    )


@stage_command(OUTPUT, AREA, WORKERS, ON_ERROR, click.argument("images", nargs=-1))
def graph(
    config: "Config",
    workspace: "Workspace",
    *,
    dry_run: bool,
    force: bool,
    output: Path | None,
    images: tuple[str, ...],
) -> object:
    """Turn probabilities of the run, or any IMAGES, into road graphs.

    IMAGES are masks or probability rasters, such as `roadseg predict` writes.

    \b
    Examples:
      roadseg graph
      roadseg graph --output out mask.tif --set graph.min_spur_m=15
    """
    if not _all_or_none(images, output):
        msg = (
            "IMAGES need --output with a folder for the results, and --output needs IMAGES; "
            "without both, the scenes of the run are traced"
        )
        raise click.UsageError(msg)
    require_images(images)
    if dry_run and output is None:
        return _plan("graph", config, workspace, force=force)
    from roadseg.commands.stages import graph

    if output is None:
        return graph.run(config, workspace, force=force)
    return (graph.plan_images if dry_run else graph.run_images)(config, images, output=output)


@stage_command(AREA, WORKERS)
def evaluate(config: "Config", workspace: "Workspace", *, dry_run: bool, force: bool) -> object:
    """Compute metrics of pixels and graphs on the held-out chips.

    \b
    Example: roadseg evaluate --json
    """
    if dry_run:
        return _plan("evaluate", config, workspace, force=force)
    from roadseg.commands.stages import evaluate

    return evaluate.run(config, workspace, force=force)


@stage_command(
    RUN_ARGUMENT,
    click.option("--pdf", is_flag=True, help="Also write report.pdf: one page of A4 for a client."),
    needs_config=False,
)
def report(
    config: "Config", workspace: "Workspace", *, dry_run: bool, force: bool, pdf: bool
) -> object:
    """Show a RUN on one page for the browser: map, metrics, errors.

    The page is one file that works offline. Missing parts are left out. Beside it are a QGIS
    project with all layers, and a GeoPackage with all roads, errors and chips.

    \b
    Examples:
      roadseg report
      roadseg report roadseg-map --pdf
    """
    if dry_run:
        return _plan("report", config, workspace, after="--pdf" if pdf else "", force=force)
    from roadseg.commands.stages import report

    return report.run(config, workspace, force=force, pdf=pdf)


@stage_command(FOLD_OR_EACH, AREA, *PREDICTING, WORKERS, ON_ERROR, *DEVICES, *LAUNCHING)
def run(
    config: "Config", workspace: "Workspace", *, dry_run: bool, force: bool, fold: "FoldOrEach"
) -> object:
    """Run all stages in order, skipping those that are up to date.

    --fold each trains one network per fold, and measures every scene with the network that has not
    seen it.

    \b
    Examples:
      roadseg run --config roadseg.json
      roadseg run --fold each
    """
    from roadseg.commands.stages import pipeline

    if dry_run:
        return pipeline.plan(config, workspace, fold=fold, force=force)
    return pipeline.run(config, workspace, fold=fold, force=force, say=announce)


@stage_command(FOLD, *LAUNCHING)
def quantize(
    config: "Config", workspace: "Workspace", *, dry_run: bool, force: bool, fold: int
) -> object:
    """Quantise a network to INT8, and measure the loss of accuracy.

    Calibrates the network of a fold on windows of the training chips, and measures it on the
    held-out chips. If it loses too much accuracy, it is refused; otherwise `roadseg predict` uses
    it from then on. Needs OpenVINO (roadseg[openvino]).

    \b
    Example:
      roadseg quantize --fold 0
    """
    from roadseg.commands.stages import quantize

    quantize_fold = quantize.plan if dry_run else quantize.run
    return quantize_fold(config, workspace, fold=fold, force=force)


def _plan(stage: str, config: "Config", workspace: "Workspace", **options: Any) -> object:  # noqa: ANN401 - of `plan_stage`
    """Return what a stage of the run would do."""
    from roadseg.commands.stages import pipeline

    return pipeline.plan_stage(stage, config, workspace, **options)


def _all_or_none(*values: object) -> bool:
    return len({bool(value) for value in values}) == 1


# In the order of their use.
COMMANDS = [prepare, split, train, predict, graph, evaluate, report, run]
