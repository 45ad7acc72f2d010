"""Values with paths, packed here and unpacked where the paths lead elsewhere."""

from pathlib import Path

import pytest

from roadseg.system.hosts.packing import original, pack, unpack

ROOT = Path("/local/root")


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("/in/a.tif", "/local/root/in/a.tif"),
        ("/vsizip/{/in/a.zip}/b.tif", "/vsizip/{/local/root/in/a.zip}/b.tif"),
        ("/vsicurl/https://host/a.tif", "/vsicurl/https://host/a.tif"),
    ],
)
def test_paths_lead_below_the_root_and_back(path, there):
    moved = unpack(pack({"of": [Path(path)]}), root=ROOT)
    assert moved == {"of": [Path(there)]}
    assert unpack(pack(moved, root=ROOT)) == {"of": [Path(path)]}


def test_texts_stay_as_they_are():
    assert unpack(pack(["/in/a.tif"]), root=ROOT) == ["/in/a.tif"]


def test_without_a_root_paths_become_absolute(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert unpack(pack(Path("a.tif"))) == tmp_path / "a.tif"


def test_messages_name_the_paths_of_the_command():
    assert original("/local/root/in/a.tif: bad", ROOT) == "/in/a.tif: bad"
