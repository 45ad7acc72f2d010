"""Facts of a report: paths that name no folder of the disk."""

from pathlib import Path

import pytest

from roadseg.report.facts import with_short_paths

PROJECT = Path("/home/me/project")


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("/home/me/project/images/a.tif", "images/a.tif"),
        ("/home/me/project2/images/a.tif", "…/images/a.tif"),
        ("/data/a.tif", "…/data/a.tif"),
        ("/data/x/a.tif: cannot be read", "…/x/a.tif: cannot be read"),
        ("cannot read /home/me/project/a.tif", "cannot read a.tif"),
        ("resnet34", "resnet34"),
        ("a/b", "a/b"),
    ],
)
def test_paths_are_told_from_the_project_on(text, short):
    assert with_short_paths({"of": [text, 1, None]}, PROJECT) == {"of": [short, 1, None]}
