"""Templates of tiles have a place for what each tile needs."""

import pytest

from roadseg.commands.services.images.tiles import (
    check_template,
    host_of,
    is_template,
    quadkey,
    tile_address,
)
from roadseg.errors import ConfigError


@pytest.mark.parametrize(
    ("template", "address"),
    [
        ("https://a/{z}/{x}/{y}.png", "https://a/3/5/2.png"),
        ("https://a/{zoom}/{x}/{-y}.png", "https://a/3/5/5.png"),
        ("https://a/{q}.jpg", "https://a/121.jpg"),
        ("https://{s}.a/{z}/{x}/{y}", "https://b.a/3/5/2"),
        ("https://{switch:t0,t1}.a/{z}/{x}/{y}", "https://t1.a/3/5/2"),
        ("https://a/{z}/{x}/{y}?k={env:KEY}", "https://a/3/5/2?k={env:KEY}"),
    ],
)
def test_a_tile_has_its_address(template, address):
    check_template(template)
    assert is_template(template)
    assert tile_address(template, 3, 2, 5) == address


def test_a_quadkey_has_a_digit_for_each_level():
    assert quadkey(3, 5, 3) == "213"  # Source: Bing Maps Tile System, where x is 3 and y is 5.


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("https://a/{x}/{y}.png", "needs {z}, {x} and {y}"),
        ("https://a/{z}/{x}/.png", "needs {z}, {x} and {y}"),
        ("https://a/{z}/{x}/{y}/{day}", "{day} is unknown"),
    ],
)
def test_a_template_that_lacks_something_is_told(template, message):
    with pytest.raises(ConfigError, match=message):
        check_template(template)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("https://{s}.tile.example.org/{z}/{x}/{y}.png", "tile-example-org"),
        ("https://me:secret@tiles.example.org:8080/{z}/{x}/{y}", "tiles-example-org"),
        ("https://{env:HOST}.example.org/{z}/{x}/{y}", "example-org"),
    ],
)
def test_the_host_names_an_image(address, name):
    assert host_of(address) == name
