"""Tests that compare weft with PyTorch, side by side, in one process."""
