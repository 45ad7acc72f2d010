import json
import re
from pathlib import Path

import pytest
from pydantic import BaseModel
from pyproj import CRS

from roadseg.commands.tools import demo
from roadseg.config import (
    Config,
    change_config,
    check_config,
    completions,
    config_schema,
    find_config,
    load_config,
)
from roadseg.errors import ConfigError
from roadseg.raster.grid import crs_setting
from roadseg.roads.options import LabelOptions

CONFIGS = Path(__file__).parents[1] / "configs"


SET = "imagery.sets.tianjin"


def of_sets(**values):
    """Give a config with a set of this name and these values beside another one."""
    return {"imagery": {"gsd_m": 0.3, "sets": {"tianjin": values, "vegas": {}}}}


def settings(section=Config, prefix=""):
    """Give every setting under its dotted name."""
    for name, field in section.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from settings(field.annotation, f"{prefix}{name}.")
        else:
            yield pytest.param(field, id=prefix + name)


@pytest.fixture
def write(tmp_path):
    """Give a function that writes a value as a config file."""

    def make(value, name="roadseg.json"):
        (tmp_path / name).write_text(value if isinstance(value, str) else json.dumps(value))
        return tmp_path / name

    return make


@pytest.fixture
def here(monkeypatch, tmp_path):
    """Work in an empty folder, with no config named."""
    monkeypatch.delenv("ROADSEG_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("field", list(settings()))
def test_a_setting_has_description_unit_and_default(field):
    assert field.description.endswith(".")
    assert field.json_schema_extra["unit"]
    assert not field.is_required()


def test_every_setting_but_the_run_folder_is_in_a_section():
    assert [param.id for param in settings() if "." not in param.id] == ["run"]


def test_the_schema_tells_default_unit_and_meaning():
    schema = Config.model_json_schema()
    epochs = schema["$defs"]["TrainOptions"]["properties"]["epochs"]
    assert (epochs["default"], epochs["unit"], epochs["minimum"]) == (30, "epochs", 1)
    assert schema["additionalProperties"] is False


def test_the_defaults_keep_their_own_limits():
    assert check_config(Config().model_dump(mode="json"), Path("a.json")) == Config()


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.json")), ids=lambda path: path.name)
def test_a_config_of_the_project_loads_and_names_images_and_labels(path):
    config = load_config(path)
    assert config.run.is_absolute()
    assert all(of.imagery.images and of.labels.roads for of in config.sets)


def test_the_config_of_the_demo_is_the_one_in_configs():
    values = json.loads((CONFIGS / "demo.json").read_text())
    values.pop("$schema", None)
    assert values == demo.CONFIG


def test_an_empty_config_has_all_defaults(write, tmp_path):
    assert load_config(write({})) == Config().model_copy(update={"run": tmp_path / "run"})


@pytest.mark.parametrize("note", [{"$schema": "x.json"}, {"$why": {"train.epochs": "few"}}])
def test_a_schema_and_notes_of_earlier_versions_may_be_there(write, note):
    assert load_config(write(note)).train == Config().train


def test_the_schema_of_a_file_has_its_notes_beside_all_sections():
    keys = config_schema()["properties"]
    assert list(keys) == ["$schema", "$why", *Config.model_fields]


def test_a_change_keeps_the_name_of_the_schema(write):
    path = write({"$schema": "./x.json", "train": {"epochs": 3}})
    change_config(path, ["train.epochs=4"])
    assert json.loads(path.read_text()) == {"$schema": "./x.json", "train": {"epochs": 4}}


def test_paths_start_at_the_folder_of_the_config(write, tmp_path):
    values = {
        "run": "../out",
        "imagery": {"images": ["i/*.tif", "@list.txt"], "area": "2.3,48.8,2.4,48.9"},
        "train": {"encoder_weights": "own.safetensors"},
        "labels": {"roads": ["/r", "~/r"], "area": ["city/border.gpkg", "/data/all.gpkg"]},
    }
    config = load_config(write(values))
    assert config.run == tmp_path.parent / "out"
    assert config.imagery.images == (f"{tmp_path}/i/*.tif", f"@{tmp_path}/list.txt")
    assert config.imagery.area == "2.3,48.8,2.4,48.9"
    assert config.train.encoder_weights == f"{tmp_path}/own.safetensors"
    assert config.labels.roads == ("/r", "~/r")
    assert config.labels.area == (f"{tmp_path}/city/border.gpkg", "/data/all.gpkg")


def test_paths_of_a_set_start_there_too(write, tmp_path):
    own = of_sets(images=["t/*.tif"], roads=["/r"], labels={"area": ["border.gpkg"]})
    tianjin, vegas = load_config(write(own)).sets
    assert tianjin.imagery.images == (f"{tmp_path}/t/*.tif",)
    assert (tianjin.labels.roads, vegas.labels.area) == (("/r",), ())
    assert tianjin.labels.area == (f"{tmp_path}/border.gpkg",)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"graph": {"neat": True}}, "graph.neat: no longer a setting, and only false is still acc"),
        (
            {"quantize": {"windows": 8}},
            "quantize.windows: no longer a setting, and only 64 is still accepted; remove it",
        ),
        ({"split": {"group": "a"}}, "split.group: no longer a setting, and only null is still acc"),
        (
            {"compute": {"scheduler_timeout_s": 60}},
            "compute.scheduler_timeout_s: no longer a setting, and only 45.0 is still accepted",
        ),
        ({"quantize": {"window": 64}}, 'quantize: no longer a setting, and only {"win'),
        ({"train": {"epoch": 3}}, "train.epoch: unknown key; did you mean train.epochs?"),
        ({"train": {"windowpx": 3}}, "train.windowpx: unknown key; did you mean train.window_px?"),
        ({"trian": {}}, "trian: unknown key; did you mean train?"),
        ({"epochs": 3}, "epochs: unknown key; did you mean train.epochs?"),
        ({"split": {"zzz": 1}}, "split.zzz: unknown key; known keys: split.folds, split.method"),
        ({"train": 5}, "train: expected an object, got 5"),
        ({"train": {"epochs": "3"}}, "train.epochs: expected a valid integer, got '3'"),
        ({"train": {"epochs": 2.5}}, "train.epochs: expected a valid integer, got 2.5"),
        ({"labels": {"roads": "r"}}, "labels.roads: expected a valid array, got 'r'"),
        ({"labels": {"roads": [1]}}, "labels.roads.0: expected a valid string, got 1"),
        (
            {"split": {"method": "x"}},
            "split.method: expected 'blocks', 'places', 'knndm', 'random', 'sets' or 'f",
        ),
        ({"imagery": {"bands": []}}, "imagery.bands: expected at least 1 item, got 0: []"),
        ({"run": 3}, "run: expected a path, got 3"),
        (
            {"labels": {"scheme": "attribute"}},
            "labels.speed_key: the scheme attribute needs the name",
        ),
        (
            {"labels": {"speed_key": "v"}},
            'labels.speed_key: has no effect unless scheme is "attribute"',
        ),
        ({"split": {"method": "file"}}, "split.file: the method file needs a path"),
        ({"split": {"method": "knndm"}}, "split.target: the method knndm needs the images that"),
        (
            {"predict": {"overlap_px": 513}},
            "predict.overlap_px: expected at most 512, half of the largest windows (1024 pixels), ",
        ),
        (
            {"predict": {"overlap_px": 49, "window_px": 96}},
            "predict.overlap_px: expected at most 48, half of window_px (96 pixels), got 49",
        ),
        (
            {"train": {"epochs": 0}, "split": {"folds": 1}},
            "split.folds: expected greater than or equal to 2, got 1; train.epochs: expected",
        ),
        ('{"train": {"learning_rate": NaN}}', "train.learning_rate: expected a finite number"),
        ('{"train": {"learning_rate": 1e999}}', "train.learning_rate: expected a finite number"),
        ('{"train": {}, "graph": {}, "train": {}}', "'train' appears twice; keep one"),
        ("", "not a readable JSON file"),
        ('{"train": ', "not a readable JSON file"),
        ('{"train": ' * 100_000, "not a readable JSON file (maximum recursion depth"),
        ("[1]", "expected a JSON object with sections, got [1]"),
        (
            of_sets(labels={"bufer_m": 4}),
            f"{SET}.labels.bufer_m: unknown key; did you mean {SET}.labels.buffer_m?",
        ),
        (of_sets(wieght=3), f"{SET}.wieght: unknown key; did you mean {SET}.weight?"),
        (of_sets(weight=0), f"{SET}.weight: expected greater than or equal to 0.001"),
        (
            of_sets(labels={"bin_edges": [30.0]}),
            f"{SET}.labels.bin_edges: applies to all sets; set labels.bin_edges",
        ),
        (
            of_sets(labels={"roads": ["a"]}),
            f"{SET}.labels.roads: applies to all sets; set roads of the set",
        ),
        (
            of_sets(labels={"speed_key": "v"}),
            f'{SET}.labels.speed_key: has no effect unless scheme is "attribute"',
        ),
        (
            of_sets() | {"labels": {"roads": ["a"]}},
            "labels.roads: cannot be combined with imagery.sets, which have",
        ),
        (
            {"imagery": {"images": ["a"], "sets": {"b": {}}}},
            "imagery.images: cannot be combined with sets, which have their own images",
        ),
        (
            {"imagery": {"sets": {"a/b": {}}}},
            "imagery.sets: expected a name of letters, digits, _ and -, of at most 64 characters",
        ),
        ({"imagery": {"sets": {"a.b": {}}}}, "imagery.sets: expected a name of letters"),
        ({"imagery": {"sets": {"a": 3}}}, "imagery.sets.a: expected an object, got 3"),
    ],
    ids=lambda value: value[:28] if isinstance(value, str) else "",
)
def test_what_is_wrong_is_told_in_one_line_with_its_file_and_key(write, values, message):
    path = write(values)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "\n" not in str(caught.value)


LIMITS = [
    ("imagery.chip_px", 31, 32),
    ("imagery.gsd_m", 0.0009, 0.001),
    ("imagery.gsd_m", 10_001, 10_000),
    ("labels.buffer_m", 0, 0.1),
    ("labels.default_speed_mph", 0.09, 0.1),
    ("labels.bin_edges", [], [30]),
    ("labels.bin_edges", [0.09, 10], [0.1, 10]),
    ("labels.bin_edges", [10, 10], [10, 10.1]),
    ("labels.bin_edges", list(range(1, 32)), list(range(1, 31))),
    ("split.folds", 1, 2),
    ("split.block_m", 0.9, 1),
    ("train.window_px", 33, 32),
    ("train.window_px", 0, 64),
    ("train.epochs", 0, 1),
    ("train.batch_size", 0, 1),
    ("train.learning_rate", 0, 1e-9),
    ("predict.window_px", 32, 256),
    ("predict.overlap_px", 513, 512),
    ("graph.threshold", 0, 0.01),
    ("graph.threshold", 1, 0.99),
    ("graph.min_spur_m", -0.1, 0),
    ("compute.workers", -1, 0),
    ("compute.workers", 1025, 1024),
    ("imagery.licence", "a" * 4097, "a" * 4096),
]


KEYWORDS = {"$defs", "properties", "items", "anyOf", "prefixItems", "additionalProperties"}


def numbers(schema, name=""):
    """Give every schema of a number inside a schema, with the name that it goes by."""
    if isinstance(schema, dict):
        if schema.get("type") in {"number", "integer"}:
            yield pytest.param(schema, id=name)
        for key, inner in schema.items():
            yield from numbers(inner, name if key in KEYWORDS else f"{name}.{key}")
    elif isinstance(schema, list):
        for inner in schema:
            yield from numbers(inner, name)


WITHOUT_LIMITS = {  # any; a rule of its own
    ".RunImageryOptions.nodata",
    ".SetOptions.nodata",
}


@pytest.mark.parametrize("number", list(numbers(Config.model_json_schema())))
def test_every_number_has_a_limit_on_both_sides(request, number):
    if not any(name in request.node.name for name in WITHOUT_LIMITS):
        assert {"minimum", "exclusiveMinimum"} & set(number)
        assert {"maximum", "exclusiveMaximum"} & set(number)


@pytest.mark.parametrize(("key", "outside", "inside"), LIMITS)
def test_a_value_outside_of_its_limits_is_refused(write, key, outside, inside):
    section, name = key.split(".")
    load_config(write({section: {name: inside}}))
    with pytest.raises(ConfigError, match=rf"roadseg\.json: {key}[.0-9]*: .*(expected|should)"):
        load_config(write({section: {name: outside}}))


def test_the_width_and_the_bins_follow_from_the_options_of_labels(write):
    values = {"buffer_m": 3, "bin_edges": [50], "bin_unit": "km/h"}
    labels = load_config(write({"labels": values})).labels
    assert labels.width_m == 6
    assert labels.bins.names == ("0 to 50 km/h", "above 50 km/h")


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("train.epochs=3", 3),
        ("split.method=random", "random"),
        ('split.method="random"', "random"),
        ("imagery.bands=[1,2]", (1, 2)),
        ("imagery.crs=EPSG:32611", "EPSG:32611"),
        ("imagery.crs=null", None),
        ("imagery.images=a.tif,b", ("/data/a.tif", "/data/b")),
        ("imagery.bands=1,2", (1, 2)),
        ("imagery.bands=red", ("red",)),
        ("imagery.bands=null", None),
        ("graph.formats=gpkg,osm", ("gpkg", "osm")),
        ("graph.formats=gpkg", ("gpkg",)),
        ("train.decoder_channels=null", None),
    ],
)
def test_an_assignment_changes_one_setting(write, assignment, value):
    section, name = assignment.split("=")[0].split(".")
    path = write({"train": {"epochs": 9, "warmup_steps": 4}})
    config = load_config(path, [assignment.replace("=a.tif,b", "=/data/a.tif,/data/b")])
    assert getattr(getattr(config, section), name) == value
    assert config.train.warmup_steps == 4


def test_the_list_of_a_set_takes_commas_as_well(write):
    given = ["imagery.sets.a.images=/x,/y", "imagery.sets.a.roads=/z", "imagery.sets.a.bands=1,2"]
    (of,) = load_config(write({}), given).sets
    assert (of.imagery.images, of.imagery.bands) == (("/x", "/y"), (1, 2))


@pytest.mark.parametrize(
    ("values", "assignments", "where"),
    [
        ({}, ["train.epochs=x"], "--set"),
        ({}, ["train.loss.dice=x"], "--set"),
        ({"train": {"epochs": "x"}}, ["train.batch_size=3"], "file"),
        ({"train": {"epochs": "x"}}, ["train.batch_size=y"], "file"),
        ({}, ["quantize.windows=8"], "--set"),  # retired
        ({}, ["train.distributed.warmup_steps=8"], "--set"),
        ({"quantize": {"windows": 8}}, ["train.optimizer=adam"], "file"),
    ],
)
def test_a_wrong_or_retired_value_is_blamed_on_where_it_stands(write, values, assignments, where):
    path = write(values)
    with pytest.raises(ConfigError) as caught:
        load_config(path, assignments)
    assert re.match(
        rf"{path if where == 'file' else where}: (train\.|quantize\.windows: )", str(caught.value)
    )


def test_the_last_assignment_wins(write):
    assert load_config(write({}), ["train.epochs=3", "train.epochs=4"]).train.epochs == 4


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("train.epochs", "--set train.epochs: expected section.key=value, such as train.epochs=3"),
        ("train.=3", "--set train.=3: expected section.key=value"),
        ("run.x=3", "--set run.x=3: run is not a section"),
        ("train.epoch=3", "train.epoch: unknown key; did you mean train.epochs?"),
        ("train.epochs=three", "train.epochs: expected a valid integer, got 'three'"),
        ("train.decoder_channels=1,2", ": expected at least 4 items, got 2: [1, 2]"),
        ("train.decoder_channels=1,2,3,4,5,6", ": expected at most 5 items, got 6: [1, 2, 3, 4, "),
        ("graph.formats=dxf", "--set: graph.formats.0: expected 'gpkg', 'geojson', "),
    ],
)
def test_a_wrong_assignment_is_one_fault_that_names_its_key(write, assignment, message):
    with pytest.raises(ConfigError) as caught:
        load_config(write({"run": "x"}), [assignment])
    assert message in str(caught.value)
    assert str(caught.value).count("expected") <= 1


def test_without_a_file_the_run_lies_here(here):
    assert load_config(None).run == here / "run"


def test_the_config_is_the_given_one_then_the_variables_then_the_one_here(monkeypatch, here, write):
    given, named, found = write({}, "a.json"), write({}, "b.json"), write({})
    assert here / find_config(None) == found
    monkeypatch.setenv("ROADSEG_CONFIG", str(named))
    assert find_config(None) == named
    assert find_config(given) == given


def test_a_run_folder_that_is_named_has_its_own_config(monkeypatch, here, write):
    given, named, found = write({}, "a.json"), write({}, "b.json"), write({})
    monkeypatch.setenv("ROADSEG_CONFIG", str(named))
    run = here / "map"
    run.mkdir()
    assert find_config(None, run) == named
    own = run / "roadseg.json"
    own.write_bytes(found.read_bytes())
    assert find_config(None, run) == own
    assert find_config(given, run) == given


@pytest.mark.usefixtures("here")
def test_a_missing_config_is_named():
    created = r"roadseg\.json does not exist; create a config with `roadseg init`"
    with pytest.raises(ConfigError, match=rf"{created}.* or name a run folder that has one"):
        find_config(None)


@pytest.mark.usefixtures("here")
def test_a_config_that_is_not_needed_may_be_missing():
    assert find_config(None, required=False) is None


def test_a_config_that_was_named_may_not_be_missing(tmp_path):
    with pytest.raises(ConfigError, match=r"x\.json does not exist; create a config"):
        find_config(tmp_path / "x.json", required=False)


def test_a_crs_is_read_and_none_stays_none():
    assert crs_setting("EPSG:32611", "imagery.crs") == CRS.from_epsg(32611)
    assert crs_setting(None, "imagery.crs") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("run", "~nobody-here/x"),
        ("split.file", "~nobody-here/x"),
        ("train.init", "~nobody-here/x"),
        ("train.encoder_weights", "~nobody-here/x.pth"),
        ("run", "a\0b"),
    ],
)
def test_a_path_that_cannot_be_is_refused(write, key, value):
    section, _, name = key.rpartition(".")
    with pytest.raises(ConfigError, match=r"no known home folder|character NUL"):
        load_config(write({section: {name: value}} if section else {name: value}))


def test_a_list_of_millions_is_refused_at_its_first_fault(write):
    path = write('{"imagery": {"images": [' + "1," * 5_000_000 + "1]}}")
    with pytest.raises(ConfigError, match=r"imagery\.images\.0: expected a valid string, got 1$"):
        load_config(path)


def test_a_config_is_shown_by_what_differs_from_the_defaults():
    config = Config.model_validate({"run": "here", "train": {"epochs": 3}})
    assert json.loads(str(config)) == {"run": "here", "train": {"epochs": 3}}


def test_a_set_inherits_what_it_does_not_say(write):
    scheme = {"labels": {"scheme": "attribute", "speed_key": "v", "buffer_m": 3.0}}
    own = {"images": ["t"], "roads": ["r"], "labels": {"speed_key": "w"}, "bands": [1]}
    tianjin, vegas = load_config(write(of_sets(**own) | scheme)).sets
    assert (tianjin.imagery.gsd_m, tianjin.imagery.bands, vegas.imagery.bands) == (0.3, (1,), None)
    assert (tianjin.labels.buffer_m, tianjin.labels.speed_key) == (3.0, "w")
    assert (vegas.labels.speed_key, vegas.weight) == ("v", 1.0)


def test_a_run_without_sets_has_one_without_a_name():
    (only,) = Config().sets
    assert (only.name, only.labels, only.weight) == ("", LabelOptions(), 1.0)
    assert Config().of_set("") == Config()


def test_a_weight_of_a_set_can_be_assigned(write):
    config = load_config(write(of_sets()), ["imagery.sets.tianjin.weight=3"])
    assert [of.weight for of in config.sets] == [3.0, 1.0]


def test_a_config_with_sets_is_the_same_after_it_was_shown(write):
    config = load_config(write(of_sets(images=["t"], labels={"buffer_m": 4.0})))
    assert Config.model_validate_json(config.model_dump_json()) == config
    assert json.loads(str(config))["imagery"]["sets"]["tianjin"]["labels"] == {"buffer_m": 4.0}


def test_the_schema_says_what_a_set_may_have():
    schema = Config.model_json_schema()["$defs"]
    assert {"images", "roads", "weight", "labels"} <= schema["SetOptions"]["properties"].keys()
    of_labels = schema["SetLabelOptions"]["properties"].keys()
    assert "buffer_m" in of_labels
    assert not of_labels & {"roads", "bin_edges", "bin_unit", "licence"}


@pytest.mark.parametrize(
    ("begun", "keys"),
    [
        ("imagery.sets.x.we", ["imagery.sets.x.weight="]),
        ("imagery.sets.x.labels.bu", ["imagery.sets.x.labels.buffer_m="]),
        ("imagery.sets.x.labels.bin", []),
    ],
)
def test_keys_of_a_set_are_completed_once_its_name_is_there(begun, keys):
    assert completions(begun) == keys


def test_assigned_paths_start_at_the_working_folder(write, tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    path = write(of_sets(images=["t"], roads=["r"]) | {"run": "run", "split": {"target": ["far"]}})
    assigned = ["split.target=near/*.tif,/n", "imagery.sets.tianjin.roads=r", "train.epochs=3"]
    config = load_config(path, [*assigned, 'labels={"area": ["a.gpkg"]}'])
    assert config.split.target == (f"{here}/near/*.tif", "/n")
    assert config.labels.area == (f"{here}/a.gpkg",)
    own = config.imagery.sets["tianjin"]
    assert (own.images, own.roads) == ((f"{tmp_path}/t",), (f"{here}/r",))
    assert (config.run, config.train.epochs) == (tmp_path / "run", 3)


@pytest.mark.parametrize(
    ("values", "assigned"),
    [
        ({"graph": {"neat": False, "close_m": 0, "min_blob_m2": 30}, "split": {"seed": 0}}, []),
        ({"train": {"distributed": {"hierarchy": None}, "lr_milestones": [20, 25]}}, []),
        ({"quantize": {"windows": 64}}, ["train.loss.bootstrap=0", "predict.fuse=false"]),
        ({}, ["quantize.windows=64", 'train.loss={"cldice": 0}']),
    ],
)
def test_a_retired_setting_may_have_the_value_that_is_fixed_now(write, values, assigned):
    assert load_config(write(values), assigned) == load_config(write({}))


def test_an_assignment_may_replace_the_sets_of_one_before(write):
    (of,) = load_config(
        write({}),
        [
            "imagery.sets.old.images=a",
            'imagery.sets={"new": {"images": ["/b"], "roads": ["/r"]}}',
        ],
    ).sets
    assert of.name == "new"


def test_where_sets_are_folds_there_are_as_many(write):
    by_sets = of_sets() | {"split": {"method": "sets", "folds": 5}}
    assert load_config(write(by_sets)).folds == 2
    assert load_config(write(of_sets())).folds == 5
