"""Engines: one network behind each of them, and the fastest that can be trusted is taken."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
from torch import nn

from roadseg.errors import CheckpointError, ConfigError, DeviceError, RoadsegError
from roadseg.learn.inference import engines, int8, openvino
from roadseg.learn.inference.engines import Engine, at_sizes, ensemble, open_engine, with_tta
from roadseg.learn.inference.int8 import (
    int8_folder,
    is_judged,
    read_int8_facts,
    remove_int8_facts,
    write_int8_facts,
)
from roadseg.learn.network.checkpoints import Checkpoint

SCALING = {"ranges": {"uint8": [[0, 255]] * 3}, "mean": [100.0] * 3, "std": [50.0] * 3}


class Brightness(nn.Module):
    """Stands for a network: its logits are the bands, of which each adds to every class."""

    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.mix = nn.Conv2d(3, 8, 3, padding=1)

    def forward(self, images):
        return self.mix(images)


def checkpoint_of(seed=0):
    return Checkpoint(Brightness(seed).eval(), {"scaling": SCALING})


def windows_of(count=2, side_px=64):
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, 3, side_px, side_px), generator=generator).byte()


@pytest.fixture
def folder(tmp_path):
    """Give a checkpoint folder: only the digest of its weights matters here."""
    (tmp_path / "best.safetensors").write_bytes(b"weights")
    return tmp_path


@pytest.fixture
def open_here(folder, cpu):
    """Give a function that opens an engine in the folder."""

    def open_(name, checkpoint=None, **changes):
        options = {"device": cpu, "window_px": 64, "batch_size": 2, "windows": 10**6}
        return open_engine(checkpoint or checkpoint_of(), folder, name=name, **options | changes)

    return open_


@pytest.fixture
def choice(monkeypatch, open_here, cpu):
    """Give a function that says which engine is taken and why, without opening it.

    The device computes in bfloat16 with AMX, and the windows are too few for converting to pay, but
    enough for opening a quantised network, unless another number is given.
    """
    monkeypatch.setattr(openvino, "why_missing", lambda: None)
    monkeypatch.setattr(engines.cpu, "features", lambda: {"amx_bf16": True})
    monkeypatch.setattr(openvino, "open", lambda *_, **__: None)
    for name in ("_converted", "compiler_of", "_compile_now"):
        monkeypatch.setattr(engines, name, lambda *_: None)

    def choose(name="auto", **changes):
        device = replace(cpu, amp_dtype=torch.bfloat16)
        engine = open_here(name, **{"device": device, "windows": 6000} | changes)
        return engine.name, engine.reason

    return choose


def make(folder, *, passed=True):
    """Leave the facts of a network that was quantised and judged."""
    int8_folder(folder).mkdir(parents=True, exist_ok=True)
    for file in int8.FILES:
        (int8_folder(folder) / file).write_bytes(b"made")
    return write_int8_facts(folder, {"passed": passed})


def test_eager_gives_the_probabilities_of_normalised_windows(open_here):
    checkpoint, windows = checkpoint_of(), windows_of()
    found = open_here("eager", checkpoint).run(windows)
    wanted = checkpoint.model((windows.float() - 100) / 50).sigmoid()
    assert (found.dtype, found.shape) == (torch.float32, (2, 8, 64, 64))
    torch.testing.assert_close(found, wanted.detach())


def test_eager_in_bfloat16_gives_float32_close_to_it(open_here, cpu):
    exact = open_here("eager").run(windows_of())
    found = open_here("eager", device=replace(cpu, amp_dtype=torch.bfloat16)).run(windows_of())
    assert found.dtype == torch.float32
    assert 0 < (found - exact).abs().max() < 0.02


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no compiler g++")
def test_compiled_networks_of_one_kind_keep_their_own_weights(open_here):
    checkpoints = [checkpoint_of(seed) for seed in (0, 1)]
    compiled = [open_here("inductor", each) for each in checkpoints]
    for checkpoint, engine in zip(checkpoints, compiled, strict=True):
        wanted = open_here("eager", checkpoint).run(windows_of())
        torch.testing.assert_close(engine.run(windows_of()), wanted, atol=1e-5, rtol=0)


def test_openvino_is_for_cpus(open_here, cpu):
    with pytest.raises(ConfigError, match="engine openvino is for device cpu, not cuda"):
        open_here("openvino", device=replace(cpu, name="cuda", type="cuda"))


def constant(value):
    return Engine("eager", f"engine of {value}", 2, 64, lambda w: torch.full(w.shape, value))


def test_several_engines_give_their_mean():
    kept = torch.full((2, 3, 64, 64), 0.6)
    unchanged = Engine("eager", "engine that keeps", 2, 64, lambda _: kept)
    engine = ensemble([constant(0.2), unchanged])
    torch.testing.assert_close(engine.run(windows_of()), torch.full((2, 3, 64, 64), 0.4))
    assert (engine.batch_size, engine.window_px) == (2, 64)
    assert engine.reason == "mean of 2: engine of 0.2; engine that keeps"
    assert (kept == 0.6).all()


def test_every_turn_is_turned_back():
    engine = Engine("eager", "", 2, 64, lambda windows: windows / 255)
    found = with_tta(engine).run(windows_of())
    torch.testing.assert_close(found, windows_of() / 255, rtol=0, atol=2e-3)


def test_windows_are_shown_in_all_four_rotations():
    seen = []

    def run(windows):
        seen.append(windows)
        return windows.float()

    with_tta(Engine("eager", "", 2, 64, run)).run(windows_of())
    assert len({bytes(windows.numpy()) for windows in seen}) == 4
    assert all(windows.is_contiguous() for windows in seen)


def test_what_lies_in_one_corner_is_spread_over_all_four():
    corner = torch.full((1, 1, 2, 2), 0.5)
    corner[..., 0, 0] = 0.8
    engine = with_tta(Engine("eager", "", 1, 2, lambda _: corner))
    odds = 4 ** (1 / 4)  # 4 to 1 in the corner, 1 to 1 elsewhere
    torch.testing.assert_close(
        engine.run(windows_of(1, 2)), torch.full((1, 1, 2, 2), odds / (1 + odds))
    )


def engine_of(side, run):
    return Engine("eager", f"engine at {side}", 1, side, run)


def test_windows_are_seen_at_every_size_and_what_is_found_is_put_back():
    ramp = torch.arange(64).expand(1, 1, 64, 64).to(torch.uint8)
    seen = []

    def run(windows):
        seen.append((windows.dtype, windows.shape[-1]))
        return windows / 255

    engine = at_sizes([engine_of(side, run) for side in (64, 32, 96)], 64)
    found = engine.run(ramp)
    assert seen == [(torch.uint8, 64), (torch.uint8, 32), (torch.uint8, 96)]
    inside = (..., slice(4, -4))
    torch.testing.assert_close(found[inside], (ramp / 255)[inside], rtol=0, atol=2e-3)
    assert engine.window_px == 64
    assert engine.reason == "engine at 64, windows of 64 px at 64 and 32 and 96 px"


def seen_at(side, row):
    """Return a row of what an engine for windows of a side sees; all rows of them are alike."""
    windows = torch.tensor(row, dtype=torch.uint8).expand(1, 1, len(row), len(row))
    seen = []
    engine = engine_of(side, lambda windows: seen.append(windows) or windows / 255)
    at_sizes([engine], len(row)).run(windows)
    return seen[0][0, 0, 0].double()


@pytest.mark.parametrize(
    ("side", "row"), [(32, [0, 240, 0] * 32), (96, range(64))], ids=["stripes", "ramp"]
)
def test_windows_of_another_size_are_as_bright(side, row):
    assert seen_at(side, row)[4:-4].mean() == pytest.approx(sum(row) / len(row), abs=0.2)


def test_what_is_seen_lies_where_it_was():
    seen = seen_at(32, [0] * 4 + [200] * 8 + [0] * 52)
    middle = (seen * (torch.arange(32) + 0.5)).sum() / seen.sum()
    assert middle == pytest.approx(8 / 2, abs=0.05)


def test_the_mean_of_sizes_is_that_of_the_log_odds():
    def sure_of(value):
        return lambda windows: torch.full(windows.shape, value)

    engine = at_sizes([engine_of(64, sure_of(0.8)), engine_of(32, sure_of(0.5))], 64)
    torch.testing.assert_close(engine.run(windows_of(1)), torch.full((1, 3, 64, 64), 2 / 3))


def test_an_engine_of_another_name_is_named_as_well():
    other = Engine("openvino", "the other", 1, 32, None)
    engine = at_sizes([engine_of(64, None), other, engine_of(96, None)], 64)
    assert engine.reason == "engine at 64; the other, windows of 64 px at 64 and 32 and 96 px"


def test_windows_of_one_size_alone_are_not_resampled():
    engine = engine_of(64, lambda windows: windows)
    assert at_sizes([engine], 64) is engine


def test_auto_is_inductor_where_compile_is_on(choice, cpu):
    device = replace(cpu, compiler="inductor")
    assert choice(device=device, windows=1) == ("inductor", "engine inductor (compile is on)")


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_auto_converts_for_many_windows(choice, cpu, dtype):
    device = replace(cpu, amp_dtype=dtype)
    few, many = (choice(device=device, windows=n, window_px=512) for n in (119, 120))
    assert few == (
        "eager",
        "engine eager (not converted for OpenVINO: pays from 120 windows on, here 119)",
    )
    assert many[0] == "openvino"
    assert "converted: pays from 120 windows on, here 120" in many[1]


@pytest.mark.parametrize(("threads", "window_px", "enough"), [(1, 256, 480), (2, 512, 240)])
def test_of_small_windows_and_with_more_threads_it_takes_more_for_converting_to_pay(
    choice, monkeypatch, threads, window_px, enough
):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    found = [choice(windows=n, window_px=window_px)[0] for n in (enough - 1, enough)]
    assert found == ["eager", "openvino"]


def test_bfloat16_is_not_given_up_for_openvino(choice, monkeypatch):
    monkeypatch.setattr(engines.cpu, "features", lambda: {"amx_bf16": False})
    assert choice(windows=10**6) == (
        "eager",
        "engine eager (OpenVINO would compute in fp32 on this CPU)",
    )


@pytest.mark.parametrize(
    ("machine", "precision"),
    [
        ((None, True), "fp32"),
        ((torch.bfloat16, True), "bf16"),
        ((torch.bfloat16, False), "fp32"),
        ((torch.float16, True), "fp32"),
    ],
)
def test_openvino_computes_in_bfloat16_with_amx_where_that_may_be(
    open_here, cpu, monkeypatch, machine, precision
):
    dtype, amx = machine
    monkeypatch.setattr(engines.cpu, "features", lambda: {"amx_bf16": amx})
    device, checkpoint, windows = replace(cpu, amp_dtype=dtype), checkpoint_of(), windows_of()
    exact = open_here("eager", checkpoint).run(windows)
    engine = open_here("openvino", checkpoint, device=device)
    assert f"requested; {precision}, as" in engine.reason
    difference = float((engine.run(windows) - exact).abs().max())
    assert difference < (1e-4 if precision == "fp32" else 0.02)


def test_a_converted_network_that_computes_something_else_is_refused(open_here, cpu, monkeypatch):
    def wrong(windows):
        return torch.full((len(windows), 8, *windows.shape[2:]), 0.5)

    monkeypatch.setattr(openvino, "convert", lambda *_, **__: wrong)
    with pytest.raises(RoadsegError, match=r"differ from PyTorch's by .*; choose engine eager"):
        open_here("openvino", device=replace(cpu, amp_dtype=torch.bfloat16))


def test_what_openvino_cannot_convert_stays_with_pytorch(choice, cpu, monkeypatch):
    def refuse(*_):
        raise RoadsegError("this network cannot be converted")

    monkeypatch.setattr(engines, "_converted", refuse)
    found, reason = choice(device=cpu, windows=120, window_px=512)
    assert (found, "this network cannot be converted" in reason) == ("eager", True)


def test_without_openvino_nothing_is_converted(choice, cpu, monkeypatch):
    monkeypatch.setattr(openvino, "why_missing", lambda: "not installed")
    wanted = "engine eager (OpenVINO: not installed)"
    assert choice(device=cpu, windows=120, window_px=512) == ("eager", wanted)


@pytest.mark.parametrize(
    "changes", [{"name": "cuda", "type": "cuda"}, {"backend": "ipex"}], ids=["cuda", "ipex"]
)
def test_auto_is_eager_where_the_others_do_not_run(choice, cpu, folder, changes, monkeypatch):
    make(folder)
    monkeypatch.setattr(engines, "_by_torch", lambda name, why, *_: Engine(name, why, 2, 64, None))
    assert choice(device=replace(cpu, **changes))[0] == "eager"


def test_auto_takes_the_quantised_network_that_is_ready(choice, folder):
    make(folder)
    assert choice() == (
        "openvino",
        "engine openvino (INT8, accuracy verified when it was made)",
    )


@pytest.mark.parametrize("name", ["eager", "inductor"])
def test_an_engine_that_is_named_is_taken(choice, name):
    assert choice(name) == (name, f"engine {name} (requested)")


def test_openvino_is_int8_after_quantisation(choice, folder):
    _, before = choice("openvino")
    make(folder)
    assert before.endswith("(requested; bf16, as `roadseg quantize` was not run)")
    assert choice("openvino")[1] == "engine openvino (requested; INT8)"


def train_on(folder):
    (folder / "best.safetensors").write_bytes(b"trained on")


def change_a_file(folder):
    (int8_folder(folder) / "model.xml").write_bytes(b"evil")


def lose_a_file(folder):
    (int8_folder(folder) / "model.bin").unlink()


UNFIT = {
    "inaccurate": (False, None, "not accurate enough when it was made"),
    "of other weights": (True, train_on, "made from another checkpoint"),
    "of other files": (True, change_a_file, "model.xml was modified after it was made"),
    "without its file": (True, lose_a_file, "model.bin was modified after it was made"),
}


@pytest.mark.parametrize(("passed", "act", "why"), UNFIT.values(), ids=UNFIT)
def test_auto_leaves_out_what_does_not_fit_and_says_why(choice, folder, passed, act, why):
    make(folder, passed=passed)
    if act:
        act(folder)
    name, reason = choice()
    assert (name, f"not INT8: {why}" in reason) == ("eager", True)


@pytest.mark.parametrize(
    ("ask", "said"),
    [((openvino, "why_missing"), "pip install"), ((int8, "installed_version"), "99.0")],
    ids=["no OpenVINO", "another version, which would compute differently"],
)
def test_auto_leaves_out_what_cannot_be_run_as_it_was_made(choice, folder, monkeypatch, ask, said):
    make(folder)
    monkeypatch.setattr(*ask, lambda *_: said)
    found, reason = choice()
    assert (found, said in reason) == ("eager", True)


@pytest.mark.parametrize(("windows", "name"), [(5, "eager"), (6, "openvino")])
def test_opening_has_to_be_won_back(choice, folder, windows, name):
    make(folder)
    found, reason = choice(windows=windows, window_px=512)
    assert found == name
    assert (f"not INT8: pays from 6 windows on, here {windows}" in reason) is (name == "eager")


@pytest.mark.parametrize("passed", [True, False])
def test_a_network_is_judged_whatever_the_verdict_until_its_weights_change(folder, passed):
    assert not is_judged(folder)
    make(folder, passed=passed)
    assert is_judged(folder)
    (folder / "best.safetensors").write_bytes(b"trained on")
    assert not is_judged(folder)


@pytest.mark.parametrize("passed", [True, False])
def test_a_network_is_judged_again_by_another_version_of_openvino(folder, monkeypatch, passed):
    make(folder, passed=passed)
    monkeypatch.setattr(int8, "installed_version", lambda _: "99.0")
    assert not is_judged(folder)


def test_an_inaccurate_network_is_refused_by_its_name_too(choice, folder):
    make(folder, passed=False)
    with pytest.raises(CheckpointError, match="not accurate enough when it was made; run `roadseg"):
        choice("openvino")


def test_openvino_without_its_package_says_how_to_get_it(open_here, monkeypatch):
    monkeypatch.setattr(openvino, "why_missing", lambda: "pip install 'roadseg[openvino]'")
    with pytest.raises(DeviceError, match=r"engine openvino: pip install 'roadseg\[openvino\]'"):
        open_here("openvino")


def test_facts_come_back_as_they_were_written_until_they_are_removed(folder):
    assert make(folder) == read_int8_facts(folder)
    remove_int8_facts(folder)
    assert read_int8_facts(folder) is None


def test_facts_that_no_network_has_are_refused_in_one_line(folder):
    make(folder)
    path = int8_folder(folder) / "facts.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"files": {"model.bin": "0"}}))
    with pytest.raises(
        CheckpointError, match=r"facts\.json: .*files\.model\.bin: .*quantize.* again$"
    ) as error:
        read_int8_facts(folder)
    assert "\n" not in str(error.value)
