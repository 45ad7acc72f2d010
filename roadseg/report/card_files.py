"""Model cards: Markdown in the folder of a checkpoint."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import safe_open

from roadseg.learn.network.checkpoint_facts import MODEL
from roadseg.report.run_facts import METRIC_TITLES
from roadseg.system.files import atomic_write
from roadseg.system.fingerprints import file_sha256

CARD = "model_card.md"

_FEW_CHIPS = 20  # Fewer held-out chips measure little.
_SHOWN = ("loss", "iou", "f1")  # Scores of folds that a card of a training on all chips lists.

Card = Mapping[str, Any]

# Buffers of batch norm, which are not trained and so not counted as parameters.
_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def read_weights(path: Path) -> dict[str, Any]:
    """Return what a card says of weights: file, bytes, digest and trained numbers."""
    return {
        "file": path.name,
        "bytes": path.stat().st_size,
        "sha256": file_sha256(path),
        "parameters": _count_parameters(path),
    }


def write_card(folder: Path, card: Card) -> None:
    """Write a card into the folder of a checkpoint; one that has not changed keeps its time.

    Raises:
        OutputError: if it cannot be written.
    """
    path, content = folder / CARD, card_text(card).encode()
    if not path.is_file() or path.read_bytes() != content:
        with atomic_write(path) as partial:
            partial.write_bytes(content)


def _count_parameters(path: Path) -> int:
    """Count the trained numbers in a checkpoint by their shapes alone."""
    with safe_open(path, "numpy") as file:
        return sum(
            math.prod(file.get_slice(name).get_shape())
            for name in file.keys()  # noqa: SIM118 - it is not a mapping
            if name.startswith(MODEL) and not name.endswith(_STATISTICS)
        )


def card_text(card: Card) -> str:
    """Return in Markdown what a card says.

    Args:
        card: as `cards.write_model_card` makes it; `evaluation` may be missing.
    """
    sections: dict[str, Iterator[str]] = {
        "Use": _use(),
        "Input": _input(card),
        "Output": _output(card),
        "Training": _training(card),
        "Images and labels": _sources(card),
        "Metrics": _metrics(card),
        "Limits": _limits(card),
        "Made with": _made_with(card),
    }
    parts = [f"# {card['title']}"]
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


def _input(card: Card) -> Iterator[str]:
    data, (images, scaling) = card["input"], (card["imagery"], card["input"]["scaling"])
    yield f"- Bands, in this order: {', '.join(data['bands'])}"
    yield f"- Pixels of {_span(images['gsd_range_m'])} m on the ground"
    yield f"- Pixel types: {', '.join(scaling['ranges'])}"
    if images["nodata"] is not None:
        yield f"- No data where all bands are {images['nodata']:g}"
    yield "- Every band is mapped to 0..255, then the mean is subtracted and the rest divided by"
    yield "  the standard deviation:"
    yield ""
    heads = ["band", *(f"{name} to 0..255" for name in scaling["ranges"])]
    yield _row([*heads, "mean", "standard deviation"])
    yield _row(["---"] * (len(heads) + 2))
    ranges = zip(*scaling["ranges"].values(), strict=True)
    columns = data["bands"], ranges, scaling["mean"], scaling["std"]
    for name, limits, mean, std in zip(*columns, strict=True):
        spans = [f"{low:g} to {high:g}" for low, high in limits]
        yield _row([name, *spans, f"{mean:.2f}", f"{std:.2f}"])


def _output(card: Card) -> Iterator[str]:
    classes = card["output"]["classes"]
    yield f"One logit per pixel and class ({len(classes)} classes): {', '.join(classes)}."
    yield "Apply the logistic function to get probabilities; a pixel can belong to several classes."
    if sizes_m := card["input"].get("pixel_sizes_m"):
        sizes = " and ".join(f"{size_m:g}" for size_m in sizes_m)
        yield f"Every window is seen with pixels of {sizes} m, and the mean of the logits counts."
    if (threshold := card["output"].get("threshold")) is not None:
        by_set = card["output"].get("thresholds", {}).items()
        of_sets = "".join(f", of {name} {best:g}" for name, best in by_set)
        yield ""
        yield f"A pixel is road if the probability of any road is at least {threshold:g}{of_sets}."
        yield "This threshold has the highest IoU on held-out pixels."


def _training(card: Card) -> Iterator[str]:
    data, validation, network = card["training"], card["validation"], card["network"]
    parameters = card["weights"]["parameters"] / 1e6
    yield (
        f"- Network: {network['architecture']} with encoder {network['encoder']}, "
        f"{parameters:.1f} million parameters"
    )
    source = network["started_from"]
    yield f"- Started from {f'weights `{source}`' if source else 'random weights'}"
    yield f"- Best epoch: {data['best_epoch']} of {data['epochs']}"
    yield f"- Training area: {data['area_km2']:.2f} km2 in {data['chips']} chips{_where(card)}"
    if data["road_km"] is not None:
        yield f"- Labelled roads there: {data['road_km']:.2f} km"
    if data["fold"] == "all":
        folds = " and ".join(f"fold {fold}" for fold in validation["folds"])
        yield f"- Held out: nothing; trained for as many epochs as worked best without {folds}"
    else:
        yield f"- Held out: fold {data['fold']}, {validation['chips']} chips"
    settings = network["settings"].items()
    yield "- Settings: " + ", ".join(f"{name} {_plain(value)}" for name, value in settings)


def _where(card: Card) -> str:
    if card["degrees"] is None:
        return ", without georeference"
    west, south, east, north = card["degrees"]
    return f", within longitude {west:.4f} to {east:.4f} and latitude {south:.4f} to {north:.4f}"


def _sources(card: Card) -> Iterator[str]:
    images, labels = card["imagery"], card["labels"]
    yield f"- Images: {_files(images['files'])}; licence: {images['licence'] or 'not given'}"
    yield f"- Labels: {_files(labels['files'])}; licence: {labels['licence'] or 'not given'}"
    yield from (f"- Labels are from {credit}" for credit in labels.get("credits", ()))
    yield f"- Scheme of the labels: {', '.join(labels['schemes']) or 'not known'}"


def _metrics(card: Card) -> Iterator[str]:
    validation = card["validation"]
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
    evaluation = card.get("evaluation")
    yield ""
    if evaluation is None:
        yield "The road graph has not been measured; `roadseg evaluate` adds that here."
        return
    yield f"On {evaluation['chips']} held-out chips, {evaluation['reference_km']:.2f} km of road:"
    yield ""
    yield _row(["metric", "value"])
    yield _row(["---"] * 2)
    for title, name in METRIC_TITLES.items():
        if evaluation.get(name) is not None:
            yield _row([title, f"{evaluation[name]:.3f}"])


def _limits(card: Card) -> Iterator[str]:
    size = _span(card["imagery"]["gsd_range_m"])
    types = " and ".join(card["input"]["scaling"]["ranges"])
    yield f"- It was trained only on pixels of {size} m, of type {types}, with these bands."
    if not card["labels"]["have_speeds"]:
        yield "- Its labels state no speeds: all roads get the same assumed speed."
    if card["degrees"] is None:
        yield "- Its training chips have no georeference, so their location is unknown."
    else:
        yield "- It has not been tested in other places and seasons, or with other sensors."
    chips, fold = card["validation"]["chips"], card["training"]["fold"]
    if fold == "all":
        yield "- It was trained on all chips of its run, so results there prove nothing. Its"
        yield "  figures are those of other networks, and do not apply far from the training area."
    else:
        yield f"- Fold {fold} was held out, but it chose the best epoch: the metrics"
        yield "  are slightly optimistic, and do not apply far from the training area."
    if 0 < chips < _FEW_CHIPS:
        yield f"- {chips} held-out chips are few: another fold may give different metrics."
    if card["training"]["area_km2"] < 1:
        yield "- It was trained on less than 1 km2."
    yield "- The network also learns errors of the labels, such as missing roads."


def _made_with(card: Card) -> Iterator[str]:
    weights = card["weights"]
    yield f"- Command: `{card['training']['command']}`"
    versions = card["versions"].items()
    yield "- Versions: " + ", ".join(f"{name} {version}" for name, version in versions)
    size = f"{weights['bytes'] / 1e6:.1f} MB"
    yield f"- Weights: ./{weights['file']}, {size}, SHA-256 {weights['sha256']}"


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
