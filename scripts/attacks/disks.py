"""Disks without room: no file may grow beyond a size that is drawn anew for each command.

It is a limit of the process (RLIMIT_FSIZE), for which nobody needs rights: whoever writes is
refused in the middle of a file, as on a disk that is full.
"""

from collections.abc import Iterator
from random import Random

from harness import Case

_SMALL = ["--set", "train.epochs=1", "--set", "train.batch_size=1"]
_LARGEST = 2_000_000  # Bytes; few files of the tiny city have more.
_COMMANDS = [
    ["prepare", *_SMALL],
    ["run", *_SMALL],
    ["init", "--images", "images", "--labels", "roads", "--force"],
    ["score", "roads/city_0.geojson", "roads/city_0.geojson", "--csv", "scores.csv"],
    ["diff", "roads/city_0.geojson", "--reference", "roads/city_1.geojson", "--output", "d.gpkg"],
]


def cases(count: int, rng: Random) -> Iterator[Case]:
    """Yield commands and the size at which their files end."""
    for number in range(count):
        words = _COMMANDS[number % len(_COMMANDS)]
        largest = int(2 ** rng.uniform(0, _LARGEST.bit_length()))
        yield Case(f"{words[0]} with files of {largest} bytes", words, largest=largest)
