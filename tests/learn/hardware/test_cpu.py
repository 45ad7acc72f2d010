"""CPU features: asked from torch, else read from the file in which Linux describes the CPUs."""

import sys
from collections import defaultdict
from pathlib import Path

import pytest
import torch

from roadseg.learn.hardware import cpu


def told_by_torch(monkeypatch, **found):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: found, raising=False)


def write_cpuinfo(folder, flags):
    text = f"processor\t: 0\nflags\t\t: {flags}\n\nprocessor\t: 1\nflags\t\t: {flags}\n"
    (folder / "cpuinfo").write_text(text)
    return folder / "cpuinfo"


@pytest.mark.parametrize(
    ("found", "fast"),
    [
        ({"amx_bf16": True}, True),
        ({"avx512_bf16": True}, True),
        ({"avx512_f": True, "avx512_vnni": True, "amx_int8": True}, False),
        ({}, False),
    ],
)
def test_amx_and_avx512_bf16_make_a_cpu_fast_at_bf16(monkeypatch, found, fast):
    told_by_torch(monkeypatch, **found)
    assert cpu.is_fast_at_bf16() is fast


@pytest.mark.parametrize(
    ("found", "fast"),
    [({"amx_fp16": True}, True), ({"avx512_fp16": True}, True), ({"amx_bf16": True}, False)],
)
def test_fp16_needs_instructions_of_its_own(monkeypatch, found, fast):
    told_by_torch(monkeypatch, **found)
    assert cpu.is_fast_at_fp16() is fast


def test_flags_of_linux_become_features(tmp_path):
    cpuinfo = write_cpuinfo(tmp_path, "fpu avx2 avx512f avx512_vnni amx_tile")
    found = {name for name, there in cpu.read_flags(cpuinfo).items() if there}
    assert found == {"avx2", "avx512_f", "avx512_vnni", "amx_tile"}


def test_a_flag_is_read_whole(tmp_path):
    assert not cpu.read_flags(write_cpuinfo(tmp_path, "avx512_bf16_x"))["avx512_bf16"]


def test_without_the_file_no_feature_is_known(tmp_path):
    assert not any(cpu.read_flags(tmp_path / "cpuinfo").values())


def test_an_older_torch_leaves_it_to_linux(monkeypatch, tmp_path):
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    cpuinfo = write_cpuinfo(tmp_path, "avx512_bf16")
    monkeypatch.setattr(cpu, "Path", lambda _: cpuinfo)
    assert cpu.is_fast_at_bf16()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc/cpuinfo")
@pytest.mark.skipif(not hasattr(torch.cpu, "get_capabilities"), reason="this torch cannot tell")
def test_torch_and_linux_agree_about_this_cpu():
    assert cpu.features() == cpu.read_flags(Path("/proc/cpuinfo"))


@pytest.mark.parametrize(
    ("found", "slower"),
    [({"avx2"}, True), ({"avx2", "avx512_f"}, False), (set(), False)],
)
def test_channels_last_is_slower_in_training_with_avx2_alone(monkeypatch, found, slower):
    monkeypatch.setattr(cpu, "features", lambda: defaultdict(bool, dict.fromkeys(found, True)))
    assert cpu.trains_slower_channels_last() is slower
