"""Schedules for learning rates: call ``scheduler.step()`` after the optimiser's steps."""

from weft.optim.lr_scheduler._base import LRScheduler, _LRScheduler
from weft.optim.lr_scheduler._combined import ChainedScheduler, SequentialLR
from weft.optim.lr_scheduler._cycles import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from weft.optim.lr_scheduler._decay import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from weft.optim.lr_scheduler._plateau import ReduceLROnPlateau

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
    "_LRScheduler",
]
