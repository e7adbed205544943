"""`weft demo`: a tree-structured network is made, checked, cured, trained and looked at."""

from weft.demo._story import load_listops, main

__all__ = ["load_listops", "main"]
