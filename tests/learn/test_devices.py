"""Picking a device: what is there, what is asked for, and never something else."""

import logging

import pytest
import torch

from roadseg.errors import ConfigError, DeviceError
from roadseg.learn import devices
from roadseg.learn.devices import pick_device


@pytest.fixture
def without_cuda(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture
def with_cuda(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Some GPU")


def cpu_fast_at_bf16(monkeypatch, *, fast):
    monkeypatch.setattr(devices, "_cpu_is_fast_at_bf16", lambda: fast)


@pytest.mark.parametrize(("fast", "dtype"), [(True, torch.bfloat16), (False, None)])
def test_auto_takes_bf16_on_a_cpu_only_where_it_is_fast(monkeypatch, fast, dtype):
    cpu_fast_at_bf16(monkeypatch, fast=fast)
    assert pick_device("cpu", "auto").amp_dtype is dtype


@pytest.mark.usefixtures("without_cuda")
def test_auto_falls_to_the_cpu_and_says_why():
    device = pick_device("auto", "fp32")
    assert device.type == "cpu"
    assert "CUDA" in device.reason


@pytest.mark.usefixtures("with_cuda")
def test_auto_prefers_a_gpu_with_the_precision_it_is_fast_at(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: True)
    device = pick_device()
    assert (device.type, device.amp_dtype) == ("cuda", torch.bfloat16)
    assert device.reason == "cuda (Some GPU, found), bf16 (fast at bf16)"


@pytest.mark.usefixtures("without_cuda")
def test_a_gpu_that_is_not_there_is_an_error():
    with pytest.raises(DeviceError, match=r"device cuda: torch .* CUDA"):
        pick_device("cuda")


@pytest.mark.usefixtures("with_cuda")
def test_bf16_on_a_gpu_without_it_is_an_error(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: False)
    with pytest.raises(DeviceError, match="choose fp32 or auto"):
        pick_device("cuda", "bf16")


@pytest.mark.parametrize(("fast", "warnings"), [(False, 1), (True, 0)])
def test_bf16_on_a_slow_cpu_warns_and_runs(monkeypatch, caplog, fast, warnings):
    cpu_fast_at_bf16(monkeypatch, fast=fast)
    with caplog.at_level(logging.WARNING):
        device = pick_device("cpu", "bf16")
    assert len(caplog.records) == warnings
    with device.autocast():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.bfloat16


def test_fp32_computes_in_fp32(cpu):
    with cpu.autocast():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.float32


@pytest.mark.parametrize(("name", "precision"), [("gpu", "auto"), ("cpu", "fp8")])
def test_an_unknown_name_is_a_config_error(name, precision):
    with pytest.raises(ConfigError, match="expected one of"):
        pick_device(name, precision)


def test_only_four_dimensional_tensors_become_channels_last(cpu):
    assert cpu.to(torch.zeros(2, 3, 4, 5)).is_contiguous(memory_format=torch.channels_last)
    assert cpu.to(torch.zeros(2, 3, 4)).is_contiguous()


@pytest.mark.parametrize(
    ("found", "fast"), [({"amx_bf16": True}, True), ({"avx512_bf16": True}, True), ({}, False)]
)
def test_amx_and_avx512_bf16_make_a_cpu_fast(monkeypatch, found, fast):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: found, raising=False)
    assert pick_device("cpu").amp_dtype is (torch.bfloat16 if fast else None)


def test_an_older_torch_is_asked_in_its_own_way(monkeypatch):
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    assert pick_device("cpu").amp_dtype is torch.bfloat16
