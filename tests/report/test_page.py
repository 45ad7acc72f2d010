"""The page of a report as HTML."""

from roadseg.report.page import build_page


def test_markup_in_a_title_is_text():
    assert "<title>&lt;/title&gt;&lt;b&gt;A &amp; B" in build_page("</title><b>A & B", {})
