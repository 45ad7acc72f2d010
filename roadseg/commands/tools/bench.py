"""bench: how fast training, inference and maps are here. Reads the config, leaves no file."""

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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
from roadseg.learn.inference.bench import inference_rate, training_rate
from roadseg.learn.inference.jobs import PredictionJob
from roadseg.learn.inference.tasks import Task, open_networks, predict_task
from roadseg.learn.network.checkpoint_facts import read_checkpoint_facts
from roadseg.learn.network.installed_weights import starter_folder
from roadseg.raster.grid import Grid
from roadseg.raster.options import ImageryOptions
from roadseg.raster.tiff import new_profile, open_new
from roadseg.system.progress import counted
from roadseg.system.text import Summary, time_text
from roadseg.system.units import road_text

_RGB = 3
_BATCHES = 4  # Batches of a round of inference.
_SCENE_PX = 1536
_CITY_KM2 = 1000
_PLANNED_M = (0.3, 0.5, 1.0)  # Pixel sizes of other networks that the plan tells.
_HOUR_S = 3600


@dataclass(frozen=True)
class MapRates:
    """Speed of the starter on a drawn scene, from image to graph.

    Attributes:
        gsd_m: pixel size.
        passes: number of pixels that the starter computes for each pixel of the scene, because it
            predicts windows in two sizes.
        km2: area of the scene.
        road_km: length of the roads that were found.
        open_s: seconds to open the network, once for all images, by engine.
        predict_s: seconds from the image to the file of probabilities, by engine.
        graph_s: seconds from this file to the files of the graph.
        km2_per_hour: speed of prediction and graph together, by engine.
        city_hours: hours for 1,000 km2 with such pixels, including opening, by engine.
    """

    gsd_m: float
    passes: float
    km2: float
    road_km: float
    open_s: dict[str, float]
    predict_s: dict[str, float]
    graph_s: float
    km2_per_hour: dict[str, float]
    city_hours: dict[str, float]

    def __str__(self) -> str:
        """Return the figures as a table, with a plan for a city below."""
        hours, best = min((hours, name) for name, hours in self.city_hours.items())
        what = f"{self.km2:.2f} km2 of a drawn city, {road_text(self.road_km, 1)} of roads found"
        once_s = (self.predict_s[best] / self.passes + self.graph_s) * _CITY_KM2 / self.km2
        others = "; ".join(
            f"{time_text(self.open_s[best] + once_s * (self.gsd_m / gsd_m) ** 2)} at {gsd_m:g} m"
            for gsd_m in _PLANNED_M
        )
        plan = f"{_CITY_KM2:,} km2 with {best}: {time_text(_HOUR_S * hours)} by the starter"
        return "\n".join(
            [
                f"map        by the starter, pixels of {self.gsd_m:g} m: {what}",
                f"{'engine':<10} {'open s':>10} {'predict s':>13} {'graph s':>8} {'km2/hour':>9}",
                *(
                    f"{name:<10} {opening:10.1f} {self.predict_s[name]:13.1f} {self.graph_s:8.1f} "
                    f"{self.km2_per_hour[name]:9.0f}"
                    for name, opening in self.open_s.items()
                ),
                f"plan       {plan}",
                f"           by a network that you train: {others}",
            ]
        )


@dataclass(frozen=True)
class BenchSummary(Summary):
    """Windows per second of training and of inference, and the speed of maps."""

    device: str
    network: str
    training: float
    inference: float
    map: MapRates

    def __str__(self) -> str:
        """Return the figures as a table."""
        return "\n".join(
            [
                f"device     {self.device}",
                f"network    {self.network}",
                f"training   {self.training:.2f} windows/s",
                f"inference  {self.inference:.2f} windows/s",
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
        map=_map_rates(config, device, rounds=rounds),
    )


def _map_rates(config: Config, device: Device, *, rounds: int) -> MapRates:
    """Measure the way from image to graph, with files, for each engine that can be used here."""
    facts = read_checkpoint_facts(starter_folder(), "best")
    gsd_m = float(facts["gsd_m"])
    passes = sum((gsd_m / size_m) ** 2 for size_m in facts["pixel_sizes_m"])
    here = config.model_copy(update={"imagery": ImageryOptions()})
    open_s, predict_s = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        image, output = Path(folder) / "city.tif", Path(folder) / "out"
        output.mkdir()
        _draw(image, gsd_m)
        for engine in engines_here(device):
            task = _task(image, output, here, engine)
            open_s[engine] = _median_s(partial(open_networks, task.networks), "open", rounds=1)
            predict = partial(predict_task, task)
            predict_s[engine] = _median_s(predict, f"predict, {engine}", rounds=rounds)
            open_networks.cache_clear()
        trace = partial(graph.run_images, here, [str(output / image.name)], output=output)
        road_km = trace().road_km
        graph_s = _median_s(trace, "trace", rounds=rounds)
    km2 = (_SCENE_PX * gsd_m) ** 2 / 1e6
    rate = {name: km2 * _HOUR_S / (taken + graph_s) for name, taken in predict_s.items()}
    hours = {name: open_s[name] / _HOUR_S + _CITY_KM2 / rate[name] for name in rate}
    return MapRates(gsd_m, passes, km2, road_km, open_s, predict_s, graph_s, rate, hours)


def engines_here(device: Device) -> list[str]:
    """Return the engines that the settings and this machine allow."""
    engines = ["eager" if device.compiler is None else "inductor"]
    if (device.type, device.backend) == ("cpu", "native") and not openvino.why_missing():
        engines.append("openvino")
    return engines


def _draw(path: Path, gsd_m: float) -> None:
    """Write an image of a synthetic city."""
    side_m = _SCENE_PX * gsd_m
    streets = draw_streets(extent_m=(side_m, side_m), seed=0)
    pixels = draw_scene(streets, x_m=0, y_m=0, size_px=_SCENE_PX, gsd_m=gsd_m, seed=0)
    transform = Affine(gsd_m, 0, 500_000, 0, -gsd_m, 4_000_000)
    grid = Grid(CRS.from_epsg(32633), transform, _SCENE_PX, _SCENE_PX)
    with open_new(path, new_profile(grid, count=_RGB, dtype="uint8")) as target:
        target.write(pixels)


def _task(image: Path, output: Path, config: Config, engine: str) -> Task:
    """Return the work of predicting an image with the starter."""
    job = PredictionJob(
        (starter_folder(),),
        output,
        imagery=config.imagery,
        predict=config.predict.model_copy(update={"engine": engine}),
        compute=config.compute,
    )
    (scene,) = job.describe({image.stem: image})
    (networks,) = job.networks([scene]).values()
    return Task(scene, (range(scene.facts.grid.height),), is_all=True, networks=networks)


def _median_s(work: Callable[[], object], what: str, *, rounds: int) -> float:
    """Return the median seconds of some rounds."""
    seconds = []
    for _ in counted(range(rounds), what, total=rounds, unit="rounds"):
        begun = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)
