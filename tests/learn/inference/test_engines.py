"""Engines: one network behind each of them, and the fastest that can be trusted is taken."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
from torch import nn

from roadseg.errors import CheckpointError, ConfigError, DeviceError
from roadseg.learn.inference import engine_store, engines
from roadseg.learn.inference.engine_store import (
    engine_folder,
    read_engine_facts,
    remove_facts,
    write_facts,
)
from roadseg.learn.inference.engines import Engine, ensemble, open_engine, with_tta
from roadseg.learn.network.checkpoints import Checkpoint
from roadseg.raster.scaling import Scaling

SCALING = {"ranges": {"uint8": [[0, 255]] * 3}, "mean": [100.0] * 3, "std": [50.0] * 3}
PASSED = {"passed": True}


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
def choice(monkeypatch, open_here):
    """Give a function that says which engine is taken and why, without opening it."""
    for name in engine_store.PACKAGES:
        monkeypatch.setattr(f"roadseg.learn.inference.{name}.available", lambda: None)
    monkeypatch.setattr(engines, "lacks_compiler", lambda _: "")
    monkeypatch.setattr(engines, "_open", lambda *_: None)

    def choose(name="auto", **changes):
        engine = open_here(name, **changes)
        return engine.name, engine.reason

    return choose


def make(folder, name, **changes):
    """Leave the facts of an engine that was made and judged."""
    facts = {"window_px": 64, "batch_size": 2, "gate": PASSED} | changes
    engine_folder(folder, name).mkdir(parents=True, exist_ok=True)
    for file in engine_store.FILES[name]:
        (engine_folder(folder, name) / file).write_bytes(b"made")
    return write_facts(folder, name, **facts)


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


def test_eager_is_not_compiled_though_compile_is_on(open_here, cpu):
    device = replace(cpu, compiler="no such backend")
    assert open_here("eager", device=device).run(windows_of()).shape == (2, 8, 64, 64)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no compiler g++")
def test_compiled_networks_of_one_kind_keep_their_own_weights(open_here):
    checkpoints = [checkpoint_of(seed) for seed in (0, 1)]
    compiled = [open_here("inductor", each) for each in checkpoints]
    for checkpoint, engine in zip(checkpoints, compiled, strict=True):
        wanted = open_here("eager", checkpoint).run(windows_of())
        torch.testing.assert_close(engine.run(windows_of()), wanted, atol=1e-5, rtol=0)


def test_inductor_without_a_compiler_is_refused(open_here, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(DeviceError, match=r"no compiler found \(no-such-compiler\); install it"):
        open_here("inductor")


def test_inductor_and_ipex_do_not_go_together(open_here, cpu):
    with pytest.raises((ConfigError, DeviceError), match="ipex"):
        open_here("inductor", device=replace(cpu, backend="ipex"))


def test_an_unknown_engine_is_refused(open_here):
    with pytest.raises(ConfigError, match=r"expected one of auto, eager, inductor, .* got 'warp'"):
        open_here("warp")


def test_a_window_the_networks_cannot_halve_is_refused(open_here):
    with pytest.raises(ConfigError, match="multiple of 32"):
        open_here("eager", window_px=48)


def test_engines_made_beforehand_are_for_cpus(open_here, cpu):
    with pytest.raises(ConfigError, match="engine onnx is for device cpu, not cuda"):
        open_here("onnx", device=replace(cpu, name="cuda", type="cuda"))


def constant(value):
    return Engine("eager", f"engine of {value}", 2, 64, lambda w: torch.full(w.shape, value))


def test_several_engines_give_their_mean():
    engine = ensemble([constant(0.1), constant(0.2), constant(0.6)])
    torch.testing.assert_close(engine.run(windows_of()), torch.full((2, 3, 64, 64), 0.3))
    assert (engine.batch_size, engine.window_px) == (2, 64)


def test_the_mean_leaves_what_engines_give_unchanged():
    kept = torch.full((2, 3, 64, 64), 0.5)
    engine = Engine("eager", "", 2, 64, lambda _: kept)
    ensemble([engine, engine]).run(windows_of())
    assert (kept == 0.5).all()


def test_a_mean_says_what_it_is_of():
    assert ensemble([constant(0.1), constant(0.2)]).reason == (
        "mean of 2: engine of 0.1; engine of 0.2"
    )


def test_one_engine_is_its_own_mean():
    engine = constant(0.1)
    assert ensemble([engine]) is engine


def test_every_turn_is_turned_back():
    engine = Engine("eager", "", 2, 64, lambda windows: windows / 255)
    torch.testing.assert_close(with_tta(engine).run(windows_of()), windows_of() / 255)


def test_windows_are_shown_in_all_eight_turns_and_flips():
    seen = []

    def run(windows):
        seen.append(windows)
        return windows.float()

    with_tta(Engine("eager", "", 2, 64, run)).run(windows_of())
    assert len({bytes(windows.numpy()) for windows in seen}) == 8
    assert all(windows.is_contiguous() for windows in seen)


def test_what_lies_in_one_corner_is_spread_over_all_four():
    corner = torch.zeros(1, 1, 2, 2)
    corner[..., 0, 0] = 1
    engine = with_tta(Engine("eager", "", 1, 2, lambda _: corner))
    torch.testing.assert_close(engine.run(windows_of(1, 2)), torch.full((1, 1, 2, 2), 0.25))


@pytest.mark.parametrize(("windows", "name"), [(79, "eager"), (80, "inductor")])
def test_auto_compiles_for_many_windows(choice, windows, name):
    done = "compiled" if name == "inductor" else "not compiled"
    found, reason = choice(windows=windows, window_px=512)
    assert found == name
    assert reason == f"engine {name} ({done}: {windows} windows, worth it from 80)"


@pytest.mark.parametrize(("windows", "name"), [(319, "eager"), (320, "inductor")])
def test_of_small_windows_it_takes_more_for_compiling_to_pay(choice, windows, name):
    assert choice(windows=windows, window_px=256)[0] == name


def test_with_more_threads_it_takes_more_for_compiling_to_pay(choice, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert choice(windows=159, window_px=512)[0] == "eager"
    assert choice(windows=160, window_px=512)[0] == "inductor"


def test_auto_without_a_compiler_is_eager_and_says_why(choice, monkeypatch):
    monkeypatch.setattr(engines, "lacks_compiler", lambda _: "there is no compiler g++")
    assert choice() == ("eager", "engine eager (there is no compiler g++)")


def test_auto_is_inductor_where_compile_is_on(choice, cpu):
    device = replace(cpu, compiler="inductor")
    assert choice(device=device, windows=1) == ("inductor", "engine inductor (compile is on)")


@pytest.mark.parametrize(
    "changes", [{"name": "cuda", "type": "cuda"}, {"backend": "ipex"}], ids=["cuda", "ipex"]
)
def test_auto_is_eager_where_the_others_do_not_run(choice, cpu, folder, changes):
    make(folder, "openvino")
    assert choice(device=replace(cpu, **changes))[0] == "eager"


@pytest.mark.parametrize("name", ["int8", "openvino", "onnx"])
def test_auto_takes_an_engine_that_is_ready(choice, folder, name):
    make(folder, name)
    assert choice()[0] == name


@pytest.mark.parametrize("name", ["eager", "inductor", "int8", "openvino", "onnx"])
def test_an_engine_that_is_named_is_taken(choice, name):
    assert choice(name) == (name, f"engine {name} (requested)")


def test_auto_takes_the_engine_that_was_fastest_here(choice, folder):
    make(folder, "openvino", windows_per_s=3.0, eager_windows_per_s=2.0)
    make(folder, "int8", windows_per_s=5.0, eager_windows_per_s=2.0)
    found, reason = choice()
    assert (found, "2.5 times as fast as eager" in reason) == ("int8", True)


def test_speeds_of_another_cpu_do_not_count(folder, monkeypatch):
    monkeypatch.setattr(engine_store, "_cpu", lambda: "elsewhere")
    make(folder, "openvino", windows_per_s=1.0, eager_windows_per_s=2.0)
    make(folder, "int8", windows_per_s=5.0, eager_windows_per_s=2.0)
    monkeypatch.undo()
    assert read_engine_facts(folder, "openvino").speedup is None
    assert read_engine_facts(folder, "int8").pays(1)


def test_on_another_cpu_auto_keeps_to_the_usual_order(choice, folder, monkeypatch):
    make(folder, "int8", windows_per_s=5.0, eager_windows_per_s=2.0)
    make(folder, "openvino", windows_per_s=3.0, eager_windows_per_s=2.0)
    monkeypatch.setattr(engine_store, "_cpu", lambda: "elsewhere")
    assert choice()[0] == "openvino"


UNFIT = {
    "windows of another size": ({"window_px": 128}, "made for batches of 2 windows of 128 px"),
    "batches of another size": ({"batch_size": 4}, "made for batches of 4 windows of 64 px"),
    "inaccurate": ({"gate": {"passed": False}}, "not accurate enough when it was made"),
    "slower than eager": (
        {"windows_per_s": 1.9, "eager_windows_per_s": 2.0},
        "not worth opening for 1000000 windows",
    ),
}


@pytest.mark.parametrize(("changes", "why"), UNFIT.values(), ids=UNFIT)
def test_auto_leaves_out_what_does_not_fit_and_says_why(choice, folder, changes, why):
    make(folder, "openvino", **changes)
    name, reason = choice()
    assert (name, f"not openvino: {why}" in reason) == ("inductor", True)


def test_auto_leaves_out_what_was_made_from_other_weights(choice, folder):
    make(folder, "int8")
    (folder / "best.safetensors").write_bytes(b"trained on")
    name, reason = choice()
    assert (name, "not int8: made from another checkpoint" in reason) == ("inductor", True)


def test_auto_leaves_out_what_needs_a_package_that_is_missing(choice, folder, monkeypatch):
    make(folder, "onnx")
    monkeypatch.setattr(
        "roadseg.learn.inference.onnx.available", lambda: "pip install 'roadseg[onnx]'"
    )
    name, reason = choice()
    assert (name, "pip install 'roadseg[onnx]'" in reason) == ("inductor", True)


def test_auto_leaves_out_int8_without_a_compiler(choice, folder, monkeypatch):
    make(folder, "int8")
    monkeypatch.setattr(engines, "lacks_compiler", lambda _: "there is no compiler g++")
    assert choice()[0] == "eager"


def test_auto_leaves_out_what_other_versions_would_compute_differently(choice, folder, monkeypatch):
    make(folder, "int8")
    monkeypatch.setattr(engine_store, "installed_version", lambda _: "99.0")
    name, reason = choice()
    assert (name, "not 99.0" in reason) == ("inductor", True)


@pytest.mark.parametrize(("windows", "pays"), [(40, False), (41, True)])
def test_opening_has_to_be_won_back(folder, windows, pays):
    facts = make(folder, "int8", windows_per_s=4.0, eager_windows_per_s=2.0, opening_s=10.0)
    assert facts.pays(windows) is pays


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("int8", "roadseg quantize --engine int8"),
        ("openvino", "roadseg quantize --engine openvino"),
        ("onnx", r"roadseg export \S+ --format onnx"),
    ],
)
def test_an_engine_that_was_not_made_names_the_command(open_here, monkeypatch, name, command):
    monkeypatch.setattr(f"roadseg.learn.inference.{name}.available", lambda: None)
    monkeypatch.setattr(engines, "lacks_compiler", lambda _: "")
    with pytest.raises(CheckpointError, match=f"engine {name}: .*not made yet; run `{command}`"):
        open_here(name)


def test_an_inaccurate_engine_is_refused_by_its_name_too(open_here, folder, monkeypatch):
    monkeypatch.setattr("roadseg.learn.inference.openvino.available", lambda: None)
    make(folder, "openvino", gate={"passed": False})
    with pytest.raises(CheckpointError, match="not accurate enough when it was made; run `roadseg"):
        open_here("openvino")


def test_an_engine_without_its_package_says_how_to_get_it(open_here, monkeypatch):
    monkeypatch.setattr(
        "roadseg.learn.inference.onnx.available", lambda: "pip install 'roadseg[onnx]'"
    )
    with pytest.raises(DeviceError, match=r"engine onnx: pip install 'roadseg\[onnx\]'"):
        open_here("onnx")


@pytest.mark.parametrize("name", ["int8", "onnx"])
def test_facts_come_back_as_they_were_written(folder, name):
    written = make(folder, name, windows_per_s=2.0, opening_s=1.5)
    assert read_engine_facts(folder, name) == written


def test_an_engine_without_facts_is_not_there(folder):
    make(folder, "onnx")
    remove_facts(folder, "onnx")
    assert read_engine_facts(folder, "onnx") is None


def test_facts_of_another_kind_are_refused(folder):
    engine_folder(folder, "onnx").mkdir(parents=True)
    (engine_folder(folder, "onnx") / "facts.json").write_text(json.dumps({"engine": "onnx"}))
    with pytest.raises(CheckpointError, match=r"facts\.json: does not describe an engine"):
        read_engine_facts(folder, "onnx")


def spoil(folder, **changes):
    make(folder, "onnx")
    path = engine_folder(folder, "onnx") / "facts.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


LIES = {
    "a gate that is a list": ({"gate": []}, r"gate: expected a valid dictionary|gate: expected an"),
    "a gate without a verdict": ({"gate": {}}, "gate: expected passed, true or false, got {}"),
    "no versions": ({"versions": None}, "versions: "),
    "no windows at once": ({"batch_size": 0}, "batch_size: expected greater than or equal to 1"),
    "too many windows": ({"batch_size": 10**9}, "batch_size: expected less than or equal to 65536"),
    "a side that is no multiple": (
        {"window_px": 48},
        "window_px: expected a multiple of 32, got 48",
    ),
    "a rate of text": ({"windows_per_s": "x"}, "windows_per_s: expected a valid number, got 'x'"),
    "another engine": ({"engine": "eager"}, "describes engine 'eager' and files"),
    "a name that leads elsewhere": (
        {"engine": "../../x"},
        r"describes engine '\.\./\.\./x'",
    ),
    "a file elsewhere": (
        {"files": {"../x": "0" * 64}},
        r"and files \['\.\./x'\], expected onnx and",
    ),
    "no files": ({"files": {}}, r"and files \[\], expected onnx and"),
    "a digest that is none": ({"files": {"model.onnx": "0"}}, "files.model.onnx: "),
}


@pytest.mark.parametrize(("changes", "told"), LIES.values(), ids=LIES)
def test_facts_that_no_engine_has_are_refused(folder, changes, told):
    spoil(folder, **changes)
    with pytest.raises(CheckpointError, match=rf"facts\.json: .*{told}.*export .* again$") as error:
        read_engine_facts(folder, "onnx")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["int8", "openvino", "onnx"])
def test_auto_leaves_out_an_engine_whose_files_are_others(choice, folder, name):
    make(folder, name)
    file = engine_store.FILES[name][0]
    (engine_folder(folder, name) / file).write_bytes(b"evil")
    assert f"not {name}: {file} was modified after it was made" in choice()[1]


def test_auto_leaves_out_an_engine_without_its_file(choice, folder):
    make(folder, "onnx")
    (engine_folder(folder, "onnx") / "model.onnx").unlink()
    assert "not onnx: model.onnx was modified after it was made" in choice()[1]


def test_the_scaling_of_the_checkpoint_is_what_windows_are_normalised_by():
    network = engines.ProbabilityNetwork(nn.Identity(), Scaling.from_json(SCALING))
    found = network(torch.full((1, 3, 2, 2), 150, dtype=torch.uint8))
    torch.testing.assert_close(found, torch.full((1, 3, 2, 2), torch.tensor(1.0).sigmoid().item()))
