"""Networks by name, without a look at the network outside."""

import pytest
import segmentation_models_pytorch as smp
import torch

from roadseg.core.scaling import Scaling
from roadseg.errors import ConfigError, RoadsegError
from roadseg.learn.models import Normalise, build_model, check_window

SMALL = {"encoder": "resnet18", "encoder_weights": None, "in_channels": 3, "classes": 8}


@pytest.mark.parametrize(("bands", "classes"), [(1, 8), (8, 3)])
def test_a_model_takes_any_number_of_bands_and_gives_any_number_of_logits(bands, classes):
    model = build_model(**SMALL | {"in_channels": bands, "classes": classes}).eval()
    with torch.no_grad():
        assert model(torch.zeros(1, bands, 64, 32)).shape == (1, classes, 64, 32)


def test_an_encoder_of_timm_is_known_by_its_prefix():
    model = build_model(**SMALL | {"encoder": "tu-resnet10t"})
    assert isinstance(model, smp.Unet)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({"encoder": "resnet3"}, "train.encoder: 'resnet3' is unknown; did you mean resnet34"),
        ({"architecture": "unett"}, "train.architecture: 'unett' .* did you mean unet"),
        ({"architecture": "qqq"}, "'qqq' is unknown; expected unet, "),
        ({"encoder": "tu-nosuch"}, r"unet with encoder tu-nosuch.*Unknown model"),
        ({"encoder_weights": "nosuch"}, r"nosuch weights.*Wrong pretrained weights `nosuch`"),
    ],
)
def test_an_unknown_name_is_answered_with_names_that_exist(names, words):
    with pytest.raises(ConfigError, match=words):
        build_model(**SMALL | names)


def test_weights_that_cannot_be_downloaded_say_what_to_do(monkeypatch):
    def offline(*_, **__):
        raise FileNotFoundError("no route to the hub\nand more")

    monkeypatch.setattr(smp.encoders, "hf_hub_download", offline)
    with pytest.raises(RoadsegError, match=r"set train\.encoder_weights to null") as error:
        build_model(**SMALL | {"encoder_weights": "imagenet"})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("encoder", "given"), [("resnet18", "imagenet"), ("tu-resnet10t", True)])
def test_pretrained_weights_are_asked_for_as_each_source_wants(monkeypatch, encoder, given):
    asked = []
    network = smp.Unet("resnet18", encoder_weights=None)
    monkeypatch.setattr(smp, "create_model", lambda *args: asked.extend(args) or network)
    build_model(**SMALL | {"encoder": encoder, "encoder_weights": "imagenet"})
    assert asked == ["unet", encoder, given, 3, 8]


def test_a_new_network_expects_few_roads():
    network = build_model(**SMALL)
    bias = network.segmentation_head[0].bias
    assert torch.allclose(bias.sigmoid(), torch.tensor(0.05))


def test_windows_are_multiples_of_32():
    check_window(32)
    with pytest.raises(ConfigError, match="expected a multiple of 32, got 33"):
        check_window(33)
    with pytest.raises(ConfigError, match="got 0"):
        check_window(0)


def test_bytes_are_normalised_band_by_band():
    scaling = Scaling({"uint8": ((0.0, 255.0),) * 2}, mean=(10.0, 20.0), std=(2.0, 4.0))
    images = torch.tensor([12, 12], dtype=torch.uint8).view(1, 2, 1, 1)
    assert Normalise(scaling)(images).flatten().tolist() == [1.0, -2.0]
