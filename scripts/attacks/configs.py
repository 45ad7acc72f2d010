"""Hostile configs and `--set`: every setting at its extremes, and files that exhaust a reader."""

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import rasterio
from harness import Case, spoiled
from pydantic import BaseModel
from rasterio.transform import from_origin

from roadseg.config import Config

_HUGE = 10**400
_NUMBERS: list[object] = [
    0,
    -1,
    1,
    7,
    1e-300,
    -1e-300,
    1e300,
    1.5,
    2**31,
    2**63,
    2**64,
    _HUGE,
    "NaN",
    "Infinity",
]
_TEXTS = [
    "",
    "\0",
    "a\nb",
    "x" * 10**6,
    "\ud800",
    "~nobody/x",
    "../" * 2000,
    "/dev/null",
    "-",
    "//",
]
_TEXTS += ["/proc/self/mem", "https://[", "/vsicurl/http://[::1", "EPSG:99999999999", "*" * 300]
_OTHERS: list[object] = [
    None,
    True,
    [],
    {},
    [[]],
    [None],
    [1e308, -1e308],
    {"1": 1},
    {"0": 0},
    {"-1": "x"},
]
_COMMANDS = {
    "imagery": [["prepare"]],
    "labels": [["prepare"]],
    "split": [["prepare"]],
    "graph": [["graph", "--output", "out", "mask.tif"]],
    "": [["prepare"]],
}


def cases(count: int, rng: Random) -> Iterator[Case]:
    """Yield the attacks that are known, every setting at its extremes, and then random ones."""
    attacks = [*_known(), *_extremes()]
    if count < len(attacks):
        attacks = attacks[:20] + rng.sample(attacks[20:], max(0, count - 20))
    yield from attacks[:count]
    for number in range(count - len(attacks)):
        write = partial(_write_spoiled, rng=rng)
        yield Case(f"spoiled config {number}", ["prepare", "--dry-run"], write)


def _known() -> Iterator[Case]:
    texts = {
        "60 MB of numbers": lambda: '{"labels": {"bin_edges": [' + "1," * 30_000_000 + "1]}}",
        "10 MB of numbers": lambda: '{"imagery": {"bands": [' + "1," * 5_000_000 + "1]}}",
        "10 MB of texts": lambda: '{"imagery": {"images": [' + '"a",' * 2_500_000 + '"a"]}}',
        "10 MB of keys": lambda: json.dumps({"train": {f"k{i}": 0 for i in range(800_000)}}),
        "deep": lambda: '{"run": ' + "[" * 100_000 + "]" * 100_000 + "}",
        "deep keys": lambda: '{"a":' * 50_000 + "1" + "}" * 50_000,
        "a huge number": lambda: '{"train": {"epochs": ' + "9" * 1_000_000 + "}}",
        "a list": lambda: "[1, 2]",
        "nothing": lambda: "",
        "twice": lambda: '{"run": "a", "run": "b"}',
    }
    for name, text in texts.items():
        yield Case(name, ["prepare", "--dry-run"], partial(_write, text=text))
    for words in (["--run", "~nobody/x"], ["--run", "x" * 5000], ["--workers", "1000000"]):
        yield Case(" ".join(words)[:40], ["prepare", *words])
    for words in (["--spacing-m", "1e-300"], ["--tolerance-m", "1e300"], ["--snap-m", "nan"]):
        yield Case(
            " ".join(words), ["score", "roads/city_0.geojson", "roads/city_0.geojson", *words]
        )
    yield Case("2000 workers", ["prepare", "--set", "compute.workers=2000"])
    yield Case("fine pixels", ["prepare", "--set", "imagery.gsd_m=0.001"])


def _extremes() -> Iterator[Case]:
    """Yield every setting at each of its extremes, for the command that it matters to."""
    for key, is_number in _settings(Config):
        section = key.partition(".")[0] if "." in key else ""
        values: list[object] = [*_OTHERS, *(_NUMBERS if is_number else _TEXTS)]
        for value, command in _pairs(values, _COMMANDS.get(section, [["prepare", "--dry-run"]])):
            write = partial(_write_setting, key=key, value=value, mask=section == "graph")
            yield Case(f"{key} = {value!r:.40}", command, write)


def _pairs(
    values: Iterable[object], commands: Iterable[list[str]]
) -> list[tuple[object, list[str]]]:
    return [(value, command) for value in values for command in commands]


def _settings(section: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, bool]]:
    """Yield the dotted key of every setting, and whether it takes numbers."""
    for name, field in section.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _settings(kind, f"{prefix}{name}.")
        else:
            yield prefix + name, "int" in str(kind) or "float" in str(kind)


def _write_setting(folder: Path, *, key: str, value: object, mask: bool) -> None:
    if mask:
        _draw_mask(folder / "mask.tif")
    values = json.loads((folder / "roadseg.json").read_text())
    *sections, name = key.split(".")
    inside = values
    for section in sections:
        inside = inside.setdefault(section, {})
    inside[name] = value
    text = json.dumps(values)
    for word in ("NaN", "Infinity"):
        text = text.replace(f'"{word}"', word)
    (folder / "roadseg.json").write_text(text)


def _draw_mask(path: Path) -> None:
    pixels = np.zeros((300, 300), np.uint8)
    pixels[100:106] = pixels[:, 150:156] = 1
    pixels[200:206, :140] = pixels[200:206, 170:] = 1
    options = {"crs": "EPSG:32611", "transform": from_origin(660000, 4000000, 1, 1)}
    with rasterio.open(
        path, "w", driver="GTiff", height=300, width=300, count=1, dtype="uint8", **options
    ) as target:
        target.write(pixels, 1)


def _write(folder: Path, *, text: Callable[[], str]) -> None:
    (folder / "roadseg.json").write_text(text())


def _write_spoiled(folder: Path, *, rng: Random) -> None:
    path = folder / "roadseg.json"
    full = Config.model_validate_json(path.read_text()).model_dump_json(indent=1)
    path.write_bytes(spoiled(full.encode(), rng))
