import io
from xml.etree import ElementTree as ET
from xml.parsers.expat import ExpatError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadseg.roads.xml import check_xml, xml_text


@given(
    st.text(
        st.characters(codec="utf-8", exclude_categories=["Cc"], exclude_characters="\ufffe\uffff")
    )
)
def test_any_text_comes_back_from_an_element_and_from_an_attribute(text):
    written = ET.fromstring(f'<a v="{xml_text(text)}">{xml_text(text)}</a>')  # noqa: S314 - our own
    assert (written.get("v"), written.text or "") == (text, text)


@pytest.mark.parametrize("kept", ["\t", "\n", "\r"])
def test_the_ends_of_lines_come_back(kept):
    written = ET.fromstring(f'<a v="{xml_text(kept)}"/>')  # noqa: S314 - our own
    assert written.get("v") == kept


@pytest.mark.parametrize("forbidden", ["\0", "\x1b", "\ud800", "\ufffe"])
def test_what_xml_cannot_hold_is_left_out(forbidden):
    assert xml_text(f"a{forbidden}b") == "ab"


def test_a_number_is_written_as_python_shows_it():
    assert xml_text(0.1) == "0.1"


def nested(depth):
    return io.BytesIO(b"<a>" * depth + b"</a>" * depth)


def test_xml_may_be_a_hundred_deep():
    check_xml(nested(100))


def test_xml_may_not_be_deeper():
    with pytest.raises(ValueError, match="nested more than 100 levels deep"):
        check_xml(nested(101))


@pytest.mark.parametrize("only_start", [False, True])
def test_a_document_type_is_refused_before_its_entities_grow(only_start):
    grow = "".join(
        f'<!ENTITY {b} "{f"&{a};" * 100}">' for a, b in zip("abcdefg", "bcdefgh", strict=True)
    )
    bomb = f'<!DOCTYPE a [<!ENTITY a "boom">{grow}]><a>&h;</a>'
    with pytest.raises(ValueError, match="document type"):
        check_xml(io.BytesIO(bomb.encode()), only_start=only_start)


def test_xml_that_ends_too_soon_is_refused():
    with pytest.raises(ExpatError):
        check_xml(io.BytesIO(b"<a><b/>"))


def test_the_start_of_xml_is_enough_where_no_more_is_asked():
    check_xml(io.BytesIO(b"<a>" + b" " * 2**16 + b"<b"), only_start=True)


@pytest.mark.parametrize(("bytes_", "fits"), [(10, True), (9, False)])
def test_xml_may_not_be_larger_than_any_road_file(monkeypatch, bytes_, fits):
    monkeypatch.setattr("roadseg.roads.xml._LARGEST_BYTES", bytes_)
    try:
        check_xml(io.BytesIO(b"<a>123</a>"))
    except ValueError:
        assert not fits
    else:
        assert fits


def test_an_encoding_that_no_one_knows_is_refused():
    with pytest.raises(ValueError, match="unknown encoding: no-8"):
        check_xml(io.BytesIO(b'<?xml version="1.0" encoding="no-8"?><a/>'))
