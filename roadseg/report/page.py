"""HTML pages without other files: the report's, from template, style, scripts and data."""

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from roadseg.roads.colours import FALSE, FOUND, MISSED, as_hex
from roadseg.system.files import atomic_write

# Scripts, each after those that it needs.
_SCRIPTS = (
    "elements units lines routing colours filter viewport drawing legend marks swipe tip trip map "
    "display downloads menus tools pointers hands search address panel scenes curves tables print "
    "report"
)
# Colours of found, missed and false roads, by the names on the page.
_PALETTE = json.dumps({"found": as_hex(FOUND), "missed": as_hex(MISSED), "false": as_hex(FALSE)})
_POLICY = (
    "default-src 'none'; img-src data:; style-src '{style}'; script-src '{script}'; "
    "base-uri 'none'; form-action 'none'"
)


def build_page(title: str, shown: dict[str, Any]) -> str:
    """Return the page of a report, which needs no other file and may load none.

    Its Content-Security-Policy allows its one script and one style by their digests, and embedded
    images.

    Args:
        shown: JSON data of the page; its scripts show strings as text, never as HTML.
    """
    style = f"\n{page_file('report.css')}\n"
    script = one_script([page_file(f"{name}.js") for name in _SCRIPTS.split()])
    policy = _POLICY.format(style=csp_digest(style), script=csp_digest(script))
    texts = {"title": html.escape(title), "policy": policy, "style": style, "script": script}
    return filled(page_file("report.html"), {**texts, "data": as_data(shown)})


def one_script(scripts: Iterable[str]) -> str:
    """Return scripts as one, whose names no other script sees, with the colours of the report."""
    parts = ["", '"use strict";', "{", f"const PALETTE = {_PALETTE};", *scripts, "}", ""]
    return "\n".join(parts)


def filled(frame: str, texts: Mapping[str, str]) -> str:
    """Return the frame of a page with texts in their places, as in `@title@`."""
    for name, text in texts.items():
        before, after = frame.split(f"@{name}@")
        frame = before + text + after
    return frame


def as_data(value: dict[str, Any]) -> str:
    """Return JSON for a script element, with characters escaped that could end the element.

    Raises:
        ValueError: if a number is not finite.
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def write_page(path: Path, page: str) -> int:
    """Write a page; return how many bytes it has.

    Raises:
        OutputError: if it cannot be written.
    """
    content = page.encode()
    with atomic_write(path) as partial:
        partial.write_bytes(content)
    return len(content)


def page_file(name: str, folder: str = "report") -> str:
    """Return the text of a file of the pages: a script, a style or a frame, by its name."""
    return files("roadseg").joinpath(folder, "assets", name).read_text(encoding="utf-8")


def csp_digest(text: str) -> str:
    """Return the digest by which a Content-Security-Policy allows a script or a style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
