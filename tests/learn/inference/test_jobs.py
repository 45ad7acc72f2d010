import numpy as np
import pytest
from safetensors.torch import load_file

from roadseg.learn.inference import jobs
from roadseg.learn.inference.jobs import PredictionJob
from roadseg.learn.network.checkpoints import read_checkpoint_facts, save_checkpoint
from roadseg.learn.options import ComputeOptions, PredictOptions
from roadseg.raster.options import ImageryOptions


@pytest.fixture
def scene_of(checkpoint, write_raster, tmp_path, monkeypatch):
    """Give a function that describes a scene of a set; the network has thresholds of sets."""
    facts = read_checkpoint_facts(checkpoint, "best")
    facts |= {"threshold": 0.5, "thresholds": {"a": 0.6}}
    monkeypatch.setattr(jobs, "_read_alike", lambda _: (facts,))
    options = {"predict": PredictOptions(), "compute": ComputeOptions()}
    image = write_raster()

    def describe(name):
        job = PredictionJob(
            (checkpoint,), tmp_path, imagery=ImageryOptions(), set_of={"scene": name}, **options
        )
        (scene,) = job.describe({"scene": image}, is_kept=False)
        return scene

    return describe


@pytest.mark.parametrize(("name", "threshold"), [("a", 0.6), ("b", 0.5), ("", 0.5)])
def test_a_scene_has_the_threshold_of_its_set_or_else_that_of_all(scene_of, name, threshold):
    assert scene_of(name).threshold == threshold


def test_a_raster_of_another_threshold_is_another_one(scene_of):
    assert scene_of("a").key != scene_of("b").key == scene_of("").key


def test_weights_that_have_changed_are_opened_anew(checkpoint, write_raster, tmp_path):
    image, options = write_raster(), {"predict": PredictOptions(), "compute": ComputeOptions()}

    def predicted():
        job = PredictionJob((tmp_path,), tmp_path, imagery=ImageryOptions(), **options)
        return job.in_memory(image).road

    weights = load_file(checkpoint / "best.safetensors")
    facts = read_checkpoint_facts(checkpoint, "best")
    save_checkpoint(tmp_path, "best", weights, facts)
    before = predicted()
    save_checkpoint(tmp_path, "best", {k: 2 * tensor for k, tensor in weights.items()}, facts)
    assert not np.array_equal(predicted(), before)
