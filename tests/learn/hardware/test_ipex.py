"""IPEX: found to fit before it is imported; trains as PyTorch does, and leaves what that reads.

What needs the extension is skipped where it is not installed; scripts/test_ipex runs it in an
environment of its own.
"""

import logging
import subprocess
import sys
from copy import deepcopy
from importlib.metadata import PackageNotFoundError

import pytest
import torch
from torch import nn

from roadseg.errors import DeviceError
from roadseg.learn.hardware import ipex
from roadseg.learn.hardware.devices import pick_device
from roadseg.learn.training.trainer import build_optimizer, clip_gradients

needs_ipex = pytest.mark.skipif(bool(ipex.mismatch()), reason=ipex.mismatch())
each_precision = pytest.mark.parametrize("precision", ["fp32", "bf16"])


def installed(monkeypatch, **versions):
    def version(package):
        if package.replace("-", "_") not in versions:
            raise PackageNotFoundError(package)
        return versions[package.replace("-", "_")]

    monkeypatch.setattr(ipex, "version", version)


@pytest.fixture(autouse=True)
def _no_word_of_slow_bf16(caplog):
    caplog.set_level(logging.ERROR, "roadseg.learn.hardware.devices")


def pick(backend, precision="fp32"):
    return pick_device("cpu", precision, backend=backend)


def build(device):
    """Build a small U-Net and its optimizer, the same ones at each call."""
    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.Upsample(scale_factor=2), nn.Conv2d(16, 1, 3, padding=1)),
    )
    model = device.to(model).train()
    return model, build_optimizer(model.parameters(), rate=0.01, device=device)


def images(number):
    """Draw two windows with a bright road from top to bottom."""
    noise = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(number))
    road = torch.zeros(2, 1, 32, 32)
    road[..., 4 + number % 24 : 8 + number % 24] = 1
    return noise + 2 * road, road


def train(device, model, optimizer, numbers):
    """Take a step for each number; return the losses."""
    losses = []
    for number in numbers:
        seen, road = images(number)
        with device.autocast():
            logits = model(device.to(seen))
        loss = nn.functional.binary_cross_entropy_with_logits(logits.float(), road)
        loss.backward()
        clip_gradients(model.parameters(), device=device)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    return losses


def trained(backend, precision="fp32", *, steps=3):
    """Return a device, and a model and its optimizer after some steps on it."""
    device = pick(backend, precision)
    model, optimizer = device.for_training(*build(device))
    train(device, model, optimizer, range(steps))
    return device, model, optimizer


def saved(model, optimizer):
    return deepcopy(model.state_dict()), deepcopy(optimizer.state_dict())


def load(model, optimizer, states):
    """Load what `saved` gave, moments in the layout of their weights, as fused optimizers want."""
    weights, moments = states
    model.load_state_dict(weights)
    for weight, entries in zip(model.parameters(), moments["state"].values(), strict=True):
        for name, value in entries.items():
            if value.shape == weight.shape:
                entries[name] = torch.empty_like(weight).copy_(value)
    optimizer.load_state_dict(moments)


def predict(device, model, number=1000):
    model.eval()
    with torch.no_grad(), device.autocast():
        return model(device.to(images(number)[0])).float()


def test_a_missing_extension_is_told_with_how_to_install_it(monkeypatch):
    installed(monkeypatch, torch="2.8.0")
    with pytest.raises(DeviceError, match=r"is not installed; .*pip install 'roadseg\[ipex\]'"):
        pick("ipex")


def test_an_extension_for_another_torch_is_told_before_it_is_imported(monkeypatch):
    installed(monkeypatch, torch="2.15.0+cu132", intel_extension_for_pytorch="2.8.10+xpu")
    monkeypatch.setattr(ipex, "import_module", lambda _: pytest.fail("it was imported"))
    with pytest.raises(DeviceError, match=r"2\.8\.10\+xpu needs torch 2\.8, but torch 2\.15\.0"):
        pick("ipex")


@pytest.mark.parametrize(("torch_", "fits"), [("2.8.1", True), ("2.80.0", False), ("2.7", False)])
def test_major_and_minor_version_have_to_fit(monkeypatch, torch_, fits):
    installed(monkeypatch, torch=torch_, intel_extension_for_pytorch="2.8.0")
    assert (ipex.mismatch() == "") is fits


def test_an_extension_that_cannot_be_loaded_is_told(monkeypatch):
    installed(monkeypatch, torch="2.8.0", intel_extension_for_pytorch="2.8.0")
    monkeypatch.setattr(ipex, "features", lambda: {"avx2": True})
    monkeypatch.setitem(sys.modules, "intel_extension_for_pytorch", None)
    with pytest.raises(DeviceError, match=r"cannot be loaded .*choose backend native"):
        pick("ipex")


def test_a_cpu_without_avx2_is_told_before_the_import(monkeypatch):
    installed(monkeypatch, torch="2.8.0", intel_extension_for_pytorch="2.8.0")
    monkeypatch.setattr(ipex, "features", lambda: {"avx2": False})
    with pytest.raises(DeviceError, match="AVX2"):
        pick("ipex")


@needs_ipex
def test_the_import_prints_nothing_leaves_logging_alone_and_starts_no_compilers():
    program = (
        "import logging, threading; from roadseg.learn.hardware import ipex; ipex.load();"
        "assert threading.active_count() == 1;"
        "assert not logging.root.handlers; assert logging.getLoggerClass() is logging.Logger"
    )
    words = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs_ipex
def test_the_reason_names_the_backend():
    assert pick("ipex").reason == "cpu (requested), fp32 (requested), backend ipex"


@needs_ipex
def test_all_four_ways_reach_the_same_loss_after_50_steps():
    ends = {}
    for backend in ("native", "ipex"):
        for precision in ("fp32", "bf16"):
            device = pick(backend, precision)
            model, optimizer = device.for_training(*build(device))
            losses = train(device, model, optimizer, range(50))
            ends[backend, precision] = sum(losses[-5:]) / 5
    expected = ends["native", "fp32"]
    assert expected < 0.5 * losses[0]
    assert ends["ipex", "fp32"] == pytest.approx(expected, rel=1e-3)
    assert [ends["native", "bf16"], ends["ipex", "bf16"]] == pytest.approx([expected] * 2, rel=0.15)


@needs_ipex
@each_precision
def test_weights_trained_with_it_are_plain_float32_and_predict_without_it(precision):
    device, model, _ = trained("ipex", precision)
    native = pick("native", precision)
    plain, _ = build(native)
    plain.load_state_dict(model.state_dict())
    assert {value.dtype for value in model.state_dict().values()} == {torch.float32, torch.int64}
    # Logits up to 2 have steps of 0.008 in bfloat16, and CPUs with AMX add up in another order.
    tolerance = {"fp32": 1e-5, "bf16": 0.05}[precision]
    torch.testing.assert_close(
        predict(native, plain), predict(device, model), rtol=0, atol=tolerance
    )


@needs_ipex
@each_precision
def test_weights_trained_without_it_predict_with_it(precision):
    native, model, _ = trained("native", precision)
    device = pick("ipex", precision)
    names = list(model.state_dict())
    tolerance = {"fp32": 1e-5, "bf16": 0.05}[precision]
    torch.testing.assert_close(
        predict(device, device.for_inference(model)),
        predict(native, model),
        rtol=0,
        atol=tolerance,
    )
    assert list(model.state_dict()) == names, "the model itself is left as it was"


@needs_ipex
@each_precision
@pytest.mark.parametrize(
    ("backend", "next_backend"), [("ipex", "ipex"), ("ipex", "native"), ("native", "ipex")]
)
def test_a_training_goes_on_from_its_saved_state_as_if_never_stopped(
    precision, backend, next_backend
):
    device, model, optimizer = trained(backend, precision)
    states = saved(model, optimizer)
    straight = train(device, model, optimizer, range(3, 8))
    device = pick(next_backend, precision)
    model, optimizer = build(device)
    load(model, optimizer, states)
    model, optimizer = device.for_training(model, optimizer)
    tolerance = {"fp32": 1e-4, "bf16": 0.02}[precision]
    assert train(device, model, optimizer, range(3, 8)) == pytest.approx(straight, rel=tolerance)


@needs_ipex
def test_packed_weights_train_on_from_where_plain_ones_stopped(monkeypatch):
    native, model, optimizer = trained("native")
    states = saved(model, optimizer)
    straight = train(native, model, optimizer, range(3, 8))
    monkeypatch.setattr(ipex, "_can_pack", lambda: True)
    device = pick("ipex")
    model, optimizer = build(device)
    load(model, optimizer, states)
    model, optimizer = device.for_training(model, optimizer)
    assert model[0].weight.ndim > states[0]["0.weight"].ndim
    assert train(device, model, optimizer, range(3, 8)) == pytest.approx(straight, rel=1e-4)


@needs_ipex
@each_precision
def test_a_model_that_it_took_over_stays_the_same_object(precision):
    device = pick("ipex", precision)
    pair = build(device)
    assert all(a is b for a, b in zip(device.for_training(*pair), pair, strict=True))
    assert device.to(pair[0]) is pair[0]
