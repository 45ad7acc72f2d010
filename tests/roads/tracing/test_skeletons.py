import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import ndimage

from roadseg.roads.tracing.skeletons import skeletonise, smooth_paths, trace_paths
from tests.drawing import pixels_of as drawn

EIGHT = np.ones((3, 3))
masks = hnp.arrays(bool, st.tuples(st.integers(1, 64), st.integers(1, 64)))


def road(shape, angle_deg, half_width, through=None):
    """A straight road through the middle of a mask, or through a point (row, col)."""
    rows, cols = np.indices(shape) + 0.5
    row, col = through or (shape[0] / 2, shape[1] / 2)
    angle = np.deg2rad(angle_deg)
    return np.abs((rows - row) * np.cos(angle) - (cols - col) * np.sin(angle)) <= half_width


@pytest.mark.parametrize("angle", [0, 20, 45, 90, 110, 160])
@pytest.mark.parametrize("half_width", [1, 6.5, 15])
def test_a_road_that_leaves_the_scene_reaches_its_border(angle, half_width):
    rows, cols = np.nonzero(skeletonise(road((150, 150), angle, half_width)))
    on_border = (rows % 149 == 0) | (cols % 149 == 0)
    assert np.ptp(rows[on_border]) >= 149 or np.ptp(cols[on_border]) >= 149


def test_a_road_that_ends_in_the_scene_is_not_continued_to_the_border():
    mask = np.zeros((50, 50), dtype=bool)
    mask[20:30, 1:] = True
    reached = skeletonise(mask)
    assert (reached[:, 49].sum(), reached[:, :3].sum()) == (1, 0)


@pytest.mark.parametrize(("touching", "reaches"), [(17, True), (16, False)])
def test_a_road_that_touches_the_border_with_part_of_its_width_is_not_continued(touching, reaches):
    mask = np.zeros((90, 90), dtype=bool)
    mask[1:, 20:40] = mask[0, 20 : 20 + touching] = True
    assert skeletonise(mask)[0].any() == reaches


@pytest.mark.parametrize("width", [3, 12, 63])
def test_a_road_along_the_border_stays_in_the_scene(width):
    mask = np.zeros((200, 300), dtype=bool)
    mask[:width] = True
    assert skeletonise(mask)[:width].any(axis=0).sum() > 300 - 2 * width


@pytest.mark.parametrize(("width", "reaches"), [(64, True), (65, False)])
def test_roads_up_to_64_pixels_wide_are_continued_across_the_border(width, reaches):
    mask = np.zeros((160, 300), dtype=bool)
    mask[40 : 40 + width] = True
    assert skeletonise(mask)[70:75, [0, 299]].any(axis=0).tolist() == [reaches, reaches]


@pytest.mark.parametrize(("depth", "is_along"), [(21, False), (20, True)])
def test_a_road_deeper_than_half_its_width_is_continued_and_another_runs_along(depth, is_along):
    mask = np.zeros((90, 90), dtype=bool)
    mask[:depth, 20:60] = True
    skeleton = skeletonise(mask)
    assert (skeleton.any(axis=0).sum() > 20) == is_along
    assert skeleton[0].any() != is_along


@pytest.mark.parametrize("width", [3, 13, 40, 64])
def test_a_road_of_any_depth_at_the_border_leaves_a_skeleton(width):
    for depth in range(1, width + 2):
        mask = np.zeros((90, 90), dtype=bool)
        mask[:depth, 13 : 13 + width] = True
        assert skeletonise(mask).any()


@given(masks)
def test_thinning_keeps_the_parts_of_a_mask_inside_the_scene(mask):
    inside = np.pad(mask, 1)
    skeleton = skeletonise(inside)
    labels, parts = ndimage.label(inside, EIGHT)
    assert not (skeleton & ~inside).any()
    assert len(np.unique(labels[skeleton])) == ndimage.label(skeleton, EIGHT)[1] == parts


@settings(max_examples=200)
@given(masks, st.booleans())
def test_every_skeleton_pixel_is_passed_by_a_path_or_lies_at_a_node(mask, thin):
    skeleton = skeletonise(mask) if thin else mask
    paths = trace_paths(skeleton)
    pixels = np.floor(paths.points).astype(int)
    is_inner = np.ones(len(pixels), dtype=bool)
    is_inner[paths.offsets[:-1]] = is_inner[paths.offsets[1:] - 1] = False
    # Loops pass pixels of their node as well.
    is_loop = np.repeat(paths.ends[:, 0] == paths.ends[:, 1], np.diff(paths.offsets))
    once = list(map(tuple, pixels[is_inner & ~is_loop].tolist()))
    passed, nodes = np.zeros((2, *skeleton.shape), dtype=bool)
    passed[tuple(pixels[is_inner].T)] = nodes[tuple(np.floor(paths.nodes).astype(int).T)] = True
    neighbours = ndimage.convolve(skeleton.astype(int), EIGHT.astype(int), mode="constant") - 1
    assert len(once) == len(set(once))
    assert not (passed & ~skeleton).any()
    assert (neighbours[skeleton & ~passed & ~nodes] > 2).all()


@given(masks)
def test_paths_connect_what_the_skeleton_connects(mask):
    paths = trace_paths(mask)
    parts = np.arange(len(paths.nodes))
    for _ in parts:
        np.minimum.at(parts, paths.ends[:, 0], parts[paths.ends[:, 1]])
        np.minimum.at(parts, paths.ends[:, 1], parts[paths.ends[:, 0]])
    assert len(set(parts.tolist())) == ndimage.label(mask, EIGHT)[1]


@given(masks)
def test_paths_are_chains_of_neighbours_that_start_and_end_at_their_nodes(mask):
    paths = trace_paths(skeletonise(mask))
    first, last = paths.points[paths.offsets[:-1]], paths.points[paths.offsets[1:] - 1]
    assert np.array_equal(np.stack([first, last], 1), paths.nodes[paths.ends].reshape(-1, 2, 2))
    for start, stop in zip(paths.offsets[:-1] + 1, paths.offsets[1:] - 1, strict=True):
        steps = np.abs(np.diff(paths.points[start:stop], axis=0))
        assert (steps.max(axis=1, initial=0) <= 1).all()


def test_a_straight_line_is_one_path_between_pixel_centres():
    paths = trace_paths(drawn("..... .###. ....."))
    assert paths.nodes.tolist() == [[1.5, 1.5], [1.5, 3.5]]
    assert paths.points.tolist() == [[1.5, 1.5], [1.5, 2.5], [1.5, 3.5]]


@pytest.mark.parametrize(
    ("skeleton", "ends", "nodes"),
    [
        ("###. ..#. ..##", [(0, 1)], []),
        ("##### ..#.. ..#..", [(0, 1), (1, 2), (1, 3)], [[0.5, 2.5]]),
        ("#..# .##. .##. #..#", [(0, 2), (1, 2), (2, 3), (2, 4)], [[2.0, 2.0]]),
        (".##. #..# #..# .##.", [(0, 0)], []),
        ("... .#. ...", [], [[1.5, 1.5]]),
    ],
    ids=["a corner", "three arms", "touching junction pixels", "a ring", "a lone pixel"],
)
def test_paths_meet_in_nodes(skeleton, ends, nodes):
    paths = trace_paths(drawn(skeleton))
    assert sorted(map(tuple, np.sort(paths.ends).tolist())) == ends
    assert all(node in paths.nodes.tolist() for node in nodes)


@pytest.mark.parametrize(
    ("skeleton", "between"),
    [
        ("#... .##. .##. ...#", [1, 1]),  # A full block in a line makes no parallel paths.
        ("..###.. ###.### ..###..", [1, 1, 2]),
        (".##... #..### .##...", [1, 1]),  # A ring on a stalk is a loop at the junction.
    ],
    ids=["a full block", "an island", "a ring on a stalk"],
)
def test_paths_between_the_same_nodes_are_parallel(skeleton, between):
    paths = trace_paths(drawn(skeleton))
    _, counts = np.unique(np.sort(paths.ends), axis=0, return_counts=True)
    assert sorted(counts.tolist()) == between
    loops = paths.ends[:, 0] == paths.ends[:, 1]
    assert loops.sum() == (skeleton == ".##... #..### .##...")


def test_an_empty_skeleton_has_no_paths():
    paths = smooth_paths(trace_paths(np.zeros((5, 5))), reach_px=2)
    assert (len(paths.nodes), len(paths.ends), paths.offsets.tolist()) == (0, 0, [0])


def test_smoothing_halves_a_zigzag_and_keeps_its_ends():
    paths = trace_paths(drawn("#.#.# .#.#."))
    smooth = smooth_paths(paths, reach_px=1)
    assert smooth.points[[0, -1]].tolist() == paths.points[[0, -1]].tolist()
    assert smooth.points[1:-1, 0].tolist() == pytest.approx([5 / 6, 7 / 6, 5 / 6])
