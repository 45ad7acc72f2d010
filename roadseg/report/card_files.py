"""Model cards: a STAC item for machines and Markdown for people, in the folder of a checkpoint."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from safetensors import safe_open

from roadseg.learn.network.checkpoint_facts import MODEL
from roadseg.report.stac_mlm import CARD_JSON, CARD_TEXT, Weights
from roadseg.system.files import atomic_write
from roadseg.system.fingerprints import file_sha256
from roadseg.system.records import read_json

TRAINING, VALIDATION = "roadseg:training", "roadseg:validation"
IMAGES, LABELS = "roadseg:imagery", "roadseg:labels"
EVALUATION = "roadseg:evaluation"  # Only after `roadseg evaluate`.

_FEW_CHIPS = 20  # Fewer held-out chips measure little.
_METRICS = {
    "iou": "IoU of pixels",
    "f1": "F1 of pixels",
    "apls_length": "APLS by length, mean over chips",
    "apls_time": "APLS by time, mean over chips",
    "topo_f1": "TOPO F1",
    "correctness": "correctness",
    "completeness": "completeness",
    "breaks_per_km": "breaks per km of road",
    "junction_f1": "F1 of junctions",
}
_SHOWN = (
    "loss",
    "iou",
    "f1",
)  # Scores of the folds that the card of a network trained on all chips lists.

Item = Mapping[str, Any]

# Buffers of batch norm, which are not trained and so not counted as parameters.
_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def read_weights(path: Path) -> Weights:
    """Return the size, digest, parameters and date of a file of weights."""
    status = path.stat()
    written = datetime.fromtimestamp(int(status.st_mtime), UTC)
    return Weights(
        name=path.name,
        size=status.st_size,
        sha256=file_sha256(path),
        parameters=_count_parameters(path),
        written=written.strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


def write_card(folder: Path, item: Mapping[str, Any]) -> None:
    """Write both forms of a card into the folder of a checkpoint, where they have changed.

    If the weights are the same as before, the card keeps its date and its evaluation: the time of
    the file of weights would change with every copy.

    Raises:
        OutputError: if they cannot be written.
    """
    earlier = _read(folder)
    properties = dict(item["properties"])
    if earlier and earlier["assets"] == item["assets"]:
        unchanged = {"datetime", EVALUATION} & earlier["properties"].keys()
        properties |= {name: earlier["properties"][name] for name in unchanged}
    _write(folder, {**item, "properties": properties})


def add_evaluation(folder: Path, metrics: Mapping[str, Any], *, predicted: Path) -> None:
    """Add the metrics on held-out scenes to the card of a checkpoint.

    Nothing is written where there is no card, or the weights are newer than the predictions that
    were measured.

    Raises:
        OutputError: if it cannot be written.
    """
    item = _read(folder)
    if item is None:
        return
    # Only the name counts, so that no card leads out of the folder.
    weights = folder / Path(item["assets"]["weights"]["href"]).name
    if weights.is_file() and weights.stat().st_mtime <= predicted.stat().st_mtime:
        properties = {**item["properties"], EVALUATION: dict(metrics)}
        _write(folder, {**item, "properties": properties})


def _read(folder: Path) -> dict[str, Any] | None:
    """Return the card of a checkpoint; None if there is none, or another file in its place."""
    with suppress(ValueError, LookupError, TypeError):
        item = dict(read_json(folder / CARD_JSON))
        if isinstance(item["properties"], dict) and Path(item["assets"]["weights"]["href"]).name:
            return item
    return None


def _write(folder: Path, item: Mapping[str, Any]) -> None:
    for name, text in (
        (CARD_JSON, json.dumps(item, indent=2) + "\n"),
        (CARD_TEXT, card_text(item)),
    ):
        path = folder / name
        # A card that has not changed keeps its time.
        if not path.is_file() or path.read_bytes() != text.encode():
            with atomic_write(path) as partial:
                partial.write_bytes(text.encode())


def _count_parameters(path: Path) -> int:
    """Count the trained numbers in a checkpoint by their shapes alone."""
    with safe_open(path, "numpy") as file:
        return sum(
            math.prod(file.get_slice(name).get_shape())
            for name in file.keys()  # noqa: SIM118 - it is no mapping
            if name.startswith(MODEL) and not name.endswith(_STATISTICS)
        )


def card_text(item: Item) -> str:
    """Return in Markdown what the STAC item of a network says (`stac_mlm.mlm_item`).

    Args:
        item: with the properties named by the constants above; `EVALUATION` may be missing.
    """
    properties = item["properties"]
    sections: dict[str, Iterator[str]] = {
        "Use": _use(),
        "Input": _input(properties),
        "Output": _output(properties),
        "Training": _training(item),
        "Images and labels": _sources(properties),
        "Metrics": _metrics(properties),
        "Limits": _limits(item),
        "Made with": _made_with(item),
    }
    parts = [f"# {properties['title']}"]
    for title, lines in sections.items():
        parts += [f"## {title}", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def _use() -> Iterator[str]:
    yield "Finds roads in satellite and aerial images, to be traced into a road graph. Check the"
    yield "results before you rely on them."
    yield ""
    yield "```"
    yield "roadseg predict --checkpoint THIS_FOLDER --output out image.tif"
    yield "roadseg graph --output graphs out/image.tif"
    yield "```"


def _input(properties: Item) -> Iterator[str]:
    data = properties[IMAGES]
    names = properties["mlm:input"][0]["bands"]
    yield f"- Bands, in this order: {', '.join(names)}"
    yield f"- Pixels of {_span(data['gsd_range_m'])} m on the ground"
    yield f"- Pixel types: {', '.join(properties['roadseg:scaling'])}"
    if data["nodata"] is not None:
        yield f"- No data where all bands are {data['nodata']:g}"
    yield "- Every band is mapped to 0..255, then the mean is subtracted and the rest divided by"
    yield "  the standard deviation:"
    yield ""
    yield from _scaling_table(properties, names)


def _scaling_table(properties: Item, names: Sequence[str]) -> Iterator[str]:
    types = properties["roadseg:scaling"]
    heads = [f"{name} to 0..255" for name in types]
    yield _row(["band", *heads, "mean", "standard deviation"])
    yield _row(["---"] * (len(heads) + 3))
    for number, (name, scale) in enumerate(
        zip(names, properties["mlm:input"][0]["value_scaling"], strict=True)
    ):
        limits = [f"{bands[number][0]:g} to {bands[number][1]:g}" for bands in types.values()]
        yield _row([name, *limits, f"{scale['mean']:.2f}", f"{scale['stddev']:.2f}"])


def _output(properties: Item) -> Iterator[str]:
    classes = [
        each["description"] for each in properties["mlm:output"][0]["classification:classes"]
    ]
    yield f"One logit per pixel and class ({len(classes)} classes): {', '.join(classes)}."
    yield "Apply the logistic function to get probabilities; a pixel can belong to several classes."
    if (threshold := properties.get("roadseg:threshold")) is not None:
        by_set = properties.get("roadseg:thresholds", {}).items()
        of_sets = "".join(f", of {name} {best:g}" for name, best in by_set)
        yield ""
        yield f"A pixel is road if the probability of any road is at least {threshold:g}{of_sets}."
        yield "This threshold has the highest IoU on held-out pixels."


def _training(item: Item) -> Iterator[str]:
    properties = item["properties"]
    data, validation = properties[TRAINING], properties[VALIDATION]
    parameters = properties["mlm:total_parameters"] / 1e6
    yield f"- Network: {properties['mlm:architecture']}, {parameters:.1f} million parameters"
    source = properties["mlm:pretrained_source"]
    yield f"- Started from {f'weights `{source}`' if source else 'random weights'}"
    yield f"- Best epoch: {data['best_epoch']} of {data['epochs']}"
    yield f"- Training area: {data['area_km2']:.2f} km2 in {data['chips']} chips{_where(item)}"
    if data["road_km"] is not None:
        yield f"- Labelled roads there: {data['road_km']:.2f} km"
    if data["fold"] == "all":
        folds = " and ".join(f"fold {fold}" for fold in validation["folds"])
        yield f"- Held out: nothing; trained for as many epochs as worked best without {folds}"
    else:
        yield f"- Held out: fold {data['fold']}, {validation['chips']} chips"
    settings = properties["mlm:hyperparameters"].items()
    yield "- Settings: " + ", ".join(f"{name} {_plain(value)}" for name, value in settings)


def _where(item: Item) -> str:
    if item["geometry"] is None:
        return ", without georeference"
    west, south, east, north = item["bbox"]
    return f", within longitude {west:.4f} to {east:.4f} and latitude {south:.4f} to {north:.4f}"


def _sources(properties: Item) -> Iterator[str]:
    images, labels = properties[IMAGES], properties[LABELS]
    yield f"- Images: {_files(images['files'])}; licence: {images['licence'] or 'not given'}"
    yield f"- Labels: {_files(labels['files'])}; licence: {labels['licence'] or 'not given'}"
    yield from (f"- Labels are from {credit}" for credit in labels.get("credits", ()))
    yield f"- Scheme of the labels: {', '.join(labels['schemes']) or 'not known'}"


def _metrics(properties: Item) -> Iterator[str]:
    validation = properties[VALIDATION]
    if "folds" in validation:
        yield "It was trained on all chips, so it cannot be measured. Networks with a held-out fold"
        yield "reached, at their best epoch:"
        yield ""
        for fold, scores in validation["folds"].items():
            figures = (f"{name} {value:.3f}" for name, value in scores.items() if name in _SHOWN)
            yield f"- fold {fold}: {', '.join(figures)}"
        return
    yield f"On windows of the {validation['chips']} held-out chips, at the best epoch:"
    loss, scores = validation["loss"], f"IoU {validation['iou']:.3f}, F1 {validation['f1']:.3f}"
    yield f"loss {loss:.4f}, {scores} of any road."
    evaluation = properties.get(EVALUATION)
    yield ""
    if evaluation is None:
        yield "The road graph has not been measured; `roadseg evaluate` adds that here."
        return
    yield f"On {evaluation['chips']} held-out chips, {evaluation['reference_km']:.2f} km of road:"
    yield ""
    yield _row(["metric", "value"])
    yield _row(["---"] * 2)
    for name, title in _METRICS.items():
        if evaluation.get(name) is not None:
            yield _row([title, f"{evaluation[name]:.3f}"])


def _limits(item: Item) -> Iterator[str]:
    properties = item["properties"]
    size, types = (
        _span(properties[IMAGES]["gsd_range_m"]),
        " and ".join(properties["roadseg:scaling"]),
    )
    yield f"- It was trained only on pixels of {size} m, of type {types}, with these bands."
    if not properties["roadseg:labels_have_speeds"]:
        yield "- Its labels state no speeds: all roads get the same assumed speed."
    if item["geometry"] is None:
        yield "- Its training chips have no georeference, so their location is unknown."
    else:
        yield "- It has not been tested in other places and seasons, or with other sensors."
    chips = properties[VALIDATION]["chips"]
    fold = properties[TRAINING]["fold"]
    if fold == "all":
        yield "- It was trained on all chips of its run, so results there prove nothing. Its"
        yield "  figures are those of other networks, and do not apply far from the training area."
    else:
        yield f"- Fold {fold} was held out, but it chose the best epoch: the metrics"
        yield "  are slightly optimistic, and do not apply far from the training area."
    if 0 < chips < _FEW_CHIPS:
        yield f"- {chips} held-out chips are few: another fold may give different metrics."
    if properties[TRAINING]["area_km2"] < 1:
        yield "- It was trained on less than 1 km2."
    yield "- The network also learns errors of the labels, such as missing roads."


def _made_with(item: Item) -> Iterator[str]:
    properties, weights = item["properties"], item["assets"]["weights"]
    yield f"- Command: `{properties[TRAINING]['command']}`"
    yield f"- Written: {properties['datetime']}"
    versions = properties["roadseg:versions"].items()
    yield "- Versions: " + ", ".join(f"{name} {version}" for name, version in versions)
    size_mb, digest = weights["file:size"] / 1e6, weights["file:checksum"][4:]
    yield f"- Weights: {weights['href']}, {size_mb:.1f} MB, SHA-256 {digest}"


def _files(files: Mapping[str, Any]) -> str:
    names = ", ".join(f"`{name}`" for name in files["names"])
    more = files["count"] - len(files["names"])
    return f"{names} and {more} more" if more > 0 else names


def _span(limits: Sequence[float]) -> str:
    low, high = (f"{limit:.2f}" for limit in limits)
    return low if low == high else f"{low} to {high}"


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return "(" + ", ".join(f"{name} {_plain(one)}" for name, one in value.items()) + ")"
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value)) or "none"
    return str(value)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
