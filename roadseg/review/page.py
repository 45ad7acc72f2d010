"""The page of a review: frame, style and scripts in one text; the server has the data."""

import html

from roadseg.report.page import csp_digest, filled, one_script, page_file

_ROOM = "review"
# Scripts of the report and of the review, each after those that it needs.
_SHARED = "elements units lines colours viewport drawing pointers"
_OWN = "roads tiles hands review"
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
    script = one_script(scripts + [page_file(f"{name}.js", _ROOM) for name in _OWN.split()])
    policy = _POLICY.format(style=csp_digest(style), script=csp_digest(script))
    texts = {"title": html.escape(title), "style": style, "script": script}
    return filled(page_file("review.html", _ROOM), texts), policy
