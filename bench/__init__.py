"""The benchmark: weft against PyTorch eager, case by case, in alternating processes.

`python -m bench` runs it; `bench/README.md` says how a figure comes about.
"""
