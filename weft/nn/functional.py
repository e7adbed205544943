"""Functions of neural networks: activations, losses, normalisation, convolution and their kin."""

from typing import TYPE_CHECKING

from weft.ops import operations

__all__ = sorted(operations("nn.functional"))

if not TYPE_CHECKING:
    globals().update(operations("nn.functional"))
