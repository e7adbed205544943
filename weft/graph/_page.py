"""The interactive page: a bundle made of web/ (see web/README.md) with a graph put into it."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from weft.graph._document import json_text

if TYPE_CHECKING:
    from weft.graph._diff import Difference
    from weft.graph._graph import Graph

_NOTEBOOK_NODES = 3000
_TITLE = "<!--title-->"
_DOCUMENT = "<!--document-->"


def page(graph: Graph, difference: Difference | None = None) -> str:
    """One page that needs nothing else. Its JSON holds no ``<``, so that nothing can end it."""
    document = json_text(graph, difference).replace("<", "\\u003c")
    before, rest = _bundle().split(_TITLE)
    head, after = rest.split(_DOCUMENT)
    return "".join((before, escape(graph.title), head, document, after))


def notebook_frame(graph: Graph) -> str:
    """The page inside a notebook's output; a frame keeps its styles and keys apart.

    Of a large graph only the text: notebooks are saved with their outputs.
    """
    if len(graph) > _NOTEBOOK_NODES:
        return f"<pre>{escape(graph.text())}</pre><p>graph.html(path) writes the whole page.</p>"
    return (
        f'<iframe title="graph of {escape(graph.title)}" srcdoc="{escape(page(graph))}" '
        'style="width: 100%; height: 600px; border: 1px solid #8884; border-radius: 6px">'
        "</iframe>"
    )


@cache
def _bundle() -> str:
    return (files("weft.graph") / "page.html").read_text(encoding="utf-8")
