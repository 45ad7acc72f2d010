"""Picking a device: what is there, what is asked for, and never something else."""

import logging
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from roadseg.errors import ConfigError, DeviceError
from roadseg.learn.hardware import cpu, devices
from roadseg.learn.hardware.devices import Device, missing, pick_device
from roadseg.learn.options import ComputeOptions


def fake_build(monkeypatch, *, cuda=None, hip=None):
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.version, "hip", hip)


@pytest.fixture
def without_gpu(monkeypatch):
    fake_build(monkeypatch, cuda="13.2")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_built", lambda: False)


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
        built = {"hip": "7.1"} if architecture else {"cuda": "13.2"}
        fake_build(monkeypatch, **built)
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


@pytest.fixture
def with_gpu(gpu):
    gpu()


def only_emulated(including_emulation=True):
    """Stand for torch's answer about a GPU that computes bfloat16 slowly."""
    return including_emulation


def fake_cpu(monkeypatch, *, fast):
    monkeypatch.setattr(cpu, "is_fast_at_bf16", lambda: fast)
    monkeypatch.setattr(cpu, "is_fast_at_fp16", lambda: fast)


@pytest.mark.parametrize(("fast", "precision"), [(True, "bf16"), (False, "fp32")])
def test_auto_takes_bf16_on_a_cpu_only_where_it_is_fast(monkeypatch, fast, precision):
    fake_cpu(monkeypatch, fast=fast)
    assert pick_device("cpu", "auto").precision == precision


@pytest.mark.usefixtures("without_gpu")
def test_auto_falls_to_the_cpu_and_says_why():
    device = pick_device("auto", "fp32")
    assert device.type == "cpu"
    assert "finds no cuda device or driver" in device.reason


@pytest.mark.usefixtures("without_gpu")
def test_auto_says_when_torch_is_for_the_cpu_alone(monkeypatch):
    fake_build(monkeypatch)
    assert pick_device("auto", "fp32").reason == (
        f"cpu (torch {torch.__version__} supports no other device), fp32 (requested)"
    )


@pytest.mark.usefixtures("with_gpu")
def test_auto_prefers_a_gpu_with_the_precision_it_is_fast_at():
    device = pick_device()
    assert (device.type, device.amp_dtype) == ("cuda", torch.bfloat16)
    assert device.reason == "cuda (Some GPU, found), bf16 (native)"


@pytest.mark.usefixtures("with_gpu")
def test_auto_takes_fp16_on_a_gpu_without_bf16(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", only_emulated)
    assert pick_device().precision == "fp16"


@pytest.mark.parametrize(
    ("machine", "name", "told"),
    [
        ("without_gpu", "cuda", r"^device cuda: torch .* finds no cuda device or driver"),
        ("with_gpu", "rocm", "not built for rocm but for cuda"),
        ("without_gpu", "hpu", r"the package habana_frameworks is missing.*Gaudi"),
    ],
)
def test_a_device_that_is_not_there_is_an_error_that_names_it(request, machine, name, told):
    request.getfixturevalue(machine)
    with pytest.raises(DeviceError, match=told):
        pick_device(name)


@pytest.mark.usefixtures("with_gpu")
def test_bf16_on_a_gpu_without_it_is_an_error(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", only_emulated)
    with pytest.raises(DeviceError, match="choose auto or fp32"):
        pick_device("cuda", "bf16")


@pytest.mark.parametrize(
    ("name", "module", "built", "words"),
    [
        ("xpu", torch.xpu, {"_is_compiled": False}, "not built for xpu"),
        ("xpu", torch.xpu, {"_is_compiled": True}, "finds no xpu device or driver"),
        ("mps", torch.backends.mps, {"is_built": False}, "not built for mps"),
        ("mps", torch.backends.mps, {"is_built": True}, "finds no mps device or driver"),
    ],
)
def test_a_device_that_is_not_there_says_whether_torch_or_the_driver_lacks(
    monkeypatch, name, module, built, words
):
    for key, value in (built | {"is_available": False}).items():
        monkeypatch.setattr(module, key, lambda value=value: value)
    assert words in missing(name)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize(("fast", "warnings"), [(False, 1), (True, 0)])
def test_mixed_precision_on_a_slow_cpu_warns_and_runs(
    monkeypatch, caplog, precision, fast, warnings
):
    fake_cpu(monkeypatch, fast=fast)
    with caplog.at_level(logging.WARNING):
        device = pick_device("cpu", precision)
    assert len(caplog.records) == warnings
    with device.autocast():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is device.amp_dtype


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize(("dtype", "mixed"), [(None, False), (torch.bfloat16, True)])
def test_fp32_is_not_mixed_with_another_precision(monkeypatch, kind, dtype, mixed):
    asked = {}
    monkeypatch.setattr(torch, "autocast", lambda _, **options: asked.update(options))
    Device(kind, kind, dtype).autocast()
    assert asked["enabled"] is mixed


@pytest.mark.parametrize(
    ("precision", "scales"), [("fp32", False), ("bf16", False), ("fp16", True)]
)
def test_only_fp16_scales_the_loss(monkeypatch, precision, scales):
    fake_cpu(monkeypatch, fast=True)
    assert pick_device("cpu", precision).scaler().is_enabled() is scales


def test_networks_and_tensors_of_four_dimensions_become_channels_last_unless_rows_are_wanted(cpu):
    layouts = {True: torch.channels_last, False: torch.contiguous_format}
    for channels_last, layout in layouts.items():
        device = replace(cpu, channels_last=channels_last)
        assert device.to(torch.zeros(2, 3, 4, 5)).is_contiguous(memory_format=layout)
        assert device.to(nn.Conv2d(3, 4, 3)).weight.is_contiguous(memory_format=layout)
        assert device.to(torch.zeros(2, 3, 4)).is_contiguous()


@pytest.mark.parametrize("slower", [True, False])
def test_a_cpu_trains_in_the_format_it_is_faster_with_and_predicts_channels_last(
    monkeypatch, slower
):
    monkeypatch.setattr(cpu, "trains_slower_channels_last", lambda: slower)
    device = pick_device("cpu", "fp32")
    assert (device.channels_last, device.in_inference.channels_last) == (not slower, True)


def test_an_accelerator_keeps_its_format_in_inference(cpu):
    assert not replace(cpu, type="hpu", channels_last=False).in_inference.channels_last


def test_what_is_not_compiled_and_not_native_is_left_as_it_is(cpu):
    network = nn.Conv2d(1, 1, 1)
    optimizer = torch.optim.SGD(network.parameters())
    assert cpu.compile(network) is network
    assert cpu.for_training(network, optimizer) == (network, optimizer)
    assert cpu.for_inference(network) is network


def test_compiling_for_a_cpu_needs_a_compiler(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler -O2")
    with pytest.raises(
        DeviceError, match=r"no compiler found \(no-such-compiler -O2\); install it"
    ):
        pick_device("cpu", "fp32", compiled=True)


def test_compiling_for_a_cpu_with_a_compiler_is_told(monkeypatch):
    monkeypatch.setenv("CXX", shutil.which("true"))
    device = pick_device("cpu", "fp32", compiled=True)
    assert device.compiler == "inductor"
    assert device.reason.endswith("compiled by inductor")


@pytest.mark.usefixtures("with_gpu")
def test_compiling_for_a_gpu_needs_triton(monkeypatch):
    monkeypatch.setenv("CC", shutil.which("true"))
    monkeypatch.setattr(devices, "find_spec", lambda _: None)
    with pytest.raises(DeviceError, match="the package triton is not installed"):
        pick_device("cuda", "fp32", compiled=True)


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"name": "cuda"}, "not cuda"),
        ({"compiled": True}, "cannot be compiled"),
        ({"precision": "fp16"}, "fp32 or bf16"),
    ],
    ids=str,
)
def test_ipex_refuses_what_it_cannot_do(choices, words):
    with pytest.raises(ConfigError, match=words):
        pick_device(**choices, backend="ipex")


@pytest.mark.parametrize("architecture", [None, "gfx90a", "gfx942", "gfx950"])
def test_nvidia_gpus_mi200_and_later_take_channels_last_and_bf16(gpu, architecture):
    gpu(architecture)
    device = pick_device("rocm" if architecture else "cuda")
    assert (device.channels_last, device.precision) == (True, "bf16")


@pytest.mark.parametrize("architecture", ["gfx908", "gfx1030", "gfx1100", "gfx1201"])
def test_other_amd_gpus_take_rows_of_bands_and_fp16_unless_bf16_is_asked_for(gpu, architecture):
    gpu(architecture)
    device = pick_device("rocm")
    assert (device.channels_last, device.precision) == (False, "fp16")
    assert f"fp16 ({architecture} is not an AMD Instinct MI200 or later)" in device.reason
    assert not device.in_inference.channels_last
    assert pick_device("rocm", "bf16").precision == "bf16"


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
