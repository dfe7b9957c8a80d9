"""The site: `make docs` writes it to build/docs, without the network."""

from __future__ import annotations

import sys
from pathlib import Path

from docutils.nodes import Element, SkipNode
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

from discreet import __version__

sys.path.insert(0, str(Path(__file__).parent))
import _notebooks

project = "discreet"
copyright = "the authors of discreet"  # noqa: A001 - Sphinx reads this name
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
exclude_patterns = ["conf.py", "_generate.py", "_notebooks.py", "_tutorial.py", "_templates"]
templates_path = ["_templates"]

html_math_renderer = "plain"  # the usual one loads a script from elsewhere
html_theme = "furo"
html_title = "discreet"
html_copy_source = False
html_show_sourcelink = False

autosummary_generate = True
autodoc_typehints = "none"  # signatures stay readable; the text says what a parameter is
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_preprocess_types = False
napoleon_use_ivar = True  # attributes that a class documents twice are listed once
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["myst.xref_missing", "ref.python"]
nitpicky = False


def setup(app: Sphinx) -> None:
    """Write the notebooks as pages; show the few formulas of docstrings as they are written."""
    _notebooks.write_pages()

    def visit(self: HTML5Translator, node: Element) -> None:
        self.body.append(self.starttag(node, "code", ""))
        self.body.append(self.encode(node.astext()) + "</code>")
        raise SkipNode

    app.add_html_math_renderer("plain", (visit, None), (visit, None))
