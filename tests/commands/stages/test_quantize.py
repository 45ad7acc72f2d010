import json
import shutil
import time
from importlib.util import find_spec

import pytest
from safetensors.torch import load_file

from roadseg.commands.stages import pipeline, quantize
from roadseg.commands.stages.training_jobs import training_job
from roadseg.config import load_config
from roadseg.errors import MissingInputError, RoadsegError
from roadseg.learn.hardware.devices import pick_device
from roadseg.learn.inference import openvino
from roadseg.learn.inference.engines import Engine, open_engine
from roadseg.learn.inference.int8 import FILES, int8_folder, read_int8_facts
from roadseg.learn.inference.quantisation import calibration_windows
from roadseg.learn.network.checkpoint_facts import read_checkpoint_facts
from roadseg.learn.network.checkpoints import save_checkpoint
from roadseg.system import stage_records
from roadseg.system.stage_records import read_record
from roadseg.system.workspace import Workspace
from tests.configs import changed, edited

MUCH = max(quantize.PAYS_MPX.values())  # Megapixels to predict.
ACCURATE = {"mask_iou": 0.99, "f1": 0.8, "exact_f1": 0.8, "apls": 0.7, "exact_apls": 0.7}


@pytest.fixture
def quantised_as(monkeypatch):
    """Give a function that makes a change of the probabilities stand for their quantisation."""
    calls = []

    def stand_in(change):
        def quantise(checkpoint, folder, chips, **options):
            calls.append([chip.scene.path.stem for chip in chips])
            size = {key: options[key] for key in ("window_px", "batch_size")}
            cpu = pick_device("cpu", "fp32")
            exact = open_engine(checkpoint, folder, name="eager", device=cpu, **size, windows=1)
            int8_folder(folder).mkdir(parents=True, exist_ok=True)
            for file in FILES:
                (int8_folder(folder) / file).write_text("a network")
            engine = Engine("openvino", "", **size, run=lambda windows: change(exact.run(windows)))
            return engine, exact

        monkeypatch.setattr(quantize, "quantise", quantise)
        return calls

    return stand_in


def facts_of(workspace):
    return read_int8_facts(workspace.checkpoint(0))


def run(finished, **options):
    return quantize.run(*finished, fold=0, **options)


def test_an_accurate_network_is_ready(finished, quantised_as):
    quantised_as(lambda probabilities: probabilities)
    summary, gate = run(finished), facts_of(finished[1]).gate
    assert (summary.mask_iou, summary.f1, summary.apls) == (1, summary.exact_f1, summary.exact_apls)
    assert (gate["passed"], gate["mask_iou"], gate["limits"]) == (True, 1, quantize.LIMITS)


def test_a_dry_run_names_the_missing_file_that_the_command_names(tmp_path):
    told = []
    for command in (quantize.run, quantize.plan):
        with pytest.raises(MissingInputError) as error:
            command(load_config(None), Workspace(tmp_path), fold=0)
        told.append(str(error.value))
    assert told[0] == told[1]


def test_an_inaccurate_network_is_refused_and_not_ready(finished, quantised_as):
    quantised_as(lambda probabilities: 1 - probabilities)
    with pytest.raises(
        RoadsegError, match=r"INT8 network is refused: mask IoU 0\.\d+, expected at least"
    ):
        run(finished)
    assert facts_of(finished[1]).gate["passed"] is False


def test_a_refused_network_is_made_anew_by_the_same_command(finished, quantised_as):
    quantised_as(lambda probabilities: 1 - probabilities)
    with pytest.raises(RoadsegError):
        run(finished)
    quantised_as(lambda probabilities: probabilities)
    run(finished)
    assert facts_of(finished[1]).gate["passed"] is True


def test_only_training_chips_calibrate(finished, quantised_as):
    calls = quantised_as(lambda probabilities: probabilities)
    run(finished)
    folds = json.loads(finished[1].folds.read_text())
    assert {name: folds[name] == 0 for name in calls[0]} == dict.fromkeys(calls[0], False)
    assert len(calls[0]) == 4


def test_a_network_that_is_there_is_kept_until_it_is_forced(finished, quantised_as):
    calls = quantised_as(lambda probabilities: probabilities)
    first = run(finished)
    assert (run(finished), len(calls)) == (first, 1)
    run(finished, force=True)
    assert len(calls) == 2


def test_one_of_a_version_with_a_setting_that_is_retired_is_kept(finished, quantised_as):
    calls = quantised_as(lambda probabilities: probabilities)
    run(finished)
    path = int8_folder(finished[1].checkpoint(0)) / "quantize.json"
    with edited(path) as record:
        record["settings"]["graph"]["min_hole_m2"], record["key"] = 30.0, "of that version"
    run(finished)
    assert len(calls) == 1


def test_another_batch_size_makes_it_anew(finished, quantised_as):
    calls = quantised_as(lambda probabilities: probabilities)
    run(finished)
    config, workspace = finished
    run((changed(config, "predict", batch_size=1), workspace))
    assert len(calls) == 2


def test_a_network_whose_facts_are_gone_is_made_anew(finished, quantised_as):
    calls = quantised_as(lambda probabilities: probabilities)
    run(finished)
    shutil.rmtree(int8_folder(finished[1].checkpoint(0)))
    run(finished)
    assert len(calls) == 2


def test_other_weights_make_it_anew(finished, quantised_as):
    calls = quantised_as(lambda probabilities: probabilities)
    run(finished)
    folder = finished[1].checkpoint(0)
    tensors = load_file(folder / "best.safetensors")
    tensors[min(tensors)] *= 0.5
    save_checkpoint(folder, "best", tensors, read_checkpoint_facts(folder, "best"))
    run(finished)
    assert len(calls) == 2


@pytest.fixture
def before_predicting(finished, quantised_as, monkeypatch, caplog):
    """Give a function that quantises if it pays; it returns the log, and how often it was done."""
    monkeypatch.setattr(openvino, "can_build", lambda: True)
    caplog.set_level("INFO", logger="roadseg.commands.stages.quantize")

    def call(*settings, megapixels=MUCH, change=lambda probabilities: probabilities):
        caplog.clear()
        calls = quantised_as(change)
        before = len(calls)
        config = load_config(finished[0].run.parent / "roadseg.json", settings)
        quantize.run_if_it_pays(config, finished[1], fold=0, megapixels=lambda: megapixels)
        return caplog.text, len(calls) - before

    return call


def test_much_to_predict_is_quantised_for_and_told_once(before_predicting):
    text, done = before_predicting()
    assert ("quantised to INT8: mask IoU 1.000 with float32 on " in text, done) == (True, 1)
    assert before_predicting() == ("", 0)


def test_a_refusal_is_told_and_not_repeated(before_predicting, finished):
    text, done = before_predicting(change=lambda probabilities: 1 - probabilities)
    assert (text.count("not quantised: the INT8 network is refused: mask IoU"), done) == (1, 1)
    assert before_predicting() == ("", 0)
    assert facts_of(finished[1]).gate["passed"] is False


@pytest.mark.parametrize("setting", ["predict.engine=eager", "compute.compile=true"])
def test_where_another_engine_predicts_nothing_is_quantised(before_predicting, setting):
    assert before_predicting(setting)[1] == 0


def test_for_little_to_predict_nothing_is_quantised(before_predicting):
    assert before_predicting(megapixels=quantize.PAYS_MPX["fp32"] - 1) == ("", 0)


@pytest.mark.parametrize(("less", "done"), [(0, 1), (1, 0)])
def test_each_rotation_counts_as_often_as_it_is_predicted(
    before_predicting, monkeypatch, less, done
):
    monkeypatch.setattr(quantize, "openvino_precision", lambda _: "bf16")  # Here MUCH pays.
    megapixels = (MUCH - less) / 4
    assert before_predicting("predict.tta=true", megapixels=megapixels)[1] == done


@pytest.mark.parametrize(("precision", "done"), [("fp32", 1), ("bf16", 0)])
def test_less_pays_where_openvino_is_slower_otherwise(
    before_predicting, monkeypatch, precision, done
):
    monkeypatch.setattr(quantize, "openvino_precision", lambda _: precision)
    assert before_predicting(megapixels=quantize.PAYS_MPX["fp32"])[1] == done


def test_without_nncf_nothing_is_quantised(before_predicting, monkeypatch):
    monkeypatch.setattr(openvino, "can_build", lambda: False)
    assert before_predicting() == ("", 0)


def test_a_run_quantises_before_it_predicts_and_a_second_one_does_nothing(
    finished, quantised_as, monkeypatch
):
    monkeypatch.setattr(openvino, "can_build", lambda: True)
    monkeypatch.setattr(quantize, "PAYS_MPX", dict.fromkeys(quantize.PAYS_MPX, 0.001))
    calls = quantised_as(lambda probabilities: probabilities)
    config, workspace = finished
    pipeline.run(config, workspace, say=lambda *_: None)
    assert calls == []  # All is predicted.
    workspace.record("predict").unlink()
    for path in workspace.probabilities.glob("*.tif"):
        path.unlink()
    pipeline.run(config, workspace, say=lambda *_: None)
    assert len(calls) == 1
    made = {path: path.stat().st_mtime_ns for path in workspace.root.rglob("*.*")}
    pipeline.run(config, workspace, say=lambda *_: None)
    assert {path: path.stat().st_mtime_ns for path in workspace.root.rglob("*.*")} == made


@pytest.fixture
def unpredicted(finished, quantised_as, monkeypatch):
    """Return a run whose probabilities were deleted, and for which it pays to quantise."""
    monkeypatch.setattr(openvino, "can_build", lambda: True)
    monkeypatch.setattr(quantize, "PAYS_MPX", dict.fromkeys(quantize.PAYS_MPX, 0.001))
    quantised_as(lambda probabilities: probabilities)
    config, workspace = finished
    for path in workspace.probabilities.glob("*.tif"):
        path.unlink()
    return config, workspace


def test_later_stages_do_not_run_for_it(unpredicted):
    config, workspace = unpredicted
    graphs = workspace.record("graph").read_bytes()
    pipeline.run(config, workspace, say=lambda *_: None)
    assert read_int8_facts(workspace.checkpoint(0)) is not None
    assert workspace.record("graph").read_bytes() == graphs


def test_quantising_is_no_part_of_the_time_of_a_prediction(unpredicted, monkeypatch):
    now_s, took_s = time.monotonic, [0.0]
    monkeypatch.setattr(quantize, "run_if_it_pays", lambda *_, **__: took_s.append(1000.0))
    monkeypatch.setattr(stage_records.time, "monotonic", lambda: now_s() + took_s[-1])
    config, workspace = unpredicted
    pipeline.run(config, workspace, say=lambda *_: None)
    assert took_s[-1] > read_record(workspace.record("predict")).seconds


def test_the_summary_is_a_table(finished, quantised_as):
    quantised_as(lambda probabilities: probabilities)
    lines = str(run(finished)).splitlines()
    assert lines[0].split() == ["fold", "0", "INT8", "float32"]
    assert lines[1].split() == ["mask", "IoU", "1.0000", "1"]
    assert len(lines) == 5


def misses(**figures):
    return quantize.Accuracy(**ACCURATE | figures).misses()


def test_figures_at_their_limits_pass():
    found = misses(mask_iou=0.97, exact_f1=0.005, f1=0.0, exact_apls=0.02, apls=0.0)
    assert found == []


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ({"mask_iou": 0.9699}, "mask IoU 0.9699, expected at least 0.97"),
        ({"f1": 0.7949}, "loss of pixel F1 0.0051, expected at most 0.005"),
        ({"apls": 0.6799}, "loss of APLS 0.0201, expected at most 0.02"),
    ],
)
def test_a_figure_beyond_its_limit_is_named_with_it(figures, said):
    assert misses(**figures) == [said]


def test_a_network_that_became_better_passes():
    assert misses(f1=0.9, apls=0.9) == []


def test_calibration_windows_come_from_all_chips_unchanged(finished):
    config, workspace = finished
    job = training_job(config, workspace, 0)
    opened = [*job.training, *job.validation]
    options = {"window_px": 32, "batch_size": 3}
    batches = calibration_windows(opened, **options, windows=100)
    assert [tuple(batch.shape) for batch in batches] == [(3, 3, 32, 32)] * 7
    assert len({bytes(window.numpy()) for batch in batches for window in batch}) == 20
    assert len(calibration_windows(opened, **options, windows=6)) == 2


@pytest.mark.slow
@pytest.mark.skipif(not all(map(find_spec, ("openvino", "nncf"))), reason="needs roadseg[openvino]")
def test_int8_is_made_opened_and_judged(finished, monkeypatch):
    monkeypatch.setattr(quantize, "_WINDOWS", 2)
    for limit, anything in (("min_mask_iou", 0.0), ("max_f1_loss", 1.0), ("max_apls_loss", 1.0)):
        monkeypatch.setitem(quantize.LIMITS, limit, anything)
    summary = run(finished)
    assert 0 < summary.mask_iou <= 1
