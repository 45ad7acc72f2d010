"""The page of a comparison: what the keyboard can reach."""

import re
from dataclasses import replace

from roadseg.report.comparison import Comparison, Row, Setting
from roadseg.report.comparison_page import build_comparison_page

COMPARED = Comparison(
    names=["a", "b"],
    warnings=[],
    settings=[Setting("train.epochs", (3, 4))],
    metrics=[Row("pixel IoU", (0.5, 0.6))],
    seconds=[Row("train", (10.0, 12.0))],
    chips={"city_0": {"iou": Row("iou", (0.5, 0.6))}},
)


def test_the_keyboard_can_scroll_every_table_and_each_has_a_name_of_its_own():
    page = build_comparison_page(COMPARED, [None, None], {})
    tables = re.findall(r'<div class="scroll [^>]*>', page)
    names = [re.search(r'tabindex="0" role="region" aria-label="(.+)"', each) for each in tables]
    assert len({name.group(1) for name in names}) == len(tables) == 4


def test_values_of_settings_are_text_on_the_page():
    compared = replace(COMPARED, settings=[Setting("split.name_pattern", ("<i>", "(.*)"))])
    page = build_comparison_page(compared, [None, None], {})
    assert "&lt;i&gt;" in page
    assert "<i>" not in page
