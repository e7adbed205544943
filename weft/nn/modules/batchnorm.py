"""Batch normalisation, and what it shares with instance normalisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
from weft import _core
from weft._core import Tensor
from weft.nn import init
from weft.nn.modules.lazy import LazyModuleMixin
from weft.nn.modules.module import Module
from weft.nn.parameter import Parameter, UninitializedBuffer, UninitializedParameter

_batch_norm: Callable[..., Tensor] = _core.functional["batch_norm"]


class _NormBase(Module):
    """Weights and running statistics of every channel."""

    # From version 2 on the number of batches is part of the state.
    _version = 2
    num_features: int
    eps: float
    momentum: float | None
    affine: bool
    track_running_stats: bool

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        options = {"device": device, "dtype": dtype}
        if affine:
            self.weight = Parameter(weft.empty(num_features, **options))
        else:
            self.register_parameter("weight", None)
        if affine and bias:
            self.bias = Parameter(weft.empty(num_features, **options))
        else:
            self.register_parameter("bias", None)
        if track_running_stats:
            self.register_buffer("running_mean", weft.zeros(num_features, **options))
            self.register_buffer("running_var", weft.ones(num_features, **options))
            self.register_buffer(
                "num_batches_tracked", weft.tensor(0, dtype=weft.int64, device=device)
            )
        else:
            self.register_buffer("running_mean", None)
            self.register_buffer("running_var", None)
            self.register_buffer("num_batches_tracked", None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forgets all batches: mean 0, variance 1."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Weights 1, biases 0, statistics forgotten."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        raise NotImplementedError

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        version = local_metadata.get("version", None)
        key = prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            known = self.num_batches_tracked
            state_dict[key] = known if known is not None else weft.tensor(0, dtype=weft.int64)
        super()._load_from_state_dict(
            state_dict,
            prefix,
            local_metadata,
            strict,
            missing_keys,
            unexpected_keys,
            error_msgs,
        )


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """Takes the number of channels from the first input."""

    weight: Any
    bias: Any
    running_mean: Any
    running_var: Any

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        # Made without channels, hence without anything that has a size.
        super().__init__(0, eps, momentum, False, False, device, dtype)
        self.affine = affine
        self.track_running_stats = track_running_stats
        options = {"device": device, "dtype": dtype}
        if affine:
            self.weight = UninitializedParameter(**options)
            if bias:
                self.bias = UninitializedParameter(**options)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**options)
            self.running_var = UninitializedBuffer(**options)
            self.num_batches_tracked = weft.tensor(0, dtype=weft.int64, device=device)

    def reset_parameters(self) -> None:
        """Weights 1, biases 0, statistics forgotten, as soon as they have a shape."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Takes the number of channels from the second dimension of the input."""
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        if self.affine:
            self.weight.materialize((self.num_features,))
            if self.bias is not None:
                self.bias.materialize((self.num_features,))
        if self.track_running_stats:
            self.running_mean.materialize((self.num_features,))
            self.running_var.materialize((self.num_features,))
        self.reset_parameters()


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        mean, var = self.running_mean, self.running_var
        momentum = self.momentum
        if not self.training:
            return _batch_norm(
                input,
                mean,
                var,
                self.weight,
                self.bias,
                mean is None and var is None,
                0.0,
                self.eps,
            )
        if not self.track_running_stats:
            mean = var = None
        else:
            count = self.num_batches_tracked
            if count is not None:
                count.add_(1)
                if momentum is None:  # the plain average of all batches
                    momentum = 1.0 / float(count)
        return _batch_norm(
            input, mean, var, self.weight, self.bias, True, momentum or 0.0, self.eps
        )


class BatchNorm1d(_BatchNorm):
    """Normalises every channel of (N, C) or (N, C, L) by its mean and variance over the batch.

    In training the statistics are the batch's own, and a running average of them is kept (newest
    weighted by ``momentum``; with ``momentum=None`` all batches alike), which evaluation uses. With
    ``track_running_stats=False`` the batch is used in evaluation, too. ``affine`` adds a weight
    and a bias for each channel.

    >>> norm = weft.nn.BatchNorm1d(3)
    >>> norm(weft.randn(20, 3)).shape
    torch.Size([20, 3])
    """

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim != 2 and input.ndim != 3:
            raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")


class BatchNorm2d(_BatchNorm):
    """Normalises every channel of images (N, C, H, W); see :class:`BatchNorm1d`."""

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim != 4:
            raise ValueError(f"expected 4D input (got {input.dim()}D input)")


class BatchNorm3d(_BatchNorm):
    """Normalises every channel of volumes (N, C, D, H, W); see :class:`BatchNorm1d`."""

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim != 5:
            raise ValueError(f"expected 5D input (got {input.dim()}D input)")


class LazyBatchNorm1d(_LazyNormBase, BatchNorm1d):
    """A :class:`BatchNorm1d` that takes ``num_features`` from its first input."""

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNormBase, BatchNorm2d):
    """A :class:`BatchNorm2d` that takes ``num_features`` from its first input."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNormBase, BatchNorm3d):
    """A :class:`BatchNorm3d` that takes ``num_features`` from its first input."""

    cls_to_become = BatchNorm3d
