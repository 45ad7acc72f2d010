"""review: people look at the roads of a run, and correct them. Writes edits, and edited graphs."""

import getpass
import shlex
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from roadseg.config import Config
from roadseg.errors import MissingInputError
from roadseg.report.run_facts import found_layout, scene_names
from roadseg.report.scenes import ReportScene, read_scenes
from roadseg.review.edits import EditFile
from roadseg.review.server import ReviewServer
from roadseg.review.session import ReviewSession, crs_of_edits
from roadseg.review.sheets import sheets_of
from roadseg.roads.formats.by_suffix import format_of, write_graph
from roadseg.system.files import refuse_to_overwrite
from roadseg.system.locks import lock
from roadseg.system.text import Summary, count, first
from roadseg.system.workspace import ROAD_NETWORK, Workspace

_LOOK_S = 0.5  # Seconds between two looks at whether the review is finished.


@dataclass(frozen=True)
class ReviewSummary(Summary):
    """Edits of the roads of a run, in all sessions.

    Attributes:
        edits: file of the edits.
        in_force: number of edits, without those that were undone.
        roads: number of edges by the decision about them; "open" without a decision.
        left_out: edits that could not be used, and why.
        exported: graphs that were written.
        can_improve: whether `roadseg improve` can learn from the edits.
    """

    edits: str
    in_force: int
    roads: dict[str, int]
    left_out: list[str] = field(default_factory=list)
    exported: list[str] = field(default_factory=list)
    can_improve: bool = True

    def __str__(self) -> str:
        """Return the number of edits, their file, and the decisions about roads."""
        decided = ", ".join(f"{number} {name}" for name, number in self.roads.items())
        lines = [f"{count(self.in_force, 'edit')} in {self.edits}; roads: {decided or 'none'}"]
        if self.left_out:
            lines.append(f"left out: {first(self.left_out)}")
        lines += [f"exported: {path}" for path in self.exported]
        if self.in_force and not self.exported:
            run = shlex.quote(str(Path(self.edits).parent))
            lines.append(
                f"next      roadseg review {run} --export FILE (write the corrected roads)"
            )
            if self.can_improve:
                lines.append(f"          roadseg improve {run} (a network learns from the edits)")
        return "\n".join(lines)


def run(
    config: Config,
    workspace: Workspace,
    *,
    who: str | None = None,
    export: Path | None = None,
    say: Callable[[str], None],
) -> ReviewSummary:
    """Serve the page of a review until it is finished or interrupted, or write the edited roads.

    Args:
        who: name of the reviewer, which is stored with the edits; None for the name of the user.
        export: file for the edited roads, in the format of its suffix; then no page is served.
        say: called with the address of the page.

    Raises:
        MissingInputError: if there is neither a graph nor a raster, or no road to write.
        ConfigError: if no format has the suffix of `export`, or if it would replace the edits or a
            graph of the run.
        OutputError: if the edits cannot be written, or another process reviews this run.
    """
    if export is not None:
        format_of(export)
    workspace = found_layout(workspace)
    names = scene_names(workspace)
    graphs = map(workspace.graph, [*names, ROAD_NETWORK])
    refuse_to_overwrite(export, workspace.edits, *graphs, option="--export")
    with lock(workspace.root, part="review"):
        shown = read_scenes(config, workspace, names, with_labels=False)
        sheets = sheets_of(shown)
        with closing(EditFile(workspace.edits, crs_of_edits(sheets))) as file:
            session = ReviewSession(sheets, file, who or getpass.getuser())
            exported = []
            if export is None:
                _serve(session, workspace.root.absolute().name, say)
            else:
                exported = _export(session, export, workspace.root)
            in_force, _ = file.counts
            return ReviewSummary(
                edits=str(workspace.edits),
                in_force=in_force,
                roads=session.roads_by_state(),
                left_out=session.left_out,
                exported=exported,
                can_improve=not why_not_improve(shown.scenes),
            )


def why_not_improve(scenes: Sequence[ReportScene]) -> str:
    """Return why `roadseg improve` cannot learn from edits of scenes; empty if it can."""
    if all(scene.image is None for scene in scenes):
        return (
            "found no image of these roads, from which `roadseg improve` learns; map images with "
            "`roadseg map`, and review that map"
        )
    if nowhere := [scene.name for scene in scenes if scene.grid.is_local]:
        return (
            f"{nowhere[0]}: has no georeference, which `roadseg improve` needs; georeference the "
            "images, and map and review them again"
        )
    return ""


def _serve(session: ReviewSession, title: str, say: Callable[[str], None]) -> None:
    with ReviewServer(session, title=title) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        with suppress(KeyboardInterrupt):
            said = "open it in a browser; every edit is kept at once"
            say(f"review    {server.address} ({said}; end with Finish there, or Ctrl+C here)")
            while thread.is_alive():
                thread.join(_LOOK_S)  # Windows interrupts no wait without an end.
        server.shutdown()


def _export(session: ReviewSession, path: Path, source: Path) -> list[str]:
    """Write the edited roads, those of each coordinate system to a file of their own."""
    if not session.roads_by_state():
        raise MissingInputError(
            f"{source}: has no road to write; run `roadseg graph` first, or draw some in the page "
            "of `roadseg review`"
        )
    written = []
    graphs = session.graphs()
    for name, graph in graphs:
        own = path if len(graphs) == 1 else path.with_name(f"{path.stem}_{name}{path.suffix}")
        write_graph(own, graph, source=source)
        written.append(str(own))
    return written
