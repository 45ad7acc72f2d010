"""Depthwise convolutions whose gradients are computed in float32."""

from functools import partial

import pytest
import timm
import torch
from torch.nn import functional

from roadseg.learn.hardware import depthwise
from roadseg.learn.hardware.depthwise import FastDepthwise
from roadseg.learn.hardware.devices import Device

BF16 = torch.bfloat16
ON_CPU = Device("cpu", "cpu", amp_dtype=BF16)


@pytest.fixture
def calls(monkeypatch):
    """Arguments of the convolutions that were replaced."""
    seen = []

    def apply(*args):
        seen.append(args)
        return replaced(*args)

    replaced = depthwise.Depthwise.apply
    monkeypatch.setattr(depthwise.Depthwise, "apply", apply)
    return seen


def leaves(channels, kernel, *, size=9, bias=True, groups=None):
    draw = partial(torch.randn, generator=torch.Generator().manual_seed(0))
    images = draw(2, channels, size, size)
    weight = draw(channels, channels // (groups or channels), kernel, kernel)
    offset = draw(channels) if bias else None
    return [each if each is None else each.requires_grad_() for each in (images, weight, offset)]


def gradients(inputs, **options):
    logits = functional.conv2d(*inputs, *options.values())
    wanted = [each for each in inputs if each is not None]
    slopes = torch.linspace(-1, 1, logits.numel()).view_as(logits).to(logits.dtype)
    return logits, torch.autograd.grad(logits, wanted, slopes)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(5, 1, 2), (3, 2, 0), (3, (2, 1), 1)])
def test_the_gradients_are_those_of_float32(calls, kernel, stride, padding, bias):
    inputs = leaves(4, kernel, bias=bias)
    options = {"stride": stride, "padding": padding, "dilation": 1, "groups": 4}
    exact, expected = gradients(inputs, **options)
    with torch.autocast("cpu", BF16), FastDepthwise():
        logits, fast = gradients(inputs, **options)
    assert len(calls) == 1
    assert logits.dtype == BF16
    assert torch.allclose(logits.float(), exact, atol=0.05, rtol=0.02)
    for one, other in zip(fast, expected, strict=True):
        assert one.dtype == torch.float32
        assert torch.allclose(one, other, atol=0.1, rtol=0.02)


def test_only_what_is_slow_is_replaced(calls):
    with torch.autocast("cpu", BF16), FastDepthwise():
        small, dense = leaves(4, 3), leaves(4, 5, groups=1)
        functional.conv2d(*small, 1, 1, 1, 4)
        functional.conv2d(*dense, 1, 1, 1, 1)
        functional.conv2d(*leaves(4, 5), padding=2, groups=4)
        with torch.no_grad():
            functional.conv2d(*leaves(4, 5), 1, 2, 1, 4)
    assert not calls


def test_images_need_no_gradient():
    images, weight, bias = leaves(4, 5)
    with torch.autocast("cpu", BF16), FastDepthwise():
        functional.conv2d(images.detach(), weight, bias, 1, 2, 1, 4).float().sum().backward()
    assert images.grad is None
    assert weight.grad.abs().sum() > 0


def test_an_encoder_of_the_default_has_them(calls):
    encoder = timm.create_model("tf_efficientnet_lite0", pretrained=False)
    with ON_CPU.autocast(), ON_CPU.fast_gradients():
        encoder(torch.zeros(2, 3, 64, 64)).float().sum().backward()
    assert len(calls) == 11  # of 16 blocks; the others have kernels of 3 x 3 that do not stride


@pytest.mark.parametrize(
    "device",
    [
        Device("cpu", "cpu"),
        Device("cpu", "cpu", amp_dtype=BF16, backend="ipex"),
        Device("cpu", "cpu", amp_dtype=BF16, compiler="inductor"),
        Device("cuda", "cuda", amp_dtype=BF16),
    ],
)
def test_other_devices_backends_and_precisions_are_left_alone(device):
    assert not isinstance(device.fast_gradients(), FastDepthwise)
