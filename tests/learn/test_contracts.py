"""What each accelerator is asked to do in a training step, recorded by fakes on a CPU.

None of this ran on the hardware. The fakes stand for Gaudi's packages and for what torch tells of
a GPU; the training step, the network and the optimizer are real and compute on the CPU.
"""

import os
import sys
from dataclasses import replace
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import nn

from roadseg.errors import ConfigError, DeviceError
from roadseg.learn.hardware.devices import missing, pick_device
from roadseg.learn.hardware.distributed import Parallel
from roadseg.learn.options import TrainOptions
from roadseg.learn.training import trainer as training
from roadseg.learn.training.trainer import Trainer
from roadseg.raster.scaling import Scaling

GAUDI = "habana_frameworks"


class Recorder(nn.Conv2d):
    """A network of one convolution that records how it is called."""

    def __init__(self, events):
        super().__init__(3, 2, 3, padding=1)
        self.events = events

    def forward(self, images):
        logits = super().forward(images)
        self.events.append(f"forward {str(logits.dtype).removeprefix('torch.')}")
        if logits.requires_grad:
            logits.register_hook(lambda _: self.events.append("backward"))
        return logits


def train(device, events, *, steps=3, place="cpu"):
    """Take some steps as on a device; return the optimizer and the losses."""
    torch.manual_seed(0)
    device = replace(device, type=place)  # what is done hangs on the name, not on the type
    model = device.to(Recorder(events))
    options = TrainOptions(learning_rate=0.01)
    scaling = Scaling({}, (127.0,) * 3, (64.0,) * 3)
    trainer = Trainer(model, options, scaling=scaling, device=device, parallel=Parallel())
    images = torch.arange(2 * 3 * 8 * 8, dtype=torch.uint8).reshape(2, 3, 8, 8)
    masks = (images[:, 0] > 60).to(torch.uint8)
    losses = [float(trainer.step((images, masks), rate=0.01)) for _ in range(steps)]
    return trainer._optimizer, losses  # noqa: SLF001


def gaudi_packages(events, devices):
    """Return fakes of the modules of Gaudi's bridge that are used, by name."""

    def fused(base):
        class Fused(base):
            def __init__(self, parameters, **options):
                self.options = options
                options = {key: options[key] for key in options if key != "nesterov"}
                super().__init__(parameters, **options)

            def step(self, closure=None):
                events.append("step")
                return super().step(closure)

        return Fused

    class FusedClipNorm:
        def __init__(self, parameters, max_norm):
            assert not list(parameters), "for float32 it needs no parameter to look at"
            events.append("build clip")
            self.max_norm = max_norm

        def clip_norm(self, parameters):
            events.append("clip")
            nn.utils.clip_grad_norm_(parameters, self.max_norm)

    def wrap_in_hpu_graph(module):
        events.append("graph")
        return module

    return {
        "": {},
        ".torch": {},
        ".torch.core": {"mark_step": lambda: events.append("mark")},
        ".torch.hpu": {
            "is_available": lambda: devices > 0,
            "synchronize": lambda: events.append("synchronize"),
            "wrap_in_hpu_graph": wrap_in_hpu_graph,
        },
        ".torch.hpex": {},
        ".torch.hpex.normalization": {"FusedClipNorm": FusedClipNorm},
        ".torch.hpex.optimizers": {
            "FusedAdamW": fused(torch.optim.AdamW),
            "FusedSGD": fused(torch.optim.SGD),
        },
        ".torch.utils": {},
        ".torch.utils.internal": {"is_lazy": lambda: os.environ["PT_HPU_LAZY_MODE"] != "0"},
    }


@pytest.fixture
def events():
    return []


@pytest.fixture
def gaudi(monkeypatch, events):
    """Give a function that puts Gaudi's packages and a device in place, in a mode."""

    def put(*, lazy, devices=1):
        for name, contents in gaudi_packages(events, devices).items():
            module = ModuleType(GAUDI + name)
            module.__spec__ = ModuleSpec(GAUDI + name, None, is_package=True)
            module.__dict__.update(contents)
            monkeypatch.setitem(sys.modules, GAUDI + name, module)
        hpu = sys.modules[f"{GAUDI}.torch.hpu"]
        monkeypatch.setattr(torch, "hpu", hpu, raising=False)
        monkeypatch.setenv("PT_HPU_LAZY_MODE", "1" if lazy else "0")
        training._hpu_clipper.cache_clear()  # noqa: SLF001

    yield put
    training._hpu_clipper.cache_clear()  # noqa: SLF001


def pick_with(patches, *choices, **options):
    """Pick a device while torch tells what it would with some other hardware."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in patches:
            patch.setattr(module, name, value)
        return pick_device(*choices, **options)


def tell(value):
    return lambda *_, **__: value


CPU_BUILD = [(torch.version, "cuda", None), (torch.version, "hip", None)]
XPU = [
    *CPU_BUILD,
    (torch.xpu, "_is_compiled", tell(True)),
    (torch.xpu, "is_available", tell(True)),
    (torch.xpu, "is_bf16_supported", tell(True)),
    (torch.xpu, "get_device_name", tell("Some Arc")),
]
ROCM = [
    (torch.version, "cuda", None),
    (torch.version, "hip", "6.4"),
    (torch.cuda, "is_available", tell(True)),
    (torch.cuda, "is_bf16_supported", tell(True)),
    (torch.cuda, "get_device_name", tell("Some Instinct")),
    (torch.cuda, "current_device", tell(0)),
    (torch.cuda, "get_device_properties", tell(SimpleNamespace(gcnArchName="gfx942:xnack-"))),
]
MPS = [
    *CPU_BUILD,
    (torch.backends.mps, "is_built", tell(True)),
    (torch.backends.mps, "is_available", tell(True)),
]


@pytest.mark.parametrize("lazy", [True, False])
def test_only_a_lazy_hpu_is_marked_after_backward_and_after_the_step(gaudi, events, lazy):
    gaudi(lazy=lazy)
    train(pick_device("hpu"), events, steps=2)
    mark = ["mark"] * lazy
    first = ["forward bfloat16", "backward", *mark, "build clip", "clip", "step", *mark]
    assert events == first + [event for event in first if event != "build clip"]


def test_the_optimizer_of_gaudi_is_told_all_that_torch_would_assume(gaudi, events):
    gaudi(lazy=False)
    optimizer, _ = train(pick_device("hpu"), events, steps=1)
    expected = {"lr": 0.01, "weight_decay": 0.0, "betas": (0.9, 0.999), "eps": 1e-8}
    assert optimizer.options == expected


def test_an_hpu_takes_steps_of_the_same_size_as_a_cpu(gaudi, events):
    gaudi(lazy=True)
    _, on_hpu = train(pick_device("hpu", "fp32"), events)
    _, on_cpu = train(pick_device("cpu", "fp32"), events)
    assert on_hpu == pytest.approx(on_cpu, rel=1e-5)
    assert on_hpu[-1] < on_hpu[0]


def test_only_a_lazy_hpu_predicts_from_a_graph(gaudi, events):
    for lazy in (False, True):
        gaudi(lazy=lazy)
        pick_device("hpu").for_inference(Recorder(events))
    assert events == ["graph"]


def test_an_hpu_talks_by_hccl_and_keeps_its_own_layout(gaudi):
    gaudi(lazy=False)
    device = pick_with(CPU_BUILD)
    assert (device.name, device.type, device.dist_backend) == ("hpu", "hpu", "hccl")
    assert (device.channels_last, device.lazy, device.precision) == (False, False, "bf16")


def test_a_package_without_an_hpu_is_told(gaudi):
    gaudi(lazy=False, devices=0)
    assert missing("hpu") == "habana_frameworks finds no Gaudi device or driver"


def test_a_package_for_another_torch_is_told(gaudi, monkeypatch, tmp_path):
    gaudi(lazy=False)
    (tmp_path / "core.py").write_text("assert False, 'torch 2.9\\nis needed'")
    monkeypatch.delitem(sys.modules, f"{GAUDI}.torch.core")
    sys.modules[f"{GAUDI}.torch"].__path__ = [str(tmp_path)]
    assert missing("hpu") == "habana_frameworks cannot be loaded (torch 2.9 is needed)"


def test_an_hpu_has_no_fp16(gaudi):
    gaudi(lazy=False)
    with pytest.raises(DeviceError, match="choose bf16 or fp32"):
        pick_device("hpu", "fp16")


def test_an_eager_hpu_compiles_with_its_own_backend(gaudi):
    gaudi(lazy=False)
    assert pick_device("hpu", "fp32", compiled=True).compiler == "hpu_backend"


def test_a_lazy_hpu_refuses_to_compile(gaudi):
    gaudi(lazy=True)
    with pytest.raises(ConfigError, match="set PT_HPU_LAZY_MODE=0"):
        pick_device("hpu", compiled=True)


@pytest.mark.parametrize("machine", [XPU, ROCM], ids=["xpu", "rocm"])
def test_other_gpus_train_in_bf16_with_a_fused_optimizer(events, machine):
    optimizer, losses = train(pick_with(machine), events, steps=2)
    assert events == ["forward bfloat16", "backward"] * 2
    assert optimizer.defaults["fused"]
    assert losses[1] < losses[0]


@pytest.mark.parametrize(
    ("machine", "names", "reason"),
    [
        (XPU, ("xpu", "xpu", "xccl"), "xpu (Some Arc, found), bf16 (native)"),
        (ROCM, ("rocm", "cuda", "nccl"), "rocm (Some Instinct, found), bf16 (native)"),
    ],
    ids=["xpu", "rocm"],
)
def test_other_gpus_talk_their_languages_and_read_pinned_memory(machine, names, reason):
    device = pick_with(machine)
    assert (device.name, device.type, device.dist_backend) == names
    assert (device.pin_memory, device.channels_last, device.lazy) == (True, True, False)
    assert device.reason == reason


def test_fp16_scales_the_loss_and_clips_what_is_scaled_back(events):
    _, in_fp16 = train(pick_with(ROCM, "rocm", "fp16"), events)
    _, in_fp32 = train(pick_with(ROCM, "rocm", "fp32"), events)
    assert events[0] == "forward float16"
    assert in_fp16 == pytest.approx(in_fp32, rel=0.01)


def test_mps_computes_in_fp32_unless_asked():
    device = pick_with(MPS)
    assert (device.name, device.precision, device.pin_memory) == ("mps", "fp32", False)
    assert pick_with(MPS, "mps", "fp16").precision == "fp16"


def test_mps_is_not_compiled_for():
    with pytest.raises(ConfigError, match="no compiler for mps"):
        pick_with(MPS, "mps", compiled=True)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_a_real_gpu_takes_the_same_steps_as_a_cpu(events, precision):
    device = pick_device("auto", precision)
    _, losses = train(device, events, place=device.type)
    assert losses == pytest.approx(train(pick_device("cpu", "fp32"), events)[1], rel=0.02)
