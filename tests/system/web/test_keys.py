"""Keys come from the environment, and are hidden in all that is shown."""

import pytest

from roadseg.errors import ConfigError
from roadseg.system.web.keys import with_keys, without_keys


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("TILES_KEY", "ab+/=cd12")


def test_a_key_is_escaped_in_an_address():
    assert with_keys("https://a/t?key={env:TILES_KEY}") == "https://a/t?key=ab%2B%2F%3Dcd12"


def test_a_whole_address_is_taken_as_it_is(monkeypatch):
    monkeypatch.setenv("SIGNED", "https://a/b.tif?sig=x%2By")
    assert with_keys("{env:SIGNED}") == "https://a/b.tif?sig=x%2By"


def test_a_key_is_not_escaped_in_a_header():
    assert with_keys("{env:TILES_KEY}", is_address=False) == "ab+/=cd12"


@pytest.mark.parametrize("text", ["?k=ab+/=cd12 failed", "?k=ab%2B%2F%3Dcd12 failed"])
def test_a_key_is_hidden_wherever_it_stands(text):
    with_keys("https://a/{env:TILES_KEY}")
    assert without_keys(text) == "?k={env:TILES_KEY} failed"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:pass@a/b", "https://***@a/b"),
        ("https://a/b?key=xyz&z=1", "https://a/b?key=***&z=1"),
        ("https://a/b?z=1&X-Amz-Signature=xyz", "https://a/b?z=1&X-Amz-Signature=***"),
        ("https://a/b?sig=xyz", "https://a/b?sig=***"),
        ("https://a/b?apikey={env:K}", "https://a/b?apikey={env:K}"),
        ("https://a/b?size=3", "https://a/b?size=3"),
    ],
)
def test_what_looks_like_a_key_is_hidden(text, shown):
    assert without_keys(text) == shown


def test_keys_of_buckets_are_hidden(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    assert without_keys("signed by wJalrXUtnFEMI") == "signed by {env:AWS_SECRET_ACCESS_KEY}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{env:NOT_SET_AT_ALL}", "NOT_SET_AT_ALL is not set"),
        ("{env:my key}", "expected the name of an environment variable"),
    ],
)
def test_a_key_that_is_not_there_is_told(text, message):
    with pytest.raises(ConfigError, match=message):
        with_keys(text)
