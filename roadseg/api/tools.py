"""Tools beside the stages: inspect or fetch data, map in one call, draw the synthetic city."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from roadseg.api.arguments import AnyPath
from roadseg.api.notebooks import progress_in_notebook
from roadseg.api.runs import Overrides, load_config, settings_of
from roadseg.config import Config

if TYPE_CHECKING:
    from roadseg.commands.services.fetch_roads import FetchRoadsSummary
    from roadseg.commands.services.images.fetching import FetchSummary
    from roadseg.commands.tools.demo import DemoSummary
    from roadseg.commands.tools.map import MapSummary

AnyArea = AnyPath | Sequence[float]


def init(
    images: AnyPath | Iterable[AnyPath] = (),
    labels: AnyPath | Iterable[AnyPath] = (),
    *,
    cities: AnyPath | Iterable[AnyPath] = (),
    overrides: Overrides = None,
) -> Config:
    """Inspect images and road labels, and return a config for them, like `roadseg init`.

    Args:
        images: files, folders or patterns of images.
        labels: likewise, of road labels.
        cities: folders with images and labels instead, each a set with its own options;
            "NAME=FOLDER" gives the set another name.
        overrides: settings by key, which are kept.

    Raises:
        DataError: if there are no images or labels, or they cannot be used.
    """
    from roadseg.commands.tools import init as tool

    settings = load_config(overrides=overrides)
    return tool.find_config(_texts(images), _texts(labels), settings, _texts(cities))


def map_roads(
    images: AnyPath | Iterable[AnyPath],
    output: AnyPath,
    *,
    labels: AnyPath | Iterable[AnyPath] = (),
    checkpoints: AnyPath | Iterable[AnyPath] = (),
    adapt: bool = False,
    minutes: float | None = None,
    overrides: Overrides = None,
    force: bool = False,
) -> "MapSummary":
    """Map the roads of images, like `roadseg map`; called again it goes on where it ended.

    Args:
        images: files, folders or patterns.
        output: folder for the config, the graphs, the report and all else.
        labels: known roads, on which a network is trained.
        checkpoints: folders of trained networks instead; without both, the starter maps.
        adapt: let the network first learn from the roads of the images that it is sure of.
        minutes: time limit of the training; None for that of the first call, or else 20 with
            labels, and 2 with `adapt`.
        overrides: settings by key.
        force: do everything again.

    Raises:
        ConfigError: if there are both labels and networks, labels are to be adapted to, `minutes`
            limits no training, or `output` has another map.
        DataError: if images or labels cannot be used.
    """
    from roadseg.commands.tools import map as tool

    with progress_in_notebook():
        return tool.run(
            _texts(images),
            Path(output),
            labels=_texts(labels),
            checkpoints=list(map(Path, _texts(checkpoints))),
            adapt=adapt,
            minutes=minutes,
            settings=settings_of(overrides),
            force=force,
            say=lambda *_: None,
        )


def fetch_images(
    source: AnyPath,
    area: AnyArea,
    output: AnyPath,
    *,
    zoom: int | None = None,
    gsd_m: float | None = None,
    layer: str | None = None,
    asset: str | None = None,
    name: str | None = None,
    cache: AnyPath | None = None,
    limit_mb: float = 1000.0,
    headers: Sequence[str] = (),
    hosts: Sequence[str] = (),
    dry_run: bool = False,
) -> "FetchSummary":
    """Fetch images of an area as GeoTIFFs, like `roadseg fetch images`.

    Args:
        source: a template of tiles, the address of a WMTS, a WMS or a raster, or a STAC item,
            collection or search, with `{env:NAME}` in the place of a key.
        area: a vector file with polygons, or a box in degrees: minx, miny, maxx, maxy.
        zoom: level of the tiles, instead of `gsd_m`.
        gsd_m: pixel size on the ground in metres, for tiles and a WMS.
        layer: of a WMTS or WMS.
        asset: of STAC items.
        name: of the image, without suffix.
        cache: folder for what was fetched, instead of that of the user.
        limit_mb: megabytes to fetch, at most.
        headers: for the host of the source, such as "X-Key: {env:MY_KEY}".
        hosts: further hosts to which the source may redirect.
        dry_run: whether to tell only how much would be fetched.

    Raises:
        ConfigError: if an argument cannot be used, something has to be chosen, or it is too much.
        DataError: if the source cannot be read, or has nothing in the area.
        OutputError: if an image cannot be written.
    """
    from roadseg.commands.services.fetch_images import run
    from roadseg.commands.services.images.fetching import ImageRequest

    request = ImageRequest(
        source=str(source),
        area=_area_text(area),
        output=Path(output),
        zoom=zoom,
        gsd_m=gsd_m,
        layer=layer,
        asset=asset,
        name=name,
        cache=None if cache is None else Path(cache),
        limit_mb=limit_mb,
        headers=tuple(headers),
        hosts=tuple(hosts),
    )
    with progress_in_notebook():
        return run(request, dry_run=dry_run)


def fetch_roads(
    area: AnyArea,
    output: AnyPath,
    *,
    source: AnyPath = "overpass",
    server: str | None = None,
    limit_km2: float = 10_000.0,
    force: bool = False,
) -> "FetchRoadsSummary":
    """Fetch the roads of an area as road labels, like `roadseg fetch roads`.

    Args:
        area: a vector file with polygons, or a box in degrees: minx, miny, maxx, maxy.
        output: the file to write; its suffix chooses the format.
        source: "overpass", or a file of OpenStreetMap data.
        server: address of an Overpass server, instead of the public one.

    Raises:
        ConfigError: if an argument cannot be used, or the output exists.
        DataError: if the area or the source cannot be read, or there is no road in the area.
        OutputError: if the file cannot be written.
    """
    from roadseg.commands.services.fetch_roads import RoadRequest, run

    request = RoadRequest(
        area=_area_text(area),
        output=Path(output),
        source=str(source),
        server=server,
        limit_km2=limit_km2,
        force=force,
    )
    with progress_in_notebook():
        return run(request)


def demo(folder: AnyPath) -> "DemoSummary":
    """Write images, labels and config of a synthetic city to a new folder.

    `roadseg.run(folder / "roadseg.json")` then does the rest of `roadseg demo`.
    """
    from roadseg.commands.tools import demo as tool

    return tool.run(Path(folder))


def _texts(paths: AnyPath | Iterable[AnyPath]) -> list[str]:
    return [str(paths)] if isinstance(paths, str | Path) else [str(path) for path in paths]


def _area_text(area: AnyArea) -> str:
    """Return an area as the commands take it."""
    return str(area) if isinstance(area, str | Path) else ",".join(map(str, area))
