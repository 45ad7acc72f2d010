"""A trainer's state comes back."""

from dataclasses import replace

import pytest
import torch

from roadseg.learn.hardware.distributed import Parallel
from roadseg.learn.network.models import NetworkSpec, build_model
from roadseg.learn.options import TrainOptions
from roadseg.learn.training.trainer import Trainer
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
