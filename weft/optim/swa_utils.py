"""Averages of a model's parameters over training: stochastic weight averaging, exponential means.

>>> averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999))
>>> for x, y in loader:
...     train_step(model, x, y)
...     averaged.update_parameters(model)
>>> update_bn(loader, averaged)  # where normalisation is done with running statistics
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from itertools import chain
from typing import Any, Literal

from weft import _core
from weft.autograd import no_grad
from weft.nn.modules.batchnorm import _BatchNorm
from weft.nn.modules.module import Module
from weft.optim.lr_scheduler import LRScheduler
from weft.optim.lr_scheduler._base import per_group
from weft.optim.optimizer import Optimizer

AverageOne = Callable[
    [Any, Any, Any], Any
]  # (average, value, number of values so far): the average
AverageMany = Callable[[Sequence[Any], Sequence[Any], Any], None]  # the same for lists, in place


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )


def get_ema_avg_fn(decay: float = 0.999) -> AverageOne:
    """An exponential moving average: ``decay`` of what it was, the rest of the new value."""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> AverageOne:
    """The mean of all values, each counting the same."""

    @no_grad()
    def swa_update(averaged_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> AverageMany:
    """``get_ema_avg_fn`` for lists of tensors, in place."""
    _check_decay(decay)

    @no_grad()
    def ema_update(
        ema_param_list: Sequence[Any], current_param_list: Sequence[Any], num_averaged: Any
    ) -> None:
        _move_towards(ema_param_list, current_param_list, 1 - decay)

    return ema_update


def get_swa_multi_avg_fn() -> AverageMany:
    """``get_swa_avg_fn`` for lists of tensors, in place."""

    @no_grad()
    def swa_update(
        averaged_param_list: Sequence[Any], current_param_list: Sequence[Any], num_averaged: Any
    ) -> None:
        _move_towards(averaged_param_list, current_param_list, 1 / (float(num_averaged) + 1))

    return swa_update


def _move_towards(averages: Sequence[Any], values: Sequence[Any], weight: float) -> None:
    for average, value in zip(averages, values, strict=True):
        if average.is_floating_point():
            average.lerp_(value, weight)
        else:  # a count, rounded towards zero
            average.copy_(average * (1 - weight) + value * weight)


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of those that the model has had.

    Every value counts the same unless ``avg_fn`` (for one tensor) or ``multi_avg_fn`` (for lists,
    in place) says otherwise. Buffers are those of the model, or with ``use_buffers`` averages too.
    """

    n_averaged: Any

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: AverageOne | None = None,
        multi_avg_fn: AverageMany | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", _core.tensor(0, dtype=_core.int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Takes the model's present parameters into the averages."""
        averages = _tensors_of(self.module, self.use_buffers)
        values = [
            value.to(average.device)
            for average, value in zip(averages, _tensors_of(model, self.use_buffers), strict=True)
        ]
        if self.n_averaged == 0:
            for average, value in zip(averages, values, strict=True):
                average.copy_(value)
        elif self.avg_fn is not None:
            for average, value in zip(averages, values, strict=True):
                average.copy_(self.avg_fn(average, value, self.n_averaged.to(average.device)))
        else:
            average_all = self.multi_avg_fn or get_swa_multi_avg_fn()
            for dtype in dict.fromkeys(average.dtype for average in averages):
                pairs = zip(averages, values, strict=True)
                own, new = zip(*[pair for pair in pairs if pair[0].dtype is dtype], strict=True)
                average_all(list(own), list(new), self.n_averaged)
        if not self.use_buffers:
            for buffer, value in zip(self.module.buffers(), model.buffers(), strict=True):
                buffer.detach().copy_(value.detach())
        self.n_averaged += 1


def _tensors_of(model: Module, with_buffers: bool) -> list[Any]:
    found: Iterable[Any] = model.parameters()
    if with_buffers:
        found = chain(found, model.buffers())
    return [tensor.detach() for tensor in found]


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Computes the running statistics of batch normalisation anew, by one pass over the data.

    Averaged parameters have never seen a batch. ``loader`` gives batches, or lists that begin with
    one.
    """
    layers = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    if not layers:
        return
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # the mean over all batches
    was_training = model.training
    model.train()
    for batch in loader:
        inputs = batch[0] if isinstance(batch, list | tuple) else batch
        model(inputs if device is None else inputs.to(device))
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """From wherever the rate is to ``swa_lr`` in ``anneal_epochs`` steps, and there it stays.

    >>> scheduler = SWALR(optimizer, swa_lr=0.05)
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        last_epoch: int = -1,
    ) -> None:
        rates = per_group("swa_lr", optimizer, swa_lr)
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if type(anneal_epochs) is not int or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        """How far the way to ``swa_lr`` has been gone after so many steps."""
        done = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return done if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * done)) / 2

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, share = self._share(step - 1), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            goal = group["swa_lr"]
            start = goal if before == 1 else (group["lr"] - before * goal) / (1 - before)
            rates.append(goal * share + start * (1 - share))
        return rates
