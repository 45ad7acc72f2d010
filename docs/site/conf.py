"""The site of the documents: what Sphinx reads. `scripts/docs` builds it."""

import importlib.metadata
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))
import reference  # noqa: E402 - beside this file, which is on no import path

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = author = "roadseg"
copyright = "roadseg contributors, Apache License 2.0"  # noqa: A001 - its name in Sphinx
release = version = importlib.metadata.version("roadseg")
language = "en"

# The folder of sources is the repository: links between files hold here and on a forge alike.
root_doc = "README"
include_patterns = ["*.md", "data/README.md", "docs/**"]
exclude_patterns = ["docs/site/*.py", "**/__pycache__", "**/.ipynb_checkpoints"]
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "myst_nb"]

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
nb_execution_mode = "off"  # Notebooks are kept with what they show.
default_role = "literal"  # Backticks in docstrings are code.
smartquotes_action = "D"  # Dashes in lists of parameters; quotes stay as they are.
highlight_language = "none"  # Blocks that name no language are trees, tables and output.

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
napoleon_use_ivar = True
python_maximum_signature_line_length = 80
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"roadseg {release}"
html_copy_source = False
html_show_sphinx = False
html_static_path = ["static"]
html_css_files = ["site.css"]
html_theme_options = {"top_of_page_buttons": []}

CONTENTS = {
    "Guides": [
        *("Home <self>", "docs/python", "data/README", "docs/areas", "docs/training"),
        *("docs/mapping", "docs/graphs", "docs/review", "docs/qgis", "docs/conflation"),
        "docs/metrics",
        "docs/article",
    ],
    "Notebooks": ["docs/notebooks/own_images", "docs/notebooks/routing", "docs/notebooks/scores"],
    "Reference": [
        *("docs/reference", "docs/glossary"),
        *("docs/site/api", "docs/site/commands", "docs/site/config"),
    ],
    "Project": [
        *("docs/measurements", "docs/architecture", "docs/decisions/README", "CONTRIBUTING"),
        *("CHANGELOG", "SECURITY"),
    ],
}
GENERATED = {
    "docs/site/api": reference.api_page,
    "docs/site/commands": reference.commands_page,
    "docs/site/config": reference.config_page,
}
ARRAY = re.compile(r"[~\w.]*ndarray\[tuple\[[^\]]*\], [~\w.]*dtype\[[^\]]*\]\]")


def complete_source(_app: "Sphinx", page: str, source: list[str]) -> None:
    """Add to a page what its file leaves out: the contents of the site, or a reference."""
    folder = (ROOT / page).parent
    source[0] = re.sub(r"\[([^\]]*)\]\(([\w./]+)\)", lambda m: file_link(m, folder), source[0])
    if page == root_doc:
        source[0] += "".join(contents(pages, caption) for caption, pages in CONTENTS.items())
    elif page == "docs/decisions/README":
        source[0] += contents(["*"])
    elif page in GENERATED:
        source[0] += GENERATED[page]()


def contents(pages: list[str], caption: str = "") -> str:
    """Return a list of pages for the side of the site."""
    head = "\n\n```{toctree}\n:hidden:\n:glob:\n"
    head += f":caption: {caption}\n\n" if caption else "\n"
    return head + "\n".join(pages) + "\n```\n"


def file_link(link: re.Match[str], folder: Path) -> str:
    """Return a link to a folder as one to its README, or as plain text where it has none."""
    text, target = link.groups()
    if not (folder / target).is_dir():
        return link[0]
    readme = Path(target) / "README.md"
    return f"[{text}]({readme})" if (folder / readme).exists() else f"`{target}`"


def shorten_arrays(
    _app: "Sphinx", _what: str, _name: str, _value: object, _options: object, *texts: str | None
) -> tuple[str | None, ...]:
    """Return signature and annotation of a function with arrays by their name only."""
    return tuple(text and ARRAY.sub("array", text) for text in texts)


def keep_colons(
    _app: "Sphinx", what: str, _name: str, _value: object, _options: object, lines: list[str]
) -> None:
    """Keep napoleon from reading what stands before a colon as the type of a property."""
    if what == "property" and lines:
        lines[0] = lines[0].replace(": ", " -- ")


def setup(app: "Sphinx") -> None:
    """Let Sphinx call what is above."""
    app.connect("source-read", complete_source)
    app.connect("autodoc-process-signature", shorten_arrays)
    app.connect("autodoc-process-docstring", keep_colons, priority=400)  # napoleon has 500
