#!/usr/bin/env python
"""Measure what local and hierarchical SGD save where processes straggle, and what they cost.

    scripts/bench_stragglers.py [--processes 2,4,8] [--json] ...

Processes on this machine train a tiny network together by gloo, three ways: gradients averaged at
every step (synchronous), weights averaged at every --period steps (local), and in groups at every
--period and over all at four times that (hierarchical). Computing is emulated: each step sleeps
--compute-ms, so that more processes than cores do not disturb each other. Stragglers are emulated
by more sleep: with probability --chance each process by itself sleeps --delay-ms more at a step;
with --slow-node the last quarter of the processes, at least one, sleeps it at every step instead.

The ways take turns in rounds; times are those of the slowest process, ratios are taken within a
round, and medians over rounds are printed. The last column is the loss that the same number of
steps ends with, on windows that no process has seen: weights that are averaged less often are not
the same weights. Real stragglers, networks and models are none of this; measure those on the
cluster itself.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import time
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch
import torch._dynamo  # which DDP would import in every process
import torch.distributed as dist
from torch import nn

from roadseg.learn.hardware.devices import pick_device
from roadseg.learn.hardware.distributed import Parallel, parallel, unwrapped
from roadseg.learn.training.local_sgd import HierarchicalAverager

FEATURES, BATCH, NOISE = 16, 8, 0.5
SYNCHRONOUS, LOCAL, HIERARCHICAL = "synchronous", "local", "hierarchical"


def hierarchies(processes: int, period: int) -> dict[str, dict[int, int]]:
    """Return the periods and groups of each way; two processes have no groups to make."""
    ways: dict[str, dict[int, int]] = {SYNCHRONOUS: {}, LOCAL: {period: processes}}
    if processes > 2:  # noqa: PLR2004 - a group of two
        ways[HIERARCHICAL] = {period: processes // 2, 4 * period: processes}
    return ways


def delays_ms(options: argparse.Namespace, *, rank: int, processes: int, turn: int) -> np.ndarray:
    """Draw how much longer each step of a process takes; every way of a round draws the same."""
    if options.slow_node:
        slow = rank >= processes - max(1, processes // 4)
        return np.full(options.steps, options.delay_ms if slow else 0.0)
    rng = np.random.default_rng([options.seed, turn, processes, rank])
    return options.delay_ms * (rng.random(options.steps) < options.chance)


def windows(rng: torch.Generator, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw inputs, and what a fixed network that is to be learnt says to them, with noise."""
    inputs = torch.randn((count, FEATURES), generator=rng)
    wanted = torch.tanh(inputs[:, :4].sum(1)) + inputs[:, 4] * inputs[:, 5]
    return inputs, (wanted + NOISE * torch.randn(count, generator=rng)).unsqueeze(1)


def new_network(seed: int) -> nn.Module:
    """Build the tiny network, the same in all processes."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, 1))


def train(
    together: Parallel, hierarchy: dict[int, int], options: argparse.Namespace, turn: int
) -> tuple[float, float]:
    """Take the steps of one way; give the seconds of the slowest process, and the final loss."""
    network = together.wrap(
        new_network(options.seed),
        device=pick_device("cpu", "fp32"),
    )
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    averager = HierarchicalAverager(
        together, network, hierarchy=hierarchy, warmup_steps=0, optimizer=optimizer
    )
    rng = torch.Generator().manual_seed(1000 * turn + together.rank)
    extra = delays_ms(options, rank=together.rank, processes=together.size, turn=turn)
    together.wait()
    begun = time.perf_counter()
    for step in range(1, options.steps + 1):
        inputs, wanted = windows(rng, BATCH)
        time.sleep((options.compute_ms + extra[step - 1]) / 1000)
        with together.accumulating(network, last=averager.synchronous(step)):
            nn.functional.mse_loss(network(inputs), wanted).backward()
        optimizer.step()
        optimizer.zero_grad()
        averager.average(step)
    together.wait()
    seconds = time.perf_counter() - begun
    averager.average_all()
    with torch.no_grad():
        unseen, wanted = windows(torch.Generator().manual_seed(0), 4096)
        loss = nn.functional.mse_loss(unwrapped(network)(unseen), wanted)
    return seconds, loss.item()


def member(
    rank: int, processes: int, port: int, options: argparse.Namespace, results: Connection
) -> None:
    """Be one of the processes; the first one sends what came out, for each round and way."""
    torch.set_num_threads(1)
    os.environ |= {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "RANK": str(rank),
        "WORLD_SIZE": str(processes),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(processes),
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # the one that `measure` keeps
        "TORCHELASTIC_RESTART_COUNT": "0",
    }
    ways = hierarchies(processes, options.period)
    with parallel(pick_device("cpu", "fp32")) as together:
        rounds = []
        for turn in range(options.rounds):
            order = list(ways)[turn % len(ways) :] + list(ways)[: turn % len(ways)]
            rounds.append({way: train(together, ways[way], options, turn) for way in order})
        if together.first:
            results.send(rounds)


def measure(processes: int, options: argparse.Namespace) -> list[dict[str, tuple[float, float]]]:
    """Start the processes, forked from this one; give seconds and loss of each round and way."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    forks = multiprocessing.get_context("fork")
    here, there = forks.Pipe(duplex=False)
    members = [
        forks.Process(target=member, args=(rank, processes, store.port, options, there))
        for rank in range(processes)
    ]
    for process in members:
        process.start()
    there.close()
    for process in members:
        process.join()
    if any(process.exitcode for process in members):
        sys.exit("a process failed; its error stands above")
    return here.recv()


def summary(processes: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure, and give a row for each way."""
    rounds = measure(processes, options)
    rows: list[dict[str, Any]] = []
    for way, hierarchy in hierarchies(processes, options.period).items():
        ratios = [each[SYNCHRONOUS][0] / each[way][0] for each in rounds]
        step_s = statistics.median(each[way][0] for each in rounds) / options.steps
        rows.append(
            {
                "processes": processes,
                "way": way,
                "hierarchy": hierarchy,
                "ms_per_step": round(1000 * step_s, 2),
                "speed_up": round(statistics.median(ratios), 3),
                "speed_up_range": [round(min(ratios), 3), round(max(ratios), 3)],
                "final_loss": round(statistics.median(each[way][1] for each in rounds), 4),
            }
        )
    return rows


def numbers(text: str) -> list[int]:
    """Read numbers of processes: even ones, so that they make groups."""
    numbers = [int(part) for part in text.split(",")]
    if any(number < 2 or number % 2 for number in numbers):  # noqa: PLR2004 - a pair
        raise argparse.ArgumentTypeError("expected even numbers such as 2,4,8")
    return numbers


def show(rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """Print what was emulated, and a table."""
    stragglers = f"each process by itself, with probability {options.chance:g} a step,"
    if options.slow_node:
        stragglers = "the last quarter of the processes, at every step,"
    print(
        f"Emulated: a step sleeps {options.compute_ms:g} ms in place of computing; "
        f"{stragglers} {options.delay_ms:g} ms more.\n"
        f"{options.steps} steps, {options.rounds} rounds, medians; speed-up over synchronous.\n"
    )
    print("processes  way           period: group   ms/step  speed-up (range)      final loss")
    for row in rows:
        groups = ", ".join(f"{period}: {size}" for period, size in row["hierarchy"].items())
        low, high = row["speed_up_range"]
        print(
            f"{row['processes']:>9}  {row['way']:<12}  {groups or '-':<14}  "
            f"{row['ms_per_step']:>7.2f}  {row['speed_up']:>5.2f} ({low:.2f}-{high:.2f})  "
            f"{row['final_loss']:>14.4f}"
        )


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processes", type=numbers, default=[2, 4, 8])
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--period", type=int, default=4)
    parser.add_argument("--compute-ms", type=float, default=20.0)
    parser.add_argument("--delay-ms", type=float, default=60.0)
    parser.add_argument("--chance", type=float, default=0.1)
    parser.add_argument("--slow-node", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print one JSON object, no table")
    options = parser.parse_args()
    rows = [row for processes in options.processes for row in summary(processes, options)]
    if options.json:
        print(json.dumps({"emulated": True, "options": vars(options), "rows": rows}))
    else:
        show(rows, options)


if __name__ == "__main__":
    main()
