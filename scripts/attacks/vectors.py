"""Hostile road files: labels and the sides of a comparison."""

import gzip
import json
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import geopandas
import numpy as np
import shapely
from harness import Case, spoiled

Files = dict[str, Callable[..., None]]
Make = Callable[[Path, Path], None]

_COMMANDS = {
    "score": ["score", "roads/city_0.geojson", "{}"],
    "scored": ["score", "{}", "roads/city_0.geojson"],
    "prepare": ["prepare", "--set", 'labels.roads=["{}"]', "--set", "split.folds=2"],
    "diff": ["diff", "{}", "--reference", "roads/city_0.geojson", "--output", "diff.gpkg"],
    "init": ["init", "--labels", "{}", "--images", "images", "--force"],
}
_TRUTH = "roads/city_0.geojson"
_SRS = "GEOGCS wgs84"


def cases(count: int, rng: Random) -> Iterator[Case]:
    """Yield the attacks that are known, and then random ones up to a number."""
    known = list(_known())
    yield from known[:count]
    kinds: dict[str, Make] = {
        "spoiled.geojson": _geojson,
        "spoiled.gpkg": _gpkg,
        "spoiled.csv": _csv,
    }
    kinds |= {"spoiled.gml": _other("GML"), "spoiled.kml": _other("KML")}
    kinds |= {"spoiled.fgb": _other("FlatGeobuf"), "spoiled.graphml": _graphml}
    for number in range(count - len(known)):
        name, make = rng.choice(list(kinds.items()))
        command = rng.choice(list(_COMMANDS))
        write = partial(_spoil, name=name, make=make, rng=rng)
        yield Case(f"{name} {number} {command}", _words(command, name), write)


def _known() -> Iterator[Case]:
    files = {**_json_files(), **_text_files(), **_packed_files()}
    for (name, write), command in product(files.items(), ("score", "scored", "prepare")):
        yield Case(f"{name} {command}", _words(command, name), partial(write, name=name))


def _words(command: str, name: str) -> list[str]:
    return [word.replace("{}", name) for word in _COMMANDS[command]]


def _spoil(folder: Path, *, name: str, make: Make, rng: Random) -> None:
    """Write a valid file, and then a spoiled one in its place."""
    path = folder / name
    make(folder, path)
    path.write_bytes(spoiled(path.read_bytes(), rng))


def _geojson(folder: Path, path: Path) -> None:
    path.write_bytes((folder / _TRUTH).read_bytes())


def _gpkg(folder: Path, path: Path) -> None:
    geopandas.read_file(folder / _TRUTH).to_file(path, layer="roads", driver="GPKG")


def _other(driver: str) -> Make:
    def make(folder: Path, path: Path) -> None:
        geopandas.read_file(folder / _TRUTH).to_file(path, driver=driver)

    return make


def _csv(_: Path, path: Path) -> None:
    path.write_text(
        "ImageId,WKT_Pix,length_m,travel_time_s\n"
        'city_0,"LINESTRING (0 21.3, 32 21.3)",32,2.9\n'
        'city_0,"LINESTRING (32 21.3, 64 21.3)",32,2.9\n'
    )


def _graphml(_: Path, path: Path) -> None:
    path.write_text(
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
        '<key id="x" for="node" attr.name="x" attr.type="double"/>'
        '<key id="y" for="node" attr.name="y" attr.type="double"/>'
        '<graph edgedefault="directed"><data key="crs">epsg:32611</data>'
        '<node id="1"><data key="x">660000</data><data key="y">3999980</data></node>'
        '<node id="2"><data key="x">660064</data><data key="y">3999980</data></node>'
        '<edge source="1" target="2"/></graph></graphml>'
    )


def _collection(
    *shapes: dict[str, Any], properties: dict[str, Any] | None = None
) -> dict[str, Any]:
    features = [
        {"type": "Feature", "properties": properties or {}, "geometry": shape} for shape in shapes
    ]
    return {"type": "FeatureCollection", "features": features}


def _line(*coordinates: list[float]) -> dict[str, Any]:
    return {"type": "LineString", "coordinates": list(coordinates)}


def _json_files() -> Files:
    """Return GeoJSON whose shapes, numbers or values are absurd."""
    here = [-115.218, 36.13]
    walk = np.cumsum(np.random.default_rng(0).normal(0, 1e-6, (1_000_000, 2)), axis=0) + here
    turn = np.arange(1_000_000) / 50
    spiral = here + 5e-8 * turn[:, None] * np.column_stack([np.cos(turn), np.sin(turn)])
    contents: dict[str, str | Callable[[], dict[str, Any]]] = {
        "million_vertices.geojson": lambda: _collection(_line(*walk.tolist())),
        "spiral.geojson": lambda: _collection(_line(*spiral.tolist())),
        "straight_million.geojson": lambda: _collection(
            _line(*[[here[0] + i * 1e-9, here[1]] for i in range(1_000_000)])
        ),
        "one_point_million_times.geojson": lambda: _collection(_line(*[here] * 1_000_000)),
        "comb.geojson": lambda: _collection(
            *[_line([here[0] + i * 1e-7, 36.0], [here[0] + i * 1e-7, 36.2]) for i in range(3000)],
            *[_line([-115.3, 36 + i * 1e-7], [-115.1, 36 + i * 1e-7]) for i in range(3000)],
        ),
        "around_the_world.geojson": lambda: _collection(_line([-180, 0], [180, 0])),
        "pole_to_pole.geojson": lambda: _collection(_line([0, -90], [0, 90])),
        "star.geojson": lambda: _collection(
            *[
                _line(here, [here[0] + np.cos(i) / 1e3, 36.13 + np.sin(i) / 1e3])
                for i in range(9999)
            ]
        ),
        "million_lines.geojson": lambda: _collection(
            *[_line(here, [here[0] + 1e-5, 36.13])] * 200_000
        ),
        "many_keys.geojson": lambda: _collection(
            _line(here, [here[0] + 1e-4, 36.13]), properties={f"k{i}": i for i in range(20_000)}
        ),
        "speeds.geojson": lambda: _collection(
            *[
                {"type": "LineString", "coordinates": [here, [here[0] + 1e-4 * i, 36.13]]}
                for i in range(1, 9)
            ],
            properties={"inferred_speed_mph": -1e308, "lane_number": "9" * 400},
        ),
    }
    for value in ("1e308", "-1e308", "1e15", "1e-320", "NaN", "Infinity", "1e999", "null", '"x"'):
        text = '{"type":"FeatureCollection","features":[{"type":"Feature","properties":{},'
        text += (
            f'"geometry":{{"type":"LineString","coordinates":[[{value},36],[-115,{value}]]}}}}]}}'
        )
        contents[f"coordinate_{value.strip(chr(34))}.geojson"] = text
    for depth in (100, 10_000, 1_000_000):
        contents[f"nested_{depth}.geojson"] = "[" * depth + "]" * depth
    return {name: partial(_write_json, content=content) for name, content in contents.items()}


def _write_json(folder: Path, *, name: str, content: str | Callable[[], dict[str, Any]]) -> None:
    made = content() if callable(content) else content
    (folder / name).write_text(made if isinstance(made, str) else json.dumps(made))


def _text_files() -> Files:
    """Return CSV of WKT and XML made to exhaust or to mislead a reader."""
    head = "ImageId,WKT_Pix,length_m,travel_time_s\n"
    many = ",".join(f"{i} {i}" for i in range(1_000_000))
    wkts = {
        "nan": "LINESTRING (nan nan, 1 1)",
        "nan_second": "LINESTRING (0 0, 1 nan)",
        "inf": "LINESTRING (inf 0, 1 1)",
        "1e308": "LINESTRING (1e308 1e308, -1e308 1e308)",
        "million": f"LINESTRING ({many})",
        "nested": "GEOMETRYCOLLECTION (" * 10_000 + ")" * 10_000,
        "empty": "LINESTRING EMPTY",
        "point": "POINT (0 0)",
        "no_end": "LINESTRING (0 0, 1",
    }
    texts = {f"wkt_{name}.csv": f'{head}city_0,"{wkt}",1,1\n' for name, wkt in wkts.items()}
    entities = "".join(f'<!ENTITY e{i} "{("&e" + str(i - 1) + ";") * 10}">' for i in range(1, 12))
    bomb = f'<!DOCTYPE a [<!ENTITY e0 "x">{entities}]>'
    for suffix in ("gml", "kml", "gpx", "osm", "graphml"):
        texts[f"entities.{suffix}"] = f'<?xml version="1.0"?>{bomb}<a>&e11;</a>'
        texts[f"deep.{suffix}"] = "<a>" * 200_000 + "</a>" * 200_000
        texts[f"outside.{suffix}"] = (
            '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>'
        )
    texts["log.csv"] = "a,b\n" * 2_000_000
    texts["null.geojsonl"] = "null\n" * 100_000
    return {name: partial(_write_json, content=text) for name, text in texts.items()}


def _packed_files() -> Files:
    """Return archives that unpack to far more than they are, and shapes of other formats."""
    return {
        "bomb.geojson.gz": _write_gzip_bomb,
        "bomb.zip": _write_zip_bomb,
        "itself.zip": _write_zip_of_text,
        "circular.fgb": _write_huge_fgb,
    }


def _write_gzip_bomb(folder: Path, *, name: str) -> None:
    with gzip.open(folder / name, "wb", compresslevel=9) as file:
        file.write(b'{"type":"FeatureCollection","features":[')
        for _ in range(500):
            file.write(b" " * 10**6)
        file.write(b"]}")


def _write_zip_bomb(folder: Path, *, name: str) -> None:
    with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("roads.geojson", b"[" * 300_000_000)


def _write_zip_of_text(folder: Path, *, name: str) -> None:
    with zipfile.ZipFile(folder / name, "w") as archive:
        archive.writestr("../../../tmp/evil.geojson", (folder / _TRUTH).read_bytes())


def _write_huge_fgb(folder: Path, *, name: str) -> None:
    lines = [shapely.LineString([(0, i), (1e300, i)]) for i in range(10)]
    geopandas.GeoDataFrame(geometry=lines, crs="EPSG:32611").to_file(
        folder / name, driver="FlatGeobuf"
    )
