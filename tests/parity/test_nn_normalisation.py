"""Normalisation behaves as PyTorch's: layers, functions, running statistics, mistakes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import weft
from tests.parity.bridge import to_numpy
from tests.parity.nn_compare import Twins, assert_close, same_error, to_weft

F64 = {"dtype": torch.float64}
TOLERANCE = {
    torch.float64: 1e-10,
    torch.float32: 2e-5,
    torch.float16: 1e-2,
    torch.bfloat16: 6e-2,
}


def sample(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape) + len(shape))
    values = torch.randn(shape, generator=generator, dtype=torch.float64) * 2 + 1
    return values.to(dtype).requires_grad_()


BATCHES = {
    "BatchNorm1d": [(5, 3), (4, 3, 6), (9000, 3), (2, 3, 4500), (70, 3, 1)],
    "BatchNorm2d": [(4, 3, 5, 6), (2, 3, 1, 1)],
    "BatchNorm3d": [(2, 3, 2, 3, 4)],
}


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"momentum": None},
        {"affine": False},
        {"track_running_stats": False},
        {"bias": False, "eps": 1e-2, "momentum": 0.5},
    ],
    ids=str,
)
def test_batch_norm(name: str, options: dict[str, Any]) -> None:
    for shape in BATCHES[name]:
        twins = Twins(name, 3, **options, **F64)
        twins.compare(sample(*shape))
        twins.compare(sample(*shape) * 3)  # the statistics of two batches
        twins.eval().compare(sample(*shape))


@pytest.mark.parametrize("channels", [1, 5, 64, 70, 130])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_channels_last(channels: int, training: bool) -> None:
    x = sample(3, channels, 4, 5).detach().contiguous(memory_format=torch.channels_last)
    twins = Twins("BatchNorm2d", channels, **F64)
    if not training:
        twins.eval()
    twins.compare(x.requires_grad_())
    twins.compare(x[:, :, ::2])  # neither contiguous nor channels last
    ours = twins.ours(to_weft(x))
    assert ours.stride() == twins.theirs(x).stride()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    ("name", "args", "shape"),
    [
        ("BatchNorm2d", (5,), (6, 5, 7, 3)),
        ("BatchNorm1d", (40,), (33, 40)),
        ("LayerNorm", (35,), (9, 35)),
        ("RMSNorm", (35,), (9, 35)),
        ("GroupNorm", (2, 6), (3, 6, 5, 3)),
    ],
)
def test_dtypes(
    name: str, args: tuple[int, ...], shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    twins = Twins(name, *args, dtype=dtype)
    twins.compare(sample(*shape, dtype=dtype), tolerance=TOLERANCE[dtype])


def test_half_inputs_with_float_weights() -> None:
    x = sample(6, 4, dtype=torch.bfloat16)
    twins = Twins("LayerNorm", 4)
    twins.compare(x, tolerance=6e-2)
    Twins("BatchNorm1d", 4).compare(sample(9, 4, dtype=torch.bfloat16), tolerance=6e-2)


@pytest.mark.parametrize("options", [{}, {"elementwise_affine": False}, {"bias": False}], ids=str)
@pytest.mark.parametrize(
    ("shape", "normalized"),
    [
        ((4, 5), 5),
        ((4, 5), [4, 5]),
        ((2, 3, 4, 5), (4, 5)),
        ((3, 9000), 9000),
        ((5000, 3), 3),
        ((7, 1), 1),
        ((0, 4), 4),
        ((6,), 6),
    ],
)
def test_layer_norm(shape: tuple[int, ...], normalized: Any, options: dict[str, Any]) -> None:
    Twins("LayerNorm", normalized, **options, **F64).compare(sample(*shape))
    if "bias" not in options:
        Twins("RMSNorm", normalized, **options, **F64).compare(sample(*shape))


@pytest.mark.parametrize("options", [{}, {"affine": False}, {"bias": False}], ids=str)
@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("shape", [(3, 6), (2, 6, 5), (3, 6, 4, 3), (0, 6, 4), (2, 6, 3000)])
def test_group_norm(shape: tuple[int, ...], groups: int, options: dict[str, Any]) -> None:
    if groups == 6 and len(shape) == 2:
        return  # a single value has no statistics worth comparing
    Twins("GroupNorm", groups, 6, **options, **F64).compare(sample(*shape))


@pytest.mark.parametrize(
    "options",
    [{}, {"affine": True}, {"affine": True, "track_running_stats": True, "momentum": 0.3}],
    ids=str,
)
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("InstanceNorm1d", (2, 3, 5)),
        ("InstanceNorm1d", (3, 5)),
        ("InstanceNorm2d", (2, 3, 4, 5)),
        ("InstanceNorm2d", (3, 4, 5)),
        ("InstanceNorm3d", (2, 3, 2, 4, 5)),
    ],
)
def test_instance_norm(name: str, shape: tuple[int, ...], options: dict[str, Any]) -> None:
    twins = Twins(name, 3, **options, **F64)
    twins.compare(sample(*shape))
    twins.compare(sample(*shape) * 2)
    twins.eval().compare(sample(*shape))


def test_instance_norm_of_other_channels_warns() -> None:
    with pytest.warns(UserWarning, match=r"size at dim=1 does not match num_features"):
        weft.nn.InstanceNorm1d(3)(weft.ones(2, 4, 5))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 9])
def test_local_response_norm(size: int) -> None:
    Twins("LocalResponseNorm", size, 0.5, 0.6, 2.0).compare(sample(2, 6, 5))
    Twins("LocalResponseNorm", size).compare(sample(2, 6, 3, 4))


def test_state_of_an_older_version_loads() -> None:
    norm = weft.nn.BatchNorm1d(2)
    state = norm.state_dict()
    del state["num_batches_tracked"]
    del state._metadata[""]["version"]
    assert norm.load_state_dict(state) is not None
    assert norm.num_batches_tracked.item() == 0


@pytest.mark.parametrize("name", ["LazyBatchNorm1d", "LazyInstanceNorm1d"])
def test_sizes_from_the_first_input(name: str) -> None:
    ours, theirs = getattr(weft.nn, name)(affine=True), getattr(torch.nn, name)(affine=True)
    assert repr(ours) == repr(theirs)
    x = sample(4, 3, 5, dtype=torch.float32)
    assert_close(ours(to_weft(x)), theirs(x), 1e-5, "first result")
    assert type(ours).__name__ == type(theirs).__name__ == name.removeprefix("Lazy")
    assert repr(ours) == repr(theirs)
    for key, value in theirs.state_dict().items():
        assert_close(ours.state_dict()[key], value, 1e-5, key)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "batch_norm": lambda m: m.nn.functional.batch_norm(m.ones(2, 3, 4), m.zeros(3), m.ones(3)),
    "layer_norm": lambda m: m.nn.functional.layer_norm(m.ones(2, 3), (3,)),
    "rms_norm": lambda m: m.nn.functional.rms_norm(m.ones(2, 3), (3,), m.ones(3), eps=1.0),
    "rms_norm of small float16": lambda m: m.nn.functional.rms_norm(m.ones(2, 3).half() / 999, [3]),
    "weft.rms_norm": lambda m: m.rms_norm(m.ones(2, 3), (3,)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    call = FUNCTIONS[name]
    assert_close(call(weft), call(torch), 1e-3, name)


@pytest.mark.parametrize("training", [True, False])
def test_second_derivatives(training: bool) -> None:
    def gradients(m: Any, x: Any, weight: Any, bias: Any) -> list[Any]:
        f = m.nn.functional
        y = f.batch_norm(x, m.zeros(3), m.ones(3), weight, bias, training)
        y = f.layer_norm(y, (4,)) * f.group_norm(x, 1, weight, bias)
        (first,) = m.autograd.grad((y**3).sum(), x, create_graph=True)
        return list(m.autograd.grad((first**2).sum(), (x, weight, bias)))

    values = [sample(5, 3, 4), sample(3), sample(3)]
    theirs = gradients(
        type("Torch", (), {**vars(torch), "zeros": lambda n: torch.zeros(n, **F64),
                           "ones": lambda n: torch.ones(n, **F64)}), *values
    )  # fmt: skip
    weft64 = {"dtype": weft.float64}
    ours = gradients(
        type("Weft", (), {"nn": weft.nn, "autograd": weft.autograd,
                          "zeros": lambda n: weft.zeros(n, **weft64),
                          "ones": lambda n: weft.ones(n, **weft64)}), *map(to_weft, values)
    )  # fmt: skip
    for mine, other in zip(ours, theirs, strict=True):
        assert abs(to_numpy(mine, weft) - to_numpy(other, torch)).max() < 1e-6


MISTAKES: dict[str, Callable[[Any], Any]] = {
    "2d of 3-D": lambda m: m.nn.BatchNorm2d(3)(m.ones(2, 3, 4)),
    "1d of 4-D": lambda m: m.nn.BatchNorm1d(3)(m.ones(2, 3, 4, 1)),
    "3d of 3-D": lambda m: m.nn.BatchNorm3d(3)(m.ones(2, 3, 4)),
    "instance 1d of 4-D": lambda m: m.nn.InstanceNorm1d(3)(m.ones(2, 3, 4, 1)),
    "instance channels": lambda m: m.nn.InstanceNorm2d(3, affine=True)(m.ones(1, 2, 3, 3)),
    "groups": lambda m: m.nn.GroupNorm(2, 3),
    "no statistics": lambda m: m.nn.functional.batch_norm(m.ones(2, 3, 4), None, None),
    "running_mean": lambda m: m.nn.functional.batch_norm(
        m.ones(2, 3, 4), m.zeros(4), m.ones(4), training=True
    ),
    "weight": lambda m: m.nn.functional.batch_norm(
        m.ones(2, 3, 4), m.zeros(3), m.ones(3), m.ones(4)
    ),
    "one value": lambda m: m.nn.functional.batch_norm(m.ones(1, 3, 1), None, None, training=True),
    "1-D batch": lambda m: m.nn.functional.batch_norm(m.ones(3), None, None, training=True),
    "batch of integers": lambda m: m.nn.functional.batch_norm(
        m.ones(2, 3, dtype=m.int64), None, None, training=True
    ),
    "eps 0": lambda m: m.nn.functional.batch_norm(m.ones(2, 3), None, None, training=True, eps=0.0),
    "no shape": lambda m: m.nn.functional.layer_norm(m.ones(2, 3), ()),
    "other shape": lambda m: m.nn.functional.layer_norm(m.ones(2, 3), (2,)),
    "layer weight": lambda m: m.nn.functional.layer_norm(m.ones(2, 3), (3,), m.ones(2)),
    "layer bias": lambda m: m.nn.functional.layer_norm(m.ones(2, 3), (3,), None, m.ones(2)),
    "layer of integers": lambda m: m.nn.functional.layer_norm(m.ones(2, 3, dtype=m.int64), (3,)),
    "rms weight": lambda m: m.nn.functional.rms_norm(m.ones(2, 3), (3,), m.ones(2)),
    "rms of integers": lambda m: m.nn.functional.rms_norm(m.ones(2, 3, dtype=m.int64), (3,)),
    "group channels": lambda m: m.nn.functional.group_norm(m.ones(2, 3, 4), 2),
    "group weight": lambda m: m.nn.functional.group_norm(m.ones(2, 3, 4), 3, m.ones(2)),
    "group of 1-D": lambda m: m.nn.functional.group_norm(m.ones(3), 3),
    "group, one value": lambda m: m.nn.functional.group_norm(m.ones(1, 3), 3),
    "instance, one place": lambda m: m.nn.functional.instance_norm(m.ones(2, 3, 1)),
    "instance, no statistics": lambda m: m.nn.functional.instance_norm(
        m.ones(2, 3, 4), use_input_stats=False
    ),
    "response of 2-D": lambda m: m.nn.functional.local_response_norm(m.ones(2, 3), 2),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(mistake: str) -> None:
    call = MISTAKES[mistake]
    words = 8 if "integers" in mistake else 32
    words = 0 if mistake == "layer of integers" else words
    same_error(lambda: call(torch), lambda: call(weft), words)
