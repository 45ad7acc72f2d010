"""Facts of a report: paths that name no folder of the disk."""

from pathlib import Path, PureWindowsPath

import pytest

from roadseg.errors import DataError
from roadseg.report.facts import read_scores, read_training, with_short_paths

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


@pytest.mark.parametrize(
    ("text", "short"),
    [
        (r"C:\Users\me\project\images\a.tif", r"images\a.tif"),
        (r"D:\data\x\a.tif: cannot be read", "…/x/a.tif: cannot be read"),
        (r"\vsizip\{C:\data\x.zip}\a.tif", "…/x.zip}/a.tif"),
        ("resnet34", "resnet34"),
    ],
)
def test_paths_of_windows_are_told_from_the_project_on(text, short, monkeypatch):
    monkeypatch.setattr("os.sep", "\\")
    monkeypatch.setattr("roadseg.report.facts.PurePath", PureWindowsPath)
    project = PureWindowsPath(r"C:\Users\me\project")
    assert with_short_paths(text, project) == short


@pytest.mark.parametrize("table", [b"", b"\xff\x00", b"a,b\n", b"epoch\n1,2\n"])
def test_a_table_of_other_things_is_no_table_of_metrics(tmp_path, table):
    curves = tmp_path / "metrics.csv"
    (tmp_path / "best.safetensors").write_bytes(b"")
    curves.write_bytes(table)
    for read, path in ((read_training, tmp_path), (read_scores, curves)):
        with pytest.raises(DataError, match=r"metrics\.csv: not a table of metrics; "):
            read(path)


def test_what_is_no_finite_number_is_unknown(tmp_path):
    scores = tmp_path / "metrics.csv"
    scores.write_text("chip,iou,apls,topo\na,0.5,nan,inf\nb,,-1,1e999\n")
    assert read_scores(scores)["rows"] == [["a", 0.5, None, None], ["b", None, -1, None]]
