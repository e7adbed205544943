"""Optimisers, and schedules for their learning rates.

>>> optimizer = weft.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
>>> scheduler = weft.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100)
"""

from weft.optim import lr_scheduler
from weft.optim._adafactor import Adafactor
from weft.optim._muon import Muon
from weft.optim.adadelta import Adadelta
from weft.optim.adagrad import Adagrad
from weft.optim.adam import Adam, AdamW
from weft.optim.adamax import Adamax
from weft.optim.asgd import ASGD
from weft.optim.lbfgs import LBFGS
from weft.optim.nadam import NAdam
from weft.optim.optimizer import Optimizer
from weft.optim.radam import RAdam
from weft.optim.rmsprop import RMSprop
from weft.optim.rprop import Rprop
from weft.optim.sgd import SGD

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "lr_scheduler",
    "swa_utils",
]


def __getattr__(name: str) -> object:
    if name == "swa_utils":  # which imports weft.nn
        import importlib

        return importlib.import_module("weft.optim.swa_utils")
    raise AttributeError(f"module 'weft.optim' has no attribute {name!r}")
