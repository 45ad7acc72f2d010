"""scripts/download_spacenet, with stand-ins for curl and df: the bucket is never asked."""

import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "download_spacenet"
PLACE = "nfs/data/competitions/tiles_upload"  # into which SpaceNet's tarballs unpack
BUCKET = "https://spacenet-dataset.s3.amazonaws.com/spacenet"
MOSCOW = "data/SN5_roads/train/AOI_7_Moscow"
LABELS = [f"geojson_roads_speed/moscow_geojson_roads_speed_chip{n}.geojson" for n in (1, 2)]
CURL = """\
#!{python}
import os, sys
from pathlib import Path

*options, url = sys.argv[1:]
with open(os.environ["CALLS"], "a") as calls:
    calls.write(("head " if "--head" in options else "get ") + url + "\\n")
source = Path(os.environ["BUCKET"], url.rpartition("/")[2])
if not source.exists():
    sys.exit("curl: (22) The requested URL returned error: 404")
if "--head" in options:
    print(f"HTTP/1.1 200 OK\\r\\nContent-Length: {{source.stat().st_size}}\\r\\n\\r")
    sys.exit()
target = Path(options[options.index("--output") + 1])
have = target.stat().st_size if target.exists() else 0
data = source.read_bytes()
stop = int(os.environ.get("STOP_AT", len(data)))
with target.open("ab") as file:
    file.write(data[have:stop])
sys.exit(0 if stop >= len(data) else 56)
"""
DF = """\
#!/bin/sh
echo Filesystem 1024-blocks Used Available Capacity Mounted
echo disk 100 0 ${FREE_KIB:-100000000} 0% /
"""


def pack(path, names):
    """Write a tarball of small files that differ; return its digest."""
    with tarfile.open(path, "w:gz") as tar:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = len(name)
            tar.addfile(member, io.BytesIO(name.encode()))
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def images(start, numbers, sign):
    return [
        f"{start}/{kind}/{start.rpartition('/')[2]}_{kind}_{sign}{number}.tif"
        for kind in ("PS-RGB", "PS-MS", "MS", "PAN")
        for number in numbers
    ]


@pytest.fixture
def bucket(tmp_path):
    """Fill a bucket with small tarballs; give the folder and their digests by name."""
    folder = tmp_path / "bucket"
    folder.mkdir()
    moscow, juan, vegas = (
        f"{PLACE}/{name}" for name in ("AOI_7_Moscow", "AOI_9_San_Juan", "AOI_2_Vegas")
    )
    roads = f"{moscow}/geojson_roads_speed/moscow_geojson_roads_speed"
    plain = f"{vegas}/geojson_roads/vegas_geojson_roads_img1.geojson"
    speeds = "vegas/geojson_roads_speed/vegas_geojson_roads_speed"
    held = {
        "SN5_roads_train_AOI_7_Moscow": [
            *images(moscow, (1, 2), "chip"),
            *(f"{roads}_chip{number}.geojson" for number in (1, 2)),
            f"{moscow}/PS-RGB/._moscow_PS-RGB_chip1.tif",
            f"{moscow}/PS-RGB/../../../../../escaped.tif",
        ],
        "SN5_roads_test_public_AOI_9_San_Juan": images(juan, (98,), "chip"),
        "SN3_roads_train_AOI_2_Vegas": [*images(vegas, (1, 2), "img"), plain],
        "SN3_roads_train_AOI_2_Vegas_geojson_roads_speed": [f"{speeds}_img1.geojson"],
    }
    return folder, {name: pack(folder / f"{name}.tar.gz", files) for name, files in held.items()}


@pytest.fixture
def download(tmp_path, bucket):
    """Give a function that runs the script; its digests are those of the small tarballs."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in (("curl", CURL.format(python=sys.executable)), ("df", DF)):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    folder, digests = bucket
    script = tmp_path / SCRIPT.name
    script.write_text(_with_digests(SCRIPT.read_text(), digests))
    calls = tmp_path / "calls"
    calls.touch()

    def run(*words, **environment):
        found = {"PATH": f"{tools}:{os.environ['PATH']}", "BUCKET": str(folder)}
        done = subprocess.run(
            ["bash", script, *words],  # noqa: S607 - any bash
            env=os.environ | found | {"CALLS": str(calls)} | environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        asked = calls.read_text().splitlines()
        calls.write_text("")
        return done, asked

    return run


def _with_digests(text, digests):
    for city, name in (
        ("7_Moscow", "SN5_roads_train_AOI_7_Moscow"),
        ("9_San_Juan", "SN5_roads_test_public_AOI_9_San_Juan"),
        ("2_Vegas", "SN3_roads_train_AOI_2_Vegas"),
    ):
        both = [digests[name], digests.get(f"{name}_geojson_roads_speed", "")]
        line = re.search(rf"^  {city}\).* md5s=(.*) ;;$", text, re.MULTILINE)
        text = text[: line.start(1)] + f'"{" ".join(both).strip()}"' + text[line.end(1) :]
    return text


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_city_comes_with_rgb_images_and_roads_with_speeds(download, tmp_path):
    done, asked = download("7_Moscow", "data/")
    url = f"{BUCKET}/SN5_roads/tarballs/SN5_roads_train_AOI_7_Moscow.tar.gz"
    assert (done.returncode, asked) == (0, [f"head {url}", f"get {url}"]), done.stderr
    assert files(tmp_path / MOSCOW) == [
        "PS-RGB-unlabelled/escaped.tif",
        "PS-RGB/AOI_7_Moscow_PS-RGB_chip1.tif",
        "PS-RGB/AOI_7_Moscow_PS-RGB_chip2.tif",
        *LABELS,
    ]
    assert "roadseg init --images data/SN5_roads/train/AOI_7_Moscow/PS-RGB --labels" in done.stdout


def test_a_city_that_is_there_asks_for_nothing(download):
    download("7_Moscow", "data/")
    done, asked = download("7_Moscow", "data/")
    assert (done.returncode, asked) == (0, [])


def test_eight_bands_come_from_the_same_tarball_beside_what_is_there(download, tmp_path):
    download("7_Moscow", "data/")
    done, asked = download("7_Moscow", "data/", "PS-MS", "MS")
    assert (done.returncode, [call.split()[0] for call in asked]) == (0, ["head"]), done.stderr
    kinds = {name.split("/")[0] for name in files(tmp_path / MOSCOW)}
    assert {"PS-RGB", "PS-MS", "MS", "geojson_roads_speed"} <= kinds


def test_a_broken_download_goes_on_where_it_stopped(download, tmp_path):
    done, _ = download("7_Moscow", "data/", STOP_AT="100")
    tarball = tmp_path / "data/SN5_roads/train/SN5_roads_train_AOI_7_Moscow.tar.gz"
    assert (done.returncode, tarball.stat().st_size) == (1, 100)
    assert "run the same command again to go on" in done.stderr
    assert not (tmp_path / MOSCOW).exists()
    done, asked = download("7_Moscow", "data/")
    assert (done.returncode, len(asked)) == (0, 2), done.stderr
    assert len(files(tmp_path / MOSCOW)) == 5


def test_san_juan_has_images_alone_and_is_for_prediction(download, tmp_path):
    done, asked = download("9_San_Juan", "data/", "PS-RGB", "PS-MS")
    assert asked[0].endswith("/SN5_roads_test_public_AOI_9_San_Juan.tar.gz")
    assert files(tmp_path / "data/SN5_roads/test_public/AOI_9_San_Juan") == [
        "PS-MS/AOI_9_San_Juan_PS-MS_chip98.tif",
        "PS-RGB/AOI_9_San_Juan_PS-RGB_chip98.tif",
    ]
    assert "roadseg predict --checkpoint" in done.stdout


def test_roads_of_spacenet_3_have_a_tarball_and_images_without_them_go_aside(download, tmp_path):
    done, asked = download("2_Vegas", "data")
    name = f"{BUCKET}/SN3_roads/tarballs/SN3_roads_train_AOI_2_Vegas"
    both = [f"{name}.tar.gz", f"{name}_geojson_roads_speed.tar.gz"]
    assert asked == [f"{how} {url}" for how in ("head", "get") for url in both]
    assert files(tmp_path / "data/SN3_roads/train/AOI_2_Vegas") == [
        "PS-RGB-unlabelled/AOI_2_Vegas_PS-RGB_img2.tif",
        "PS-RGB/AOI_2_Vegas_PS-RGB_img1.tif",
        "geojson_roads_speed/vegas_geojson_roads_speed_img1.geojson",
    ]
    assert "1 of PS-RGB have no labels" in done.stderr


def test_a_damaged_tarball_is_not_unpacked(download, bucket, tmp_path):
    tarball = bucket[0] / "SN5_roads_train_AOI_7_Moscow.tar.gz"
    tarball.write_bytes(tarball.read_bytes()[:-1] + b"?")
    done, _ = download("7_Moscow", "data/")
    assert done.returncode == 3
    assert re.search(r"is damaged: its MD5 is \w{32}, expected \w{32}; delete it", done.stderr)
    assert not (tmp_path / MOSCOW).exists()


def test_a_tarball_without_the_images_is_an_error(download, bucket, tmp_path):
    _, digests = bucket
    name = "SN5_roads_train_AOI_7_Moscow"
    new = pack(bucket[0] / f"{name}.tar.gz", ["AOI_7_Moscow/PAN/a_chip1.tif"])
    script = tmp_path / SCRIPT.name
    script.write_text(script.read_text().replace(digests[name], new))
    done, _ = download("7_Moscow", "data/")
    assert (done.returncode, "hold no files of PS-RGB and" in done.stderr) == (1, True)


@pytest.mark.parametrize(("spare", "code"), [(-1, 3), (0, 0)])
def test_the_room_for_download_and_unpacking_is_looked_at_first(download, bucket, spare, code):
    size = (bucket[0] / "SN5_roads_train_AOI_7_Moscow.tar.gz").stat().st_size
    need_kib = -(-(size + size * 50 // 100) // 1024)
    done, asked = download("7_Moscow", "data/", FREE_KIB=str(need_kib + spare))
    assert (done.returncode, len(asked)) == (code, 1 if code else 2), done.stderr


def test_a_name_that_the_bucket_lacks_is_told_with_its_address(download, bucket):
    (bucket[0] / "SN5_roads_train_AOI_7_Moscow.tar.gz").unlink()
    done, _ = download("7_Moscow", "data/", SPACENET_URL="http://mirror")
    assert done.returncode == 1
    assert "http://mirror/spacenet/SN5_roads/tarballs/SN5_roads_train_AOI_7" in done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "expected a city, a folder"),
        (("Moscow", "data/"), "there is no city Moscow, expected one of 2_Vegas"),
        (("7_Moscow", "data/", "RGB"), "there are no images RGB, expected some of PS-RGB"),
    ],
)
def test_wrong_words_are_told_with_the_right_ones(download, words, told):
    done, asked = download(*words)
    assert (done.returncode, asked, told in done.stderr) == (2, [], True), done.stderr


def test_every_city_has_a_digest_for_each_of_its_tarballs():
    text = SCRIPT.read_text()
    found = dict(re.findall(r"^  (\d_\w+)\).*? md5s=\"?([0-9a-f ]+)\"? ;;$", text, re.MULTILINE))
    assert {city: len(md5s.split()) for city, md5s in found.items()} == (
        dict.fromkeys(("2_Vegas", "3_Paris", "4_Shanghai", "5_Khartoum"), 2)
        | dict.fromkeys(("7_Moscow", "8_Mumbai", "9_San_Juan"), 1)
    )
    assert all(len(md5) == 32 for md5s in found.values() for md5 in md5s.split())
