"""The commands that make results better or faster: tune, quantize and export."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from roadseg.commands.cli.command import load, shown, stage_command
from roadseg.commands.cli.options import (
    CONFIG,
    FOLD,
    FOLDER,
    LAUNCHING,
    SCHEDULER,
    SET,
    WORKERS,
    of_config,
    output_file,
    together,
)

if TYPE_CHECKING:
    from roadseg.config import Config
    from roadseg.system.workspace import Workspace


@stage_command(
    FOLD,
    click.option(
        "--engine",
        "kind",
        type=click.Choice(["int8", "openvino"]),
        default="int8",
        show_default=True,
        help="Engine to create: int8 for PyTorch's Inductor, or openvino (roadseg[openvino]).",
    ),
    *LAUNCHING,
)
def quantize(
    config: "Config", workspace: "Workspace", *, dry_run: bool, force: bool, fold: int, kind: str
) -> object:
    """Quantise a network to INT8, and measure the loss of accuracy.

    Makes an engine of the network of a fold, calibrates it on windows of the training chips, and
    measures it on the held-out chips. The engine is refused if it loses more accuracy than
    `quantize` in the config allows.

    \b
    Examples:
      roadseg quantize --fold 0
      roadseg quantize --fold 0 --engine openvino
    """
    from roadseg.commands.stages import quantize

    quantize_fold = quantize.plan if dry_run else quantize.run
    return quantize_fold(config, workspace, fold=fold, engine=kind, force=force)


@click.command()
@click.argument("checkpoint", type=FOLDER)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["onnx", "openvino", "torch"]),
    default="onnx",
    show_default=True,
    help="ONNX, OpenVINO IR, or a program of torch.export.",
)
@click.option("--output", type=FOLDER, help="Folder for the export.")
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
    kind: str,
    output: Path | None,
    batch_size: int | None,
    force: bool,
) -> object:
    """Write the network of a CHECKPOINT for other programs.

    The windows of the network have predict.window_px pixels (see the config), 1024 if it is null.
    Without --output, the export becomes an engine of the checkpoint for `roadseg predict --engine`,
    with batches of predict.batch_size windows, of one if predict.window_px is null.

    \b
    Examples:
      roadseg export run/checkpoints/fold-0 --output city-onnx
      roadseg export run/checkpoints/fold-0 --format openvino
    """
    from roadseg.commands.tools import export

    predict = load(config_path, assignments, required=False).predict
    if output is not None:
        summary = export.run(
            checkpoint,
            output,
            format=kind,
            window_px=predict.largest_px,
            batch_size=batch_size,
            force=force,
        )
    else:
        summary = export.run_engine(
            checkpoint,
            format=kind,
            window_px=predict.largest_px,
            batch_size=batch_size or predict.most_at_once(predict.largest_px),
            force=force,
        )
    return summary


@stage_command(
    of_config("tune", "--goal"),
    of_config("tune", "--trials"),
    output_file("Config to write. [default: tuned.json in the run folder]"),
    WORKERS,
    SCHEDULER,
)
def tune(
    config: "Config",
    workspace: "Workspace",
    *,
    dry_run: bool,
    force: bool,
    output: Path | None,
) -> object:
    """Search for the graph settings with the best APLS or other score.

    Scores trials on the held-out fold. Varies these settings of `graph`: threshold, max_gap_m,
    max_turn_deg, min_link_probability, min_spur_m, min_component_m. The first trial uses those of
    the config. Writes a config with the best settings. If the gain is within chance, the old
    settings are kept.

    \b
    Examples:
      roadseg tune
      roadseg tune --goal breaks
      roadseg tune --trials 80 --workers 8 --output better.json
      roadseg graph --config run/tuned.json
    """
    from roadseg.commands.stages import tune

    return (tune.plan if dry_run else tune.run)(config, workspace, write=output, force=force)
