"""Singular values and their gradients beside PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import weft

SHAPES = [(3, 3), (5, 2), (2, 5), (4, 6, 3), (0, 3), (3, 0), (60, 40)]


def even(linalg: Any, full: bool) -> Callable[[Any], Any]:
    def loss(A: Any) -> Any:
        U, S, Vh = linalg.svd(A, full_matrices=full)
        k = S.shape[-1]
        return (U[..., :k] ** 4).sum() + (S**2 * 1.5).sum() + (Vh[..., :k, :] ** 4).sum()

    return loss


LOSSES: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "svd": lambda torch_like: even(torch_like.linalg, False),
    "svd full": lambda torch_like: even(torch_like.linalg, True),
    "svdvals": lambda torch_like: lambda A: (torch_like.linalg.svdvals(A) ** 3).sum(),
    "nuc": lambda torch_like: lambda A: torch_like.norm(A, "nuc", dim=(-2, -1)).sum(),
    "torch.svd": lambda torch_like: lambda A: (torch_like.svd(A)[2] ** 4).sum(),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_and_gradients(shape: tuple[int, ...], loss: str) -> None:
    values = np.random.default_rng(1).standard_normal(shape)
    found, gradients = [], []
    for library in (weft, torch):
        A = library.tensor(values, requires_grad=True)
        result = LOSSES[loss](library)(A)
        result.backward()
        found.append(result.item())
        gradients.append(A.grad.numpy())
    assert found[0] == pytest.approx(found[1], rel=1e-10)
    scale = max(1.0, np.abs(gradients[1]).max(initial=0))
    np.testing.assert_allclose(gradients[0], gradients[1], rtol=1e-7, atol=1e-9 * scale)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_results(shape: tuple[int, ...], full: bool, dtype: str) -> None:
    values = np.random.default_rng(2).standard_normal(shape).astype(dtype)
    ours = weft.linalg.svd(weft.tensor(values), full_matrices=full)
    theirs = torch.linalg.svd(torch.tensor(values), full_matrices=full)
    assert type(ours).__name__ == type(theirs).__name__
    assert [tuple(part.shape) for part in ours] == [tuple(part.shape) for part in theirs]
    assert [str(part.dtype).rpartition(".")[2] for part in ours] == [dtype] * 3
    tolerance = 1e-5 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(
        ours[1].numpy(), theirs[1].numpy(), rtol=tolerance, atol=10 * tolerance
    )
