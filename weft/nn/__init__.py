"""Layers and the functions they are made of."""

from weft.nn import functional
from weft.nn.parameter import Parameter

__all__ = ["Parameter", "functional"]
