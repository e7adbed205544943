"""Recurrent layers over whole sequences (RNN, LSTM, GRU) and their single steps (...Cell).

The arithmetic is core/ops/recurrent.cpp: of a layer, the products with all inputs are one product;
then it walks along the steps.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import weft
from weft import _core
from weft._core import Tensor
from weft.nn import init
from weft.nn.modules.module import Module
from weft.nn.parameter import Parameter

_dropout = _core.functional["dropout"]
_gru_cell: Callable[..., Tensor] = _core.ops["gru_cell"]
_lstm_cell: Callable[..., tuple[Tensor, Tensor]] = _core.ops["lstm_cell_step"]
_rnn_cells = {"tanh": _core.ops["rnn_tanh_cell"], "relu": _core.ops["rnn_relu_cell"]}
_gru_layer: Callable[..., tuple[Tensor, ...]] = _core.ops["gru_layer"]
_lstm_layer: Callable[..., tuple[Tensor, ...]] = _core.ops["lstm_layer"]
_rnn_layer: Callable[..., tuple[Tensor, ...]] = _core.ops["rnn_layer"]

# How many gates each kind of layer has.
_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
# What is looked at before anything is made of it.
_TYPES = {"input_size": int, "hidden_size": int, "bias": bool, "batch_first": bool}


class RNNBase(Module):
    """What RNN, LSTM and GRU share: their weights, layers, directions and packed sequences."""

    mode: str
    input_size: int
    hidden_size: int
    num_layers: int
    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    proj_size: int

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._check_sizes(dropout)
        self.dropout = float(dropout)

        def parameter(*size: int) -> Any:
            return Parameter(weft.empty(size, device=device, dtype=dtype))

        directions = ("", "_reverse") if bidirectional else ("",)
        sums = _GATES[mode] * hidden_size
        output_size = proj_size or hidden_size
        # Of every layer and direction the names of its weights, in the order of `all_weights`.
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            width = input_size if layer == 0 else output_size * len(directions)
            for direction in directions:
                end = f"_l{layer}{direction}"
                setattr(self, "weight_ih" + end, parameter(sums, width))
                setattr(self, "weight_hh" + end, parameter(sums, output_size))
                names = ["weight_ih" + end, "weight_hh" + end]
                if bias:
                    setattr(self, "bias_ih" + end, parameter(sums))
                    setattr(self, "bias_hh" + end, parameter(sums))
                    names += ["bias_ih" + end, "bias_hh" + end]
                if proj_size > 0:
                    setattr(self, "weight_hr" + end, parameter(proj_size, hidden_size))
                    names.append("weight_hr" + end)
                self._all_weights.append(names)
        self.reset_parameters()

    def _check_sizes(self, dropout: Any) -> None:
        if (
            isinstance(dropout, bool)
            or not isinstance(dropout, int | float)
            or not 0 <= dropout <= 1
        ):
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an "
                "element being zeroed"
            )
        if dropout > 0 and self.num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero "
                f"dropout expects num_layers greater than 1, but got dropout={dropout} and "
                f"num_layers={self.num_layers}",
                stacklevel=4,
            )
        for name, kind in _TYPES.items():
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise TypeError(
                    f"{name} should be of type {kind.__name__}, got: {type(value).__name__}"
                )
        for name in ("input_size", "hidden_size", "num_layers"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be greater than zero")
        if self.proj_size < 0:
            raise ValueError(
                "proj_size should be a positive integer or zero to disable projections"
            )
        if self.proj_size >= self.hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if self.mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + self.mode)

    def reset_parameters(self) -> None:
        """Draws all weights evenly from plus or minus ``1 / sqrt(hidden_size)``."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Does nothing: weights need not lie in one piece of memory."""

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """Of every layer and direction its weights."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights(self) -> list[Parameter]:
        return [weight for weights in self.all_weights for weight in weights]

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.proj_size != 0:
            text += f", proj_size={self.proj_size}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if self.batch_first is not False:
            text += f", batch_first={self.batch_first}"
        if self.dropout != 0:
            text += f", dropout={self.dropout}"
        if self.bidirectional is not False:
            text += f", bidirectional={self.bidirectional}"
        return text

    # -- what the kinds of layers have in common -------------------------------------------------

    def _layer(
        self,
        input: Tensor,
        states: tuple[Tensor, ...],
        weights: list[Any],
        batch_sizes: list[int],
        reverse: bool,
    ) -> tuple[Tensor, ...]:
        """One direction of one layer: its output and its last states."""
        raise NotImplementedError

    def _check_states(
        self,
        states: tuple[Tensor, ...],
        batch: int,
        names: tuple[str, ...],
        widths: tuple[int, ...],
    ) -> None:
        rows = self.num_layers * (2 if self.bidirectional else 1)
        for state, name, width in zip(states, names, widths, strict=True):
            if tuple(state.shape) != (rows, batch, width):
                raise RuntimeError(
                    f"Expected {name} size {(rows, batch, width)}, got {list(state.shape)}"
                )

    def _through_layers(
        self, input: Tensor, states: tuple[Tensor, ...], batch_sizes: list[int]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """All layers over (steps, batch, features), or over packed rows with their batch sizes."""
        directions = 2 if self.bidirectional else 1
        first = [state.unbind(0) for state in states]
        last: list[list[Tensor]] = [[] for _ in states]
        output = input
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(directions):
                at = layer * directions + direction
                weights = [getattr(self, name) for name in self._all_weights[at]]
                if not self.bias:
                    weights[2:2] = [None, None]
                result, *ends = self._layer(
                    output, tuple(s[at] for s in first), weights, batch_sizes, direction == 1
                )
                outputs.append(result)
                for known, end in zip(last, ends, strict=True):
                    known.append(end)
            output = outputs[0] if directions == 1 else weft.cat(outputs, -1)
            if self.dropout and self.training and layer < self.num_layers - 1:
                output = _dropout(output, self.dropout, True, False)
        return output, tuple(weft.stack(known) for known in last)

    def _run(
        self,
        input: Any,
        states: tuple[Tensor, ...] | None,
        names: tuple[str, ...],
        widths: tuple[int, ...],
    ) -> tuple[Any, tuple[Tensor, ...]]:
        """Any kind of input through all layers. ``names`` and ``widths`` are the states'."""
        if not isinstance(input, Tensor):
            return self._run_packed(input, states, names, widths)
        kind = type(self).__name__
        if input.ndim not in (2, 3):
            raise ValueError(f"{kind}: Expected input to be 2D or 3D, got {input.ndim}D instead")
        self._check_input(input)
        unbatched = input.ndim == 2
        if states is not None and any(state.ndim != input.ndim for state in states):
            self._refuse_state_ndim(input, states)
        if unbatched:
            input = input.unsqueeze(1)
            states = None if states is None else tuple(state.unsqueeze(1) for state in states)
        elif self.batch_first:
            input = input.transpose(0, 1)
        batch = input.size(1)
        if states is None:
            states = self._zero_states(input, batch, widths)
        else:
            self._check_states(states, batch, names, widths)
        output, last = self._through_layers(input, states, [])
        if unbatched:
            return output.squeeze(1), tuple(state.squeeze(1) for state in last)
        return output.transpose(0, 1) if self.batch_first else output, last

    def _run_packed(
        self,
        packed: Any,
        states: tuple[Tensor, ...] | None,
        names: tuple[str, ...],
        widths: tuple[int, ...],
    ) -> tuple[Any, tuple[Tensor, ...]]:
        data, batch_sizes, sorted_indices, unsorted_indices = packed
        if data.ndim != 2:
            raise RuntimeError(f"input must have 2 dimensions, got {data.ndim}")
        self._check_input(data)
        sizes = batch_sizes.tolist()
        if states is None:
            states = self._zero_states(data, sizes[0], widths)
        else:
            if any(state.ndim != 3 for state in states):
                raise RuntimeError(
                    "For packed sequences hx should be 3-D, but got "
                    f"{', '.join(f'{state.ndim}-D' for state in states)}"
                )
            self._check_states(states, sizes[0], names, widths)
            if sorted_indices is not None:
                states = tuple(state.index_select(1, sorted_indices) for state in states)
        output, last = self._through_layers(data, states, sizes)
        if unsorted_indices is not None:
            last = tuple(state.index_select(1, unsorted_indices) for state in last)
        return type(packed)(output, batch_sizes, sorted_indices, unsorted_indices), last

    def _zero_states(self, like: Tensor, batch: int, widths: tuple[int, ...]) -> tuple[Tensor, ...]:
        rows = self.num_layers * (2 if self.bidirectional else 1)
        return tuple(
            weft.zeros(rows, batch, width, dtype=like.dtype, device=like.device) for width in widths
        )

    def _check_input(self, input: Tensor) -> None:
        if input.size(-1) != self.input_size:
            raise RuntimeError(
                "input.size(-1) must be equal to input_size. "
                f"Expected {self.input_size}, got {input.size(-1)}"
            )
        wanted = self.weight_ih_l0.dtype
        if input.dtype != wanted:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({wanted}). Convert "
                f"input: input.to({wanted}), or convert model: model.to({input.dtype})"
            )

    def _refuse_state_ndim(self, input: Tensor, states: tuple[Tensor, ...]) -> None:
        kind = "unbatched 2-D" if input.ndim == 2 else "batched 3-D"
        if len(states) == 1:
            raise RuntimeError(
                f"For {kind} input, hx should also be {input.ndim}-D but got "
                f"{states[0].ndim}-D tensor"
            )
        raise RuntimeError(
            f"For {kind} input, hx and cx should also be {input.ndim}-D but got "
            f"({states[0].ndim}-D, {states[1].ndim}-D) tensors"
        )

    def _run_one_state(self, input: Any, hx: Tensor | None) -> tuple[Any, Tensor]:
        output, (last,) = self._run(
            input, None if hx is None else (hx,), ("hidden",), (self.hidden_size,)
        )
        return output, last


class RNN(RNNBase):
    """Layers of ``h = tanh(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh)`` over sequences.

    Arguments: ``input_size``, ``hidden_size``, ``num_layers=1``, ``nonlinearity="tanh"`` or
    ``"relu"``, ``bias=True``, ``batch_first=False`` (input (N, L, features) in place of
    (L, N, features)), ``dropout=0.0`` between layers, ``bidirectional=False``. The call takes a
    sequence, batched, without a batch or packed, and optionally the first hidden state; it
    returns the last layer's output at every step and the last hidden state of every layer.
    """

    nonlinearity: str

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if len(args) > 3:
            self_nonlinearity, args = args[3], args[:3] + args[4:]
        else:
            self_nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if self_nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{self_nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        super().__init__(f"RNN_{self_nonlinearity.upper()}", *args, **kwargs)
        self.nonlinearity = self_nonlinearity

    def _layer(
        self,
        input: Tensor,
        states: tuple[Tensor, ...],
        weights: list[Any],
        batch_sizes: list[int],
        reverse: bool,
    ) -> tuple[Tensor, ...]:
        relu = self.nonlinearity == "relu"
        return _rnn_layer(input, states[0], *weights, batch_sizes, reverse, relu)

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        return self._run_one_state(input, hx)


class GRU(RNNBase):
    """Layers of gated recurrent units over sequences; arguments and results as :class:`RNN`'s.

    >>> gru = weft.nn.GRU(10, 20, 2)
    >>> output, last = gru(weft.randn(5, 3, 10))
    >>> output.shape, last.shape
    (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)

    def _layer(
        self,
        input: Tensor,
        states: tuple[Tensor, ...],
        weights: list[Any],
        batch_sizes: list[int],
        reverse: bool,
    ) -> tuple[Tensor, ...]:
        return _gru_layer(input, states[0], *weights, batch_sizes, reverse)

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        return self._run_one_state(input, hx)


class LSTM(RNNBase):
    """Layers of long short-term memory over sequences; arguments as :class:`RNN`'s.

    ``proj_size`` projects the hidden state to fewer features. The state is a pair (hidden, cell).

    >>> lstm = weft.nn.LSTM(10, 20, 2)
    >>> output, (hidden, cell) = lstm(weft.randn(5, 3, 10))
    >>> output.shape, cell.shape
    (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def _layer(
        self,
        input: Tensor,
        states: tuple[Tensor, ...],
        weights: list[Any],
        batch_sizes: list[int],
        reverse: bool,
    ) -> tuple[Tensor, ...]:
        projection = weights[4] if self.proj_size > 0 else None
        return _lstm_layer(input, *states, *weights[:4], projection, batch_sizes, reverse)

    def forward(
        self, input: Any, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Any, tuple[Tensor, Tensor]]:
        widths = (self.proj_size or self.hidden_size, self.hidden_size)
        output, (hidden, cell) = self._run(
            input, None if hx is None else tuple(hx), ("hidden[0]", "hidden[1]"), widths
        )
        return output, (hidden, cell)


# ---- one step ----------------------------------------------------------------------------------


class RNNCellBase(Module):
    """What the cells share: their weights."""

    input_size: int
    hidden_size: int
    bias: bool
    weight_ih: Tensor
    weight_hh: Tensor

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        options = {"device": device, "dtype": dtype}
        sums = num_chunks * hidden_size
        self.weight_ih = Parameter(weft.empty((sums, input_size), **options))
        self.weight_hh = Parameter(weft.empty((sums, hidden_size), **options))
        if bias:
            self.bias_ih = Parameter(weft.empty(sums, **options))
            self.bias_hh = Parameter(weft.empty(sums, **options))
        else:
            self.register_parameter("bias_ih", None)
            self.register_parameter("bias_hh", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws all weights evenly from plus or minus ``1 / sqrt(hidden_size)``."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        return text if self.bias is True else f"{text}, bias={self.bias}"

    def _zero_state(self, input: Tensor) -> Tensor:
        size = (*input.shape[:-1], self.hidden_size)
        return weft.zeros(size, dtype=input.dtype, device=input.device)

    def _refuse(self, what: str, tensor: Tensor) -> None:
        raise ValueError(
            f"{type(self).__name__}: Expected {what} to be 1D or 2D, got {tensor.ndim}D instead"
        )


class RNNCell(RNNCellBase):
    """One step of :class:`RNN`: ``nonlinearity(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh)``.

    Takes (N, input_size) or (input_size,) and the hidden state, zeros unless given.
    """

    nonlinearity: str

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def extra_repr(self) -> str:
        text = super().extra_repr()
        return text if self.nonlinearity == "tanh" else f"{text}, nonlinearity={self.nonlinearity}"

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if input.ndim not in (1, 2):
            self._refuse("input", input)
        if hx is None:
            hx = self._zero_state(input)
        elif hx.ndim not in (1, 2):
            self._refuse("hidden", hx)
        cell = _rnn_cells.get(self.nonlinearity)
        if cell is None:
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return cell(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)


class GRUCell(RNNCellBase):
    """One step of :class:`GRU`.

    Takes (N, input_size) or (input_size,) and the hidden state, zeros unless given.

    >>> cell = weft.nn.GRUCell(10, 20)
    >>> cell(weft.randn(3, 10), weft.randn(3, 20)).shape
    torch.Size([3, 20])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if input.ndim not in (1, 2):
            self._refuse("input", input)
        if hx is None:
            hx = self._zero_state(input)
        elif hx.ndim not in (1, 2):
            self._refuse("hidden", hx)
        return _gru_cell(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)


class LSTMCell(RNNCellBase):
    """One step of :class:`LSTM`: the new hidden state and the new cell state.

    Takes (N, input_size) or (input_size,) and the pair of states, zeros unless given.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        if input.ndim not in (1, 2):
            self._refuse("input", input)
        if hx is None:
            hidden = cell = self._zero_state(input)
        elif isinstance(hx, Tensor):
            raise TypeError(
                "lstm_cell(): argument 'hx' (position 2) must be tuple of Tensors, not Tensor"
            )
        else:
            hidden, cell = hx
            if hidden.ndim not in (1, 2):
                self._refuse("hx[0]", hidden)
            if cell.ndim not in (1, 2):
                self._refuse("hx[1]", cell)
        return _lstm_cell(
            input, hidden, cell, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        )
