"""Functions of neural networks: activations, losses, normalisation, convolution and their kin."""

from typing import TYPE_CHECKING

from weft import ops

__all__ = sorted(ops.operations("nn.functional"))

if not TYPE_CHECKING:
    globals().update(ops.operations("nn.functional"))
