"""Find the scenes and label files that a config names."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from roadseg.core.names import match_names
from roadseg.errors import ConfigError, DataError
from roadseg.io.roads import SUFFIXES as LABEL_SUFFIXES

IMAGE_SUFFIXES = (".tif", ".tiff", ".vrt", ".jp2")


def find_images(patterns: Iterable[str]) -> dict[str, Path]:
    """Find scenes and give each a name: its file name, or with its folder's where two are alike.

    Args:
        patterns: files, folders or globs.

    Raises:
        DataError: if a pattern finds nothing, or if two scenes would have one name.
    """
    paths = _find(patterns, IMAGE_SUFFIXES, what="images", setting="imagery.images")
    times = Counter(path.stem for path in paths)
    names = [p.stem if times[p.stem] == 1 else f"{p.parent.name}_{p.stem}" for p in paths]
    twice = [path for path, name in zip(paths, names, strict=True) if names.count(name) > 1]
    if twice:
        raise DataError(f"{twice[0]} and {twice[1]} would have the same name; rename one of them")
    return dict(zip(names, paths, strict=True))


def find_labels(patterns: Iterable[str], images: Mapping[str, Path]) -> dict[str, Path]:
    """Find the label file of every scene: a single file serves all, several go by their names.

    Raises:
        DataError: if a pattern finds nothing, or a scene has no label file or two alike.
    """
    paths = _find(patterns, LABEL_SUFFIXES, what="label files", setting="labels.roads")
    if len(paths) == 1:
        return dict.fromkeys(images, paths[0])
    by_name: dict[str, Path] = {}
    for path in paths:
        if by_name.setdefault(path.stem, path) != path:
            raise DataError(
                f"{by_name[path.stem]} and {path} have the same name; rename or name only one"
            )
    try:
        matched = match_names([path.stem for path in images.values()], by_name)
    except ValueError as error:
        raise DataError(f"labels.roads: image {error}") from error
    missing = [path for path in images.values() if matched[path.stem] is None]
    if missing:
        raise DataError(
            f"{missing[0]}: none of the {len(paths)} label files has a name that fits "
            f"({len(missing)} such images); a label file names its scene by the same number parts"
        )
    return {name: by_name[str(matched[path.stem])] for name, path in images.items()}


def _find(
    patterns: Iterable[str], suffixes: tuple[str, ...], *, what: str, setting: str
) -> list[Path]:
    found: dict[Path, None] = {}
    for pattern in patterns:
        here = _expand(Path(pattern).expanduser(), suffixes)
        if not here:
            raise DataError(
                f"{pattern}: no {what} found there ({', '.join(suffixes)}); see {setting}"
            )
        found |= dict.fromkeys(here)
    if not found:
        raise ConfigError(
            f"{setting} is empty, expected at least one path; `roadseg init` fills it in"
        )
    return list(found)


def _expand(path: Path, suffixes: tuple[str, ...]) -> list[Path]:
    if path.is_dir():
        return sorted(p for p in path.iterdir() if p.suffix.lower() in suffixes and _shown(p))
    if path.is_file():
        return [path]
    wild = next((i for i, part in enumerate(path.parts) if set(part) & set("*?[")), None)
    base = Path(*path.parts[:wild])
    if wild is None or not base.is_dir():
        return []
    found = sorted(p for p in base.glob("/".join(path.parts[wild:])) if p.is_file() and _shown(p))
    return [p for p in found if p.suffix.lower() in suffixes] or found


def _shown(path: Path) -> bool:
    return not path.name.startswith(".")
