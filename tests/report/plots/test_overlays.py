import numpy as np
import pytest

from roadseg.raster.windows import Window
from roadseg.report.plots.overlays import draw_labels, draw_outlines
from roadseg.roads.masks.burning import IGNORE

GREY = np.full((3, 200, 200), 100, np.uint8)
ROAD = np.zeros((200, 200), np.uint8)
ROAD[90:110] = 2
RED, GREEN, YELLOW = (255, 0, 0), (0, 255, 0), (255, 255, 0)
WHOLE, MIDDLE = Window(0, 0, 200, 200), Window(50, 50, 100, 100)


def labels(image=GREY, mask=ROAD, pixel_m=(1.0, 1.0), side_px=400, frame=WHOLE):
    drawn = draw_labels(
        image, mask, pixel_m=pixel_m, side_px=side_px, colours=(RED, GREEN), frame=frame
    )
    return np.asarray(drawn).astype(int)


def outlines(*moves_m, window=MIDDLE, side_px=200):
    drawn = draw_outlines(
        GREY, ROAD, pixel_m=(1.0, 1.0), side_px=side_px, window=window, moves_m=moves_m
    )
    return np.asarray(drawn).astype(int)


def rows_of(picture, colour):
    """Return the rows where the middle column of a picture has a colour."""
    return np.flatnonzero((np.abs(picture[:, 100] - colour) < 40).all(axis=1))


def test_roads_have_the_colour_of_their_bin_and_show_the_ground():
    picture = labels()
    assert picture[200, 200].tolist() == pytest.approx([50, 178, 50], abs=1)
    assert picture[100, 200].tolist() == [100, 100, 100]


def test_what_is_not_known_is_hatched():
    mask = ROAD.copy()
    mask[:50] = IGNORE
    picture = labels(mask=mask)
    assert set(np.unique(picture[20:80, 100:300])) == {70, 150}
    assert np.unique(picture[120:160, 100:300]).tolist() == [100]


@pytest.mark.parametrize(
    ("shape", "pixel_m", "size"),
    [
        ((200, 200), (1.0, 1.0), (400, 400)),
        ((200, 100), (1.0, 1.0), (400, 200)),
        ((200, 200), (0.5, 1.0), (400, 200)),
        ((1, 200), (1.0, 1.0), (2, 400)),
    ],
)
def test_pictures_keep_the_proportions_of_the_ground(shape, pixel_m, size):
    drawn = labels(np.zeros((3, *shape), np.uint8), np.zeros(shape, np.uint8), pixel_m)
    assert drawn.shape == (*size, 3)


@pytest.mark.parametrize("bands", [1, 2, 3, 8])
def test_images_of_any_number_of_bands_are_drawn(bands):
    assert labels(np.full((bands, 200, 200), 100, np.uint8))[100, 200].tolist() == [100] * 3


def test_a_frame_is_drawn_around_the_part():
    picture = labels(frame=Window(20, 40, 50, 60))
    assert (picture[40:139, 80] == 255).all()
    assert (picture[40, 80:199] == 255).all()


def test_the_scale_bar_is_a_round_length():
    picture = labels(frame=Window(0, 0, 9, 9))
    bar = np.flatnonzero((picture[390] == 255).all(axis=1))
    assert len(bar) == 100  # of 50 m, at two pixels a metre


def test_outlines_lie_where_the_mask_ends():
    rows = rows_of(outlines((YELLOW, (0.0, 0.0))), YELLOW)
    assert rows[rows < 100].mean() == pytest.approx(80, abs=1)
    assert rows[rows > 100].mean() == pytest.approx(120, abs=1)


def test_outlines_move_by_metres():
    rows = rows_of(outlines((RED, (0.0, -10.0)), window=WHOLE, side_px=200), RED)
    assert rows[rows < 90].mean() == pytest.approx(80, abs=1)
    assert rows[rows > 90].mean() == pytest.approx(100, abs=1)


def test_without_outlines_the_ground_is_shown_as_it_is():
    assert np.unique(outlines()[:150]).tolist() == [100]
