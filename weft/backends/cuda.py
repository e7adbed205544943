"""Settings of a device that this build does not have; programs may set them all the same."""

from __future__ import annotations


def is_built() -> bool:
    """Whether this build can use CUDA devices."""
    return False


class matmul:
    """How products would be computed."""

    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = False
    allow_bf16_reduced_precision_reduction = False
