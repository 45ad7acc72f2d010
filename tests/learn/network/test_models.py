"""Networks by name, without a look at the network outside."""

import copy
from dataclasses import replace

import pytest
import segmentation_models_pytorch as smp
import torch
from torch import nn

from roadseg.errors import ConfigError, RoadsegError
from roadseg.learn.network.models import (
    NetworkSpec,
    Normalise,
    build_model,
    check_batch,
    fold_batch_norms,
    knows_encoder,
    last_layer,
)
from roadseg.raster.scaling import Scaling

SMALL = NetworkSpec(encoder="resnet18", in_channels=3, classes=8)


@pytest.mark.parametrize(("bands", "classes"), [(1, 8), (8, 3)])
def test_a_model_takes_any_number_of_bands_and_gives_any_number_of_logits(bands, classes):
    model = build_model(replace(SMALL, in_channels=bands, classes=classes)).eval()
    with torch.no_grad():
        assert model(torch.zeros(1, bands, 64, 32)).shape == (1, classes, 64, 32)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({"encoder": "resnet3"}, "train.encoder: 'resnet3' is unknown; did you mean resnet34"),
        ({"architecture": "unett"}, "train.architecture: 'unett' .* did you mean unet"),
        ({"architecture": "qqq"}, "'qqq' is unknown; expected unet, "),
        ({"encoder": "foo"}, "'foo' is unknown; expected .* .encoders of timm are tu-NAME, such"),
        ({"encoder": "convnext_tiny"}, "such as tu-convnext_tiny"),
        ({"encoder": "tu-resnet3"}, "'tu-resnet3' is unknown; did you mean tu-resnet"),
        ({"encoder": "tu-" + "q" * 80}, "q' is unknown; expected tu-"),
        ({"architecture": "dpt"}, r"dpt with encoder resnet18, new weights.*start with 'tu-'"),
        ({"architecture": "linknet", "encoder": "mit_b0"}, "linknet with .*mit_b0.*not supported"),
    ],
)
def test_an_unknown_name_is_answered_with_names_that_exist(names, words):
    with pytest.raises(ConfigError, match=words):
        build_model(replace(SMALL, **names))


ELSEWHERE = {
    "a hub": "tu-hf-hub:evil/model",
    "a hub by its old name": "tu-hf_hub:evil/model",
    "a folder": "tu-local-dir:/etc",
    "a path": "tu-/etc/passwd",
    "a path behind a name": "tu-resnet18./etc/passwd",
    "weights that nobody knows": "tu-resnet18.evil",
    "two lines": "tu-resnet18\n",
    "nothing": "tu-",
}


@pytest.mark.parametrize("encoder", ELSEWHERE.values(), ids=ELSEWHERE)
def test_an_encoder_from_elsewhere_is_refused_before_a_library_sees_it(monkeypatch, encoder):
    monkeypatch.setattr(smp, "create_model", None)
    with pytest.raises(ConfigError, match=r"train\.encoder: .* is unknown") as error:
        build_model(replace(SMALL, encoder=encoder))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "encoder", ["resnet18", "timm-efficientnet-b0", "tu-resnet18", "tu-resnet18.a1_in1k"]
)
def test_every_installed_encoder_is_known_by_its_whole_name(encoder):
    assert knows_encoder(encoder)
    assert not knows_encoder(f"{encoder} ")


def test_no_weights_are_null():
    with pytest.raises(ConfigError, match=r"`none` for .*; for random ones, set train\.encoder_w"):
        build_model(NetworkSpec(encoder="resnet34", in_channels=3, classes=3), "none")


def test_weights_that_cannot_be_downloaded_say_what_to_do(monkeypatch):
    def offline(*_, **__):
        raise FileNotFoundError("no route to the hub\nand more")

    monkeypatch.setattr(smp.encoders, "hf_hub_download", offline)
    with pytest.raises(RoadsegError, match=r"set train\.encoder_weights to null") as error:
        build_model(SMALL, "imagenet")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("encoder", "given"), [("resnet18", "imagenet"), ("tu-resnet10t", True)])
def test_pretrained_weights_are_asked_for_as_each_source_wants(monkeypatch, encoder, given):
    asked = []
    network = smp.Unet("resnet18", encoder_weights=None)
    monkeypatch.setattr(smp, "create_model", lambda *args, **_: asked.extend(args) or network)
    build_model(replace(SMALL, encoder=encoder), "imagenet")
    assert asked == ["unet", encoder, given, 3, 8]


ENCODERS = {"dpt": "tu-test_vit"}  # which takes no others


@pytest.mark.parametrize("architecture", list(smp.MODEL_ARCHITECTURES_MAPPING))
def test_every_architecture_gives_logits_and_expects_few_roads(architecture):
    encoder = ENCODERS.get(architecture, "tu-test_resnet")
    model = build_model(replace(SMALL, architecture=architecture, encoder=encoder))
    with torch.no_grad():
        assert model.eval()(torch.zeros(1, 3, 128, 128)).shape == (1, 8, 128, 128)
    assert torch.allclose(last_layer(model).bias.sigmoid(), torch.tensor(0.05))


def test_only_the_bias_of_the_last_layer_expects_few_roads():
    head = build_model(replace(SMALL, architecture="dpt", encoder="tu-test_vit")).segmentation_head
    changed = [name for name, value in head.named_parameters() if (value < -2).all()]
    assert changed == ["head.4.bias"]


@pytest.mark.parametrize(
    ("architecture", "encoder", "window_px"),
    [("dpt", "tu-vit_tiny_patch16_224", 96), ("unet", "tu-swin_tiny_patch4_window7_224", 160)],
)
def test_transformers_of_timm_take_windows_of_any_size(architecture, encoder, window_px):
    with torch.device("meta"):  # nothing is computed
        model = build_model(replace(SMALL, architecture=architecture, encoder=encoder))
    check_batch(model, in_channels=3, window_px=window_px, batch_size=2)


@pytest.mark.parametrize(
    ("architecture", "training", "batch_size", "fitting_px", "words"),
    [
        ("pan", True, 2, 128, "train on 2 windows of 96 pixels: .*Output size is too small"),
        ("unet", True, 1, 64, "train on 1 windows of 32 pixels: Expected more than 1 value"),
        ("pan", False, 1, 128, "predict 1 windows of 96 pixels: .*Output size is too small"),
    ],
)
def test_batches_that_a_network_cannot_take_are_refused(
    architecture, training, batch_size, fitting_px, words
):
    network = build_model(replace(SMALL, architecture=architecture)).train(training)
    check_batch(network, in_channels=3, window_px=fitting_px, batch_size=batch_size)
    with pytest.raises(ConfigError, match=words):
        check_batch(network, in_channels=3, window_px=fitting_px - 32, batch_size=batch_size)


def test_checking_a_batch_leaves_network_and_generator_as_they_are():
    network = build_model(replace(SMALL, architecture="fpn"))  # its decoder has dropout
    before, generator = copy.deepcopy(network.state_dict()), torch.get_rng_state()
    check_batch(network, in_channels=3, window_px=64, batch_size=2)
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    assert torch.equal(torch.get_rng_state(), generator)


def with_statistics(network):
    """Give all batch norms statistics as if the network were trained."""
    generator = torch.Generator().manual_seed(0)
    for norm in network.modules():
        if isinstance(norm, nn.BatchNorm2d):
            norm.running_mean.normal_(0, 0.1, generator=generator)
            norm.running_var.uniform_(0.5, 2, generator=generator)
    return network.eval()


def count_norms(network):
    return sum(isinstance(part, nn.BatchNorm2d) for part in network.modules())


@pytest.mark.parametrize(
    ("encoder", "left"),
    [("resnet18", 0), ("densenet121", 62), ("tu-tf_efficientnet_lite0", 0)],
)
def test_convolutions_do_the_work_of_the_batch_norms_behind_them(encoder, left):
    network = with_statistics(build_model(replace(SMALL, encoder=encoder)))
    before = copy.deepcopy(network.state_dict())
    folded = fold_batch_norms(network, in_channels=3)
    windows = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(folded(windows), network(windows), atol=1e-4, rtol=1e-4)
    assert count_norms(folded) == left < count_norms(network)
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())


class AnotherOrder(nn.Module):
    """Declares a norm behind a convolution, and computes it before."""

    def __init__(self):
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 3, 3), nn.BatchNorm2d(3)

    def forward(self, images):
        return self.convolution(self.norm(images))


class OneSize(nn.Sequential):
    def forward(self, images):
        return super().forward(images).reshape(-1, 8, 96, 96)


def test_networks_that_cannot_be_folded_stay_as_they_are():
    fixed = OneSize(nn.Conv2d(3, 8, 1), nn.BatchNorm2d(8))
    for network in map(with_statistics, (AnotherOrder(), fixed)):
        assert fold_batch_norms(network, in_channels=3) is network


def test_bytes_are_normalised_band_by_band():
    scaling = Scaling({"uint8": ((0.0, 255.0),) * 2}, mean=(10.0, 20.0), std=(2.0, 4.0))
    images = torch.tensor([12, 12], dtype=torch.uint8).view(1, 2, 1, 1)
    assert Normalise(scaling)(images).flatten().tolist() == [1.0, -2.0]


@pytest.mark.parametrize("architecture", ["unet", "unetplusplus", "manet"])
def test_a_decoder_has_the_channels_that_are_asked_for(architecture):
    def weights(channels):
        spec = replace(SMALL, architecture=architecture, decoder_channels=channels)
        model = build_model(spec)
        return sum(weight.numel() for weight in model.decoder.parameters())

    assert weights((256, 128, 64, 32, 16)) == weights(None) > 1.2 * weights((128, 64, 32, 16, 16))


def test_logits_at_half_the_resolution_are_enlarged_in_place():
    model = build_model(replace(SMALL, decoder_channels=(8, 8, 8, 8))).eval()
    images = torch.rand(1, 3, 64, 96)
    head, enlarge = model.segmentation_head
    with torch.inference_mode():
        coarse = head(model.decoder(model.encoder(images)))
        assert torch.equal(model(images), enlarge(coarse))
    assert coarse.shape == (1, 8, 32, 48)
    middles = torch.arange(8.0) + 0.5  # Of pixels, in columns from the left border.
    found = enlarge(middles.expand(1, 1, 8, 8))[0, 0, 5]
    assert torch.allclose(found[1:-1], (torch.arange(1.0, 15.0) + 0.5) / 2)


def test_only_a_unet_ends_at_half_the_resolution():
    with pytest.raises(ConfigError, match="unetplusplus needs five levels; only unet"):
        build_model(replace(SMALL, architecture="unetplusplus", decoder_channels=(8, 8, 8, 8)))


def test_architectures_without_such_channels_are_built_as_they_are():
    model = build_model(replace(SMALL, architecture="fpn", decoder_channels=(8, 8, 8, 8, 8)))
    assert model(torch.zeros(1, 3, 64, 64)).shape == (1, 8, 64, 64)
