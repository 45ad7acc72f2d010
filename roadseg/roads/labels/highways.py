"""Highways: road classes, and the speed that is usual on them."""

import re
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from roadseg.arrays import Bools, Floats, Texts
from roadseg.roads.speeds import KPH_PER_MPH

# SpaceNet road_type -> (1 or 2 lanes, 3 lanes and more), mph; and the OpenStreetMap classes
# that the SpaceNet labellers mapped to each type.
# Source: CRESI, data_prep/road_speed.py (Apache-2.0), which documents the SpaceNet 3 table.
_MPH_BY_TYPE = {
    1: (55, 65),
    2: (45, 55),
    3: (35, 45),
    4: (30, 35),
    5: (25, 30),
    6: (20, 20),
    7: (20, 20),
}
_TYPE_BY_HIGHWAY = {
    "motorway": 1,
    "trunk": 1,
    "primary": 2,
    "bus_guideway": 2,
    "secondary": 3,
    "tertiary": 4,
    "residential": 5,
    "living_street": 5,
    "unclassified": 6,
    "service": 6,
    "road": 6,
    "cart_track": 7,
    "track": 7,
}
ROAD_CLASSES = tuple(_TYPE_BY_HIGHWAY)  # Classes of roads for cars, from fast to slow.
# The class by which a road of a speed is called, from slow to fast; see `highway_of`.
_CLASS_BY_TYPE = {
    6: "unclassified",
    5: "residential",
    4: "tertiary",
    3: "secondary",
    2: "primary",
    1: "trunk",
}
UNKNOWN_CLASS = "road"  # OpenStreetMap's word for a road whose class is not known.
_DECIMALS = 6  # Of mph, as many as speed bins look at.
# Source: OpenStreetMap wiki, Key:surface, the unpaved group.
_UNPAVED = {
    "unpaved",
    "clay",
    "compacted",
    "dirt",
    "earth",
    "fine_gravel",
    "grass",
    "gravel",
    "ground",
    "mud",
    "pebblestone",
    "rock",
    "sand",
    "shells",
    "woodchips",
}
_MANY_LANES = 3
_UNPAVED_FACTOR = 0.75
_FEW_MPH = np.array([np.nan, *(few for few, _ in _MPH_BY_TYPE.values())])
_MANY_MPH = np.array([np.nan, *(many for _, many in _MPH_BY_TYPE.values())])
_CLASSES = np.array(list(_CLASS_BY_TYPE.values()))
_CLASS_MPH = _FEW_MPH[list(_CLASS_BY_TYPE)]
_LIMITS_MPH = (_CLASS_MPH[:-1] + _CLASS_MPH[1:]) / 2
_GRADE = re.compile(r"_link$|_grade\d$")  # Geofabrik's files have track_grade1 to 5.


@dataclass(frozen=True)
class RoadClasses:
    """The classes of features by their `highway`; all arrays of shape (features,).

    Attributes:
        road_type: SpaceNet's type, 1 to 7; NaN for a class without one.
        is_motorway: whether it is a motorway or leads to one.
        is_excluded: whether it is among the classes that are left out.
    """

    road_type: Floats
    is_motorway: Bools
    is_excluded: Bools


def usual_mph(road_type: Floats, lanes: Floats, unpaved: Bools) -> Floats:
    """Return the usual speed of roads, mph; NaN where the type is not known.

    Args:
        road_type: shape (n,), SpaceNet's 1 to 7; anything else is not known.
        lanes: shape (n,); 3 and more are many, NaN counts as few.
        unpaved: shape (n,); these roads have three quarters of the speed.

    Source: table and factor of CRESI's road_speed.py. Different here: only a surface that is
    named as unpaved slows a road down, where CRESI slows down every SpaceNet 5 road whose
    surface is not the very word "paved".
    """
    row = np.where(np.isin(road_type, list(_MPH_BY_TYPE)), road_type, 0).astype(np.intp)
    mph = np.where(lanes >= _MANY_LANES, _MANY_MPH[row], _FEW_MPH[row])
    return np.where(unpaved, mph * _UNPAVED_FACTOR, mph)


def highway_of(speed_kph: ArrayLike) -> Texts:
    """Return the OpenStreetMap class whose usual speed is nearest to each speed.

    It is the reverse of `usual_mph`: a road of few lanes that has the usual speed of a class gets a
    class of that speed back. A speed alone does not say more. Of the classes of one speed that one
    is named by which SpaceNet calls its type: 20 mph is unclassified, not service or track; but
    55 mph is trunk, as motorway would also say who may drive there. A road of many lanes is faster
    than its class, so that it may be taken for the next one.

    Args:
        speed_kph: of roads, km/h, any shape; half way between two classes is the slower one.

    Returns:
        A class for each speed; "road" where it is NaN or not above 0.
    """
    mph = np.round(np.asarray(speed_kph, dtype=np.float64) / KPH_PER_MPH, _DECIMALS)
    return np.where(mph > 0, _CLASSES[np.searchsorted(_LIMITS_MPH, mph)], UNKNOWN_CLASS)


def highway_class(highway: str) -> str:
    """Return the class of a `highway`: without `_link`, and the first road of a list.

    "primary_link" is "primary", "footway;service" is "service", "track_grade2" is "track".
    """
    classes = [_GRADE.sub("", part.strip()) for part in highway.split(";")]
    return next((name for name in classes if name in _TYPE_BY_HIGHWAY), classes[0])


def classify(highways: Texts, excluded: Collection[str]) -> RoadClasses:
    """Return what each `highway` says of a road; each distinct one is looked up once.

    Args:
        highways: shape (features,), in small letters, "" where there is none.
        excluded: what counts as excluded, written as in the file or as its class.
    """
    names, index = np.unique(highways, return_inverse=True)
    classes = [highway_class(name) for name in names.tolist()]
    unwanted = {name.lower() for name in excluded}
    types = [_TYPE_BY_HIGHWAY.get(name) for name in classes]
    are_motorways = [name == "motorway" for name in classes]
    are_excluded = [
        not unwanted.isdisjoint(both) for both in zip(names.tolist(), classes, strict=True)
    ]
    return RoadClasses(
        road_type=np.array(types, dtype=np.float64)[index],
        is_motorway=np.array(are_motorways, dtype=bool)[index],
        is_excluded=np.array(are_excluded, dtype=bool)[index],
    )


def is_unpaved(surface: str) -> bool:
    """Return whether a `surface` is named as unpaved; of a list each has to be."""
    return all(part.strip() in _UNPAVED for part in surface.split(";"))
