"""Processes that train together: what they add up, what they become, how they find each other."""

import sys
from dataclasses import replace
from datetime import timedelta
from types import ModuleType

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from roadseg.errors import ConfigError, DeviceError, RoadsegError
from roadseg.learn.hardware import distributed
from roadseg.learn.hardware.distributed import Parallel, SharedBatchNorm, freeze_unused, parallel

SECOND_OF_FOUR = {
    "RANK": "1",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29500",
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory, seen_by):
    """Give what two processes saw."""
    return seen_by("pair", tmp_path_factory.mktemp("pair"))


@pytest.fixture
def environment(monkeypatch):
    """Give a function that sets torchrun's variables, and those alone."""

    def set_variables(**changes):
        for name, value in (SECOND_OF_FOUR | changes).items():
            monkeypatch.delenv(name, raising=False)
            if value is not None:
                monkeypatch.setenv(name, value)

    return set_variables


@pytest.fixture
def joined(monkeypatch):
    """Let groups be made on paper; give the list of what was called."""
    calls = []

    def record(name, result=None):
        return lambda *args, **options: calls.append((name, args, options)) or result

    monkeypatch.setattr(dist, "is_backend_available", lambda _: True)
    monkeypatch.setattr(dist, "rendezvous", lambda *_, **__: iter([(dist.HashStore(), 1, 4)]))
    monkeypatch.setattr(dist, "init_process_group", record("init"))
    monkeypatch.setattr(dist, "new_group", record("group", "control"))
    monkeypatch.setattr(dist, "destroy_process_group", record("destroy"))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    monkeypatch.setattr(torch.accelerator, "set_device_index", record("take"))
    return calls


def gaudi(monkeypatch):
    """Put a package in place that looks like Gaudi's."""
    for name in ("", ".torch", ".torch.distributed", ".torch.distributed.hccl"):
        module = ModuleType(f"habana_frameworks{name}")
        monkeypatch.setitem(sys.modules, module.__name__, module)


def test_two_processes_learn_what_one_does_with_twice_the_batch(pair):
    assert pair["training"]["weights"] < 1e-6
    assert pair["training"]["losses"] < 1e-6
    assert pair["training"]["moved"] > 1e-2


def test_two_processes_hold_the_same_weights(pair):
    assert pair["training"]["replicas"] == 0


def test_processes_meet_again_for_the_next_training(pair):
    assert pair["before"] == [0, 1]


def test_each_process_knows_its_place(pair):
    assert [seen["place"] for seen in pair["basics"]] == [[0, 2, 0, 2], [1, 2, 1, 2]]
    assert [seen["first"] for seen in pair["basics"]] == [True, False]


def test_sums_are_over_all_processes(pair):
    assert [seen["counts"] for seen in pair["basics"]] == [[3, 20]] * 2
    assert not any(seen["sum_wants_gradient"] for seen in pair["basics"])


def test_the_gradient_of_a_total_is_multiplied_because_gradients_are_averaged(pair):
    """The total is 1 + 2 = 3; the slope of its square is 6, times 2 processes."""
    assert [(seen["total"], seen["gradient"]) for seen in pair["basics"]] == [(3, 12)] * 2


def test_a_flag_of_one_process_is_seen_by_all(pair):
    assert [seen["any"] for seen in pair["basics"]] == [[True, False]] * 2


def test_each_number_is_that_of_the_process_with_the_largest(pair):
    assert [seen["largest"] for seen in pair["basics"]] == [[1, 0]] * 2


def test_weights_that_are_not_used_do_not_stop_the_exchange(pair):
    assert pair["spare"] == ["used.weight", "used.bias"]


def test_a_process_that_ends_or_does_not_answer_ends_the_others_with_a_line(pair):
    errors = pair["errors"]
    assert errors["failing"].startswith("one of 2 processes that train together has ended; run")
    assert errors["stopped"].startswith("one of 2 processes has not answered for 0.05 minutes")


@pytest.mark.parametrize("error", [RuntimeError("a bug"), KeyError("gloo")])
@pytest.mark.usefixtures("joined")
def test_an_error_that_is_not_about_the_others_is_left_alone(cpu, environment, error):
    environment()
    with pytest.raises(type(error), match=error.args[0]), parallel(cpu):
        raise error


def test_looking_for_unused_weights_changes_nothing_else():
    model = nn.Sequential(nn.Conv2d(3, 2, 1), nn.BatchNorm2d(2)).train()
    model[0].bias.requires_grad_(False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    freeze_unused(model, torch.rand(2, 3, 4, 4))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert model.training
    assert [w.requires_grad for w in model.parameters()] == [True, False, True, True]
    assert model[0].weight.grad is None


@pytest.mark.parametrize(
    "variables",
    [
        {"RANK": None, "WORLD_SIZE": None},
        {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"},
    ],
    ids=["alone", "under torchrun"],
)
def test_a_single_process_joins_nothing(cpu, environment, variables):
    environment(**variables)
    with parallel(cpu) as alone:
        assert alone == Parallel(rank=0, size=1)
        assert not dist.is_initialized()


def test_a_single_process_is_given_back_what_it_gives(cpu):
    alone, value, model = Parallel(), torch.ones(2, requires_grad=True), nn.Linear(1, 1)
    assert alone.wrap(model, device=cpu) is model
    assert alone.sum_with_gradient(value) is value
    assert alone.sum(value).tolist() == [1, 1]
    assert (alone.any(True), alone.any(False), alone.first) == (True, False, True)
    alone.wait()


@pytest.mark.parametrize("name", sorted(SECOND_OF_FOUR))
def test_an_incomplete_environment_names_what_is_missing(cpu, environment, name):
    environment(**{name: None})
    with pytest.raises(ConfigError, match=f"^{name}: not set.*torchrun"), parallel(cpu):
        pass


def test_gloo_is_its_own_control_group(cpu, environment, joined):
    environment()
    with parallel(cpu) as together:
        assert together.control is None
    assert [name for name, *_ in joined] == ["init", "destroy"]
    assert joined[0][1] == ("gloo",)
    assert joined[0][2]["device_id"] is None


@pytest.mark.parametrize(
    ("gpu", "bound"), [(("cuda", "nccl"), torch.device("cuda", 1)), (("xpu", "xccl"), None)]
)
def test_a_gpu_is_that_of_the_local_rank_and_has_its_language(cpu, environment, joined, gpu, bound):
    name, backend = gpu
    environment()
    with parallel(replace(cpu, name=name, type=name, dist_backend=backend)) as together:
        assert together.control == "control"
    assert joined[0] == ("take", (1,), {})
    assert joined[1][1] == (backend,)
    assert joined[1][2]["device_id"] == bound
    assert joined[2][2]["backend"] == "gloo"


def test_gaudi_speaks_hccl_once_its_package_is_imported(monkeypatch, cpu, environment, joined):
    environment()
    gaudi(monkeypatch)
    with parallel(replace(cpu, name="hpu", type="hpu", dist_backend="hccl")) as together:
        assert together.control == "control"
    assert [name for name, *_ in joined] == ["init", "group", "destroy"]
    assert joined[0][1] == ("hccl",)


def test_a_missing_gaudi_package_is_named(cpu, environment):
    environment()
    hpu = replace(cpu, name="hpu", type="hpu", dist_backend="hccl")
    message = r"habana_frameworks\.torch\.distributed\.hccl cannot be imported"
    with pytest.raises(DeviceError, match=message), parallel(hpu):
        pass


def test_a_torch_without_the_backend_is_an_error(cpu, environment):
    environment()
    other = replace(cpu, name="xpu", type="xpu", dist_backend="no_such_backend")
    message = r"device xpu: .* without no_such_backend"
    with pytest.raises(DeviceError, match=message), parallel(other):
        pass


@pytest.mark.usefixtures("joined")
def test_more_processes_than_gpus_are_an_error(cpu, environment):
    gpu = replace(cpu, type="cuda", dist_backend="nccl")
    environment(LOCAL_WORLD_SIZE="2")
    with parallel(gpu) as together:
        assert together.local_size == 2
    environment(LOCAL_WORLD_SIZE="3")
    message = r"3 processes on this machine, expected at most 2, .* start fewer \(--processes"
    with pytest.raises(DeviceError, match=message), parallel(gpu):
        pass


def test_a_machine_that_cannot_be_reached_is_named(monkeypatch, cpu, environment):
    monkeypatch.setattr(distributed, "JOINING", timedelta(seconds=1))
    environment(MASTER_ADDR="nowhere.invalid")
    message = r"process 1 of 4 cannot join the others at nowhere\.invalid:29500"
    with pytest.raises(RoadsegError, match=message), parallel(cpu):
        pass


def test_a_group_is_left_as_it_is_when_an_error_flies(cpu, environment, joined):
    environment()
    with pytest.raises(KeyError), parallel(cpu):
        raise KeyError
    assert [name for name, *_ in joined] == ["init"]


GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
LAYOUTS = [torch.contiguous_format, torch.channels_last]


@pytest.fixture
def alone():
    """Join a group of this process alone."""
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    yield Parallel()
    dist.destroy_process_group()


class AsCuda(TorchDispatchMode):
    """Kernels that refuse what those of CUDA do: gradients without saved statistics."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.native_batch_norm_backward.default:
            saved_mean, saved_inverse = args[5:7]
            assert saved_mean is not None
            assert saved_inverse is not None
        return func(*args, **(kwargs or {}))


def normalised(*, place="cpu", dtype=torch.float32, layout=torch.contiguous_format):
    """Return values, gradients and running statistics of batch norm in training."""
    torch.manual_seed(0)
    images = (3 * torch.randn(4, 6, 8, 8) + 1).to(place, dtype, memory_format=layout)
    images.requires_grad_()
    weight, bias = (torch.rand(6).to(place).requires_grad_() for _ in range(2))
    mean, var = torch.zeros(6, device=place), torch.ones(6, device=place)
    slopes = torch.randn(4, 6, 8, 8).to(place, dtype, memory_format=layout)
    values = functional.batch_norm(images, mean, var, weight, bias, training=True)
    values.backward(slopes)
    return [values.detach(), images.grad, weight.grad, bias.grad, mean, var]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("place", ["cpu", pytest.param("cuda", marks=GPU)])
def test_a_process_alone_normalises_as_torch_does(alone, place, dtype, layout):
    expected = normalised(place=place, dtype=dtype, layout=layout)
    with SharedBatchNorm(alone):
        found = normalised(place=place, dtype=dtype, layout=layout)
    within = {"rtol": 1e-4, "atol": 1e-5} if dtype is torch.float32 else {"rtol": 0.02, "atol": 0.1}
    for mine, torchs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, torchs, **within)


def test_the_kernels_of_cuda_are_given_what_they_ask_for(alone):
    with SharedBatchNorm(alone), AsCuda():
        assert all(value.isfinite().all() for value in normalised())
