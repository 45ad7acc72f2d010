"""A finished run, and its parts that Python is given."""

import pytest

import roadseg


@pytest.fixture(scope="package")
def city(finished_city):
    return finished_city


@pytest.fixture(scope="package")
def labels(city):
    return roadseg.read_graph(city / "roads" / "city_0.geojson")


@pytest.fixture(scope="package")
def image(city):
    return city / "images" / "city_0.tif"


@pytest.fixture(scope="package")
def checkpoint(city):
    return city / "run" / "checkpoints" / "fold-0"
