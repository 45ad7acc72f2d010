"""What TensorBoard would show, read back from the event files."""

import io
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from roadseg.errors import ConfigError
from roadseg.learn.training.tensorboard import open_board

accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")

ROAD, UNKNOWN = [255, 60, 0], [128, 128, 128]


def read(folder):
    return accumulators.EventAccumulator(str(folder)).Reload()


def scalars(folder, name):
    return [(event.step, event.value) for event in read(folder).Scalars(name)]


def picture(folder, *, windows=1, bands=3, side=8, probability=0.0):
    """Draw windows of grey 90, their first row road and their last unknown; read the picture."""
    masks = torch.zeros(windows, side, side, dtype=torch.uint8)
    masks[:, 0], masks[:, -1] = 3, 255
    images = torch.full((windows, bands, side, side), 90, dtype=torch.uint8)
    with open_board(folder) as board:
        board.pictures(1, images, masks, torch.full((windows, side, side), probability))
    (event,) = read(folder).Images("validation windows")
    return np.asarray(Image.open(io.BytesIO(event.encoded_image_string)))


def test_numbers_come_back_by_name_and_step(tmp_path):
    with open_board(tmp_path) as board:
        board.scalars(1, {"loss": 0.5, "iou": 0.25})
        board.scalars(2, {"loss": 0.125})
    assert scalars(tmp_path, "loss") == [(1, 0.5), (2, 0.125)]
    assert scalars(tmp_path, "iou") == [(1, 0.25)]


def test_numbers_can_be_read_before_the_board_is_closed(tmp_path):
    with open_board(tmp_path) as board:
        board.scalars(1, {"loss": 0.5})
        assert scalars(tmp_path, "loss") == [(1, 0.5)]


def test_a_training_that_goes_on_replaces_the_steps_that_it_repeats(tmp_path):
    for first_step, value in ((0, 0.5), (3, 0.25)):
        with open_board(tmp_path, first_step=first_step) as board:
            for step in range(first_step, 5):
                board.scalars(step, {"loss": value})
    assert scalars(tmp_path, "loss") == [(0, 0.5), (1, 0.5), (2, 0.5), (3, 0.25), (4, 0.25)]


def test_a_row_shows_image_labels_and_probability(tmp_path):
    shown = picture(tmp_path, probability=0.2)
    image, labels, probability = (shown[:8, start : start + 8] for start in (0, 8, 16))
    assert (image == 90).all()
    assert (probability == 51).all()
    assert labels[[0, 3, -1], 0].tolist() == [ROAD, [90, 90, 90], UNKNOWN]


@pytest.mark.parametrize(("windows", "rows"), [(3, 3), (4, 4), (5, 4)])
def test_four_windows_are_shown_at_most(tmp_path, windows, rows):
    assert picture(tmp_path, windows=windows).shape == (rows * 8, 24, 3)


@pytest.mark.parametrize(("side", "shown"), [(256, 256), (320, 160)])
def test_large_windows_are_thinned(tmp_path, side, shown):
    assert picture(tmp_path, side=side).shape == (shown, 3 * shown, 3)


@pytest.mark.parametrize("bands", [1, 2, 8])
def test_images_of_any_number_of_bands_are_shown(tmp_path, bands):
    assert (picture(tmp_path, bands=bands)[:8, :8] == 90).all()


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    zeros = torch.zeros(1, 3, 8, 8, dtype=torch.uint8)
    with open_board(None) as board:
        board.scalars(1, {"loss": 0.5})
        board.pictures(1, zeros, zeros[:, 0], zeros[:, 0].float())
    assert list(tmp_path.iterdir()) == []


def test_without_tensorboard_a_board_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ConfigError, match=r"pip install 'roadseg\[tensorboard\]'"):
        open_board(tmp_path)
