"""Instance normalisation: every channel of every example by itself."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from weft import _core
from weft._core import Tensor
from weft.nn.modules.batchnorm import _LazyNormBase, _NormBase

_instance_norm: Callable[..., Tensor] = _core.functional["instance_norm"]


class _InstanceNorm(_NormBase):
    _unbatched_ndim: int

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        unbatched = input.ndim == self._unbatched_ndim
        channels_at = 0 if unbatched else 1
        if input.size(channels_at) != self.num_features:
            self._tell_mismatch(input, channels_at)
        result = _instance_norm(
            input.unsqueeze(0) if unbatched else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0,
            self.eps,
        )
        return result.squeeze(0) if unbatched else result

    def _tell_mismatch(self, input: Tensor, dim: int) -> None:
        if self.affine:
            raise ValueError(
                f"expected input's size at dim={dim} to match num_features "
                f"({self.num_features}), but got: {input.size(dim)}."
            )
        warnings.warn(
            f"input's size at dim={dim} does not match num_features. You can silence this warning "
            "by not passing in num_features, which is not used because affine=False",
            stacklevel=3,
        )


class InstanceNorm1d(_InstanceNorm):
    """Normalises every channel of every sequence, (N, C, L) or (C, L), by itself.

    ``affine`` adds a weight and a bias for each channel. With ``track_running_stats`` an average
    of the statistics is kept in training and used in evaluation.
    """

    _unbatched_ndim = 2

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in (2, 3):
            raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")


class InstanceNorm2d(_InstanceNorm):
    """Normalises every channel of every image, (N, C, H, W) or (C, H, W), by itself."""

    _unbatched_ndim = 3

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in (3, 4):
            raise ValueError(f"expected 3D or 4D input (got {input.dim()}D input)")


class InstanceNorm3d(_InstanceNorm):
    """Normalises every channel of every volume, (N, C, D, H, W) or (C, D, H, W), by itself."""

    _unbatched_ndim = 4

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in (4, 5):
            raise ValueError(f"expected 4D or 5D input (got {input.dim()}D input)")


class LazyInstanceNorm1d(_LazyNormBase, InstanceNorm1d):
    """An :class:`InstanceNorm1d` that takes ``num_features`` from its first input."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNormBase, InstanceNorm2d):
    """An :class:`InstanceNorm2d` that takes ``num_features`` from its first input."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNormBase, InstanceNorm3d):
    """An :class:`InstanceNorm3d` that takes ``num_features`` from its first input."""

    cls_to_become = InstanceNorm3d
