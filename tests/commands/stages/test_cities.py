"""Several cities in one run, with other pixels, places and sizes; and images of eight bands."""

import json
from pathlib import Path

import pytest
import rasterio

from roadseg.commands.stages import pipeline, predict, prepare, train
from roadseg.config import load_config
from roadseg.errors import ConfigError
from roadseg.system.workspace import Workspace

CONFIGS = Path(__file__).parents[3] / "configs"
MOSCOW, MUMBAI = "SN5_roads_train_AOI_7_Moscow", "SN5_roads_train_AOI_8_Mumbai"
SMALL = {
    "train": {
        "encoder": "tu-test_resnet",
        "decoder_channels": [32, 16, 16, 8, 8],
        "encoder_weights": None,
        "window_px": 64,
        "windows_per_chip": 2,
        "batch_size": 2,
        "epochs": 2,
    },
    "predict": {"window_px": 64, "overlap_px": 16},
    "compute": {"workers": 0},
}


@pytest.fixture
def draw(tmp_path, make_scene):
    """Give a function that draws chips of a city as SpaceNet's download leaves them."""

    def draw(city, kind="PS-RGB", *, count=3, step=200.0, origin, **options):
        place = tmp_path / "data/SN5_roads/train" / city[city.index("AOI") :]
        for number in range(count):
            at = (origin[0] + step * number, origin[1])
            paths = make_scene(tmp_path / "drawn", f"chip{number}", origin=at, **options)
            for path, folder in zip(paths, (kind, "geojson_roads_speed"), strict=True):
                (place / folder).mkdir(parents=True, exist_ok=True)
                path.rename(place / folder / f"{city}_{folder}_{path.name}")

    return draw


@pytest.fixture
def cities(draw):
    """Draw two cities: bytes of 1 m in UTM 37N, and 16 bits of 0.5 m in UTM 43N, chips larger."""
    draw(MOSCOW, count=4, origin=(410_000.0, 6_170_000.0), epsg=32637)
    place = {"origin": (270_000.0, 2_110_000.0), "epsg": 32643}
    draw(MUMBAI, **place, dtype="uint16", gsd_m=0.5, size_px=160, speeds=(35, 55))


@pytest.fixture
def ready(tmp_path):
    """Give a function that puts a ready config beside the data, its training made small."""

    def ready(name, *assignments):
        settings = json.loads((CONFIGS / name).read_text())
        for section, values in SMALL.items():
            settings[section] = settings.get(section, {}) | values
        path = tmp_path / "configs" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(settings))
        config = load_config(path, assignments)
        return config, Workspace(config.run)

    return ready


@pytest.mark.usefixtures("cities")
def test_two_unlike_cities_go_through_all_stages_and_one_is_held_out(ready):
    config, workspace = ready("spacenet_cities.json", "imagery.gsd_m=1.0")
    pipeline.run(config, workspace, fold=1, say=lambda *_: None)
    folds = json.loads(workspace.folds.read_text())
    assert {name: fold for name, fold in folds.items() if (fold == 1) != (MUMBAI in name)} == {}
    predicted = sorted(path.name for path in workspace.probabilities.glob("*.tif"))
    assert predicted == [f"{MUMBAI}_PS-RGB_chip{number}.tif" for number in range(3)]
    with rasterio.open(workspace.probabilities / predicted[0]) as probability:
        assert probability.crs.to_epsg() == 32643
    assert workspace.report.exists()


@pytest.mark.usefixtures("cities")
def test_each_city_is_a_fold_whose_number_is_told(ready):
    summary = pipeline.prepare(*ready("spacenet_cities.json"))
    assert "in 2 sets, one per fold (split.folds is ignored); chips per fold: 4, 3;" in str(summary)
    assert str(summary).endswith("; folds: 0 Moscow, 1 Mumbai")


@pytest.mark.usefixtures("cities")
def test_each_pixel_type_has_its_own_scaling(ready):
    config, workspace = ready("spacenet_cities.json")
    prepare.run(config, workspace)
    ranges = json.loads(workspace.scaling.read_text())["ranges"]
    assert ranges["uint8"] == [[0, 255]] * 3
    assert all(2500 < low < 3500 and 7500 < high < 8500 for low, high in ranges["uint16"])


@pytest.fixture
def eight_bands(draw):
    """Draw a city of eight bands of 16 bits."""
    place = {"origin": (410_000.0, 6_170_000.0), "epsg": 32637}
    draw(MOSCOW, "PS-MS", count=5, **place, dtype="uint16", bands=8)


@pytest.mark.usefixtures("eight_bands")
def test_eight_bands_are_prepared_learned_and_predicted(ready):
    config, workspace = ready("spacenet5_8band.json", "split.block_m=100")
    pipeline.prepare(config, workspace)
    train.run(config, workspace, fold=0)
    facts = json.loads((workspace.checkpoint(0) / "best.json").read_text())
    assert (facts["in_channels"], facts["bands"]) == (8, [1, 2, 3, 4, 5, 6, 7, 8])
    assert len(predict.run(config, workspace, fold=0).scenes) == 1


@pytest.fixture
def three_bands(ready, draw):
    """Train on three bands of the same chips; return the checkpoint folder."""
    draw(MOSCOW, "PS-RGB", count=5, origin=(410_000.0, 6_170_000.0), epsg=32637)
    config, workspace = ready("spacenet5.json", "split.block_m=100", "train.epochs=1")
    pipeline.prepare(config, workspace)
    train.run(config, workspace, fold=0)
    return workspace.checkpoint(0)


@pytest.mark.usefixtures("eight_bands")
def test_three_bands_begin_a_training_on_eight_as_an_encoder_but_not_whole(ready, three_bands):
    weights = f"train.encoder_weights={three_bands / 'best.safetensors'}"
    config, workspace = ready("spacenet5_8band.json", "split.block_m=100", weights)
    pipeline.prepare(config, workspace)
    assert train.run(config, workspace, fold=0).epochs == 2
    whole, workspace = ready(
        "spacenet5_8band.json", "split.block_m=100", f"train.init={three_bands}"
    )
    with pytest.raises(ConfigError, match=r"has in_channels 3, expected 8; .*spreads the weights"):
        train.run(whole, workspace, fold=0, force=True)
