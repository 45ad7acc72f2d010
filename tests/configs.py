"""Configs, and files of a run, that differ in some values."""

import json
from contextlib import contextmanager

SMALL_TRAINING = {
    "encoder": "tu-test_resnet",
    "decoder_channels": [32, 16, 16, 8, 8],  # so that checkpoints are small
    "encoder_weights": None,
    "window_px": 64,
    "windows_per_chip": 2,
    "batch_size": 2,
    "epochs": 2,
}


def changed(config, section, **settings):
    """Return a config with other settings in one of its sections."""
    values = getattr(config, section).model_copy(update=settings)
    return config.model_copy(update={section: values})


def assigned(section, settings):
    """Return settings of a section as `--set` takes them."""
    return [f"{section}.{key}={json.dumps(value)}" for key, value in settings.items()]


@contextmanager
def edited(path):
    """Give what a JSON file holds; at the end it is written back, as the block has changed it."""
    values = json.loads(path.read_text())
    yield values
    path.write_text(json.dumps(values))
