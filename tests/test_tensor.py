"""Tensors as Python objects: creation, dtypes, the number protocol, copies, identity."""

from __future__ import annotations

import copy
import gc
import math
import operator
import pickle
import weakref
from typing import Any

import pytest

from ._target import weft

DTYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
)  # fmt: skip
FLOATING = ("float16", "bfloat16", "float32", "float64")


# -- creation --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "dtype", "shape"),
    [
        (3, "int64", ()),
        (3.5, "float32", ()),
        (True, "bool", ()),
        ([], "float32", (0,)),
        ([[]], "float32", (1, 0)),
        ([1, 2, 3], "int64", (3,)),
        ([1, 2.5], "float32", (2,)),
        ([True, 2], "int64", (2,)),
        ([True, 2.0], "float32", (2,)),
        (((1, 2), (3, 4)), "int64", (2, 2)),
        ([[1.0], [2.0]], "float32", (2, 1)),
        ([[[1]]], "int64", (1, 1, 1)),
        (range(3), "int64", (3,)),
        (2**62, "int64", ()),
    ],
)
def test_tensor_of_python_data(data: Any, dtype: str, shape: tuple[int, ...]) -> None:
    value = weft.tensor(data)
    assert value.dtype is getattr(weft, dtype)
    assert value.shape == shape


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ([[1, 2], [3]], ValueError),
        ([1, [2]], TypeError),
        (["a"], ValueError),
        ("text", TypeError),
        (object(), RuntimeError),
        ([None], RuntimeError),
        (2**64, ValueError),
        ([2**70], ValueError),
        ({"a": 1}, RuntimeError),
    ],
    ids=repr,
)
def test_tensor_of_other_data_is_refused(data: Any, error: Any) -> None:
    with pytest.raises(error):
        weft.tensor(data)


def test_deeply_nested_lists_do_not_overflow() -> None:
    nested: Any = 1.0
    for _ in range(5_000):
        nested = [nested]
    with pytest.raises((ValueError, RuntimeError, TypeError)):
        weft.tensor(nested)


def test_lists_that_contain_themselves() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises((ValueError, RuntimeError, TypeError)):
        weft.tensor(circle)


def test_tensor_of_tensors() -> None:
    parts = [weft.tensor(1.5), weft.tensor(2.5)]
    assert weft.tensor(parts).tolist() == [1.5, 2.5]
    source = weft.tensor([1.0, 2.0])
    with pytest.warns(UserWarning):
        made = weft.tensor(source)
    made[0] = 9
    assert source.tolist() == [1.0, 2.0]
    assert weft.as_tensor(source) is source


def test_large_lists() -> None:
    values = [float(i) for i in range(10_000)]
    assert weft.tensor(values).tolist() == values
    rows = [[i, i + 1] for i in range(5_000)]
    assert weft.tensor(rows).tolist() == rows


@pytest.mark.parametrize("name", DTYPES)
def test_factories(name: str, device: str) -> None:
    dtype = getattr(weft, name)
    options = {"dtype": dtype, "device": device}
    assert weft.zeros(2, 3, **options).tolist() == [[0] * 3] * 2
    assert weft.ones((2, 3), **options).dtype is dtype
    assert weft.full((2,), 1, **options).tolist() == [1, 1]
    assert weft.empty(2, 0, **options).shape == (2, 0)
    assert weft.zeros((), **options).shape == ()
    like = weft.zeros(2, **options)
    assert weft.ones_like(like).dtype is dtype
    assert weft.zeros_like(like, dtype=weft.float32).dtype is weft.float32
    assert like.new_full((3,), 1).dtype is dtype
    assert like.new_tensor([1]).dtype is dtype
    assert weft.eye(2, **options).tolist() == [[1, 0], [0, 1]]
    if name != "bool":
        assert weft.arange(3, **options).tolist() == [0, 1, 2]


def test_ranges() -> None:
    assert weft.arange(5).tolist() == [0, 1, 2, 3, 4]
    assert weft.arange(1, 2.5, 0.5).tolist() == [1.0, 1.5, 2.0]
    assert weft.arange(3, 0, -1).tolist() == [3, 2, 1]
    assert weft.arange(0).shape == (0,)
    assert weft.linspace(0, 1, 5).tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert weft.linspace(0, 1, 1).tolist() == [0.0]
    assert weft.logspace(0, 2, 3).tolist() == pytest.approx([1.0, 10.0, 100.0])
    for arguments in ((0, 1, 0), (0, 1, -1), (0, math.inf), (0, math.nan)):
        with pytest.raises(RuntimeError):
            weft.arange(*arguments)


def test_random_numbers_follow_the_seed() -> None:
    def draw() -> list[Any]:
        shape = (7,)
        return [
            weft.rand(shape).tolist(),
            weft.randn(shape).tolist(),
            weft.randint(0, 100, shape).tolist(),
            weft.randperm(9).tolist(),
            weft.bernoulli(weft.full(shape, 0.5)).tolist(),
            weft.empty(shape).uniform_(2, 3).tolist(),
            weft.empty(shape).normal_().tolist(),
            weft.empty(shape).exponential_().tolist(),
            weft.multinomial(weft.tensor([0.1, 0.9]), 5, replacement=True).tolist(),
        ]

    weft.manual_seed(5)
    first = draw()
    second = draw()
    weft.manual_seed(5)
    assert draw() == first
    assert second != first
    own = weft.Generator().manual_seed(7)
    other = weft.Generator().manual_seed(7)
    assert weft.randn(5, generator=own).tolist() == weft.randn(5, generator=other).tolist()
    state = own.get_state()
    expected = weft.rand(3, generator=own).tolist()
    own.set_state(state)
    assert weft.rand(3, generator=own).tolist() == expected
    state = weft.get_rng_state()
    expected = weft.rand(3).tolist()
    weft.set_rng_state(state)
    assert weft.rand(3).tolist() == expected


def test_distributions() -> None:
    n = 40_000
    uniform, normal = weft.rand(n), weft.randn(n)
    assert 0 <= uniform.min().item() <= uniform.max().item() < 1
    assert uniform.mean().item() == pytest.approx(0.5, abs=0.01)
    assert normal.mean().item() == pytest.approx(0.0, abs=0.03)
    assert normal.std().item() == pytest.approx(1.0, abs=0.03)
    assert normal.abs().max().item() > 3.5
    whole = weft.randint(-3, 4, (n,))
    assert (whole.min().item(), whole.max().item()) == (-3, 3)
    assert weft.bernoulli(weft.full((n,), 0.2)).mean().item() == pytest.approx(0.2, abs=0.02)
    assert weft.empty(n).exponential_(2.0).mean().item() == pytest.approx(0.5, abs=0.02)
    chosen = weft.multinomial(weft.tensor([1.0, 3.0]), n, replacement=True)
    assert chosen.float().mean().item() == pytest.approx(0.75, abs=0.02)
    assert sorted(weft.multinomial(weft.ones(5), 5).tolist()) == [0, 1, 2, 3, 4]
    with pytest.raises(RuntimeError):
        weft.multinomial(weft.ones(2), 3)
    with pytest.raises(RuntimeError):
        weft.bernoulli(weft.tensor([1.5]))


# -- the number protocol ------------------------------------------------------------------------


@pytest.mark.parametrize("name", DTYPES)
def test_python_numbers(name: str) -> None:
    one = weft.ones((), dtype=getattr(weft, name))
    assert isinstance(one.item(), bool if name == "bool" else float if name in FLOATING else int)
    assert (int(one), float(one), bool(one)) == (1, 1.0, True)
    assert not weft.zeros(1, dtype=one.dtype)
    if name not in FLOATING:
        assert operator.index(one) == 1
        assert [10, 20][one] == 20
        assert list(range(one)) == [0]


def test_numbers_of_many_elements_are_refused() -> None:
    many, none = weft.ones(2), weft.ones(0)
    for convert in (int, float, bool, lambda t: t.item()):
        with pytest.raises((RuntimeError, ValueError, TypeError)):
            convert(many)
    for convert in (int, float, lambda t: t.item()):
        with pytest.raises((RuntimeError, ValueError, TypeError)):
            convert(none)
    with pytest.raises(TypeError):
        operator.index(weft.ones(()))
    with pytest.raises(ValueError, match=r"NaN|nan"):
        int(weft.tensor(math.nan))
    with pytest.raises((OverflowError, ValueError)):
        int(weft.tensor(math.inf))


OPERATORS = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv,
    "floordiv": operator.floordiv, "mod": operator.mod, "pow": operator.pow, "eq": operator.eq,
    "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_and_their_reflections(name: str) -> None:
    function = OPERATORS[name]
    left, right = [7, 2, 5], [3, 2, 4]
    one, other = weft.tensor(left), weft.tensor(right)
    for expected, found in (
        ([function(a, b) for a, b in zip(left, right, strict=True)], function(one, other)),
        ([function(a, 3) for a in left], function(one, 3)),
        ([function(3, b) for b in right], function(3, other)),
        ([function(a, 2.5) for a in left], function(one, 2.5)),
        ([function(2.5, b) for b in right], function(2.5, other)),
    ):
        assert found.tolist() == pytest.approx(expected)


def test_bit_operators() -> None:
    left, right = [6, 5, 12], [3, 4, 10]
    one, other = weft.tensor(left), weft.tensor(right)
    for function in (operator.and_, operator.or_, operator.xor):
        expected = [function(a, b) for a, b in zip(left, right, strict=True)]
        assert function(one, other).tolist() == expected
        assert function(one, 3).tolist() == [function(a, 3) for a in left]
        assert function(3, other).tolist() == [function(3, b) for b in right]
    assert (one << 2).tolist() == [24, 20, 48]
    assert (one >> 1).tolist() == [3, 2, 6]
    assert (~one).tolist() == [-7, -6, -13]
    assert (~weft.tensor([True, False])).tolist() == [False, True]


def test_unary_operators() -> None:
    x = weft.tensor([-1.5, 2.0])
    assert (-x).tolist() == [1.5, -2.0]
    assert (+x).tolist() == [-1.5, 2.0]
    assert abs(x).tolist() == [1.5, 2.0]
    with pytest.raises((RuntimeError, TypeError)):
        operator.invert(x)
    with pytest.raises(RuntimeError):
        operator.neg(weft.tensor([True]))


def test_operators_in_place_keep_the_object() -> None:
    x = weft.tensor([4.0, 9.0])
    same = x
    x += 1
    x -= weft.tensor([1.0, 1.0])
    x *= 3
    x /= 2
    x //= 1
    x %= 7
    x **= 2
    assert x is same
    assert x.tolist() == [36.0, 36.0]
    y = weft.tensor([6])
    y &= 3
    y |= 8
    y ^= 1
    y <<= 2
    y >>= 1
    assert y.tolist() == [22]


def test_operators_with_strangers() -> None:
    x = weft.ones(2)
    for stranger in ("text", None, [1, 2], object(), {}):
        with pytest.raises(TypeError):
            x + stranger
        with pytest.raises(TypeError):
            stranger - x
    assert (x == "text") is False
    assert (x != None) is True  # noqa: E711
    assert (x == None) is False  # noqa: E711

    class Reflects:
        def __radd__(self, other: Any) -> str:
            return "reflected"

    assert x + Reflects() == "reflected"


def test_comparing_and_hashing() -> None:
    a, b = weft.ones(2), weft.ones(2)
    assert (a == b).all()
    assert len({a, b, a}) == 2
    assert hash(a) == hash(a)
    assert {a: "a"}[a] == "a"
    assert a in [a]
    with pytest.raises(RuntimeError):
        bool(a == b)


def test_length_and_iteration() -> None:
    x = weft.arange(6).reshape(3, 2)
    assert len(x) == 3
    rows = list(x)
    assert [row.tolist() for row in rows] == [[0, 1], [2, 3], [4, 5]]
    assert rows[0].data_ptr() == x.data_ptr()
    first, second, third = x
    assert [first.tolist(), second.tolist(), third.tolist()] == x.tolist()
    assert list(weft.ones(0, 3)) == []
    for refuse in (len, iter):
        with pytest.raises(TypeError, match="0-d"):
            refuse(weft.tensor(1.0))
    assert dict(zip("ab", weft.tensor([1, 2]), strict=True))["b"].item() == 2


def test_containment() -> None:
    x = weft.tensor([1.0, 2.0])
    assert 2.0 in x
    assert 3 not in x
    assert weft.tensor(1.0) in x
    with pytest.raises((RuntimeError, TypeError)):
        "text" in x  # noqa: B015


def test_formatting() -> None:
    x = weft.tensor(3.14159)
    assert f"{x:.2f}" == "3.14"
    assert f"{x:10.1f}" == "       3.1"
    assert f"{x}" == "3.141590118408203"
    assert f"{weft.tensor(7):03d}" == "007"
    assert f"{weft.tensor([1, 2])}" == "tensor([1, 2])"
    assert str(weft.tensor([1.0, 2.0, 3.0]).mean()) == "tensor(2.)"
    with pytest.raises(TypeError):
        f"{weft.ones(2):.2f}"


def test_lists() -> None:
    assert weft.tensor(2.5).tolist() == 2.5
    assert weft.ones(2, 0, 3).tolist() == [[], []]
    assert weft.tensor([[True], [False]]).tolist() == [[True], [False]]
    assert weft.arange(4).reshape(2, 2).t().tolist() == [[0, 2], [1, 3]]


# -- copies and pickles -----------------------------------------------------------------------


@pytest.mark.parametrize("name", DTYPES)
def test_pickles(name: str) -> None:
    x = weft.tensor([[0, 1], [1, 0], [1, 1]], dtype=getattr(weft, name))
    for value in (x, x.t(), x[:, 1], x[1:], x[:0], x[0, 0]):
        for protocol in (2, pickle.HIGHEST_PROTOCOL):
            found = pickle.loads(pickle.dumps(value, protocol))
            assert found.dtype is value.dtype
            assert found.tolist() == value.tolist()
            assert found.stride() == value.stride()


def test_pickles_keep_requires_grad_and_sharing() -> None:
    x = weft.ones(4, requires_grad=True)
    found = pickle.loads(pickle.dumps(x))
    assert found.requires_grad
    assert found.is_leaf
    base = weft.zeros(4)
    one, other = pickle.loads(pickle.dumps([base, base]))
    assert one is other


def test_copies() -> None:
    x = weft.tensor([1.0, 2.0], requires_grad=True)
    shallow, deep = copy.copy(x), copy.deepcopy(x)
    assert shallow.data_ptr() == x.data_ptr()
    assert deep.data_ptr() != x.data_ptr()
    assert deep.requires_grad
    assert deep.tolist() == [1.0, 2.0]
    (x * 2).sum().backward()
    assert copy.deepcopy(x).grad.tolist() == [2.0, 2.0]
    shared = weft.zeros(3)
    one, other, view = copy.deepcopy([shared, shared, shared[1:]])
    assert one is other
    one += 1
    assert view.tolist() == [1.0, 1.0]
    assert shared.tolist() == [0.0] * 3
    with pytest.raises(RuntimeError):
        copy.deepcopy(x * 2)


# -- identity, attributes, subclasses, weak references -----------------------------------------


def test_identity() -> None:
    x = weft.ones(2, requires_grad=True)
    y = x * 2
    assert y.grad_fn.next_functions[0][0].variable is x
    assert y.view(2)._base is y
    assert y.view(2)[:1]._base is y
    y.sum().backward()
    assert x.grad is x.grad
    assert x.requires_grad_() is x
    assert x.contiguous() is x
    assert x.to(weft.float32) is x
    assert x.float() is x
    assert x.cpu() is x
    assert weft.as_tensor(x) is x
    assert x.expand(2) is not x
    z = weft.zeros(2)
    assert weft.add(z, 1, out=z) is z


def test_an_object_lives_on_in_the_graph() -> None:
    x = weft.ones(2, requires_grad=True)
    x.note = "kept"
    y = x * 2
    mark = id(x)
    del x
    gc.collect()
    again = y.grad_fn.next_functions[0][0].variable
    assert again.note == "kept"
    assert id(again) == mark


def test_a_grad_keeps_its_attributes() -> None:
    x = weft.ones(2, requires_grad=True)
    x.sum().backward()
    x.grad.note = 5
    gc.collect()
    assert x.grad.note == 5


def test_attributes() -> None:
    x = weft.ones(2)
    x.note = [1]
    assert x.note == [1]
    assert x.__dict__ == {"note": [1]}
    del x.note
    with pytest.raises(AttributeError):
        x.note  # noqa: B018
    with pytest.raises(AttributeError, match="nonsense"):
        x.nonsense  # noqa: B018
    for name in ("shape", "dtype", "is_leaf", "grad_fn"):
        with pytest.raises((AttributeError, RuntimeError, TypeError)):
            setattr(x, name, None)


def test_weak_references() -> None:
    x = weft.ones(2)
    seen = []
    reference = weakref.ref(x, lambda _: seen.append(True))
    assert reference() is x
    del x
    assert reference() is None
    assert seen == [True]


def test_cycles_are_collected() -> None:
    x = weft.ones(2)
    x.self = x
    reference = weakref.ref(x)
    del x
    gc.collect()
    assert reference() is None
    y = weft.ones(2, requires_grad=True)
    z = y * 2
    z.holder = [z]
    reference = weakref.ref(z)
    del y, z
    gc.collect()
    assert reference() is None


class Named(weft.Tensor):
    """A subclass with an attribute and a method of its own."""

    def twice(self) -> Any:
        return self * 2


def test_subclasses() -> None:
    x = weft.ones(2).as_subclass(Named)
    assert isinstance(x, Named)
    assert isinstance(x, weft.Tensor)
    assert type(x.twice()) is Named
    assert x.twice().tolist() == [2.0, 2.0]
    assert weft.is_tensor(x)
    assert type(x[0]) is Named
    assert type(weft.ones(2) + x) is Named
    x.label = "mine"
    assert x.label == "mine"


def test_subclasses_survive_the_graph() -> None:
    x = weft.ones(2).as_subclass(Named).requires_grad_()
    x.label = "mine"
    y = (x * 3).sum()
    del x
    gc.collect()
    y.backward()
    node = y.grad_fn
    while node.next_functions:
        node = node.next_functions[0][0]
    assert type(node.variable) is Named
    assert node.variable.label == "mine"
    assert node.variable.grad.tolist() == [3.0, 3.0]


def test_parameters() -> None:
    p = weft.nn.Parameter(weft.ones(2))
    assert p.requires_grad
    assert p.is_leaf
    assert isinstance(p, weft.Tensor)
    assert type(p * 2) is weft.Tensor
    assert repr(p) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"


# -- sizes, dtypes, devices ----------------------------------------------------------------------


def test_sizes() -> None:
    size = weft.zeros(2, 3).shape
    assert type(size) is weft.Size
    assert size == (2, 3)
    assert repr(size) == "torch.Size([2, 3])"
    assert size.numel() == 6
    assert type(size[:1]) is weft.Size
    assert type(size + (1,)) in (weft.Size, tuple)  # noqa: RUF005
    assert isinstance(size, tuple)
    assert hash(size) == hash((2, 3))
    a, b = size
    assert (a, b) == (2, 3)
    assert weft.zeros(size).shape == size
    assert weft.zeros(2, 3).size() == size
    assert weft.zeros(2, 3).size(-1) == 3
    assert weft.zeros(2, 3).stride() == (3, 1)
    assert pickle.loads(pickle.dumps(size)) == size


def test_dtypes() -> None:
    assert weft.float is weft.float32
    assert weft.double is weft.float64
    assert weft.long is weft.int64
    assert weft.half is weft.float16
    assert repr(weft.float32) == "torch.float32"
    assert weft.float32 != weft.float64
    assert {weft.float32: 1}[weft.float32] == 1
    assert weft.float32.is_floating_point
    assert not weft.int8.is_floating_point
    assert not weft.float32.is_complex
    assert weft.complex64.is_complex
    assert weft.int8.is_signed
    assert not weft.uint8.is_signed
    assert [getattr(weft, name).itemsize for name in DTYPES] == [1, 1, 1, 2, 4, 8, 2, 2, 4, 8]
    for name in DTYPES:
        assert pickle.loads(pickle.dumps(getattr(weft, name))) is getattr(weft, name)
        assert copy.deepcopy(getattr(weft, name)) is getattr(weft, name)
    assert isinstance(weft.float32, weft.dtype)


def test_limits() -> None:
    assert weft.finfo(weft.float32).eps == 2**-23
    assert weft.finfo(weft.float64).max == math.ldexp(2 - 2**-52, 1023)
    assert weft.finfo(weft.float16).max == 65504.0
    assert weft.finfo(weft.bfloat16).eps == 2**-7
    assert weft.finfo(weft.float32).tiny == 2.0**-126
    assert (weft.iinfo(weft.int8).min, weft.iinfo(weft.int8).max) == (-128, 127)
    assert weft.iinfo(weft.uint8).max == 255
    assert weft.iinfo(weft.int64).bits == 64
    with pytest.raises(TypeError):
        weft.iinfo(weft.float32)
    with pytest.raises(TypeError):
        weft.finfo(weft.int32)


def test_devices() -> None:
    cpu = weft.device("cpu")
    assert weft.zeros(1).device == cpu
    assert repr(cpu) == "device(type='cpu')"
    assert str(cpu) == "cpu"
    assert cpu.type == "cpu"
    assert cpu.index is None
    assert weft.device("cuda", 1).index == 1
    assert str(weft.device("cuda:1")) == "cuda:1"
    assert weft.device("cuda:1") == weft.device("cuda", 1)
    assert len({weft.device("cpu"), cpu}) == 1
    assert pickle.loads(pickle.dumps(cpu)) == cpu
    assert weft.zeros(1, device="cpu").device.type == "cpu"
    with pytest.raises(RuntimeError):
        weft.device("nonsense")


def test_conversions(device: str) -> None:
    x = weft.tensor([1.7, -2.7], device=device)
    assert x.to(weft.int64).tolist() == [1, -2]
    assert x.to("cpu").device.type == "cpu"
    assert x.to(device, weft.float64).dtype is weft.float64
    assert x.to(weft.ones(1, dtype=weft.float16)).dtype is weft.float16
    assert x.type(weft.int32).dtype is weft.int32
    assert x.to(weft.float32) is x
    assert x.to(weft.float32, copy=True) is not x
    assert x.type_as(weft.ones(1, dtype=weft.float64)).dtype is weft.float64
    names = {"double": "float64", "half": "float16", "long": "int64", "bool": "bool"}
    for method, name in names.items():
        assert getattr(x, method)().dtype is getattr(weft, name)


def test_default_dtype() -> None:
    try:
        weft.set_default_dtype(weft.float64)
        assert weft.tensor(1.5).dtype is weft.float64
        assert weft.zeros(1).dtype is weft.float64
        assert weft.get_default_dtype() is weft.float64
        with pytest.raises(TypeError):
            weft.set_default_dtype(weft.int64)
    finally:
        weft.set_default_dtype(weft.float32)


def test_complex_is_refused_in_one_sentence() -> None:
    if weft.__name__ != "weft":
        pytest.skip("PyTorch has complex numbers")
    for make in (
        lambda: weft.zeros(2, dtype=weft.complex64),
        lambda: weft.tensor(1 + 2j),
        lambda: weft.ones(2).to(weft.complex128),
    ):
        with pytest.raises((NotImplementedError, TypeError, RuntimeError), match="complex"):
            make()


# -- layout ---------------------------------------------------------------------------------------


def test_views_share_memory() -> None:
    x = weft.arange(6.0)
    views = [
        x.view(2, 3), x.reshape(3, 2), x[1:], x[::2], x.view(2, 3).t(), x.expand(2, 6),
        x.as_strided((2,), (3,), 1), x.unfold(0, 2, 2), x.view(2, 3).diagonal(), x.narrow(0, 1, 2),
        x.detach(), x.unsqueeze(0), x.view(1, 6).squeeze(), x.view(2, 3).flatten(),
    ]  # fmt: skip
    x.add_(10)
    for view in views:
        assert view._is_view() or view.data_ptr() >= x.data_ptr()
        assert min(view.reshape(-1).tolist()) >= 10


def test_contiguity() -> None:
    x = weft.arange(6).reshape(2, 3)
    assert x.is_contiguous()
    assert not x.t().is_contiguous()
    assert x.t().contiguous().stride() == (2, 1)
    assert x.t().contiguous().tolist() == x.t().tolist()
    assert weft.ones(1, 5).t().is_contiguous()
    with pytest.raises(RuntimeError, match="view"):
        x.t().view(6)


def test_high_ranks() -> None:
    shape = (1,) * 30 + (2,)
    x = weft.ones(shape)
    assert (x + x).sum().item() == 4.0
    assert x.permute(*reversed(range(31))).shape == shape[::-1]
    assert x.squeeze().shape == (2,)


def test_zero_size_everything() -> None:
    x = weft.zeros(0, 3, requires_grad=True)
    y = ((x * 2).exp() @ weft.ones(3, 2)).sum()
    assert y.item() == 0.0
    y.backward()
    assert x.grad.shape == (0, 3)
    assert weft.zeros(3, 0).sum(1).tolist() == [0.0] * 3
    assert weft.zeros(3, 0).prod(1).tolist() == [1.0] * 3
    with pytest.raises((RuntimeError, IndexError)):
        weft.zeros(0).max()
