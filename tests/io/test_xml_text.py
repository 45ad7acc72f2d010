from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadseg.io.xml_text import xml_text


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
