"""Options of the split into folds."""

import re
import warnings
from pathlib import Path
from typing import Literal

from pydantic import model_validator

from roadseg.options import LARGEST_SEED, Section, Text, setting

_MOST_PARENTHESES = (
    100  # Of a pattern: Python compiles nested ones by recursion, to no fixed depth.
)


class SplitOptions(Section):
    """Options of how chips are dealt into folds."""

    folds: int = setting(
        5, "folds", "Number of folds; 5 holds out 20 % of the chips.", ge=2, le=10_000
    )
    method: Literal["blocks", "random", "groups", "file"] = setting(
        "blocks",
        "-",
        "Which chips share a fold: blocks, those of one block of ground; random, none; groups, "
        "those of scenes whose names agree in `group`; file, those that `file` says.",
    )
    block_m: float = setting(
        500.0, "metres", "Side of the square of ground whose chips share a fold.", ge=1, le=1e7
    )
    group: Text | None = setting(
        None,
        "regular expression",
        "Searched in the names of scenes; the same match (or first group) makes one group.",
        max_length=1000,
    )
    file: Path | None = setting(
        None,
        "path",
        "CSV with the columns name (of a chip or scene) and fold, from 0; or a folds.json.",
        strict=False,
    )
    seed: int = setting(0, "-", "Decides which block goes to which fold.", ge=0, le=LARGEST_SEED)

    @model_validator(mode="after")
    def _method_has_its_setting(self) -> "SplitOptions":
        if self.method == "groups" and self.group is None:
            raise ValueError("group: expected a regular expression, as the method groups needs it")
        if self.method == "file" and self.file is None:
            raise ValueError("file: expected a path, as the method file needs it")
        return self

    @model_validator(mode="after")
    def _group_compiles(self) -> "SplitOptions":
        pattern = self.group or ""
        if (opened := pattern.count("(")) > _MOST_PARENTHESES:
            raise ValueError(
                f"group: expected at most {_MOST_PARENTHESES} opening parentheses, got {opened}"
            )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # A later Python may read the pattern otherwise.
                re.compile(pattern)
        except (re.error, OverflowError) as error:
            raise ValueError(f"group: expected a regular expression ({error})") from error
        return self
