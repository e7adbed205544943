"""A PyTorch module and its weft twin: same arguments, same state, and then the same behaviour."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import weft
from tests.parity.bridge import is_tensor, tensor_to, to_numpy


def to_weft(value: Any, known: dict[int, Any] | None = None) -> Any:
    """Tensors (and what holds them) as weft's; leaves that require a gradient if theirs do.

    A tensor that appears twice stays one tensor.
    """
    known = {} if known is None else known
    match value:
        case torch.Tensor():
            if id(value) not in known:
                twin = tensor_to(weft, value.detach())
                known[id(value)] = twin.requires_grad_() if value.requires_grad else twin
            return known[id(value)]
        case torch.nn.utils.rnn.PackedSequence():
            return weft.nn.utils.rnn.PackedSequence(*(to_weft(part, known) for part in value))
        case torch.dtype():
            return getattr(weft, str(value).removeprefix("torch."))
        case dict():
            return {key: to_weft(item, known) for key, item in value.items()}
        case tuple() | list():
            return type(value)(to_weft(item, known) for item in value)
        case _:
            return value


def tensors_of(value: Any, module: Any) -> list[Any]:
    if is_tensor(value, module):
        return [value]
    if isinstance(value, tuple | list):
        return [tensor for item in value for tensor in tensors_of(item, module)]
    return []


def assert_close(ours: Any, theirs: Any, tolerance: float, what: str) -> None:
    """Two tensors with the same shape and dtype and nearly the same values."""
    assert tuple(ours.shape) == tuple(theirs.shape), what
    assert str(ours.dtype).rpartition(".")[2] == str(theirs.dtype).rpartition(".")[2], what
    np.testing.assert_allclose(
        to_numpy(ours, weft), to_numpy(theirs, torch), rtol=tolerance, atol=tolerance, err_msg=what
    )


class Twins:
    """``torch.nn.<name>(*args)`` and ``weft.nn.<name>(*args)`` with the same weights."""

    def __init__(self, name: str, *args: Any, seed: int = 0, **kwargs: Any) -> None:
        torch.manual_seed(seed)
        self.theirs = getattr(torch.nn, name)(*args, **kwargs)
        self.ours = getattr(weft.nn, name)(
            *(to_weft(a) for a in args), **{k: to_weft(v) for k, v in kwargs.items()}
        )
        with torch.no_grad():  # zeros and ones would hide mistakes
            for parameter in self.theirs.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.3)
        assert list(self.ours.state_dict()) == list(self.theirs.state_dict())
        assert repr(self.ours) == repr(self.theirs)
        state = {key: to_weft(value) for key, value in self.theirs.state_dict().items()}
        assert str(self.ours.load_state_dict(state)) == "<All keys matched successfully>"

    def eval(self) -> Twins:
        self.theirs.eval()
        self.ours.eval()
        return self

    def compare(self, *args: Any, tolerance: float = 1e-9, **kwargs: Any) -> None:
        """Results, gradients of everything, and the state afterwards."""
        our_args, our_kwargs = to_weft((args, kwargs))
        theirs, ours = self.theirs(*args, **kwargs), self.ours(*our_args, **our_kwargs)
        their_results, our_results = tensors_of(theirs, torch), tensors_of(ours, weft)
        assert len(their_results) == len(our_results)
        for i, (mine, other) in enumerate(zip(our_results, their_results, strict=True)):
            assert_close(mine, other, tolerance, f"result {i}")

        self.theirs.zero_grad()
        self.ours.zero_grad()
        for other in tensors_of(args, torch):
            if other.is_leaf:
                other.grad = None
        loss: Any = 0
        our_loss: Any = 0
        for i, (mine, other) in enumerate(zip(our_results, their_results, strict=True)):
            if not other.requires_grad:
                continue
            factors = torch.randn(
                other.shape, dtype=other.dtype, generator=torch.Generator().manual_seed(i)
            )
            loss = loss + (other * factors).sum()
            our_loss = our_loss + (mine * to_weft(factors)).sum()
        if isinstance(loss, torch.Tensor):
            loss.backward()
            our_loss.backward()
            for i, (mine, other) in enumerate(
                zip(tensors_of(our_args, weft), tensors_of(args, torch), strict=True)
            ):
                if other.requires_grad and other.is_leaf:
                    assert_close(mine.grad, other.grad, tolerance, f"gradient of argument {i}")
            named = dict(self.ours.named_parameters())
            for name, other in self.theirs.named_parameters():
                if other.grad is not None:
                    assert_close(named[name].grad, other.grad, tolerance, f"gradient of {name}")
        our_state = self.ours.state_dict()
        for key, value in self.theirs.state_dict().items():
            assert_close(our_state[key], value, tolerance, key)


def same_error(theirs: Any, ours: Any, words: int = 40) -> None:
    """Both raise the same class of exception, with the same beginning of the message."""
    try:
        theirs()
    except Exception as error:
        expected = error
    else:
        raise AssertionError("PyTorch raises nothing")
    try:
        ours()
    except Exception as error:
        assert type(error).__name__ == type(expected).__name__, (error, expected)
        assert str(error).startswith(str(expected).split("\n")[0][:words]), (error, expected)
    else:
        raise AssertionError(f"weft raises nothing, PyTorch {expected!r}")
