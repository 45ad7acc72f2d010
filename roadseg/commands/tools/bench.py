"""bench: how fast training, inference and maps are here. Reads the config, leaves no file."""

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from affine import Affine
from pyproj import CRS

from roadseg.commands.city.aerial import draw_scene
from roadseg.commands.city.streets import draw_streets
from roadseg.commands.stages import graph
from roadseg.config import Config
from roadseg.learn.hardware.cpu import keep_freed_memory
from roadseg.learn.hardware.devices import Device, chosen_device
from roadseg.learn.inference import openvino
from roadseg.learn.inference.bench import Rate, inference_rate, training_rate
from roadseg.learn.inference.jobs import PredictionJob
from roadseg.learn.inference.tasks import Task, opened, predict_task
from roadseg.learn.network.checkpoints import read_checkpoint_facts
from roadseg.learn.network.starter import NAME, starter_folder
from roadseg.learn.options import ComputeOptions
from roadseg.raster.grid import Grid
from roadseg.raster.options import ImageryOptions
from roadseg.raster.tiff import new_profile, open_new
from roadseg.system.progress import counted
from roadseg.system.text import Summary
from roadseg.system.units import road_text

_RGB = 3
_BATCHES = 4  # Batches of a round of inference.
_SCENE_PX = 1536
_CITY_KM2 = 1000
_PLANNED_M = (0.3, 0.5, 1.0)  # Pixel sizes of other images that the plan tells.
_HOUR_S = 3600


@dataclass(frozen=True)
class MapRate:
    """From image to graph with an engine, by the clock: medians of some rounds.

    Attributes:
        open_s: to open the network, once for all images.
        predict_s: from the image to the file of probabilities.
        graph_s: from this file to those of the graph, the same for all engines.
        km2_per_hour: of both, without opening.
        city_hours: for a city of 1,000 km2 with pixels of the same size.
    """

    open_s: float
    predict_s: float
    graph_s: float
    km2_per_hour: float
    city_hours: float


@dataclass(frozen=True)
class MapRates:
    """How fast a drawn scene is mapped by the starter.

    Attributes:
        gsd_m: side of its pixels.
        km2: of the scene.
        road_km: length of the roads found.
        engines: rates by engine.
    """

    gsd_m: float
    km2: float
    road_km: float
    engines: dict[str, MapRate]

    def __str__(self) -> str:
        """Lay it out as a table, with a plan for a city below."""
        best = min(self.engines, key=lambda name: self.engines[name].city_hours)
        hours = self.engines[best].city_hours
        others = ", ".join(
            f"{hours * (self.gsd_m / gsd_m) ** 2:.1f} h at {gsd_m:g} m" for gsd_m in _PLANNED_M
        )
        what = (
            f"by the starter: a drawn city, {self.km2:.2f} km2 in pixels of {self.gsd_m:g} m, "
            f"{road_text(self.road_km, 1)} of roads found"
        )
        plan = f"{_CITY_KM2:,} km2 with {best}: {hours:.1f} h at {self.gsd_m:g} m; {others}"
        return "\n".join(
            [
                f"map        {what}",
                f"{'engine':<10} {'open s':>10} {'predict s':>13} {'graph s':>8} {'km2/hour':>9}",
                *(
                    f"{name:<10} {rate.open_s:10.1f} {rate.predict_s:13.1f} {rate.graph_s:8.1f} "
                    f"{rate.km2_per_hour:9.0f}"
                    for name, rate in self.engines.items()
                ),
                f"plan       {plan} (a pixel takes as long)",
            ]
        )


@dataclass(frozen=True)
class BenchSummary(Summary):
    """Windows per second, those of minimal PyTorch loops of the same network, and of maps."""

    device: str
    network: str
    training: Rate
    inference: Rate
    map: MapRates

    def __str__(self) -> str:
        """Lay it out as a table."""
        rates = {"training": self.training, "inference": self.inference}
        return "\n".join(
            [
                f"device     {self.device}",
                f"network    {self.network}",
                f"{'windows/s':<10} {'roadseg':>10} {'minimal loop':>13} {'ratio':>8}",
                *(
                    f"{name:<10} {rate.roadseg:10.2f} {rate.bare:13.2f} {rate.ratio:8.2f}"
                    for name, rate in rates.items()
                ),
                str(self.map),
            ]
        )


def run(config: Config, *, steps: int, rounds: int) -> BenchSummary:
    """Measure training steps and inference on noise in memory, and maps of a drawn city."""
    device, options = chosen_device(config.compute), config.train
    keep_freed_memory()
    predict, bins = config.predict, config.labels.bins.count
    window_px, batch_size = predict.largest_px, predict.most_at_once(predict.largest_px)
    bands = len(config.imagery.bands or range(_RGB))
    return BenchSummary(
        device=device.reason,
        network=f"{options.architecture} with {options.encoder}, {bands} bands; batches of "
        f"{options.batch_size} x {options.window_px} px in training, "
        f"{batch_size} x {window_px} px in inference",
        training=training_rate(
            options, bands=bands, bins=bins, device=device, steps=steps, rounds=rounds
        ),
        inference=inference_rate(
            options,
            window_px=window_px,
            overlap_px=predict.overlap_px,
            batch_size=batch_size,
            batches=_BATCHES,
            bands=bands,
            bins=bins,
            device=device,
            rounds=rounds,
        ),
        map=map_rates(config, device, rounds=rounds),
    )


def map_rates(config: Config, device: Device, *, rounds: int) -> MapRates:
    """Measure from image to graph, in files, with each engine that this machine has."""
    gsd_m = float(read_checkpoint_facts(starter_folder(), "best")["gsd_m"])
    compute = config.compute.model_copy(update={"scheduler": None})
    here = config.model_copy(update={"imagery": ImageryOptions(), "compute": compute})
    km2 = (_SCENE_PX * gsd_m) ** 2 / 1e6
    with tempfile.TemporaryDirectory() as folder:
        image, output = Path(folder) / "city.tif", Path(folder) / NAME
        _draw(image, gsd_m)
        seconds = {
            name: _prediction_s(image, output, here, name, rounds=rounds)
            for name in engines_here(device, compute)
        }

        def trace() -> graph.GraphSummary:
            return graph.run_images(here, [str(output / image.name)], output=output)

        road_km = trace().road_km
        graph_s = _median_s(trace, "trace", rounds=rounds)
    rates = {}
    for name, (open_s, predict_s) in seconds.items():
        hours_per_km2 = (predict_s + graph_s) / _HOUR_S / km2
        city_hours = open_s / _HOUR_S + hours_per_km2 * _CITY_KM2
        rates[name] = MapRate(open_s, predict_s, graph_s, 1 / hours_per_km2, city_hours)
    return MapRates(gsd_m, km2, road_km, rates)


def engines_here(device: Device, compute: ComputeOptions) -> list[str]:
    """Return the engines that the settings and this machine allow."""
    by_torch = "eager" if device.compiler is None else "inductor"
    can_convert = (device.type, compute.backend) == ("cpu", "native") and not openvino.available()
    return [by_torch, *(["openvino"] if can_convert else [])]


def _draw(path: Path, gsd_m: float) -> None:
    """Write an image of a synthetic city."""
    side_m = _SCENE_PX * gsd_m
    streets = draw_streets(extent_m=(side_m, side_m), seed=0)
    pixels = draw_scene(streets, x_m=0, y_m=0, size_px=_SCENE_PX, gsd_m=gsd_m, seed=0)
    transform = Affine(gsd_m, 0, 500_000, 0, -gsd_m, 4_000_000)
    grid = Grid(CRS.from_epsg(32633), transform, _SCENE_PX, _SCENE_PX)
    with open_new(path, new_profile(grid, count=_RGB, dtype="uint8")) as target:
        target.write(pixels)


def _prediction_s(
    image: Path, output: Path, config: Config, engine: str, *, rounds: int
) -> tuple[float, float]:
    """Return the seconds to open the starter with an engine, and then to predict an image."""
    job = PredictionJob(
        (starter_folder(),),
        output,
        imagery=config.imagery,
        predict=config.predict.model_copy(update={"engine": engine}),
        compute=config.compute,
        tracing=config.graph,
    )
    scenes = job.describe({image.stem: image})
    (trained,) = job.networks(scenes).values()
    task = Task(scenes[0], (range(scenes[0].facts.grid.height),), is_all=True, trained=trained)
    begun = time.perf_counter()
    opened(trained)
    open_s = time.perf_counter() - begun
    output.mkdir(exist_ok=True)
    predict_s = _median_s(lambda: predict_task(task), f"predict, {engine}", rounds=rounds)
    opened.cache_clear()
    return open_s, predict_s


def _median_s(work: Callable[[], object], what: str, *, rounds: int) -> float:
    """Return the median seconds of some rounds."""
    seconds = []
    for _ in counted(range(rounds), what, total=rounds, unit="rounds"):
        begun = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)
