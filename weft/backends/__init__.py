"""What this build computes with."""

from weft.backends import cpu, cuda, cudnn, mkldnn

__all__ = ["cpu", "cuda", "cudnn", "mkldnn"]
