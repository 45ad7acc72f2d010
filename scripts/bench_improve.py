#!/usr/bin/env python
"""Measure what `roadseg improve` gains on images that nobody has edited.

    roadseg map images/ --output run
    roadseg graph masks/*.tif --output reference
    python scripts/bench_improve.py run reference --edit "22887-*" --measure "2288[9]-*" "22890-*"

The simulated reviewer of `bench_review.py` accepts or rejects every edge on the images of --edit,
and draws the roads of the reference that are missing there. A copy of the run with these edits is
improved with several seeds, and the graphs of the images of --measure are compared with the
reference, before and after: quality of all images together, and the mean APLS of the images. The
images of --measure should not show the same ground as each other or as those of --edit.
"""

import argparse
import shutil
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import shapely
from bench_review import OPTIONS, Case, draw_missing, is_real, read_case

from roadseg.commands.tools import improve
from roadseg.config import FILE_NAME, load_config
from roadseg.review.apply import Revision
from roadseg.review.edits import Edit, EditFile
from roadseg.review.session import crs_of_edits
from roadseg.roads.graph.clipping import clip_graph
from roadseg.roads.metrics.apls import apls
from roadseg.roads.metrics.buffer import BufferMatch, match_lines
from roadseg.roads.metrics.pooling import spread_of
from roadseg.system.workspace import Workspace


def rows_of(case: Case, patterns: Sequence[str]) -> list[int]:
    """Return the images of a map whose names match any of the patterns."""
    names = [scene.name for scene in case.sheet.scenes]
    return [row for row, name in enumerate(names) if any(fnmatch(name, p) for p in patterns)]


def decide(case: Case, patterns: Sequence[str]) -> list[Edit]:
    """Return the edits of the reviewer on some images of a map."""
    ground = shapely.union_all([case.places[row] for row in rows_of(case, patterns)])
    revision, real, edits = Revision(case.sheet.graph), is_real(case), list[Edit]()
    lines = revision.base.lines
    for row in np.flatnonzero(shapely.length(shapely.intersection(lines, ground)) > 0):
        edits.append(Edit("accept" if real[row] else "reject", lines[row]))
        revision.apply(edits[-1])
    return edits + draw_missing(case, revision, ground)


def copy_with_edits(run: Path, cases: Sequence[Case], patterns: Sequence[str]) -> Path:
    """Copy a run and add the edits; one that is there already is kept."""
    copy = run.with_name(f"{run.name}-edited")
    if copy.exists():
        return copy
    shutil.copytree(run, copy)
    kinds = Counter[str]()
    with closing(EditFile(Workspace(copy).edits, crs_of_edits([c.sheet for c in cases]))) as file:
        for case in cases:
            for edit in decide(case, patterns):
                file.add(edit, case.sheet.area.crs, who="bench")
                kinds[edit.kind] += 1
    print(f"{run}: edits: {dict(kinds)}")
    return copy


def measure(run: Path, reference: Path, patterns: Sequence[str]) -> tuple[float, float]:
    """Return the quality and the mean APLS of some images of a run."""
    match, scores = BufferMatch(), []
    for case in read_case(run, reference):
        for row in rows_of(case, patterns):
            truth, found = case.parts[row], clip_graph(case.sheet.graph, case.places[row])
            match += match_lines(truth, found, tolerance_m=OPTIONS.tolerance_m)
            if len(truth.lines) + len(found.lines):
                score = apls(truth, found, spacing_m=OPTIONS.spacing_m, snap_m=OPTIONS.snap_m)
                scores.append(score.score)
    return match.quality, float(np.mean(scores))


def main() -> None:
    """Read the options, improve and measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("reference", type=Path, help="folder with graphs of the reference")
    parser.add_argument("--edit", nargs="+", required=True, metavar="NAME", help="images, or globs")
    parser.add_argument("--measure", nargs="+", required=True, metavar="NAME")
    parser.add_argument("--minutes", type=float, default=4.0, help="of each training")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = parser.parse_args()
    edited = copy_with_edits(given.run, read_case(given.run, given.reference), given.edit)
    config = load_config(edited / FILE_NAME)
    where = given.reference, given.measure
    print("before: quality {:.3f}, APLS {:.3f}".format(*measure(edited, *where)), flush=True)
    after = []
    for seed in given.seeds:
        output = given.run.with_name(f"{given.run.name}-improved-{seed}")
        seeded = config.model_copy(
            update={"train": config.train.model_copy(update={"seed": seed}), "run": edited}
        )
        improve.run(seeded, Workspace(edited), output, minutes=given.minutes, say=print)
        after.append(measure(output, *where))
        print("seed {}: quality {:.3f}, APLS {:.3f}".format(seed, *after[-1]), flush=True)
    quality, score = (spread_of(values) for values in zip(*after, strict=True))
    print(f"after: quality {quality}, APLS {score}")


if __name__ == "__main__":
    main()
