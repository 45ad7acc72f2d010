"""The commands that make results better or faster: improve, quantize and export."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from roadseg.commands.cli.command import announce, load, shown, stage_command
from roadseg.commands.cli.options import CONFIG, FOLD, FOLDER, LAUNCHING, SET, together

if TYPE_CHECKING:
    from roadseg.config import Config
    from roadseg.system.workspace import Workspace


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


@click.command()
@click.argument("checkpoint", type=FOLDER)
@click.option("--output", type=FOLDER, required=True, help="Folder for the export.")
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    metavar="N",
    help="Fixed number of windows per batch. [default: any number]",
)
@click.option("--force", is_flag=True, help="Replace an existing export.")
@together(CONFIG, SET, shown)
def export(
    config_path: Path | None,
    assignments: tuple[str, ...],
    checkpoint: Path,
    *,
    output: Path,
    batch_size: int | None,
    force: bool,
) -> object:
    """Write the network of a CHECKPOINT, or of the starter, as ONNX.

    The windows of the network have predict.window_px pixels (see the config), 1024 if it is null.

    \b
    Examples:
      roadseg export run/checkpoints/fold-0 --output city-onnx
      roadseg export starter --output starter-onnx
    """
    from roadseg.commands.tools import export

    return export.run(
        checkpoint,
        output,
        window_px=load(config_path, assignments, required=False).predict.largest_px,
        batch_size=batch_size,
        force=force,
    )


@click.command()
@click.argument("run_folder", metavar="RUN", type=FOLDER)
@click.option(
    "--minutes",
    metavar="MINUTES",
    type=click.FloatRange(min=0, min_open=True),
    default=2.0,
    show_default=True,
    help="Duration of the training.",
)
@click.option(
    "--checkpoint",
    type=FOLDER,
    help="Network to go on from. [default: that of the run, or the starter]",
)
@click.option(
    "--output", type=FOLDER, help="Folder of the new run. [default: RUN-2, or the next number]"
)
@together(CONFIG, SET, shown)
def improve(
    run_folder: Path,
    *,
    minutes: float,
    checkpoint: Path | None,
    output: Path | None,
    config_path: Path | None,
    assignments: tuple[str, ...],
) -> object:
    """Train on the edits of a review of RUN, and map its images again.

    Roads that people drew or accepted are labels, and those that they rejected are background. The
    rest is as the labels of the run have it. On images without labels, other roads of which the
    network is sure are labels as well, ground where it sees no road is background, and the rest is
    ignored. The new run shows how much of the roads on held-out chips the network found before and
    after. It keeps all edits.

    \b
    Examples:
      roadseg improve roadseg-map
      roadseg improve run --minutes 5 --output run-2
    """
    from roadseg.commands.tools import improve
    from roadseg.system.workspace import Workspace

    return improve.run(
        load(config_path, assignments, run_folder, required=False),
        Workspace(run_folder),
        output,
        minutes=minutes,
        checkpoint=checkpoint,
        say=announce,
    )


# In the order of their use.
COMMANDS = [improve, quantize, export]
