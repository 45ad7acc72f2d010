"""split: deal chips into folds. Reads chips.json, writes folds.json."""

from dataclasses import asdict, dataclass

import numpy as np

from roadseg.config import Config
from roadseg.core.folds import deal_folds, ground_blocks
from roadseg.errors import DataError
from roadseg.io.chips import read_chips
from roadseg.io.records import StageRecord, read_key, write_json
from roadseg.workspace import Workspace, require


@dataclass(frozen=True)
class SplitSummary:
    """What split did."""

    chips: int
    groups: int
    chips_by_fold: list[int]

    def __str__(self) -> str:
        """Say it in a sentence."""
        sizes = ", ".join(f"{n}" for n in self.chips_by_fold)
        return f"{self.chips} chips on {self.groups} blocks of ground; chips in folds: {sizes}"


def run(config: Config, workspace: Workspace, *, force: bool = False) -> SplitSummary:
    """Deal every chip of the run into a fold."""
    options = config.split
    require(workspace.chips, made_by="prepare")
    record = StageRecord(
        workspace.record("split"),
        settings=options.model_dump(mode="json"),
        inputs=[read_key(require(workspace.record("prepare"), made_by="prepare"))],
    )
    if not force and (done := record.summary()):
        return SplitSummary(**done)
    chips = read_chips(workspace.chips).chips
    blocks = ground_blocks(
        np.array([chip.centre_m for chip in chips]),
        [chip.zone for chip in chips],
        block_m=options.block_m,
    )
    groups = blocks if options.method == "blocks" else [chip.name for chip in chips]
    try:
        folds = deal_folds(groups, folds=options.folds, seed=options.seed)
    except ValueError as error:
        raise DataError(
            f"{workspace.chips}: {error}; make split.block_m ({options.block_m:g} m) or "
            "imagery.chip_px smaller, or split.folds fewer"
        ) from error
    record.begin()
    write_json(
        workspace.folds,
        {chip.name: int(fold) for chip, fold in zip(chips, folds, strict=True)},
    )
    sizes = np.bincount(folds, minlength=options.folds).tolist()
    summary = SplitSummary(chips=len(chips), groups=len(set(groups)), chips_by_fold=sizes)
    record.finish(asdict(summary))
    return summary
