"""The commands that fetch images or roads of an area, from services on the web and from files."""

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from roadseg.commands.cli.command import shown
from roadseg.commands.cli.group import OrderedGroup
from roadseg.commands.cli.options import FILE, FOLDER, together

if TYPE_CHECKING:
    from roadseg.commands.services.images.fetching import FetchOptions

AREA = click.option(
    "--area",
    required=True,
    metavar="FILE|BOX",
    help="Vector file with polygons, or a box in degrees: minx,miny,maxx,maxy.",
)
CACHE = click.option(
    "--cache",
    type=FOLDER,
    help="Folder for what has been fetched, from which the next fetch goes on. "
    "[default: roadseg/web in the cache folder of the user]",
)
RATE = click.option(
    "--rate",
    type=click.FloatRange(min=0.01, max=1000),
    default=10.0,
    show_default=True,
    metavar="REQUESTS",
    help="Requests per second, at most.",
)
LIMIT = click.option(
    "--limit-mb",
    type=click.FloatRange(min=0, min_open=True),
    default=1000.0,
    show_default=True,
    metavar="MB",
    help="Most megabytes to fetch; a larger area is refused before anything is fetched.",
)
HEADERS = click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="'NAME: VALUE'",
    help="Header for the host of the service, with keys as {env:NAME}; may be repeated.",
)
HOSTS = click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="HOST",
    help="Further host to which the service may redirect; may be repeated.",
)
# What to fetch from a service of images; their names are those of `FetchOptions`.
OF_IMAGES = (
    click.option(
        "--zoom",
        type=click.IntRange(min=0, max=30),
        metavar="LEVEL",
        help="Level of the tiles of a service, instead of --gsd-m.",
    ),
    click.option(
        "--gsd-m",
        type=click.FloatRange(min=0.001, max=10_000),
        metavar="METRES",
        help="Pixel size on the ground of what is fetched: chooses the first level of tiles that "
        "is at least as fine, and the pixels that a WMS draws. Other images keep their pixels.",
    ),
    click.option(
        "--layer", metavar="NAME", help="Layer of a WMTS or WMS; without it they are listed."
    ),
    click.option("--asset", metavar="NAME", help="Asset of STAC items, such as visual."),
    LIMIT,
    HEADERS,
    HOSTS,
)


@click.group(cls=OrderedGroup)
def fetch() -> None:
    """Fetch images or roads of an area from a service.

    A key of a service belongs in an environment variable. Write {env:NAME} in its place: only the
    name is kept in records, logs and error messages.

    \b
    Examples:
      roadseg fetch images 'https://a.org/{z}/{x}/{y}.jpg' --zoom 18 --area a.gpkg --output images/
      roadseg fetch roads --area a.gpkg --output roads.gpkg
    """


@fetch.command()
@click.argument("source")
@AREA
@click.option(
    "--output",
    type=FOLDER,
    required=True,
    metavar="FOLDER",
    help="Folder for the GeoTIFFs and their records.",
)
@together(CACHE, RATE, *OF_IMAGES)
@click.option("--dry-run", is_flag=True, help="Show what would be fetched, and how much it is.")
@shown
def images(
    *,
    dry_run: bool,
    **request: Any,  # noqa: ANN401 - what to fetch, and how
) -> object:
    """Fetch images of an area from SOURCE as GeoTIFFs.

    SOURCE is a template of tiles with {z}, {x} and {y} (or {-y}, {q}); the address of a WMTS or
    WMS; a STAC item, collection or ItemCollection, or a search, stac:URL?collections=NAME; or a
    raster on a server or in a bucket (https, s3, gs, az). The images are cut to the box around the
    area, and parts that it does not touch are not fetched. Beside each lies a record with its
    source, licence and date.

    \b
    Examples:
      roadseg fetch images 'https://a.org/{z}/{x}/{y}.jpg' --gsd-m 0.5 --area a.gpkg --output out/
      roadseg fetch images 'https://a.org/wms?key={env:KEY}' --gsd-m 1 --area a.gpkg --output out/
      roadseg fetch images 'stac:https://a.org/search?collections=b' --area a.gpkg --output out/
    """
    from roadseg.commands.services import fetch_images
    from roadseg.commands.services.images.fetching import ImageRequest

    return fetch_images.run(ImageRequest(**request), dry_run=dry_run)


@fetch.command()
@AREA
@click.option(
    "--output",
    type=FILE,
    required=True,
    metavar="FILE",
    help="File to write: .gpkg, .geojson, .parquet or .fgb; .osm.pbf or .osm with the ids of "
    "OpenStreetMap.",
)
@click.option("--server", metavar="ADDRESS", help="Overpass server, instead of the public one.")
@click.option(
    "--limit-km2",
    type=click.FloatRange(min=0, min_open=True),
    default=10_000.0,
    show_default=True,
    metavar="KM2",
    help="Largest area; a larger one is refused before anything is fetched.",
)
@HEADERS
@HOSTS
@click.option("--force", is_flag=True, help="Replace a file that exists.")
@shown
def roads(**request: Any) -> object:  # noqa: ANN401 - what to fetch, and how
    """Fetch the roads of an area as road labels.

    Roads come from an Overpass server. Every road that touches the area is fetched as a whole. A
    file .osm.pbf or .osm is a map for `roadseg conflate --into`: it keeps the ids and versions of
    OpenStreetMap, and also contains railways, waterways, runways and buildings. Beside the file
    lies a record with the source, licence and date of the data.

    \b
    Examples:
      roadseg fetch roads --area 8.65,49.38,8.72,49.43 --output roads.gpkg
      roadseg fetch roads --area area.geojson --output city.osm.pbf
    """
    from roadseg.commands.services import fetch_roads

    return fetch_roads.run(**request)


def take_fetch_options(values: dict[str, Any]) -> "FetchOptions":
    """Take out of the options of a command those that `OF_IMAGES` gave it."""
    from roadseg.commands.services.images.fetching import FetchOptions

    return FetchOptions(**{each.name: values.pop(each.name) for each in fields(FetchOptions)})
