"""A trainer's state comes back; its optimizer, and the rate of each step."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import nn

from roadseg.learn.hardware.distributed import Parallel
from roadseg.learn.network.models import NetworkSpec, build_model
from roadseg.learn.options import TrainOptions
from roadseg.learn.training.trainer import Trainer, build_optimizer, clip_gradients, learning_rate
from roadseg.raster.scaling import Scaling

ENCODER = "tu-test_resnet"


def build(device, *, state=None):
    torch.manual_seed(0)
    model = build_model(NetworkSpec(encoder=ENCODER, in_channels=3, classes=3))
    model = device.to(model)
    options = TrainOptions(learning_rate=1e-3)
    scaling = Scaling({}, (127.0,) * 3, (64.0,) * 3)
    return Trainer(model, options, scaling=scaling, device=device, parallel=Parallel(), state=state)


def batch(seed, windows=2):
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(256, (windows, 3, 32, 32), dtype=torch.uint8, generator=generator)
    masks = torch.randint(3, (windows, 32, 32), dtype=torch.uint8, generator=generator)
    return images, masks


def take(trainer, *seeds):
    for seed in seeds:
        trainer.step(batch(seed), rate=1e-3)
    return trainer.state()[0]


def test_a_trainer_goes_on_from_its_state_as_if_it_had_never_stopped(cpu):
    straight = take(build(cpu), 1, 2, 3)
    stopped = build(cpu)
    take(stopped, 1)
    resumed = take(build(cpu, state=stopped.state()), 2, 3)
    assert all(torch.equal(straight[name], resumed[name]) for name in straight)


def test_moments_come_back_in_the_memory_layout_of_their_weights(cpu):
    trainer = build(cpu)
    take(trainer, 1)
    again = build(cpu, state=trainer.state())
    for group in again._optimizer.param_groups:  # noqa: SLF001
        for weight in group["params"]:
            moment = again._optimizer.state[weight]["exp_avg"]  # noqa: SLF001
            assert moment.stride() == weight.stride()


def test_half_precision_scales_the_loss_and_keeps_the_scale(cpu):
    half = replace(cpu, amp_dtype=torch.float16)
    trainer = build(half)
    take(trainer, 1)
    tensors, values = trainer.state()
    assert values["scaler_state"]["scale"] > 1
    changed = values["scaler_state"] | {"scale": 8.0}
    resumed = build(half, state=(tensors, values | {"scaler_state": changed}))
    assert resumed.state()[1]["scaler_state"] == changed


def test_gradients_are_clipped_as_they_are_without_the_scale_of_half_precision(cpu):
    lengths = []
    for device in (cpu, replace(cpu, amp_dtype=torch.float16)):
        tensors = take(build(device), 1)
        moments = [value.ravel() for name, value in tensors.items() if name.endswith("exp_avg")]
        lengths.append(float(torch.cat(moments).norm()))
    assert lengths[1] == pytest.approx(lengths[0], rel=0.05)


PLAIN = {
    "epochs": 30,
    "learning_rate": 0.5,
    "schedule": "step",
    "warmup_steps": 0,
}


def rate(step, **changes):
    return learning_rate(step, TrainOptions(**PLAIN | changes), steps_per_epoch=10)


@pytest.mark.parametrize(
    ("step", "expected"), [(0, 0.5), (199, 0.5), (200, 0.1), (249, 0.1), (250, 0.02)]
)
def test_the_rate_drops_after_the_last_step_of_each_milestone(step, expected):
    assert rate(step) == pytest.approx(expected)


@pytest.mark.parametrize(("step", "expected"), [(0, 0.125), (2, 0.375), (3, 0.5), (4, 0.5)])
def test_the_warm_up_rises_in_equal_parts_to_the_peak(step, expected):
    assert rate(step, warmup_steps=4) == pytest.approx(expected)


def test_a_milestone_counts_in_the_warm_up_too():
    assert rate(204, warmup_steps=500) == pytest.approx(0.5 * 0.2 * 205 / 500)


@pytest.mark.parametrize(
    ("step", "expected"), [(0, 0.5), (150, 0.25), (299, 1.4e-5), (300, 0.0), (301, 0.0)]
)
def test_the_cosine_passes_half_the_peak_halfway_and_ends_at_zero(step, expected):
    assert rate(step, schedule="cosine") == pytest.approx(expected, rel=0.03)


def test_the_cosine_starts_at_the_peak_when_the_warm_up_is_over():
    steps = [rate(step, schedule="cosine", warmup_steps=10) for step in range(8, 13)]
    assert steps[1] == steps[2] == 0.5
    assert steps[0] < 0.5 > steps[3] > steps[4]


def test_a_warm_up_longer_than_the_training_only_rises():
    steps = [rate(step, schedule="cosine", warmup_steps=400) for step in range(300)]
    assert all(later > earlier for earlier, later in pairwise(steps))


def ones():
    return nn.Parameter(torch.ones(2, 2))


def test_the_optimizer_is_torchs_fused_adam(cpu):
    optimizer = build_optimizer([ones()], rate=0.25, device=cpu)
    assert type(optimizer) is torch.optim.Adam
    assert (optimizer.defaults["fused"], optimizer.defaults["lr"]) == (True, 0.25)


@pytest.mark.parametrize(("norm", "left"), [(0.99, 0.99), (1.01, 1.0)])
def test_only_a_gradient_above_a_norm_of_1_is_shrunk(cpu, norm, left):
    weights = ones()
    weights.grad = torch.full((2, 2), norm / 2)
    clip_gradients([weights], device=cpu)
    assert float(weights.grad.norm()) == pytest.approx(left, rel=1e-5)
