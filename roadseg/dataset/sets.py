"""Sets of scenes: the complete options of each, and its images and labels by scene."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from roadseg.dataset.options import RunImageryOptions, SetOptions
from roadseg.errors import DataError
from roadseg.raster.inputs import find_areas, find_images, find_labels
from roadseg.raster.options import ImageryOptions
from roadseg.roads.options import LabelOptions

if TYPE_CHECKING:
    from roadseg.raster.extents import ScenePart

_OWN = ("bands", "crs", "gsd_m", "nodata")  # Options that a set may inherit from imagery.


@dataclass(frozen=True)
class SceneSet:
    """Scenes with the same options.

    Attributes:
        name: of the set; empty where a run has no sets.
        weight: how often each of its chips is drawn in training, relative to other sets.
    """

    name: str
    imagery: ImageryOptions
    labels: LabelOptions
    weight: float = 1.0

    @property
    def key(self) -> str:
        """Its key in the config, with a trailing dot; empty without sets."""
        return self.name and f"imagery.sets.{self.name}."


@dataclass(frozen=True)
class Source:
    """The files of a scene.

    Attributes:
        area: vector files with polygons in which its labels are complete; empty for everywhere.
        part: the part of it in the area to work in; None for all of it.
    """

    set: SceneSet
    image: Path
    labels: Path
    area: tuple[Path, ...] = ()
    part: "ScenePart | None" = None


ScenesOfSet = tuple[SceneSet, dict[str, Path]]  # A set, and its images by the names of scenes.


def scene_sets(imagery: RunImageryOptions, labels: LabelOptions) -> list[SceneSet]:
    """Return the sets of a run, in the order of its config; without any, all scenes are one.

    Raises:
        ValueError: if the options of a set cannot be combined with those it inherits.
    """
    if not imagery.sets:
        return [SceneSet("", _without_sets(imagery), labels)]
    return [_with_inherited(name, own, imagery, labels) for name, own in imagery.sets.items()]


def _without_sets(imagery: ImageryOptions) -> ImageryOptions:
    """Return the options without sets."""
    fields = {name: getattr(imagery, name) for name in ImageryOptions.model_fields}
    return ImageryOptions.model_construct(imagery.model_fields_set - {"sets"}, **fields)


def find_sources(
    scenes: Sequence[ScenesOfSet], *, area_setting: str | None = None
) -> dict[str, Source]:
    """Find the label file of every scene in the area to work in, by its name.

    Labels are looked for in the set of a scene only.

    Args:
        scenes: of `find_scenes`.
        area_setting: `imagery.area`; None is everywhere.

    Raises:
        ConfigError: if a set names no labels, or the area is neither a box nor a file.
        DataError: if a pattern finds nothing, a scene has no labels or two matching files, two
            scenes would have one name, or none is in the area.
    """
    parts = _parts(scenes, area_setting)
    sources: dict[str, Source] = {}
    for scene_set, every in scenes:
        images = {name: path for name, path in every.items() if name in parts}
        if not images:
            continue
        roads = scene_set.labels.roads
        labels = find_labels(roads, images, setting=f"{scene_set.key or 'labels.'}roads")
        area = find_areas(scene_set.labels.area)
        for name, image in images.items():
            taken = sources.setdefault(
                name, Source(scene_set, image, labels[name], area, parts[name])
            )
            if taken.image != image:
                raise DataError(
                    f"{taken.image} and {image} would have the same name; rename one of them"
                )
    return sources


def _parts(
    scenes: Sequence[ScenesOfSet], area_setting: str | None
) -> Mapping[str, "ScenePart | None"]:
    """Return the scenes in the area to work in, each with the part of it that is in there."""
    images = {name: path for _, each in scenes for name, path in each.items()}
    if area_setting is None:  # What reads areas is slow to import.
        return dict.fromkeys(images)
    from roadseg.dataset.scene_parts import parts_of_scenes

    imagery = {name: scene_set.imagery for scene_set, each in scenes for name in each}
    return parts_of_scenes(images, imagery, area_setting=area_setting)


def find_scenes(sets: Iterable[SceneSet]) -> list[ScenesOfSet]:
    """Find the images of sets, by the names of their scenes.

    Names are those of `find_images`; where two sets have scenes of one name, that of the set comes
    first.

    Raises:
        ConfigError: if a set names no images.
        DataError: if a pattern finds nothing.
    """
    images_of_sets = [
        (each, find_images(each.imagery.images, setting=f"{each.key or 'imagery.'}images"))
        for each in sets
    ]
    times = Counter(name.casefold() for _, images in images_of_sets for name in images)
    return [
        (each, {scene_name(name, each.name, times): path for name, path in images.items()})
        for each, images in images_of_sets
    ]


def scene_name(name: str, set_name: str, times: Mapping[str, int]) -> str:
    """Return the name of a scene in a run: prefixed by its set if several sets have this name.

    Args:
        set_name: name of the set; empty without sets.
        times: how often each name occurs in all sets, without its case.
    """
    return f"{set_name}_{name}" if times[name.casefold()] > 1 else name


def _with_inherited(
    name: str, own: SetOptions, imagery: RunImageryOptions, labels: LabelOptions
) -> SceneSet:
    given = {key: value for key in _OWN if (value := getattr(own, key)) is not None}
    changed = {key: getattr(own.labels, key) for key in own.labels.model_fields_set}
    try:
        LabelOptions.model_validate(dict(labels) | changed)
    except ValidationError as error:
        why = error.errors()[0].get("ctx", {}).get("error", error)
        raise ValueError(f"imagery.sets.{name}.labels.{why}") from error
    return SceneSet(
        name,
        _without_sets(imagery).model_copy(update=given | {"images": own.images}),
        labels.model_copy(update=changed | {"roads": own.roads}),
        own.weight,
    )
