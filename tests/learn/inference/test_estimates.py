import pytest

from roadseg.learn.inference.jobs import predict_memory_mb
from roadseg.system.text import about_memory, about_time

RESNET18, RESNET34, RESNET50, MOBILENET = 14_329_224, 24_437_384, 32_522_120, 6_629_960
USUAL = {
    "width": 4000,
    "bands": 3,
    "band_bytes": 1,
    "classes": 8,
    "window_px": 512,
    "overlap_px": 128,
    "batch_size": 4,
    "parameters": RESNET34,
}


@pytest.mark.parametrize(
    ("given", "measured_mb"),
    [
        ((512, 512, 128, 4, RESNET18), 1711),
        ((512, 256, 128, 1, RESNET18), 1274),
        ((512, 512, 128, 1, RESNET34), 1451),
        ((2000, 512, 128, 4, RESNET34), 1945),
        ((512, 1024, 128, 1, RESNET34), 1791),
        ((2000, 512, 128, 4, RESNET50), 2211),
        ((2000, 512, 128, 4, MOBILENET), 1715),
        ((12_000, 512, 128, 4, MOBILENET), 1961),
        ((4000, 256, 32, 4, MOBILENET), 1432),
        ((24_000, 256, 32, 4, MOBILENET), 1472),
    ],
)
def test_an_estimate_is_near_what_was_measured(given, measured_mb):
    names = ("width", "window_px", "overlap_px", "batch_size", "parameters")
    estimate = predict_memory_mb(**USUAL | dict(zip(names, given, strict=True)))
    assert estimate == pytest.approx(measured_mb, rel=0.15)


def test_memory_grows_with_the_width_only_by_the_open_rows_and_the_blocks_of_the_file():
    narrow, wide = (predict_memory_mb(**USUAL | {"width": width}) for width in (24_000, 48_000))
    assert wide - narrow == pytest.approx(24_000 * (128 * 8 * 4 + 1024 * 3) / 1e6)


def test_a_narrow_scene_still_has_a_cache():
    assert predict_memory_mb(**USUAL | {"width": 64}) == pytest.approx(
        predict_memory_mb(**USUAL | {"width": 65}), abs=0.1
    )


@pytest.mark.parametrize("more", ["bands", "band_bytes"])
def test_memory_counts_the_bytes_of_the_file(more):
    twice = predict_memory_mb(**USUAL | {"width": 48_000, more: 2 * USUAL[more]})
    once = predict_memory_mb(**USUAL | {"width": 48_000})
    assert twice - once == pytest.approx(48_000 * 1024 * 3 / 1e6)


def test_memory_is_said_in_gigabytes():
    assert about_memory(1549) == "about 1.5 GB"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.2, "about 1 s"),
        (119, "about 119 s"),
        (120, "about 2 min"),
        (7199, "about 120 min"),
        (7200, "about 2 h"),
        (172_799, "about 48 h"),
        (172_800, "about 2 days"),
    ],
)
def test_time_is_said_in_the_unit_of_which_there_are_two(seconds, said):
    assert about_time(seconds) == said
