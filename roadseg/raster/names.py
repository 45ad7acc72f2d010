"""Find the label file that belongs to each image by name."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

_PATTERNS = (r"^(.+)[_-][^_-]+$", r"^[^_-]+[_-](.+)$", r"(\d+)\D*$", r"(\d+)")
Place = tuple[str, ...]  # the parts of a name that say which place it is


def match_names(images: Sequence[str], labels: Iterable[str]) -> dict[str, str | None]:
    """Find for every image the label with the most similar name.

    Names are compared by their parts that hold a digit, in order, because those say which place
    it is: `SN5_roads_train_AOI_7_Moscow_PS-RGB_chip180` and
    `SN5_roads_train_AOI_7_Moscow_geojson_roads_speed_chip180` are both SN5, 7, chip180. All
    such parts of a label must occur in the image's name, so that several images of one place
    can share its label. A label of the same name comes first.

    Returns:
        For each image its label, or None where none fits.

    Raises:
        ValueError: if two labels fit one image equally well.
    """
    places = {label: _place(label) for label in labels}
    by_part = _by_rarest_part(places)
    return {image: _best(image, places, by_part) for image in images}


def grouping_pattern(groups: Mapping[str, str]) -> str | None:
    """Find a regular expression whose first group tells the same groups of names apart.

    Args:
        groups: the group of each name; how groups are called does not matter.

    Returns:
        One of a few usual ones, such as that for all but the last part of a name; None if none
        of them fits.
    """
    for pattern in _PATTERNS:
        matches = {name: re.search(pattern, name) for name in groups}
        parts = {(group, match[1]) for name, group in groups.items() if (match := matches[name])}
        one_to_one = len(parts) == len(dict(parts)) == len({part for _, part in parts})
        if one_to_one and all(matches.values()):
            return pattern
    return None


def _by_rarest_part(places: Mapping[str, Place]) -> dict[str, list[str]]:
    """Sort labels by that part of their names which the fewest of them have.

    An image then has to be compared only with the labels under its own parts.
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
