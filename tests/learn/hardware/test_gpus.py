"""GPUs, none of which is here: what they would be told."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from roadseg.learn.hardware import devices
from roadseg.learn.hardware.devices import Device, pick_device
from roadseg.learn.options import ComputeOptions


@pytest.fixture(autouse=True)
def as_before():
    """Give back the settings of this process that the tests change."""
    precision, cudnn = torch.get_float32_matmul_precision(), torch.backends.cudnn
    before = cudnn.allow_tf32, cudnn.benchmark
    yield
    torch.set_float32_matmul_precision(precision)
    cudnn.allow_tf32, cudnn.benchmark = before


@pytest.fixture
def gpu(monkeypatch):
    """Give a function that pretends that there is a GPU, of AMD if an architecture is named."""

    def pretend(architecture=None):
        monkeypatch.setattr(torch.version, "cuda", None if architecture else "13.2")
        monkeypatch.setattr(torch.version, "hip", "7.1" if architecture else None)
        properties = SimpleNamespace(gcnArchName=f"{architecture}:sramecc+:xnack-")
        for name, value in {
            "is_available": True,
            "get_device_name": "Some GPU",
            "is_bf16_supported": True,
            "current_device": 0,
            "get_device_properties": properties,
        }.items():
            monkeypatch.setattr(torch.cuda, name, lambda *_, _value=value, **__: _value)

    return pretend


@pytest.mark.parametrize("architecture", ["gfx90a", "gfx942", "gfx950"])
def test_mi200_and_later_take_channels_last_and_bf16(gpu, architecture):
    gpu(architecture)
    device = pick_device("rocm")
    assert (device.channels_last, device.precision) == (True, "bf16")


@pytest.mark.parametrize("architecture", ["gfx908", "gfx1030", "gfx1100", "gfx1201"])
def test_other_amd_gpus_take_rows_of_bands_and_fp16(gpu, architecture):
    gpu(architecture)
    device = pick_device("rocm")
    assert (device.channels_last, device.precision) == (False, "fp16")
    assert f"fp16 ({architecture} is not an AMD Instinct MI200 or later)" in device.reason
    assert not device.in_inference.channels_last


def test_bf16_that_is_asked_for_is_taken_on_any_amd_gpu(gpu):
    gpu("gfx1100")
    assert pick_device("rocm", "bf16").precision == "bf16"


def test_an_nvidia_gpu_is_not_asked_for_an_architecture_of_amd(gpu):
    gpu()
    assert pick_device("cuda").channels_last


def test_a_gpu_may_round_products_of_float32(gpu):
    gpu()
    devices.chosen_device(ComputeOptions())
    assert torch.backends.cudnn.allow_tf32
    assert torch.get_float32_matmul_precision() == "high"


def test_each_device_compiles_with_its_own_compiler(monkeypatch):
    calls = []
    monkeypatch.setattr(nn.Module, "compile", lambda _, **options: calls.append(options))
    monkeypatch.setattr(devices, "_missing_compiler", lambda _: "")
    options = ComputeOptions(compile=True, device="cpu", precision="fp32")
    devices.chosen_device(options).compile(nn.Identity())
    Device("hpu", "hpu", compiler="hpu_backend").compile(nn.Identity())
    assert calls == [{"backend": "inductor"}, {"backend": "hpu_backend"}]
