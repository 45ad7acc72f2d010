"""Networks of countries, tile by tile."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from roadseg.api.files import AnyPath
from roadseg.api.notebooks import progress_in_notebook
from roadseg.api.runs import AnyConfig, Overrides, load_config
from roadseg.api.services import AnyArea, area_words

if TYPE_CHECKING:
    from roadseg.commands.tiles.joining import JoinSummary
    from roadseg.commands.tiles.listing import TileList
    from roadseg.commands.tiles.tracing import TilesSummary

Side = Literal[1, 10, 100]


def list_tiles(
    area: AnyArea, *, km: Side = 10, folder: AnyPath | None = None, output: AnyPath | None = None
) -> "TileList":
    """List the tiles that an area touches, like `roadseg tiles list`.

    Args:
        area: a vector file with polygons, or a box in degrees: minx, miny, maxx, maxy.
        km: side of the tiles in kilometres.
        folder: of tiles, to tell which of them are done there.
        output: GeoPackage or GeoJSON to write, with a polygon for each tile.

    Raises:
        RoadsegError: with a one-line message about what to do.
    """
    from roadseg.commands.tiles import listing

    return listing.run(area_words(area), km=km, folder=_path(folder), output=_path(output))


def trace_tiles(
    images: AnyPath | Iterable[AnyPath],
    output: AnyPath,
    *,
    config: AnyConfig = None,
    overrides: Overrides = None,
    area: AnyArea | None = None,
    tiles: Iterable[str] = (),
    km: Side = 10,
    shard: tuple[int, int] | None = None,
    force: bool = False,
) -> "TilesSummary":
    """Trace masks or probabilities tile by tile, like `roadseg tiles trace`.

    Tiles that are up to date are kept.

    Args:
        images: files, folders or patterns of masks or probability rasters.
        output: folder of the tiles.
        config: JSON file, or a loaded config, whose section `graph` applies; None: the defaults.
        overrides: settings by key, such as `{"graph.max_gap_m": 30}`.
        area: only tiles that this area touches.
        tiles: only tiles of these ids.
        km: side of the tiles in kilometres, unless `tiles` says it.
        shard: number of a part, from 1, and number of parts, of which each has every N-th tile.
        force: also tiles that are up to date.

    Raises:
        RoadsegError: with a one-line message about what to do.
    """
    from roadseg.commands.tiles import tracing

    ground = None if area is None else area_words(area)
    with progress_in_notebook():
        return tracing.run(
            load_config(config, overrides),
            [str(images)] if isinstance(images, str | Path) else list(map(str, images)),
            output=Path(output),
            choice=tracing.TileChoice(ground, list(tiles), km, shard),
            force=force,
        )


def cut_tiles(
    network: AnyPath, output: AnyPath, *, km: Side = 10, force: bool = False
) -> "TilesSummary":
    """Cut a network into tiles, like `roadseg tiles cut`.

    Args:
        network: any file with roads that `read_graph` reads.
        output: folder of the tiles.
        km: side of the tiles in kilometres.
        force: also tiles that are up to date.

    Raises:
        RoadsegError: with a one-line message about what to do.
    """
    from roadseg.commands.tiles import cutting

    return cutting.run(Path(network), output=Path(output), km=km, force=force)


def join_tiles(folder: AnyPath, output: AnyPath, *, area: AnyArea | None = None) -> "JoinSummary":
    """Join the tiles in a folder into one network, like `roadseg tiles join`.

    Args:
        folder: of `trace_tiles` or `cut_tiles`.
        output: the file to write, which `read_graph` reads; its suffix chooses the format.
        area: only tiles that this area touches.

    Raises:
        RoadsegError: with a one-line message about what to do.
    """
    from roadseg.commands.tiles import joining

    ground = None if area is None else area_words(area)
    with progress_in_notebook():
        return joining.run(Path(folder), Path(output), area=ground)


def _path(path: AnyPath | None) -> Path | None:
    return None if path is None else Path(path)
