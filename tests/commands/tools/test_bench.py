from roadseg.commands.tools import bench
from roadseg.config import check_config

SETTINGS = {
    "train": {"encoder": "tu-test_resnet", "window_px": 64, "batch_size": 2},
    "predict": {"window_px": 64, "overlap_px": 16, "batch_size": 2},
    "compute": {"device": "cpu", "precision": "fp32"},
}


def measured(tmp_path, **train):
    settings = SETTINGS | {"train": SETTINGS["train"] | train}
    return bench.run(check_config(settings, tmp_path / "roadseg.json"), steps=1, rounds=1)


def test_training_and_inference_have_rates_beside_those_of_a_bare_loop(tmp_path):
    summary = measured(tmp_path)
    for rate in (summary.training, summary.inference):
        assert min(rate.roadseg, rate.bare, rate.ratio) > 0


def test_the_table_says_what_was_measured(tmp_path):
    lines = str(measured(tmp_path, loss={"skeleton_recall": 0.1})).splitlines()
    assert lines[0].startswith("device     cpu")
    assert "unet with tu-test_resnet, 3 bands; batches of 2 x 64 px" in lines[1]
    assert [line.split()[0] for line in lines[2:]] == ["windows/s", "training", "inference"]
