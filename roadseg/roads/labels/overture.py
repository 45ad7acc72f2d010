"""Overture: its transportation segments as features with tags of OpenStreetMap.

They are those of any file, or of an area out of a release, in a bucket or in a folder.
"""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import shapely

from roadseg.arrays import Array, Lines
from roadseg.errors import ConfigError, DataError
from roadseg.roads.labels.traffic import CARS, ONE_WAY
from roadseg.system.text import one_line
from roadseg.system.web.keys import without_keys

if TYPE_CHECKING:
    from pyarrow import fs
    from pyarrow.dataset import Dataset

LINK, TUNNEL, BRIDGE = "is_link", "is_tunnel", "is_bridge"  # Flags of roads.
UNKNOWN = "unknown"  # The class of a road whose class is not known.
FORWARD, BACKWARD = "forward", "backward"  # Headings.
DENIED = "denied"  # What a restriction says of access.

_SEGMENT = ("subtype", "class", "connectors")  # Columns by which segments are known.
_READ = ("subtype", "class", "names", "speed_limits", "access_restrictions", "road_flags")
_ID = "id"  # This column is kept as it is.
_CAR_MODES = {"vehicle", "motor_vehicle", "car"}
_TAGS = ("highway", "name", "maxspeed", ONE_WAY, CARS, "tunnel", "bridge")
# Source: https://docs.overturemaps.org/getting-data/cloud-sources.
PUBLIC_BUCKET = "s3://overturemaps-us-west-2/release"
BUCKET = "s3://"

_PUBLIC_REGION = "us-west-2"
_RELEASE = re.compile(r"\d{4}-\d\d-\d\d\.\d+")
_OF_SEGMENTS = ("/type=segment/", "/segment.parquet")
_ROUNDED = 2e-5  # Degrees by which the bounds of a segment may be rounded, as 32-bit floats.
_AT_ONCE = 20_000  # Segments that are in memory together.
_CONNECT_S, _QUIET_S = 10, 60
_KEYS_OF_S3 = ("AWS_ACCESS_KEY_ID", "AWS_PROFILE")


def is_segments(keys: Collection[str]) -> bool:
    """Return whether a file has the columns of Overture's segments."""
    return all(key in keys for key in _SEGMENT)


def segment_columns(keys: Collection[str]) -> list[str]:
    """Return the columns of segments that `segment_tags` reads."""
    return [key for key in (_ID, *_READ) if key in keys]


def segment_tags(columns: Mapping[str, Array], features: int) -> dict[str, Array]:
    """Return what segments say of roads, as tags of OpenStreetMap; None where they say nothing.

    Their `id` stays.

    1. Railways and ferries (`subtype`) have no `highway`. A `class` is one, "unknown" is "road",
       and a link has the ending `_link`.
    2. The first limit for cars that holds at all times counts, on however much of the segment.
    3. Cars that are denied in one heading make it one-way, in both the road is closed; else it is
       driven both ways, even a motorway. Rules for a part of the segment, for some times, or for
       some users only are ignored.

    Source: https://docs.overturemaps.org/schema/reference/transportation/segment.
    """
    nothing = np.full(features, None)
    # Pandas has NaN for what is missing; none of these columns holds numbers.
    cells = (
        [None if isinstance(value, float) else value for value in columns.get(key, nothing)]
        for key in _READ
    )
    rows = zip(*cells, strict=True)
    tags = [_tags(dict(zip(_READ, row, strict=True))) for row in rows]
    ids = {_ID: columns[_ID]} if _ID in columns else {}
    return ids | {key: np.array([row.get(key) for row in tags], dtype=object) for key in _TAGS}


def _tags(segment: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags of one segment."""
    if segment["subtype"] != "road" or not segment["class"]:
        return {}
    highway = "road" if segment["class"] == UNKNOWN else segment["class"]
    flags = {
        flag
        for rule in _rules(segment["road_flags"])
        if not _is_part(rule)
        for flag in _rules(rule["values"])
    }
    tags = {"highway": f"{highway}_link" if LINK in flags else highway}
    if name := (segment["names"] or {}).get("primary"):
        tags["name"] = name
    if speed := _limit(segment["speed_limits"]):
        tags["maxspeed"] = speed
    tags |= {key: "yes" for key, flag in (("tunnel", TUNNEL), ("bridge", BRIDGE)) if flag in flags}
    return tags | _access(segment["access_restrictions"])


def _limit(limits: Any) -> str:  # noqa: ANN401 - of a nested column
    for rule in _rules(limits):
        speed, when = rule.get("max_speed"), rule.get("when") or {}
        if speed and _is_for_cars(when) and not when.get("during") and not when.get("vehicle"):
            return f"{speed['value']} {speed['unit']}"
    return ""


def _access(rules: Any) -> dict[str, str]:  # noqa: ANN401 - of a nested column
    denied = set()
    for rule in _rules(rules):
        when = rule.get("when") or {}
        some = any(
            when.get(key) is not None for key in ("during", "using", "recognized", "vehicle")
        )
        if rule.get("access_type") == DENIED and _is_for_cars(when) and not some | _is_part(rule):
            heading = when.get("heading")
            denied |= {heading} if heading else {FORWARD, BACKWARD}
    if denied == {FORWARD, BACKWARD}:
        return {CARS: "no"}
    return {ONE_WAY: "yes" if denied == {BACKWARD} else "-1" if denied else "no"}


def _is_for_cars(when: Mapping[str, Any]) -> bool:
    modes = set(_rules(when.get("mode")))
    return not modes or bool(modes & _CAR_MODES)


def _is_part(rule: Mapping[str, Any]) -> bool:
    return rule.get("between") is not None


def _rules(values: Iterable[Any] | None) -> list[Any]:
    return [] if values is None else list(values)


def find_release(release: str | None) -> str:
    """Return the address of a release in Overture's own bucket, the newest unless one is named.

    Raises:
        ConfigError: if the name is not that of a release.
        DataError: if the bucket cannot be listed.
    """
    if release is not None and not _RELEASE.fullmatch(release):
        raise ConfigError(f"--release {release}: expected a name such as 2026-10-21.0")
    if release is None:
        from pyarrow import fs

        system, folder = _file_system(PUBLIC_BUCKET)
        with _errors(PUBLIC_BUCKET):
            infos = system.get_file_info(fs.FileSelector(folder))
        names = [info.base_name for info in infos if _RELEASE.fullmatch(info.base_name)]
        release = max(names, key=_parts, default=None)
    if release is None:
        raise DataError(f"{PUBLIC_BUCKET}: has no release; name one with --release")
    return f"{PUBLIC_BUCKET}/{release}/theme=transportation/type=segment"


def _parts(release: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", release)]


def release_of(address: str) -> str | None:
    """Return the release that an address or a path names; None if it names none."""
    names = _RELEASE.findall(address)
    return names[-1] if names else None


def read_segments(address: str, area: shapely.MultiPolygon) -> tuple[Lines, dict[str, Array]]:
    """Read the roads that touch an area, each as a whole, by the bounds of segments and row groups.

    Args:
        address: a folder or file of GeoParquet, on disk or in a bucket (s3://...), with
            segments or with all of a release.
        area: in degrees.

    Returns:
        The lines of the segments that are roads, in degrees, and their tags by key, as
        `segment_tags` gives them.

    Raises:
        DataError: if it cannot be read, or holds no segments.
    """
    lines, columns = [np.zeros(0, dtype=object)], []
    shapely.prepare(area)
    with _errors(address):
        for shapes, values in _batches(_dataset(address), area):
            touches = shapely.intersects(area, shapes)
            tags = segment_tags({key: v[touches] for key, v in values.items()}, int(touches.sum()))
            is_road = tags["highway"] != None  # noqa: E711 - of each
            lines.append(shapes[touches][is_road])
            columns.append({key: column[is_road] for key, column in tags.items()})
    keys = dict.fromkeys(key for part in columns for key in part)
    tags = {key: np.concatenate([part[key] for part in columns]) for key in keys}
    return np.concatenate(lines), {
        key: column
        for key, column in tags.items()
        if key == "highway" or (column != None).any()  # noqa: E711 - of each
    }


def _batches(
    dataset: "Dataset", area: shapely.MultiPolygon
) -> Iterator[tuple[Lines, dict[str, Array]]]:
    """Yield lines whose bounds meet those of an area, with the columns that tags come from."""
    import pyarrow.compute as pc

    west, south, east, north = area.bounds
    meets = (
        (pc.field("bbox", "xmin") <= east + _ROUNDED)
        & (pc.field("bbox", "xmax") >= west - _ROUNDED)
        & (pc.field("bbox", "ymin") <= north + _ROUNDED)
        & (pc.field("bbox", "ymax") >= south - _ROUNDED)
    )
    keys = segment_columns(dataset.schema.names)
    batches = dataset.to_batches(
        columns=[*keys, "geometry"],
        filter=meets,
        batch_size=_AT_ONCE,
        # What is read ahead stays in memory.
        batch_readahead=1,
        fragment_readahead=1,
    )
    for batch in batches:
        wkb = batch.column("geometry").to_numpy(zero_copy_only=False)
        columns = {key: np.empty(len(wkb), dtype=object) for key in keys}
        for key, column in columns.items():
            column[:] = batch.column(key).to_pylist()
        yield np.asarray(shapely.from_wkb(wkb), dtype=object), columns


def _dataset(address: str) -> "Dataset":
    """Open the files of segments.

    Raises:
        DataError: if there are none.
    """
    import pyarrow.dataset as ds
    from pyarrow import fs

    system, path = _file_system(address)
    info = system.get_file_info(path)
    paths = [path]
    if info.type == fs.FileType.NotFound:
        raise DataError(f"{without_keys(address)} does not exist; expected segments of Overture")
    if info.type == fs.FileType.Directory:
        infos = system.get_file_info(fs.FileSelector(path, recursive=True))
        paths = sorted(each.path for each in infos if each.path.endswith(".parquet"))
        of_segments = [each for each in paths if any(name in each for name in _OF_SEGMENTS)]
        paths = of_segments or paths
    if not paths:
        raise DataError(f"{without_keys(address)}: has no .parquet file, expected Overture's")
    dataset = ds.dataset(paths, filesystem=system, format="parquet")
    names = set(dataset.schema.names)
    if not (is_segments(names) and {"bbox", "geometry"} <= names):
        raise DataError(
            f"{without_keys(address)}: has no segments of Overture; expected the columns subtype, "
            "class, connectors, bbox and geometry, as in theme=transportation/type=segment"
        )
    return dataset


def _file_system(address: str) -> tuple["fs.FileSystem", str]:
    """Return the file system of an address, and the path in it.

    Requests to S3 are signed only if the environment holds keys, and never those to Overture's own
    bucket.
    """
    from pyarrow import fs

    if not address.startswith(BUCKET):
        return fs.LocalFileSystem(), str(Path(address).absolute())
    is_public = address.startswith(f"{PUBLIC_BUCKET}/") or address == PUBLIC_BUCKET
    signs = not is_public and any(os.environ.get(name) for name in _KEYS_OF_S3)
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    system = fs.S3FileSystem(
        anonymous=not signs,
        region=_PUBLIC_REGION if is_public else region,
        endpoint_override=os.environ.get("AWS_ENDPOINT_URL"),
        connect_timeout=_CONNECT_S,
        request_timeout=_QUIET_S,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=4),
    )
    return system, address.removeprefix(BUCKET).rstrip("/")


@contextmanager
def _errors(address: str) -> Iterator[None]:
    """Raise errors of pyarrow as those of files that cannot be read."""
    try:
        yield
    except DataError:
        raise
    except (OSError, ValueError, LookupError, TypeError, NotImplementedError) as error:
        raise DataError(
            f"{without_keys(address)}: cannot be read as GeoParquet of Overture "
            f"({without_keys(one_line(error)):.200}); check the address, the keys in the "
            "environment and the network, or that the files are complete"
        ) from error
