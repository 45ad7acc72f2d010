"""A network over a scene: probabilities of the whole, nothing where there is no data."""

import numpy as np
import pytest
import torch
from torch import nn

from roadseg.core.scaling import Scaling
from roadseg.errors import ConfigError
from roadseg.learn.inference import predict_windows

PLAIN = Scaling({"uint8": ((0.0, 255.0),)}, mean=(0.0,), std=(1.0,))


class Echo(nn.Module):
    """Stands for a network: the pixel itself, over ten, is the logit of every class."""

    def __init__(self):
        super().__init__()
        self.batches = []

    def forward(self, images):
        self.batches.append(len(images))
        return (images / 10).expand(-1, 8, -1, -1)


def reader_of(scene, valid=None):
    """Read windows of a scene (row, col), repeating its edge where they reach beyond."""

    def read(window):
        rows = np.minimum(window.row + np.arange(window.height), scene.shape[0] - 1)
        cols = np.minimum(window.col + np.arange(window.width), scene.shape[1] - 1)
        known = np.ones_like(scene, dtype=bool) if valid is None else valid
        return scene[rows[:, None], cols][np.newaxis], known[rows[:, None], cols]

    return read


def predict(model, reader, shape, device, **changes):
    options = {"window_px": 32, "overlap_px": 8, "batch_size": 3, "scaling": PLAIN, "classes": 8}
    height, width = shape
    return list(
        predict_windows(
            model, reader, height=height, width=width, device=device, **options | changes
        )
    )


def scene_of(height, width):
    return np.random.default_rng(0).integers(0, 60, (height, width), dtype=np.uint8)


@pytest.mark.parametrize("shape", [(32, 32), (33, 70), (100, 40), (20, 90), (9, 9)])
def test_a_scene_of_any_size_gets_its_probabilities(cpu, shape):
    scene = scene_of(*shape)
    rows = predict(Echo(), reader_of(scene), shape, cpu)
    found = np.concatenate([r.values for r in rows], axis=1)
    wanted = torch.from_numpy(scene / 10).sigmoid().numpy()
    assert (found.shape, found.dtype) == ((8, *shape), np.float32)
    np.testing.assert_allclose(found[3], wanted, rtol=1e-5)


def test_rows_start_where_the_ones_before_end(cpu):
    rows = predict(Echo(), reader_of(scene_of(100, 40)), (100, 40), cpu)
    assert [(r.start, r.values.shape[1]) for r in rows] == [(0, 24), (24, 24), (48, 20), (68, 32)]


def test_pixels_without_data_have_probability_zero(cpu):
    valid = np.random.default_rng(1).random((60, 50)) > 0.4
    rows = predict(Echo(), reader_of(scene_of(60, 50), valid), (60, 50), cpu)
    known = np.concatenate([r.known for r in rows])
    probability = np.concatenate([r.values for r in rows], axis=1)[0]
    assert np.array_equal(known, valid)
    assert np.array_equal(probability > 0, valid)


def test_windows_without_data_are_not_shown_to_the_network(cpu):
    valid = np.zeros((32, 160), dtype=bool)
    valid[:, 70:90] = True
    model = Echo()
    predict(model, reader_of(scene_of(32, 160), valid), (32, 160), cpu, overlap_px=0)
    assert model.batches == [1]


def test_a_scene_without_data_is_zero_throughout(cpu):
    model, valid = Echo(), np.zeros((70, 40), dtype=bool)
    rows = predict(model, reader_of(scene_of(70, 40), valid), (70, 40), cpu)
    assert sum(r.values.shape[1] for r in rows) == 70
    assert not any(r.values.any() or r.known.any() for r in rows)
    assert model.batches == []


def test_rows_without_data_are_given_out_before_the_rest_is_read(cpu):
    scene, seen = scene_of(96, 32), []

    def reader(window):
        seen.append(window.row)
        return reader_of(scene, np.zeros_like(scene, dtype=bool))(window)

    size = {"height": 96, "width": 32, "window_px": 32, "overlap_px": 0, "batch_size": 3}
    rows = predict_windows(Echo(), reader, **size, classes=8, scaling=PLAIN, device=cpu)
    assert (next(rows).start, seen) == (0, [0, 32])


def test_the_network_sees_batches_of_the_size_asked_for(cpu):
    model = Echo()
    predict(model, reader_of(scene_of(32, 224)), (32, 224), cpu, overlap_px=0)
    assert model.batches == [3, 3, 1]


def test_bands_are_normalised_by_the_scaling(cpu):
    scaling = Scaling({"uint8": ((0.0, 255.0),)}, mean=(50.0,), std=(10.0,))
    scene = np.full((32, 32), 150, dtype=np.uint8)
    (rows,) = predict(Echo(), reader_of(scene), (32, 32), cpu, scaling=scaling)
    assert rows.values[0, 0, 0] == pytest.approx(torch.tensor(1.0).sigmoid().item())


def test_gradients_are_as_before_between_the_rows(cpu):
    reader = reader_of(scene_of(64, 32))
    for _ in predict_windows(
        *(Echo(), reader),
        classes=8,
        height=64,
        width=32,
        window_px=32,
        overlap_px=0,
        batch_size=1,
        scaling=PLAIN,
        device=cpu,
    ):
        assert torch.is_grad_enabled()
        assert not torch.is_inference_mode_enabled()


def test_a_window_the_networks_cannot_halve_is_refused(cpu):
    with pytest.raises(ConfigError, match="multiple of 32"):
        predict(Echo(), reader_of(scene_of(64, 64)), (64, 64), cpu, window_px=48)
