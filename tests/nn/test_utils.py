"""weft.nn.utils: clipping, parameters as a vector, sequences of different lengths."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .._target import weft, weft_only

nn = weft.nn
utils, rnn = nn.utils, nn.utils.rnn


def with_gradients(*values: list[float]) -> list[Any]:
    parameters = []
    for gradient in values:
        parameter = nn.Parameter(weft.zeros(len(gradient)))
        parameter.grad = weft.tensor(gradient)
        parameters.append(parameter)
    return parameters


# -- clipping ---------------------------------------------------------------------------------


def test_norm_of_all_gradients() -> None:
    parameters = [*with_gradients([3.0, 0.0], [4.0]), nn.Parameter(weft.zeros(2))]
    assert utils.clip_grad_norm_(parameters, 10.0).item() == 5.0
    assert parameters[0].grad.tolist() == [3.0, 0.0]
    assert utils.clip_grad_norm_(iter(parameters), 2.5).item() == 5.0
    assert parameters[0].grad.tolist() == pytest.approx([1.5, 0.0], rel=1e-5)
    assert parameters[1].grad.tolist() == pytest.approx([2.0], rel=1e-5)
    assert parameters[2].grad is None
    for norm, expected in ((1, 3.5), (math.inf, 2.0), (3, (1.5**3 + 8) ** (1 / 3))):
        found = utils.clip_grad_norm_(parameters, 100.0, norm_type=norm)
        assert found.item() == pytest.approx(expected, rel=1e-5)
    assert utils.get_total_norm([weft.tensor([3.0]), weft.tensor([4.0])]).item() == 5.0
    assert utils.get_total_norm([]).item() == 0.0


def test_one_tensor_and_known_norms() -> None:
    (parameter,) = with_gradients([6.0, 8.0])
    assert utils.clip_grad_norm_(parameter, 5.0).item() == 10.0
    assert parameter.grad.tolist() == pytest.approx([3.0, 4.0], rel=1e-5)
    utils.clip_grads_with_norm_([parameter], 1.0, weft.tensor(2.0))
    assert parameter.grad.tolist() == pytest.approx([1.5, 2.0], rel=1e-5)


def test_values_and_errors_of_clipping() -> None:
    parameters = with_gradients([-5.0, 0.5], [2.0])
    utils.clip_grad_value_(parameters, 1)
    assert [p.grad.tolist() for p in parameters] == [[-1.0, 0.5], [1.0]]
    bad = with_gradients([math.nan])
    assert math.isnan(utils.clip_grad_norm_(bad, 1.0).item())
    with pytest.raises(RuntimeError, match="non-finite, so it cannot be clipped"):
        utils.clip_grad_norm_(with_gradients([math.inf]), 1.0, error_if_nonfinite=True)
    with pytest.warns(UserWarning, match="empty generator"):
        utils.clip_grad_norm_((p for p in ()), 1.0)
    with pytest.warns(FutureWarning, match="deprecated"):
        utils.clip_grad_norm(with_gradients([1.0]), 1.0)


# -- as a vector ------------------------------------------------------------------------------


def test_parameters_as_a_vector() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    vector = utils.parameters_to_vector(net.parameters())
    assert vector.shape == (13,)
    vector.sum().backward()
    assert all(p.grad.tolist() == weft.ones_like(p).tolist() for p in net.parameters())
    weight = net[0].weight
    utils.vector_to_parameters(weft.arange(13.0), net.parameters())
    assert net[0].weight is weight and weight.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert net[1].bias.tolist() == [12]
    assert all(p.requires_grad for p in net.parameters())
    with pytest.raises(TypeError, match=r"expected torch.Tensor, but got: int"):
        utils.vector_to_parameters(3, net.parameters())


# -- sequences --------------------------------------------------------------------------------


def test_packing_by_hand() -> None:
    padded = weft.tensor([[1, 2, 3], [4, 5, 0], [6, 0, 0]])
    packed = rnn.pack_padded_sequence(padded, [3, 2, 1], batch_first=True)
    assert packed.data.tolist() == [1, 4, 6, 2, 5, 3]
    assert packed.batch_sizes.tolist() == [3, 2, 1]
    assert packed.sorted_indices is None
    back, lengths = rnn.pad_packed_sequence(packed, batch_first=True)
    assert back.tolist() == padded.tolist() and lengths.tolist() == [3, 2, 1]
    longer, _ = rnn.pad_packed_sequence(packed, padding_value=-1, total_length=4)
    assert longer.tolist() == [[1, 4, 6], [2, 5, -1], [3, -1, -1], [-1, -1, -1]]


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    batch_first=st.booleans(),
    features=st.sampled_from([(), (2,), (2, 3)]),
)
def test_packing_and_unpacking(
    lengths: list[int], batch_first: bool, features: tuple[int, ...]
) -> None:
    sequences = [weft.randn(n, *features, requires_grad=True) for n in lengths]
    padded = rnn.pad_sequence(sequences, batch_first=batch_first, padding_value=7.0)
    again = rnn.unpad_sequence(padded, weft.tensor(lengths), batch_first=batch_first)
    packed = rnn.pack_sequence(sequences, enforce_sorted=False)
    unpacked = rnn.unpack_sequence(packed)
    for one, two, three in zip(sequences, again, unpacked, strict=True):
        assert weft.equal(one, two) and weft.equal(one, three)
    # Sequences of equal length may come in either order: lengths decide, not places.
    assert sorted(packed.sorted_indices.tolist()) == list(range(len(lengths)))
    assert int(packed.batch_sizes.sum()) == sum(lengths)
    (packed.data * 2).sum().backward()
    assert all(weft.equal(s.grad, weft.full_like(s, 2.0)) for s in sequences)


def test_padding_on_the_left() -> None:
    given = [weft.tensor([1.0, 2.0]), weft.tensor([3.0])]
    assert rnn.pad_sequence(given, True, 0.0, "left").tolist() == [[1, 2], [0, 3]]
    with pytest.raises(RuntimeError, match="padding_side"):
        rnn.pad_sequence(given, True, 0.0, "middle")


def test_packed_sequences_as_objects() -> None:
    packed = rnn.pack_sequence([weft.ones(2), weft.ones(3)], enforce_sorted=False)
    assert packed.to(weft.float32) is packed and packed.cpu() is packed
    assert packed.double().data.dtype == weft.float64
    assert packed.long().data.dtype == weft.int64
    assert packed.double().sorted_indices.tolist() == packed.sorted_indices.tolist()
    assert not packed.is_cuda
    data, sizes, order, back = packed
    assert order[back].tolist() == [0, 1]
    rebuilt = rnn.PackedSequence(data, sizes, order)
    assert rebuilt.unsorted_indices.tolist() == back.tolist()
    assert rnn.PackedSequence((data, sizes)).batch_sizes is sizes


def test_errors_of_packing() -> None:
    x = weft.zeros(2, 2, 3)
    cases: list[tuple[Any, str]] = [
        (lambda: rnn.pack_padded_sequence(x, [1, 2]), "must be sorted in decreasing order"),
        (lambda: rnn.pack_padded_sequence(x, [2]), "to be equal to batch_size"),
        (lambda: rnn.pack_padded_sequence(x, [2, 0]), "has to be greater than 0"),
        (lambda: rnn.pack_padded_sequence(x[:0], [1, 1]), "Cannot pack empty"),
        (lambda: rnn.pad_sequence([]), "empty list of sequences"),
        (lambda: rnn.pad_sequence(3), "Expected iterable"),
    ]
    for call, words in cases:
        with pytest.raises(RuntimeError, match=words):
            call()
    packed = rnn.pack_padded_sequence(x, [2, 1])
    with pytest.raises(ValueError, match="Expected total_length to be at least"):
        rnn.pad_packed_sequence(packed, total_length=1)


@weft_only
def test_lengths_beyond_the_input_are_refused() -> None:
    with pytest.raises(RuntimeError, match="Expected lengths of at most 2"):
        rnn.pack_padded_sequence(weft.zeros(2, 2), [3, 1])
