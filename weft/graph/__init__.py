"""The recorded graph, looked at: as text, as a picture, as one interactive page.

``weft.graph`` is a function and the module of what that function needs:

>>> import weft
>>> x = weft.tensor([1.0, 2.0], requires_grad=True)
>>> g = weft.graph((x * x).sum())  # what has been recorded
>>> print(g)  # indented text
>>> g.html("graph.html")  # one page that opens offline
>>> weft.graph(model, batch).html("graph.html")  # runs the model: values and gradients as well
"""

from __future__ import annotations

import sys
import types
from typing import Any

from weft.graph._diff import Change, Difference
from weft.graph._graph import Graph, graph

__all__ = ["Change", "Difference", "Graph", "graph"]


class _CallableModule(types.ModuleType):
    """A module that is called like the function of its name.

    Importing ``weft.graph`` binds the module in ``weft``; were the function bound there instead,
    ``import weft.graph`` and ``weft.graph.Graph`` would depend on what was imported first.
    """

    def __call__(self, target: Any, *args: Any, **kwargs: Any) -> Graph:
        return graph(target, *args, **kwargs)


_CallableModule.__call__.__doc__ = graph.__doc__
sys.modules[__name__].__class__ = _CallableModule
