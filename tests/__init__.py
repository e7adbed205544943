"""Tests of weft. Everything outside `tests/parity` runs without PyTorch."""
