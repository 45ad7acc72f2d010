import pytest

from roadseg.dataset.options import RunImageryOptions, SetOptions
from roadseg.dataset.sets import find_scenes, find_sources, scene_sets
from roadseg.errors import DataError
from roadseg.roads.options import LabelOptions


@pytest.fixture
def sets(tmp_path):
    """Give a function that makes files of images and labels, and returns the sets of them."""

    def make(**images):
        options = {}
        for name, stems in images.items():
            for kind, suffix in (("images", "tif"), ("roads", "geojson")):
                (tmp_path / name / kind).mkdir(parents=True)
                for stem in stems:
                    (tmp_path / name / kind / f"{stem}.{suffix}").touch()
            place = tmp_path / name
            options[name] = SetOptions(images=(f"{place}/images",), roads=(f"{place}/roads",))
        return scene_sets(RunImageryOptions(sets=options), LabelOptions())

    return make


@pytest.mark.parametrize("name", ["s2", "S2"])  # one file on Windows and macOS
def test_scenes_of_one_name_in_two_sets_have_the_name_of_the_set_before(sets, name):
    found = find_sources(find_scenes(sets(a=["s1", "s2"], b=[name, "s3"])))
    assert set(found) == {"s1", "a_s2", f"b_{name}", "s3"}
    assert {source.set.name for name, source in found.items() if "2" in name} == {"a", "b"}


def test_scenes_that_would_still_have_one_name_are_refused(sets):
    with pytest.raises(DataError, match="would have the same name; rename one"):
        find_sources(find_scenes(sets(a=["s", "b_s"], b=["s", "t"])))


def test_images_of_a_run_without_sets_have_their_names(tmp_path):
    (tmp_path / "s1.tif").touch()
    imagery = RunImageryOptions(images=(str(tmp_path),))
    ((of, images),) = find_scenes(scene_sets(imagery, LabelOptions()))
    assert (of.name, list(images)) == ("", ["s1"])
