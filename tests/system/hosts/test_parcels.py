"""What workers may ask for: the contents of the inputs of a job, and nothing else."""

import os

import pytest

from roadseg.system.hosts.parcels import PIECE_BYTES, Contents, Parcel


@pytest.fixture
def contents():
    return Contents()


def test_a_file_is_given_in_pieces(contents, tmp_path):
    data = os.urandom(PIECE_BYTES + 1)
    (tmp_path / "a").write_bytes(data)
    (of_file,) = contents.of_files([tmp_path / "a"])
    pieces = [contents.piece(of_file.digest, offset) for offset in (0, PIECE_BYTES)]
    assert (b"".join(pieces), len(pieces[1])) == (data, 1)


@pytest.mark.parametrize("asked", ["/etc/passwd", "../b", "", "0" * 32])
def test_what_is_no_input_is_refused(contents, tmp_path, asked):
    for name in "ab":
        (tmp_path / name).write_text(name, encoding="utf-8")
    contents.of_files([tmp_path / "a"])
    with pytest.raises(ValueError, match="is no input of this job"):
        contents.piece(asked, 0)


def test_a_file_that_was_changed_is_refused(contents, tmp_path):
    path = tmp_path / "a"
    path.write_text("a", encoding="utf-8")
    (of_file,) = contents.of_files([path])
    path.write_text("other", encoding="utf-8")
    with pytest.raises(ValueError, match="a was changed during the work"):
        contents.piece(of_file.digest, 0)


def test_the_parts_of_a_file_go_with_it_and_no_others(contents, tmp_path):
    names = ("roads.shp", "roads.dbf", "roads.shx", "image.tif", "image.tfw", "image.tif.ovr")
    for name in (*names, "other.dbf", "image.json"):
        (tmp_path / name).touch()
    found = contents.of_files([tmp_path / "roads.shp", tmp_path / "image.tif"])
    assert {content.path for content in found} == {str(tmp_path / name) for name in names}


def test_the_files_of_a_folder_go_with_it(contents, tmp_path):
    (tmp_path / "city.gdb").mkdir()
    (tmp_path / "city.gdb/gdb").write_text("a", encoding="utf-8")
    (content,) = contents.of_files([tmp_path / "city.gdb"])
    assert content.path == str(tmp_path / "city.gdb/gdb")


def test_what_is_missing_is_left_out(contents, tmp_path):
    assert contents.of_files([tmp_path / "a"]) == ()


def parcel_of(contents, path, marker):
    reads = contents.of_files([path])
    work = contents.of_bytes(b"")
    return Parcel("secret", 0, work, b"", reads, (str(path.with_name("b")),), (str(marker),))


@pytest.mark.parametrize(
    ("marked", "is_changed", "is_one"),
    [("secret", False, True), ("other", False, False), ("secret", True, False)],
)
def test_a_disk_is_the_same_if_inputs_and_marker_are(
    contents, tmp_path, marked, is_changed, is_one
):
    path, marker = tmp_path / "a", tmp_path / "marker"
    path.touch()
    marker.write_text(marked, encoding="utf-8")
    parcel = parcel_of(contents, path, marker)
    if is_changed:
        path.write_text("longer", encoding="utf-8")
    assert parcel.is_on_one_disk == is_one
