"""Find the scenes and label files that a config names, on disk, in archives and on the network."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, unquote

from roadseg.errors import ConfigError, DataError
from roadseg.system.files import (
    LINE_SUFFIXES,
    MASK_SUFFIXES,
    ROAD_SUFFIXES,
    in_folder,
    is_virtual,
    with_home,
)
from roadseg.system.text import count, first

Suffixes = tuple[str, ...]
Place = tuple[str, ...]  # The parts of a name that say which place it is.

IMAGE_SUFFIXES = (
    *(".tif", ".tiff", ".gtiff", ".vrt", ".jp2", ".j2k", ".jpg", ".jpeg", ".png", ".webp"),
    *(".img", ".pix", ".ntf", ".nitf", ".bil", ".bip", ".bsq", ".asc", ".kea"),
)
_SIDECARS = (".xml", ".ovr", ".msk", ".aux", ".prj", ".rrd", ".hdr", ".tfw", ".jgw", ".pgw", ".wld")
_IMAGES = (IMAGE_SUFFIXES,)
# Of what a folder holds, the first kind counts; other data is often kept as .json.
_LABELS = (LINE_SUFFIXES, (".json",), MASK_SUFFIXES)
_LIST = ".txt"
_PACKED = (".gz", ".zip", ".pbf")
_NETWORKS = {"s3": "vsis3", "gs": "vsigs", "az": "vsiaz", "oss": "vsioss", "swift": "vsiswift"}
_ARCHIVES = ("/vsizip/", "/vsitar/", "/vsi7z/", "/vsirar/")
_ARCHIVE = re.compile(r"(.+?\.(?:zip|kmz|tar|tgz|tar\.gz|7z|rar))(/.*)?", re.IGNORECASE)


def find_images(patterns: Iterable[str], *, setting: str = "imagery.images") -> dict[str, Path]:
    """Find scenes, and name each after its file; if two are the same, also after its folder.

    Args:
        patterns: files, folders, globs, addresses such as `s3://bucket/a.tif`, GDAL paths such
            as `/vsizip//data/x.zip/a.tif`, or lists of these. A list is `list.txt`, or `@` and a
            file of any name; it has one path per line, relative to the list, and comments after #.
        setting: key of the config with the patterns, for errors.

    Raises:
        DataError: if a pattern finds nothing, a list cannot be read, or two scenes would have
            one name.
    """
    return name_images(image_paths(patterns, setting=setting))


def image_paths(patterns: Iterable[str], *, setting: str = "imagery.images") -> list[Path]:
    """Find images, as `find_images`, without a name for each.

    Raises:
        DataError: if a pattern finds nothing, or a list cannot be read.
    """
    each = [one for pattern in patterns for one in _unlisted(pattern)]
    return _find(each, _IMAGES, what="images", setting=setting)


def name_images(paths: Collection[Path]) -> dict[str, Path]:
    """Name images after their files; if two are the same, also after their folders.

    Names that differ by case alone are the same, as they are for files on Windows and macOS.

    Raises:
        DataError: if two would still have the same name.
    """
    times = Counter(stem(path).casefold() for path in paths)
    named: dict[str, Path] = {}
    taken: dict[str, Path] = {}
    for path in paths:
        name = stem(path)
        if times[name.casefold()] > 1:
            name = f"{path.parent.name.strip('{}')}_{name}"
        if (other := taken.setdefault(name.casefold(), path)) != path:
            raise DataError(f"{other} and {path} would have the same name; rename one of them")
        named[name] = path
    return named


def find_labels(
    patterns: Iterable[str], images: Mapping[str, Path], *, setting: str = "labels.roads"
) -> dict[str, Path]:
    """Find the label file of every scene: a single file serves all, several are matched by name.

    From a folder, vector files are taken or, if it has none, raster masks. Files in `images` are
    never labels.

    Raises:
        DataError: if a pattern finds nothing, or a scene has no label file, or two that match
            equally well.
    """
    without = set(images.values())
    paths = _find(patterns, _LABELS, what="label files", setting=setting, without=without)
    if packed := [path for path in paths if path.suffix.lower() == ".bz2"]:
        raise DataError(f"{packed[0]}: labels packed as .bz2 are not read; unpack it with bunzip2")
    if len(paths) == 1:
        return dict.fromkeys(images, paths[0])
    by_name: dict[str, Path] = {}
    for path in paths:
        if by_name.setdefault(stem(path), path) != path:
            raise DataError(
                f"{by_name[stem(path)]} and {path} have the same name; rename one of them, "
                "or list only one"
            )
    stems = {name: stem(path) for name, path in images.items()}
    try:
        matched = match_names(list(stems.values()), by_name)
    except ValueError as error:
        raise DataError(f"{setting}: image {error}") from error
    missing = [path for name, path in images.items() if matched[stems[name]] is None]
    if missing:
        raise DataError(
            f"{missing[0]}: none of the {len(paths)} label files has a matching name "
            f"({count(len(missing), 'image')} without labels); the names of an image and its label "
            "file need the same numbers; add a label file, without features where there is no "
            "road; or give all labels as one file, and the ground that they cover as labels.area; "
            "or leave such images out, and map them later with the trained network (--checkpoint)"
        )
    return {name: by_name[str(matched[stems[name]])] for name in images}


def find_areas(patterns: Collection[str]) -> tuple[Path, ...]:
    """Find the vector files with polygons in which labels are complete; none without patterns.

    Raises:
        DataError: if a pattern finds nothing.
    """
    if not patterns:
        return ()
    kinds = (ROAD_SUFFIXES,)
    return tuple(_find(patterns, kinds, what="vector files", setting="labels.area"))


def file_name(path: Path) -> str:
    """Return the name of a file, without folders, archives, or the query of an address."""
    return unquote(unquote(path.name).partition("?")[0]) if is_virtual(path) else path.name


def stem(path: Path) -> str:
    """Return the name of a file without its suffixes: `city` for `city.osm.pbf`."""
    file = Path(file_name(path))
    if file.suffix.lower() in _PACKED and Path(file.stem).suffix.lower() in ROAD_SUFFIXES:
        file = Path(file.stem)
    return file.stem


def source_path(text: str) -> Path:
    """Return a file, an address or a GDAL path in a form that `Path` does not change.

    A Path turns two slashes into one. So `/vsizip//data/x.zip/a.tif` becomes
    `/vsizip/{/data/x.zip}/a.tif`, and an address becomes `/vsicurl?url=` with percent-encoded
    characters. GDAL understands these forms as well.

    Source: the forms are those of "GDAL Virtual File Systems" in GDAL's documentation.

    Raises:
        DataError: if it is an address of an unknown kind, or of a service.
    """
    if text.startswith("/vsi"):
        return Path(_escape_double_slashes(text))
    scheme, separator, rest = text.partition("://")
    if not separator:
        return with_home(text)
    is_web = scheme.lower() in {"http", "https", "ftp"}
    if scheme.lower().startswith("stac:") or (is_web and "{" in rest):
        raise DataError(
            f"{text}: is a service of images; `roadseg map --area`, or `roadseg fetch images`, "
            "fetches from it"
        )
    if is_web:
        return Path(f"/vsicurl?url={_encoded(text)}")
    if scheme.lower() == "file":
        from urllib.request import url2pathname

        return Path(url2pathname(f"/{rest.lstrip('/')}"))
    if scheme.lower() not in _NETWORKS:
        raise DataError(
            f"{text}: unknown kind of address; use one that starts with https, "
            f"{', '.join(_NETWORKS)}, or a GDAL path such as /vsizip//data/x.zip/a.tif"
        )
    return Path(_escape_double_slashes(f"/{_NETWORKS[scheme.lower()]}/{rest}"))


def _escape_double_slashes(text: str) -> str:
    """Rewrite a GDAL path without double slashes."""
    handler = next((start for start in _ARCHIVES if text.startswith(start)), None)
    if handler and (parts := _archive(text.removeprefix(handler))):
        archive, inner = parts
        return f"{handler}{{{source_path(archive).absolute()}}}{inner}"
    if text.startswith(("/vsicurl/", "/vsicurl_streaming/")):
        return f"/vsicurl?url={_encoded(text.split('/', 2)[2])}"
    if text.startswith("/vsicurl?"):
        return text.replace("//", "%2F%2F")
    return f"/vsicached?file={_encoded(text)}" if "//" in text else text


def _archive(text: str) -> tuple[str, str] | None:
    """Split `/data/x.zip/a.tif` or `{/data/x.zip}/a.tif` into archive and path inside it."""
    if text.startswith("{"):
        archive, _, inner = text[1:].rpartition("}")
        return (archive, inner) if archive else None
    match = _ARCHIVE.fullmatch(text)
    return (match[1], match[2] or "") if match else None


def _encoded(address: str) -> str:
    place, mark, query = address.partition("?")
    return quote(place).replace("//", "%2F%2F") + quote(mark + query, safe="")


def _unlisted(pattern: str) -> list[str]:
    """Return the paths in a list; any other pattern as it is."""
    path = source_path(pattern.removeprefix("@"))
    is_list = path.suffix.lower() == _LIST and path.is_file()
    if is_virtual(path) or not (is_list or pattern.startswith("@")):
        return [pattern]
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path}: not a readable list of images ({error}); write one path per line"
        ) from error
    entries = [text for line in lines if (text := line.strip()) and not text.startswith("#")]
    if not entries:
        raise DataError(f"{path}: the list contains no images; write one path per line")
    return [in_folder(text, path.parent) for text in entries]


def _find(
    patterns: Iterable[str],
    ranks: tuple[Suffixes, ...],
    *,
    what: str,
    setting: str,
    without: Collection[Path] = (),
) -> list[Path]:
    chosen: dict[Path, None] = {}
    for pattern in patterns:
        here = _expand(pattern, ranks, without)
        if not here and without and _expand(pattern, ranks, ()):
            raise DataError(
                f"{pattern}: all {what} there are already used as images; use separate patterns, "
                "such as 'folder/*_image.png' and 'folder/*_mask.png'"
            )
        if not here:
            raise _nothing_found(pattern, ranks, what=what, setting=setting)
        chosen |= dict.fromkeys(here)
    if not chosen:
        raise ConfigError(
            f"{setting} is empty, expected at least one path; `roadseg init` fills it in"
        )
    return list(chosen)


def _nothing_found(
    pattern: str, ranks: tuple[Suffixes, ...], *, what: str, setting: str
) -> DataError:
    path = source_path(pattern)
    if _first_wild(path) is None and not is_virtual(path) and not path.exists():
        return DataError(f"{pattern}: does not exist, expected {what}; see {setting}")
    known = first([suffix for rank in ranks for suffix in rank])
    others: set[str] = set()
    with suppress(OSError):  # It may be no folder, or one that may not be read.
        others = {file.suffix for file in path.iterdir() if file.suffix}
    held = f", but {first(sorted(others))}" if others else ""
    return DataError(
        f"{pattern}: no {what} found there ({known}){held}; to search subfolders, use a glob such "
        f"as 'folder/**/*{ranks[0][0]}'; see {setting}"
    )


def _first_wild(path: Path) -> int | None:
    """Return the number of the first part of a path that is a pattern."""
    return next((i for i, part in enumerate(path.parts) if set(part) & set("*?[")), None)


def _expand(pattern: str, ranks: tuple[Suffixes, ...], without: Collection[Path]) -> list[Path]:
    """Return the files of a pattern: of a folder or a glob, those of the first kind that it has.

    A glob without files of a known kind stands for all of its files but those beside rasters.
    """
    path = source_path(pattern)
    if is_virtual(path) or path.is_file() or path.suffix.lower() == ".gdb":
        return [path] if is_virtual(path) or path.exists() else []
    if path.is_dir():
        inside = [p for p in path.iterdir() if p.name[0] != "."]
        return _first_kind(inside, ranks, without)
    wild = _first_wild(path)
    base = Path(*path.parts[:wild])
    if wild is None or not base.is_dir():
        return []
    files = [p for p in base.glob("/".join(path.parts[wild:])) if p.is_file() and p.name[0] != "."]
    others = [p for p in files if not p.name.lower().endswith(_SIDECARS)]
    return _first_kind(files, ranks, without) or sorted(others)


def _first_kind(
    paths: list[Path], ranks: tuple[Suffixes, ...], without: Collection[Path]
) -> list[Path]:
    left = sorted(path for path in paths if path not in without)
    for suffixes in ranks:
        if of_kind := [path for path in left if path.name.lower().endswith(suffixes)]:
            return of_kind
    return []


def match_names(images: Sequence[str], labels: Iterable[str]) -> dict[str, str | None]:
    """Find for every image the label with the most similar name.

    Names are compared by their parts with a digit, in order, because these identify the place:
    both `SN5_roads_train_AOI_7_Moscow_PS-RGB_chip180` and
    `SN5_roads_train_AOI_7_Moscow_geojson_roads_speed_chip180` have SN5, 7, chip180. All such
    parts of a label must occur in the image's name, so that several images of a place can share
    its label. A label with the same name as the image is preferred.

    Returns:
        The label of each image, or None if none fits.

    Raises:
        ValueError: if two labels fit one image equally well.
    """
    places = {label: _place(label) for label in labels}
    by_part = _by_rarest_part(places)
    return {image: _best(image, places, by_part) for image in images}


def _by_rarest_part(places: Mapping[str, Place]) -> dict[str, list[str]]:
    """Group labels by the part of their names that is the rarest.

    Then an image has to be compared only with the labels under parts of its own name.
    """
    times = Counter(part for place in places.values() for part in set(place))
    by_part: dict[str, list[str]] = defaultdict(list)
    for label, place in places.items():
        if place:
            by_part[min(place, key=lambda part: times[part])].append(label)
    return by_part


def _best(image: str, places: Mapping[str, Place], by_part: Mapping[str, list[str]]) -> str | None:
    if image in places:
        return image
    here = _place(image)
    near = (label for part in dict.fromkeys(here) for label in by_part.get(part, ()))
    fitting = [label for label in near if _occurs_in(places[label], here)]
    most = max((len(places[label]) for label in fitting), default=0)
    best = sorted(label for label in fitting if len(places[label]) == most)
    if len(best) > 1:
        raise ValueError(f"{image} fits {best[0]} and {best[1]} equally well; rename one of them")
    return best[0] if best else None


def _place(name: str) -> Place:
    return tuple(
        part.lower() for part in re.split(r"[^0-9A-Za-z]+", name) if re.search(r"\d", part)
    )


def _occurs_in(part: Place, whole: Place) -> bool:
    rest = iter(whole)
    return all(token in rest for token in part)
