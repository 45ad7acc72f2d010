"""The page of a review: frame, style and scripts in one text; the server has the data."""

import html
import json

from roadseg.report.page import csp_digest, page_file
from roadseg.roads.colours import FALSE, FOUND, MISSED, as_hex

_ROOM = "review"
# Scripts of the report and of the review, each after those that it needs.
_SHARED = "elements units lines colours viewport drawing"
_OWN = "roads tiles hands review"
_PALETTE = json.dumps({"found": as_hex(FOUND), "missed": as_hex(MISSED), "false": as_hex(FALSE)})
_POLICY = (
    "default-src 'none'; img-src data:; connect-src 'self'; style-src '{style}'; "
    "script-src '{script}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def review_page(title: str) -> tuple[str, str]:
    """Return the page, and the Content-Security-Policy with which it has to be sent.

    The policy allows its one script and one style by their digests, and questions to the server
    that sent the page.
    """
    style = f"\n{page_file('report.css')}\n{page_file('review.css', _ROOM)}\n"
    scripts = [page_file(f"{name}.js") for name in _SHARED.split()]
    scripts += [page_file(f"{name}.js", _ROOM) for name in _OWN.split()]
    parts = ["", '"use strict";', "{", f"const PALETTE = {_PALETTE};", *scripts, "}", ""]
    script = "\n".join(parts)
    policy = _POLICY.format(style=csp_digest(style), script=csp_digest(script))
    places = {"@title@": html.escape(title), "@style@": style, "@script@": script}
    page = page_file("review.html", _ROOM)
    for place, part in places.items():
        before, after = page.split(place)
        page = before + part + after
    return page, policy
