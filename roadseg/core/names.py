"""Find the label file that belongs to each image by name."""

import re
from collections.abc import Iterable, Sequence


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
    return {image: _best(image, places) for image in images}


def _best(image: str, places: dict[str, tuple[str, ...]]) -> str | None:
    if image in places:
        return image
    here = _place(image)
    fitting = [label for label, place in places.items() if place and _occurs_in(place, here)]
    most = max((len(places[label]) for label in fitting), default=0)
    best = [label for label in fitting if len(places[label]) == most]
    if len(best) > 1:
        raise ValueError(f"{image} fits {best[0]} and {best[1]} equally well; rename one of them")
    return best[0] if best else None


def _place(name: str) -> tuple[str, ...]:
    return tuple(
        part.lower() for part in re.split(r"[^0-9A-Za-z]+", name) if re.search(r"\d", part)
    )


def _occurs_in(part: tuple[str, ...], whole: tuple[str, ...]) -> bool:
    rest = iter(whole)
    return all(token in rest for token in part)
