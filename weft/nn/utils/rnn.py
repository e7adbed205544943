"""Sequences of different lengths in one tensor: padded, or packed without padding."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple, Self

import weft
from weft._core import Tensor
from weft.nn.modules.module import _parse_to


class _Parts(NamedTuple):
    data: Tensor
    batch_sizes: Any
    sorted_indices: Any
    unsorted_indices: Any


class PackedSequence(_Parts):
    """The elements of several sequences, ordered by time step, longest sequence first.

    ``data`` holds, step after step, the elements of all sequences that are that long;
    ``batch_sizes`` says how many those are. ``sorted_indices`` is how the sequences were reordered.
    Made by :func:`pack_padded_sequence` and :func:`pack_sequence`.
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Self:
        if batch_sizes is None:
            # The older form: data and batch sizes in one pair.
            if not (isinstance(data, list | tuple) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be "
                "created manually. They should be instantiated by functions like pack_sequence "
                "and pack_padded_sequences in nn.utils.rnn."
            )
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """The same sequences on another device or of another dtype."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        _, _, non_blocking, _ = _parse_to(*args, **kwargs)
        orders = (
            None if order is None else order.to(data.device, non_blocking=non_blocking)
            for order in (self.sorted_indices, self.unsorted_indices)
        )
        return type(self)(data, self.batch_sizes, *orders)

    def cpu(self, *args: Any, **kwargs: Any) -> Self:
        """The same sequences on the CPU."""
        return self.to(*args, **{"device": "cpu", **kwargs})

    def cuda(self, *args: Any, **kwargs: Any) -> Self:
        """The same sequences on a CUDA device."""
        return self.to(*args, **{"device": "cuda", **kwargs})

    def pin_memory(self) -> Self:
        """The same sequences in memory that a device can read directly."""
        return type(self)(self.data.pin_memory(), *self[1:])

    def double(self) -> Self:
        """The same sequences as float64."""
        return self.to(dtype=weft.float64)

    def float(self) -> Self:
        """The same sequences as float32."""
        return self.to(dtype=weft.float32)

    def half(self) -> Self:
        """The same sequences as float16."""
        return self.to(dtype=weft.float16)

    def long(self) -> Self:
        """The same sequences as int64."""
        return self.to(dtype=weft.int64)

    def int(self) -> Self:
        """The same sequences as int32."""
        return self.to(dtype=weft.int32)

    def short(self) -> Self:
        """The same sequences as int16."""
        return self.to(dtype=weft.int16)

    def char(self) -> Self:
        """The same sequences as int8."""
        return self.to(dtype=weft.int8)

    def byte(self) -> Self:
        """The same sequences as uint8."""
        return self.to(dtype=weft.uint8)

    @property
    def is_cuda(self) -> bool:
        """Whether the elements lie on a CUDA device."""
        return bool(self.data.is_cuda)

    def is_pinned(self) -> bool:
        """Whether the elements lie in pinned memory."""
        return bool(self.data.is_pinned())


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The order that undoes an order."""
    if permutation is None:
        return None
    steps = weft.arange(permutation.numel(), device=permutation.device)
    return weft.empty_like(permutation).scatter_(0, permutation, steps.to(permutation.dtype))


def _places(lengths: Tensor, steps: int) -> Tensor:
    """Where in a padded (steps * batch) tensor the elements stand, in packed order."""
    inside = weft.arange(steps).unsqueeze(1) < lengths.unsqueeze(0)
    (places,) = weft.nonzero(inside.flatten(), as_tuple=True)
    return places


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Packs padded sequences (T, B, ...), or (B, T, ...) with ``batch_first``.

    With ``enforce_sorted=False`` they may come in any order of length.

    >>> packed = pack_padded_sequence(weft.zeros(5, 2, 3), [5, 2])
    >>> packed.batch_sizes
    tensor([2, 2, 1, 1, 1])
    """
    if not isinstance(lengths, Tensor):
        lengths = weft.as_tensor(lengths, dtype=weft.int64, device="cpu")
    lengths = lengths.to(weft.int64)
    sorted_indices = None
    if not enforce_sorted:
        lengths, order = weft.sort(lengths, descending=True)
        sorted_indices = order.to(input.device)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    if batch_first:
        input = input.transpose(0, 1)
    if input.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    steps, batch = input.shape[:2]
    if lengths.numel() != batch:
        raise RuntimeError(
            "Expected `len(lengths)` to be equal to batch_size, but got "
            f"{lengths.numel()} (batch_size={batch})"
        )
    in_order: list[int] = lengths.tolist()
    if in_order[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0"
        )
    if any(a < b for a, b in pairwise(in_order)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You "
            "can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
            "sidestep this requirement if you do not need ONNX exportability."
        )
    if in_order[0] > steps:
        raise RuntimeError(
            f"Expected lengths of at most {steps}, the input's number of steps, but got "
            f"{in_order[0]}"
        )
    longest = in_order[0]
    rows = input.reshape(steps * batch, *input.shape[2:])
    data = rows.index_select(0, _places(lengths, longest).to(input.device))
    batch_sizes = (weft.arange(longest).unsqueeze(1) < lengths.unsqueeze(0)).sum(1)
    return PackedSequence(data, batch_sizes, sorted_indices, None)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The padded sequences and their lengths: undoes :func:`pack_padded_sequence`."""
    data, batch_sizes = sequence.data, sequence.batch_sizes
    longest = steps = batch_sizes.numel()
    if total_length is not None:
        if total_length < longest:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in "
                f"input, but got total_length={total_length} and max sequence length being "
                f"{longest}"
            )
        steps = total_length
    batch = int(batch_sizes[0])
    lengths = (weft.arange(batch).unsqueeze(0) < batch_sizes.unsqueeze(1)).sum(0)
    padding = weft.full(
        (steps * batch, *data.shape[1:]), padding_value, dtype=data.dtype, device=data.device
    )
    places = _places(lengths, longest).to(data.device)
    padded = padding.index_copy(0, places, data).reshape(steps, batch, *data.shape[1:])
    if batch_first:
        padded = padded.transpose(0, 1)
    back = sequence.unsorted_indices
    if back is not None:
        padded = padded.index_select(0 if batch_first else 1, back)
        lengths = lengths.index_select(0, back.cpu())
    return padded, lengths


def pad_sequence(
    sequences: Any,
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences (L, ...) of different lengths as one padded tensor.

    >>> pad_sequence([weft.ones(2), weft.ones(1)], batch_first=True)
    tensor([[1., 1.],
            [1., 0.]])
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}"
        )
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            f"Expected padding_side to be one of left or right, but got {padding_side}."
        )
    given = list(sequences)
    if not given:
        raise RuntimeError("received an empty list of sequences")
    longest = max(sequence.shape[0] for sequence in given)
    padded = []
    for sequence in given:
        missing = longest - sequence.shape[0]
        if missing:
            around = [missing, 0] if padding_side == "left" else [0, missing]
            sizes = [0, 0] * (sequence.dim() - 1) + around  # from the last dimension to the first
            sequence = weft.constant_pad_nd(sequence, sizes, padding_value)
        padded.append(sequence)
    return weft.stack(padded, 0 if batch_first else 1)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """The sequences of a padded tensor, each of its own length."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [
        sequence[:length]
        for sequence, length in zip(padded_sequences, lengths.tolist(), strict=True)
    ]


def pack_sequence(sequences: Any, enforce_sorted: bool = True) -> PackedSequence:
    """Packs sequences (L, ...) of different lengths.

    >>> pack_sequence([weft.tensor([1, 2, 3]), weft.tensor([4, 5]), weft.tensor([6])]).data
    tensor([1, 4, 6, 2, 5, 3])
    """
    lengths = weft.as_tensor([sequence.shape[0] for sequence in sequences])
    return pack_padded_sequence(
        pad_sequence(sequences), lengths, batch_first=False, enforce_sorted=enforce_sorted
    )


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences of a packed one: undoes :func:`pack_sequence`."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
