#!/usr/bin/env python
"""Print the versions of all that roadseg needs, as installed here: a constraints file.

Its own needs are read from pyproject.toml, those of the others from what is installed. The
arguments are extras of roadseg.
"""

import platform
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
HEADER = f"""\
# The versions that roadseg {PROJECT["version"]} was tested with, on Python \
{platform.python_version()}, {platform.system()} {platform.machine()}:
#   pip install --constraint scripts/constraints.txt .
# They hold for builds of torch with CUDA and without. Written by scripts/lock: after packages
# were updated and the tests have passed, run it again.
"""
Wish = tuple[str, frozenset[str]]  # a package and its extras


def needs(name: str) -> list[str]:
    """Return the requirements of a package, those of extras with a marker."""
    if name != PROJECT["name"]:
        return distribution(name).requires or []
    of_extras = PROJECT["optional-dependencies"].items()
    return PROJECT["dependencies"] + [
        f"{text}; extra == '{extra}'" for extra, texts in of_extras for text in texts
    ]


def wishes(name: str, extras: Iterable[str]) -> Iterator[Wish]:
    """Yield what a package with some extras needs here."""
    for requirement in map(Requirement, needs(name)):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ["", *extras]):
            yield canonicalize_name(requirement.name), frozenset(requirement.extras)


def closure(first: Wish) -> set[str]:
    """Return the names of all packages that one needs, itself among them."""
    seen, waiting = set(), [first]
    while waiting:
        wish = waiting.pop()
        if wish not in seen:
            seen.add(wish)
            waiting.extend(wishes(*wish))
    return {name for name, _ in seen}


if __name__ == "__main__":
    names = closure((PROJECT["name"], frozenset(sys.argv[1:]))) - {PROJECT["name"]}
    versions = {name: distribution(name).version.partition("+")[0] for name in sorted(names)}
    print(HEADER, *(f"{name}=={version}" for name, version in versions.items()), sep="\n")
