"""STAC item of a trained network, with the Machine Learning Model extension."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import shapely
from shapely import affinity
from shapely.geometry import polygon

from roadseg.dataset.footprints import Corners, areas_apart, unbroken
from roadseg.roads.speeds import SpeedBins

MLM = "https://stac-extensions.github.io/mlm/v1.6.0/schema.json"
FILE = "https://stac-extensions.github.io/file/v2.1.0/schema.json"
CARD_JSON, CARD_TEXT = "model_card.json", "model_card.md"

_GAP_KM = 50.0  # Kilometres; chips at least this far apart have separate outlines.
_DECIMALS = 6  # Decimals of degrees, about 0.1 m.
_SEMANTIC_VERSION = re.compile(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}([-+][0-9A-Za-z.-]+)?")
_NO_NAME_CHARACTER = re.compile(r"[^A-Za-z0-9_-]+")
_THRESHOLDS = ("threshold", "thresholds")  # Facts of checkpoints; not measured by early versions.
_NOT_HYPERPARAMETERS = {
    "architecture",
    "encoder",
    "encoder_weights",
    "init",
    "distributed",
    "tensorboard",
}


@dataclass(frozen=True)
class Weights:
    """The file of a network.

    Attributes:
        name: of the file.
        size: bytes.
        sha256: of its bytes, as hexadecimal digits.
        parameters: numbers that training sets.
        written: date and time in the format of RFC 3339.
    """

    name: str
    size: int
    sha256: str
    parameters: int
    written: str


def mlm_item(
    facts: Mapping[str, Any],
    weights: Weights,
    *,
    degrees: Corners,
    settings: Mapping[str, Any],
    properties: Mapping[str, Any],
) -> dict[str, Any]:
    """Describe a trained network as a STAC item.

    Args:
        degrees: shape (n, 4, 2), longitude and latitude of the corners of the chips that it was
            trained on; n is 0 if they have no georeference.
        properties: further properties, whose names begin with `roadseg:`.

    Source: STAC 1.1.0; MLM extension 1.6.0 (github.com/stac-extensions/mlm); file extension 2.1.0.
    """
    names = band_names(facts)
    bands = [{"name": name} for name in names]
    has_speeds = facts.get("labels_have_speeds", True)
    subject = "Roads and their speeds" if has_speeds else "Roads"
    return {
        "type": "Feature",
        "stac_version": "1.1.0",
        "stac_extensions": [MLM, FILE],
        "id": f"{_name(facts)}-{_fold(facts)}-{weights.sha256[:8]}".replace(" ", "-"),
        **_place(degrees),
        "properties": {
            "datetime": weights.written,
            "title": f"{subject}, {_name(facts)}, {_fold(facts)}{_held_out(facts)}",
            "gsd": facts["gsd_m"],
            "bands": bands,
            "mlm:name": _name(facts),
            "mlm:architecture": f"{facts['architecture']} with encoder {facts['encoder']}",
            "mlm:tasks": ["semantic-segmentation"],
            "mlm:framework": "PyTorch",
            **_version(facts),
            "mlm:total_parameters": weights.parameters,
            **_start(facts),
            "mlm:input": [_input(facts, names)],
            "mlm:output": [_output(facts)],
            "mlm:hyperparameters": {
                key: value
                for key, value in settings.items()
                if value is not None and key not in _NOT_HYPERPARAMETERS
            },
            "roadseg:labels_have_speeds": has_speeds,
            "roadseg:scaling": facts["scaling"]["ranges"],
            **{f"roadseg:{name}": facts[name] for name in _THRESHOLDS if name in facts},
            "roadseg:versions": facts["versions"],
            **properties,
        },
        "links": [],
        "assets": _assets(weights, bands),
    }


def band_names(facts: Mapping[str, Any]) -> list[str]:
    """Return distinct names of the bands that a network reads, in their order."""
    given = facts.get("band_names") or [""] * len(facts["bands"])
    names = [name or f"band {band}" for name, band in zip(given, facts["bands"], strict=True)]
    doubled = len(set(names)) < len(names)
    return [f"{name} ({n})" for n, name in enumerate(names, 1)] if doubled else names


def _name(facts: Mapping[str, Any]) -> str:
    return " ".join(
        _NO_NAME_CHARACTER.sub("-", word)
        for word in ("roadseg", facts["architecture"], facts["encoder"])
    )


def _fold(facts: Mapping[str, Any]) -> str:
    return "all folds" if facts["fold"] == "all" else f"fold {facts['fold']}"


def _held_out(facts: Mapping[str, Any]) -> str:
    return ", none held out" if facts["fold"] == "all" else " held out"


def _version(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the version of torch, if it is a semantic version, as the extension demands."""
    version = facts["versions"]["torch"]
    return {"mlm:framework_version": version} if _SEMANTIC_VERSION.fullmatch(version) else {}


def _start(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the weights that the training started from; of a path only the last part."""
    # Earlier checkpoints only store which weights were requested, not where they came from.
    source = facts.get("init") or facts.get("began_with", facts.get("encoder_weights"))
    source = None if source == "none" else source
    name = str(source).replace("\\", "/").rstrip("/").rpartition("/")[2] if source else None
    return {"mlm:pretrained": source is not None, "mlm:pretrained_source": name}


def _input(facts: Mapping[str, Any], bands: list[str]) -> dict[str, Any]:
    scaling = facts["scaling"]
    return {
        "name": "scene",
        "description": "Windows of a scene, height and width multiples of 32 pixels.",
        "bands": bands,
        "input": {
            "shape": [-1, facts["in_channels"], -1, -1],
            "dim_order": ["batch", "bands", "height", "width"],
            "data_type": "float32",
        },
        "pre_processing_function": {
            "format": "python",
            "expression": "roadseg.raster.scaling:Scaling.apply",
            "description": "Each band to 0..255 by roadseg:scaling, rounded and clipped.",
        },
        "value_scaling": [
            {"type": "z-score", "mean": mean, "stddev": std}
            for mean, std in zip(scaling["mean"], scaling["std"], strict=True)
        ],
    }


def _output(facts: Mapping[str, Any]) -> dict[str, Any]:
    bins = SpeedBins(tuple(facts["bin_edges"]), facts["bin_unit"])
    names = (*bins.names, "any road")
    return {
        "name": "roads",
        "description": "One logit per class; a pixel can belong to several classes.",
        "tasks": ["semantic-segmentation"],
        "result": {
            "shape": [-1, facts["classes"], -1, -1],
            "dim_order": ["batch", "class", "height", "width"],
            "data_type": "float32",
        },
        "classification:classes": [
            {"value": number, "name": _NO_NAME_CHARACTER.sub("-", name), "description": text}
            for number, (name, text) in enumerate(zip(bins.band_names, names, strict=True))
        ],
        "post_processing_function": {"format": "python", "expression": "torch:sigmoid"},
    }


def _assets(weights: Weights, bands: list[dict[str, str]]) -> dict[str, Any]:
    """Return the files; STAC allows bands in properties only if an asset has them too."""
    return {
        "weights": {
            "href": f"./{weights.name}",
            "type": "application/octet-stream; application=safetensors",
            "title": "Weights, and the metadata needed to use them",
            "roles": ["mlm:model", "mlm:weights", "data"],
            "mlm:artifact_type": "safetensors.torch.save_file",
            "bands": bands,
            "file:size": weights.size,
            "file:checksum": f"1220{weights.sha256}",  # A multihash of SHA-256, 32 bytes.
        },
        "card": {
            "href": f"./{CARD_TEXT}",
            "type": "text/markdown",
            "title": "Model card for readers",
            "roles": ["metadata"],
        },
    }


def _place(degrees: Corners) -> dict[str, Any]:
    """Return the outline of chips on earth and the box around them."""
    if len(degrees) == 0:
        return {"geometry": None}
    # Longitudes beyond 180 keep chips on both sides of the date line together.
    whole = unbroken(degrees)
    whole[..., 0] -= 360 * np.floor((whole[..., 0].min() + 180) / 360)
    areas = areas_apart(whole, gap_km=_GAP_KM)
    chips = np.asarray(shapely.polygons(whole), dtype=object)
    hulls = [shapely.union_all(chips[areas == n]).convex_hull for n in range(areas.max() + 1)]
    parts = list(_on_map(shapely.union_all(hulls)))
    outline = parts[0] if len(parts) == 1 else shapely.MultiPolygon(parts)
    west, south = whole.min(axis=(0, 1))
    east, north = whole.max(axis=(0, 1))
    sides = ((west + 180) % 360 - 180, south, (east + 180) % 360 - 180, north)
    return {
        "geometry": shapely.geometry.mapping(outline),
        "bbox": [round(float(side), _DECIMALS) for side in sides],
    }


def _on_map(area: shapely.Geometry) -> Iterator[shapely.Polygon]:
    """Yield the polygons of an area, split at longitude 180 and with longitudes of at most 180."""
    for turn in (0.0, -360.0):
        moved = affinity.translate(area, turn)
        inside = shapely.intersection(moved, shapely.box(-180, -90, 180, 90))
        for part in shapely.get_parts(shapely.set_precision(inside, 10.0**-_DECIMALS)).tolist():
            if part.area > 0:
                yield polygon.orient(part)
