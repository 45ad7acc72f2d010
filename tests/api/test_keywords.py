"""Functions show the options that they take, as the sections of the config declare them."""

import inspect

import numpy as np
import pytest

import roadseg
from roadseg.api.arguments import options_of
from roadseg.api.runs import load_config
from roadseg.errors import ConfigError
from roadseg.learn.options import ComputeOptions, PredictOptions
from roadseg.raster.options import ImageryOptions
from roadseg.roads.options import (
    CompareOptions,
    DiffOptions,
    LabelOptions,
    RouteOptions,
    TraceOptions,
)

SECTIONS = {
    "burn": (LabelOptions, ImageryOptions),
    "diff": (DiffOptions,),
    "predict": (PredictOptions, ImageryOptions, ComputeOptions),
    "route": (RouteOptions,),
    "score": (CompareOptions,),
    "trace": (TraceOptions,),
}


def shown(name):
    return inspect.signature(getattr(roadseg, name)).parameters


def takes_any(name):
    function = getattr(roadseg, name)
    return inspect.isfunction(function) and function.__code__.co_flags & inspect.CO_VARKEYWORDS


def test_these_are_the_functions_that_take_options_of_sections():
    assert sorted(filter(takes_any, roadseg.__all__)) == sorted(SECTIONS)


@pytest.mark.parametrize("name", SECTIONS)
def test_a_signature_has_all_options_with_the_defaults_of_their_sections(name):
    options = {k: p.default for k, p in shown(name).items() if p.kind is p.KEYWORD_ONLY}
    sections = {k: v for kind in SECTIONS[name] for k, v in dict(kind()).items()}
    assert options == options | sections
    assert inspect.Parameter.VAR_KEYWORD not in {p.kind for p in shown(name).values()}


@pytest.mark.parametrize("name", SECTIONS)
def test_a_function_takes_just_the_options_that_it_shows(name, tmp_path):
    (tmp_path / "line.geojson").write_text(
        '{"type": "LineString", "coordinates": [[7.0, 51.0], [7.001, 51.0]]}'
    )
    values = {
        "trace": ["x.tif"],
        "route": [roadseg.read_graph(tmp_path / "line.geojson"), (7, 51), (7.001, 51)],
    }
    with pytest.raises(ConfigError, match="no such option") as caught:
        getattr(roadseg, name)(*values.get(name, ("x.tif", "y.tif")), nothing=1)
    taken = str(caught.value).partition("expected one of ")[2].split(", ")
    sections = {field for kind in SECTIONS[name] for field in kind.model_fields}
    assert set(taken) == sections <= set(shown(name))


def test_an_option_is_shown_with_its_type_but_without_its_limits():
    assert str(shown("trace")["min_spur_m"]) == "min_spur_m: float = 12.0"
    assert str(shown("burn")["roads"]) == "roads: tuple[str, ...] = ()"


def test_sections_that_share_an_option_declare_it_alike():
    label, imagery = LabelOptions.model_fields, ImageryOptions.model_fields
    both = label.keys() & imagery.keys()
    assert both == {"area", "crs", "licence"}  # `burn` takes the area of imagery
    shared = both - {"area"}
    assert all(label[name].annotation == imagery[name].annotation for name in shared)


@pytest.mark.parametrize("gap_m", [np.int64(10), np.float32(10)])
def test_options_may_be_numbers_of_numpy(gap_m):
    assert options_of(TraceOptions, {"max_gap_m": gap_m}).max_gap_m == 10


def test_options_may_be_arrays():
    assert options_of(ImageryOptions, {"bands": np.array([3, 2, 1])}).bands == (3, 2, 1)


def test_overrides_may_be_numbers_of_numpy():
    assert load_config(overrides={"train.epochs": np.int64(3)}).train.epochs == 3
