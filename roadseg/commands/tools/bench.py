"""bench: how fast training and inference are here. Reads the config, writes nothing."""

from dataclasses import dataclass

from roadseg.config import Config
from roadseg.learn.hardware.cpu import keep_freed_memory
from roadseg.learn.hardware.devices import chosen_device
from roadseg.learn.inference.bench import Rate, inference_rate, training_rate
from roadseg.system.text import Summary

_RGB = 3
_BATCHES = 4  # Batches of a round of inference.


@dataclass(frozen=True)
class BenchSummary(Summary):
    """Windows per second, and those of minimal PyTorch loops of the same network."""

    device: str
    network: str
    training: Rate
    inference: Rate

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
            ]
        )


def run(config: Config, *, steps: int, rounds: int) -> BenchSummary:
    """Measure training steps and inference with the settings of a config, on noise in memory."""
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
    )
