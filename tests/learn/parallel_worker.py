"""What processes see that train together, as JSON: two ("pair", "resumed", "limited"), or up to
three ("counts").

They are forked from this one, so that libraries are imported once, and find each other by the
variables that torchrun sets.
"""

import copy
import faulthandler
import itertools
import json
import multiprocessing
import os
import signal
import sys
import time
from datetime import timedelta
from functools import partial
from pathlib import Path

import torch
import torch._dynamo  # which DDP would import in every process
import torch.distributed as dist
from conftest import write_chips
from safetensors.torch import load_file
from torch import nn

from roadseg.errors import RoadsegError
from roadseg.learn.hardware.devices import pick_device
from roadseg.learn.hardware.distributed import (
    Parallel,
    freeze_unused,
    parallel,
)
from roadseg.learn.network.losses import loss_of, loss_sums
from roadseg.learn.network.models import NetworkSpec, build_model
from roadseg.learn.options import LossOptions, TrainOptions
from roadseg.learn.training import epochs, trainer
from roadseg.learn.training import train as training
from roadseg.learn.training.train import TrainingJob, train
from roadseg.learn.training.trainer import Trainer
from roadseg.roads.speeds import DEFAULT_BINS

STEPS, BATCH, PX = 10, 2, 32
WEIGHTS = LossOptions()
torch.set_num_threads(1)
training.check_batch = lambda *_, **__: None  # which takes longer than a step


def gathered(mine, parallel):
    """Give what each process holds."""
    every = [None] * parallel.size
    dist.all_gather_object(every, mine)
    return every


def flat(tensors):
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def spread(replicas):
    """Give the largest difference of one number between processes."""
    stacked = torch.stack(replicas)
    return float((stacked.max(0).values - stacked.min(0).values).max())


def sums_and_flags(together):
    value = torch.tensor([1.0 + together.rank], requires_grad=True)
    total = together.sum_with_gradient(value)
    (total**2).sum().backward()
    return {
        "place": [together.rank, together.size, together.local_rank, together.local_size],
        "first": together.first,
        "total": total.item(),
        "gradient": float(value.grad),
        "counts": together.sum(torch.tensor([together.rank + 1, 10])).tolist(),
        "sum_wants_gradient": together.sum(value).requires_grad,
        "any": [together.any(flag) for flag in (together.rank == 1, False)],
        "largest": together.largest(together.rank, -together.rank),
    }


def new_model():
    """Give a U-Net with batch norm frozen."""
    torch.manual_seed(0)
    spec = {"encoder": "tu-test_resnet", "decoder_channels": (32, 16, 16, 8, 8)}
    model = build_model(NetworkSpec(**spec, in_channels=3, classes=3))
    return model.to(memory_format=torch.channels_last).eval()


def batches():
    """Give each step's images and masks; the second half of a batch has hardly a valid pixel."""
    rng = torch.Generator().manual_seed(1)
    images = torch.rand((STEPS, 2 * BATCH, 3, PX, PX), generator=rng)
    masks = (images[:, :, 0] > 0.9).to(torch.uint8) + (images[:, :, 1] > 0.9).to(torch.uint8)
    masks[:, BATCH:, 8:] = 255
    return list(zip(images, masks, strict=True))


def take_steps(network, together, *, halves):
    """Train with SGD and momentum on a part of each batch; give losses and weights."""
    optimizer = torch.optim.SGD(network.parameters(), lr=0.02, momentum=0.9, fused=True)
    losses = []
    for images, masks in batches():
        sums = loss_sums(network(images[halves]), masks[halves], weights=WEIGHTS)
        loss = loss_of(together.sum_with_gradient(sums), weights=WEIGHTS)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, flat(network.parameters())


def wrapped(together, model, device):
    return together.wrap(model, device=device)


def shared_training(together, device, model):
    """Train on two halves together, and on the whole alone."""
    alone, begun = copy.deepcopy(model), flat(model.parameters())
    mine = slice(together.rank * BATCH, (together.rank + 1) * BATCH)
    losses, weights = take_steps(wrapped(together, model, device), together, halves=mine)
    replicas = gathered(weights, together)
    if not together.first:
        return {}
    expected_losses, expected = take_steps(alone, Parallel(), halves=slice(None))
    return {
        "replicas": spread(replicas),
        "weights": float((weights - expected).abs().max()),
        "moved": float((weights - begun).abs().max()),
        "losses": max(abs(a - b) for a, b in zip(losses, expected_losses, strict=True)),
        "fell": losses[0] - losses[-1],
    }


class WithSpareLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.spare = nn.Linear(2, 1), nn.Linear(2, 1)

    def forward(self, images):
        return self.used(images)


def spare_layer(together, device):
    model = WithSpareLayer()
    freeze_unused(model, torch.zeros(1, 2))
    network = wrapped(together, model, device)
    for _ in range(3):  # DDP complains at the second pass
        network(torch.ones(1, 2)).sum().backward()
    return [name for name, weight in model.named_parameters() if weight.requires_grad]


def pair(device, model):
    """Give what two processes see, who have met before, as for an earlier fold."""
    with parallel(device) as together:
        before = gathered(together.rank, together)
    with parallel(device) as together:
        return {
            "before": before,
            "basics": gathered(sums_and_flags(together), together),
            "training": shared_training(together, device, model),
            "spare": spare_layer(together, device),
        }


def error_of(act, device, **options):
    """Let the second process do something while the first waits for it; give the error of that."""
    try:
        with parallel(device, **options) as together:
            if together.rank == 1:
                act()
            together.sum(torch.zeros(1))
    except RoadsegError as error:
        return str(error)
    return ""


def failing(device):
    return error_of(partial(sys.exit, 3), device)


def stopped(device):
    """Do not answer for longer than the other waits."""
    return error_of(partial(time.sleep, 4), device, patience=timedelta(seconds=3))


def whole_training(
    device,
    chips,
    folder,
    *,
    interruption=None,
    tick=time.monotonic,
    **changes,
):
    """Train on two chips for two epochs of three steps each, validate on a third."""
    small = {"encoder": "tu-test_resnet", "encoder_weights": None, "window_px": 32}
    small |= {"decoder_channels": (32, 16, 16, 8, 8)}
    small |= {"batch_size": 4, "epochs": 2, "windows_per_chip": 6}
    job = TrainingJob(
        *(chips[:2], chips[2:3]),
        TrainOptions(**small | changes),
        facts={"bands": [1, 2, 3], "gsd_m": 0.5, "resample_m": None, "nodata": None},
        bins=DEFAULT_BINS,
        device=device,
    )
    with parallel(device) as together:
        if interruption:
            interrupt(together, *interruption)
        train(job, folder, parallel=together, workers=0, tick=tick)


def interrupt(together, owner, name, call, how):
    """Kill all processes before the n-th call of a function, or ask the first one to stop."""
    if how == "killed":
        epochs.SAVE_S = 0.0
    calls, original = itertools.count(1), getattr(owner, name)

    def counted(*args, **options):
        if next(calls) == call:
            if how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            elif together.first:
                os.kill(os.getpid(), signal.SIGTERM)
        return original(*args, **options)

    setattr(owner, name, counted)


STOPS = [  # one after the other, of two epochs of three steps
    (Trainer, "step", 2, "stopped"),  # within an epoch
    (Trainer, "step", 1, "stopped"),  # by its last step
    (Trainer, "evaluate", 1, "stopped"),
    (Trainer, "step", 1, "killed"),  # after an epoch
    (epochs, "validate", 1, "killed"),  # after the last step of one
]


def differences(one, other):
    """Give the names of the tensors of two checkpoint folders that are not equal bit for bit."""
    found = []
    for which in ("best", "last"):
        a, b = (load_file(folder / f"{which}.safetensors") for folder in (one, other))
        assert a.keys() == b.keys()
        found += [f"{which}: {name}" for name in a if not torch.equal(a[name], b[name])]
    return found


def resumed(folder):
    """Give what differs between a training with interruptions and one that was left alone."""
    training = partial(whole_training, chips=write_chips(folder, chip_px=64))
    assert run(partial(training, folder=folder / "alone"), 2)[0] == [0, 0]
    again = partial(training, folder=folder / "again")
    for stop in STOPS:
        is_killed = "killed" in stop
        ends, _ = run(partial(again, interruption=stop), 2)
        assert ends == ([-signal.SIGKILL] * 2 if is_killed else [143, 143]), stop
    assert run(again, 2)[0] == [0, 0]
    return differences(folder / "alone", folder / "again")


def with_limit(device, folder, chips):
    """Train by a clock that is slower in the second process; write the rates of all steps."""
    rank, rates, step = int(os.environ["RANK"]), [], Trainer.step

    def watched(self, batch, *, rate):
        rates.append(rate)
        return step(self, batch, rate=rate)

    Trainer.step = watched
    tick = itertools.count(0.0, [1.0, 0.75][rank]).__next__
    whole_training(device, chips, folder, minutes=0.3, epochs=4, tick=tick)
    (folder / f"rates-{rank}.json").write_text(json.dumps(rates))


def limited(folder):
    """Give rates and facts of a training by two processes whose time is limited."""
    limited = partial(with_limit, folder=folder, chips=write_chips(folder, chip_px=64))
    assert run(limited, 2)[0] == [0, 0]
    rates = [json.loads((folder / f"rates-{rank}.json").read_text()) for rank in (0, 1)]
    return {"rates": rates, "facts": (folder / "last.json").read_text()}


def curves(folder):
    """Give the numbers of each epoch that do not depend on the clock."""
    lines = (folder / "metrics.csv").read_text().splitlines()
    names, *rows = [line.split(",")[:-2] for line in lines]
    assert lines[0].split(",")[-2:] == ["seconds", "windows_per_s"]
    return names, [[float(value) for value in row] for row in rows]


def build_sgd(weights, *, rate, device):  # noqa: ARG001 - as `build_optimizer` takes it
    """Build an optimizer in the place of Adam."""
    return torch.optim.SGD(weights, lr=rate, momentum=0.9)


def counts(folder):
    """Give the curves of trainings by one and three processes, and by three and then two."""
    together = partial(whole_training, chips=write_chips(folder, chip_px=64))
    # A batch of five is shared as 5, 2 + 3, and 1 + 2 + 2. Larger steps, and those of Adam,
    # multiply what is rounded: weights moved by 6e-8 change the losses by 1e-4 then.
    trainer.build_optimizer = build_sgd
    together = partial(together, batch_size=5, windows_per_chip=10, window_px=64)
    together = partial(together, warmup_steps=0, learning_rate=0.01)
    # A wider decoder learns more in so few steps than may differ between the curves.
    together = partial(together, decoder_channels=(128, 64, 32, 16, 16))
    for size in (1, 3):
        assert run(partial(together, folder=folder / str(size)), size)[0] == [0] * size
    lost = partial(together, folder=folder / "3 and 2")
    kept = partial(lost, interruption=(Trainer, "step", 4, "killed"))
    assert run(kept, 3)[0] == [-signal.SIGKILL] * 3
    assert run(lost, 2)[0] == [0, 0]
    return {name: curves(folder / name) for name in ("1", "3", "3 and 2")}


def run(program, size):
    """Run a program in so many processes; give how they ended and what the first one found."""
    forks = multiprocessing.get_context("fork")
    found, ports = forks.SimpleQueue(), forks.SimpleQueue()
    keeper = forks.Process(target=keep_store, args=(ports,), daemon=True)
    keeper.start()
    port = ports.get()
    processes = [
        forks.Process(target=member, args=(program, rank, size, port, found), daemon=True)
        for rank in range(size)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    keeper.kill()
    return [process.exitcode for process in processes], None if found.empty() else found.get()


def keep_store(ports):
    """Keep the store in which the processes find each other.

    Its server is a thread, and what a thread holds at a fork is held in the new process for ever:
    this one forks none.
    """
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    ports.put(store.port)
    signal.pause()


def member(program, rank, size, port, found):
    """Be one of the processes; say where it stands, and end, if that takes far too long."""
    faulthandler.dump_traceback_later(120, exit=True)
    os.environ |= {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(size),
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # that of `keep_store`
        "TORCHELASTIC_RESTART_COUNT": "0",
    }
    mine = program(pick_device("cpu", "fp32"))
    if rank == 0:
        found.put(mine)


def everything(name, folder):
    """Run what the name stands for."""
    if name == "counts":
        return [0], counts(folder)
    if name == "limited":
        return [0], limited(folder)
    if name == "resumed":
        return [0], resumed(folder)
    ends, found = run(partial(pair, model=new_model()), 2)
    errors = {program.__name__: run(program, 2)[1] for program in (failing, stopped)}
    return ends, found | {"errors": errors}


if __name__ == "__main__":
    ends, found = everything(sys.argv[1], Path(sys.argv[2]).parent)
    if any(ends):
        sys.exit("a process failed; its error stands above")
    Path(sys.argv[2]).write_text(json.dumps(found), encoding="utf-8")
