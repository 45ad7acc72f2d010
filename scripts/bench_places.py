#!/usr/bin/env python
"""Train on some places and measure on others, with ground left out between them.

Each task trains networks as `roadseg init --minutes` plans them, and measures them at the run's
own thresholds on ground that is away from the training. Tasks come in pairs: settings are chosen on
one and reported on the other, which trains and tests on other ground.

    python scripts/bench_places.py DATA OUT --task cities:choose --seeds 3 --minutes 5
    python scripts/bench_places.py DATA OUT --task cities:choose --seeds 3 --minutes 5 \
        --name imagenet --set train.encoder_weights=imagenet

With --set checkpoint=starter, nothing is trained, and the starter is measured. With
checkpoint=adapted, it first adapts to the images that it is measured on, as by `roadseg map
--adapt`, without their labels.

DATA has the folders san_diego, tianjin, nyc and open. What is finished in OUT is not repeated, and
all figures found there are printed as one table.

cities:choose   San Diego's two eastern columns and Tianjin without its north; measured on San
                Diego's western column and on Tianjin's north
cities:report   San Diego's two western columns and Tianjin without its south; measured on San
                Diego's eastern column and on Tianjin's south
nyc:choose      the half of New York's images with high numbers; measured on low ones
nyc:report      the other way round
other:choose    New York; measured on San Diego
other:report    San Diego and Tianjin; measured on New York
open:choose     part A of Dubai; measured on its part B
open:report     part A of Massachusetts; measured on its part B
starter:choose  nothing; measured on San Diego, and on the parts B of Dubai and Massachusetts, from
                whose parts A the starter has learned
starter:report  nothing; measured on every fourth image of Tianjin and every third of New York

Left out in between are a column of San Diego (256 m), five places of Tianjin (some km), and 40
images of New York, whose order on the ground is not known.
"""

import argparse
import functools
import json
import operator
import resource
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from PIL import Image

import roadseg
from roadseg.arrays import Bytes, Floats
from roadseg.dataset.edge_calibration import measure_chips, read_calibration
from roadseg.learn.network.checkpoint_facts import read_checkpoint_facts
from roadseg.roads.masks.probabilities import Probability
from roadseg.roads.metrics.compare import Measures, pool
from roadseg.roads.metrics.pixels import Histogram
from roadseg.roads.metrics.reliability import measure_reliability
from roadseg.system.files import atomic_write

NYC_GSD_M, OPEN_GSD_M = 0.9, 1.0
GSD_M = {"nyc": NYC_GSD_M, "dubai": OPEN_GSD_M}  # Of images without georeference.
IGNORED = 255
NEAREST = Image.Resampling.NEAREST
CERTAIN = 255

Stems = Mapping[str, Sequence[str]]  # Names of images without suffix, by city.


@dataclass(frozen=True)
class Task:
    """Images to train on and images to measure on."""

    training: Stems
    testing: Stems


@dataclass(frozen=True)
class Figures:
    """What was measured on one city of a task, with one seed; CPU time is that of the training."""

    iou: float
    best_iou: float
    threshold: float
    best_threshold: float
    apls: float
    quality: float
    ece: float
    cpu_s: float


def folder_of(data: Path, city: str) -> Path:
    """Return the folder with the images and masks of a city."""
    return data / "open" / city if (data / "open" / city).is_dir() else data / city


def stems(data: Path, city: str) -> list[str]:
    """Return the names of all images of a city."""
    return sorted(path.stem for path in (folder_of(data, city) / "images").iterdir())


def san_diego(data: Path, columns: Sequence[int]) -> list[str]:
    """Return the tiles in some columns, numbered from the west."""
    every = stems(data, "san_diego")
    west = min(int(name.split("-")[0]) for name in every)
    return [name for name in every if int(name.split("-")[0]) - west in columns]


def tianjin(data: Path, kept: slice) -> list[str]:
    """Return the images of some places, counted from the north."""
    every = stems(data, "tianjin")
    row_of = {name.split("-18")[0]: name.split("-")[1] for name in every}
    places = sorted(row_of, key=lambda place: (row_of[place], place))
    chosen = set(places[kept])
    return [name for name in every if name.split("-18")[0] in chosen]


def nyc(data: Path, kept: slice) -> list[str]:
    """Return some images in the order of their numbers."""
    return sorted(stems(data, "nyc"), key=int)[kept]


def open_part(data: Path, city: str, part: str) -> list[str]:
    """Return the images of a part of an open set."""
    return (data / "open" / city / f"part_{part}.txt").read_text().split()


TASKS: Mapping[str, Callable[[Path], Task]] = {
    "cities:choose": lambda data: Task(
        {"san_diego": san_diego(data, (2, 3)), "tianjin": tianjin(data, slice(20, None))},
        {"san_diego": san_diego(data, (0,)), "tianjin": tianjin(data, slice(15))},
    ),
    "cities:report": lambda data: Task(
        {"san_diego": san_diego(data, (0, 1)), "tianjin": tianjin(data, slice(-20))},
        {"san_diego": san_diego(data, (3,)), "tianjin": tianjin(data, slice(-15, None))},
    ),
    "nyc:choose": lambda data: Task(
        {"nyc": nyc(data, slice(130, None))}, {"nyc": nyc(data, slice(90))}
    ),
    "nyc:report": lambda data: Task(
        {"nyc": nyc(data, slice(130))}, {"nyc": nyc(data, slice(-90, None))}
    ),
    "other:choose": lambda data: Task(
        {"nyc": stems(data, "nyc")}, {"san_diego": stems(data, "san_diego")}
    ),
    "other:report": lambda data: Task(
        {"san_diego": stems(data, "san_diego"), "tianjin": stems(data, "tianjin")},
        {"nyc": stems(data, "nyc")},
    ),
    "open:choose": lambda data: Task(
        {"dubai": open_part(data, "dubai", "A")}, {"dubai": open_part(data, "dubai", "B")}
    ),
    "open:report": lambda data: Task(
        {"massachusetts": open_part(data, "massachusetts", "A")},
        {"massachusetts": open_part(data, "massachusetts", "B")},
    ),
    "starter:choose": lambda data: Task(
        {},
        {
            "san_diego": stems(data, "san_diego"),
            **{city: open_part(data, city, "B") for city in ("dubai", "massachusetts")},
        },
    ),
    "starter:report": lambda data: Task(
        {}, {"tianjin": stems(data, "tianjin")[::4], "nyc": nyc(data, slice(None, None, 3))}
    ),
}


def mask_of(data: Path, city: str, stem: str) -> Path:
    """Return the mask of an image; images of one place in Tianjin share it."""
    masks = folder_of(data, city) / "masks"
    place = stem.rsplit("_", 1)[0] if city == "tianjin" else stem
    return next(masks.glob(f"{place}.*"))


def image_of(data: Path, city: str, stem: str) -> Path:
    """Return an image."""
    return next((folder_of(data, city) / "images").glob(f"{stem}.*"))


def read_road(data: Path, city: str, stem: str, shape: tuple[int, int]) -> Bytes:
    """Return the mask of an image in the pixels of its prediction: 1 is road, 255 has no label."""
    mask = np.asarray(Image.open(mask_of(data, city, stem)).resize(shape[::-1], NEAREST))
    return np.where(mask == IGNORED, IGNORED, mask > 0).astype(np.uint8)


def link_cities(data: Path, folder: Path, training: Stems) -> list[Path]:
    """Make a folder for each city with links to its images and masks; return the folders."""
    for city, names in training.items():
        for name in names:
            for kind, path in (
                ("images", image_of(data, city, name)),
                ("masks", mask_of(data, city, name)),
            ):
                link = folder / city / kind / path.name
                link.parent.mkdir(parents=True, exist_ok=True)
                if not link.exists():
                    link.symlink_to(path.absolute())
    return [folder / city for city in training]


def train(
    folder: Path, cities: Sequence[Path], settings: Mapping[str, object], *, gsd_m: float | None
) -> Path:
    """Train as `init` plans it, and calibrate the confidence on the fold held out.

    Args:
        gsd_m: size of the pixels to train at, metres; None for that of the images.
    """
    overrides = {"run": str(folder / "run"), **settings}
    if gsd_m is not None:
        overrides["imagery.gsd_m"] = gsd_m
    if len(cities) == 1:
        config = roadseg.init(cities[0] / "images", cities[0] / "masks", overrides=overrides)
    else:
        config = roadseg.init(cities=cities, overrides=overrides)
    roadseg.prepare(config)
    roadseg.train(config, fold=0)
    roadseg.predict_scenes(config)
    roadseg.trace_scenes(config)
    return folder / "run" / "checkpoints" / "fold-0"


def adapt(data: Path, folder: Path, city: str, task: Task, settings: Mapping[str, object]) -> Path:
    """Adapt the starter to the images of a city that it is measured on; return the network."""
    overrides = {key: value for key, value in settings.items() if key != "checkpoint"}
    if city in GSD_M:
        overrides["imagery.gsd_m"] = GSD_M[city]
    images = [image_of(data, city, name) for name in task.testing[city]]
    output = folder / f"map_{city}"
    roadseg.map_roads(images, output, adapt=True, overrides=overrides)
    return output / "adapted" / "checkpoints" / "fold-0"


def predict(data: Path, city: str, stem: str, checkpoint: Path) -> Probability:
    """Predict an image as an image of its city, if the network has learned others of this."""
    options = {"gsd_m": GSD_M[city]} if city in GSD_M else {}
    found = roadseg.predict(image_of(data, city, stem), checkpoint, gsd="auto", **options)
    own = read_checkpoint_facts(checkpoint, "best").get("thresholds", {}).get(city)
    model = read_calibration(checkpoint)
    return replace(
        found,
        threshold=found.threshold if own is None else own,
        edge_model=None if model is None else model.model_of(city),
    )


@dataclass(frozen=True)
class Measured:
    """One image: its pixels by probability, its roads against the labels, and the edges found."""

    histogram: Histogram
    roads: Measures
    has_roads: bool
    confidence: Floats
    share: Floats
    length_m: Floats


def measure(data: Path, city: str, stem: str, predicted: Probability) -> Measured:
    """Compare a prediction with the labels."""
    truth = read_road(data, city, stem, predicted.road.shape)
    known = truth != IGNORED
    histogram = Histogram(
        *(np.bincount(predicted.road[known & (truth == label)], minlength=256) for label in (0, 1))
    )
    reference = roadseg.trace(replace(predicted, road=np.uint8(CERTAIN) * (truth == 1), **PLAIN))
    graph = roadseg.trace(replace(predicted, road=np.where(known, predicted.road, 0)))
    scores = roadseg.score(reference, graph)
    roads = graph.roads
    sure = {"confidence": roads.attributes["confidence"]}
    area = predicted.grid.footprint_in(roads.crs)
    (edges,) = measure_chips(roads, sure, reference.roads, [area])
    length = scores.measures
    return Measured(
        histogram,
        length,
        length.reference.road_km + length.predicted.road_km > 0,
        edges.terms["confidence"],
        edges.share,
        edges.length_m,
    )


PLAIN = {"bins": None, "speed_bins": None, "threshold": None, "edge_model": None}


def figures(measured: Sequence[Measured], threshold: float, cpu_s: float) -> Figures:
    """Pool what was measured on the images of a city."""
    pixels = functools.reduce(operator.add, [each.histogram for each in measured])
    best = pixels.best_threshold
    confidence, share, length_m = (
        np.concatenate([getattr(each, name) for each in measured])
        for name in ("confidence", "share", "length_m")
    )
    return Figures(
        iou=pixels.at(threshold).iou,
        best_iou=pixels.at(best).iou,
        threshold=threshold,
        best_threshold=best,
        apls=statistics.fmean(each.roads.length.score for each in measured if each.has_roads),
        quality=pool([each.roads for each in measured]).buffer.quality,
        ece=measure_reliability(confidence, share, length_m).error,
        cpu_s=cpu_s,
    )


def run(data: Path, folder: Path, task: Task, settings: Mapping[str, object]) -> None:
    """Train and measure once, unless that is done."""
    result = folder / "figures.json"
    if result.exists():
        return
    cpu_s = spent_s()
    folder.mkdir(parents=True, exist_ok=True)
    of_city = dict.fromkeys(task.testing, Path(roadseg.__file__).parent / "starter")
    if settings.get("checkpoint") == "adapted":
        of_city = {city: adapt(data, folder, city, task, settings) for city in task.testing}
    elif settings.get("checkpoint") != "starter":
        cities = link_cities(data, folder, task.training)
        # Images without georeference can be mapped at their own pixel size only.
        sizes = [GSD_M[city] for city in (*task.training, *task.testing) if city in GSD_M]
        trained = train(folder, cities, settings, gsd_m=min(sizes, default=None))
        of_city = dict.fromkeys(task.testing, trained)
    cpu_s = spent_s() - cpu_s
    found: dict[str, Figures] = {}
    for city, names in task.testing.items():
        predicted = [predict(data, city, name, of_city[city]) for name in names]
        measured = [
            measure(data, city, name, each) for name, each in zip(names, predicted, strict=True)
        ]
        found[city] = figures(measured, predicted[0].threshold or 0.5, cpu_s)
    with atomic_write(result) as partial:
        partial.write_text(json.dumps({city: asdict(each) for city, each in found.items()}))


def parsed(value: str) -> object:
    """Return a value in JSON, or else a text."""
    try:
        return json.loads(value)
    except ValueError:
        return value


def spent_s() -> float:
    """Return the CPU seconds of this process and of those that it has waited for."""
    used = [resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def table(out: Path) -> str:
    """Return the mean and the standard deviation over seeds of all figures in a folder."""
    found: dict[tuple[str, str, str], list[dict[str, float]]] = defaultdict(list)
    for path in sorted(out.glob("*/*/seed-*/figures.json")):
        for city, each in json.loads(path.read_text()).items():
            found[path.parts[-3], city, path.parts[-4]].append(each)
    names = list(Figures.__dataclass_fields__)
    lines = [f"{'task':15}{'city':14}{'name':18}seeds " + "".join(f"{n:>18}" for n in names)]
    for (task, city, name), each in sorted(found.items()):
        cells = []
        for key in names:
            values = [one[key] for one in each]
            spread = statistics.stdev(values) if len(values) > 1 else 0.0
            cells.append(f"{statistics.fmean(values):>10.3f} +-{spread:5.3f}")
        lines.append(f"{task:15}{city:14}{name:18}{len(each):5} {''.join(cells)}")
    return "\n".join(lines)


def main() -> None:
    """Read the options, run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--task", action="append", default=[], choices=list(TASKS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, help="of each training")
    parser.add_argument("--name", default="defaults", help="of the settings, in the table")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args()
    settings = {key: parsed(value) for key, _, value in (each.partition("=") for each in given.set)}
    for seed in range(given.seeds):
        for name in given.task:
            folder = given.out.absolute() / given.name / name / f"seed-{seed}"
            limit = {} if given.minutes is None else {"train.minutes": given.minutes}
            own = {**settings, **limit, "train.seed": seed}
            run(given.data.absolute(), folder, TASKS[name](given.data.absolute()), own)
    print(table(given.out))


if __name__ == "__main__":
    main()
