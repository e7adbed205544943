"""Convolution, pooling, padding and resizing against PyTorch, over generated configurations.

Values, gradients of every input, and gradients of those gradients.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from .._target import weft
from . import opdb
from .bridge import Bridge, to_numpy

ours = weft.nn.functional
theirs: Any = torch.nn.functional

# float32 sums come in another order, so they agree up to rounding of the largest result.
TOLERANCE = {torch.float32: 3e-5, torch.float64: 1e-11}


def agree(name: str, actual: Any, expected: Any, tolerance: float) -> None:
    got, wanted = to_numpy(actual, weft), to_numpy(expected, torch)
    assert got.shape == wanted.shape, f"{name}: shape {got.shape}, torch {wanted.shape}"
    if wanted.size == 0:
        return
    error = abs(got - wanted).max() / (abs(wanted).max() + 1e-6)
    assert error <= tolerance, f"{name} differs by {error} of its largest element"


def gradients(module: Any, result: Any, inputs: Sequence[Any], weights: Sequence[Any]) -> Any:
    """First derivatives along weights[0], second ones along the others."""
    first = module.autograd.grad(result, inputs, weights[0], create_graph=True)
    along = sum((g * w).sum() for g, w in zip(first, weights[1:], strict=True))
    leaves = [*inputs, weights[0]]
    if not along.requires_grad:
        return first, [None] * len(leaves)
    return first, module.autograd.grad(along, leaves, allow_unused=True)


def compare(function: str, inputs: Sequence[Any], **options: Any) -> None:
    """One call in both libraries, and the gradients of its floating-point inputs."""
    tolerance = TOLERANCE[inputs[0].dtype]
    expected = getattr(theirs, function)(*inputs, **options)
    mine = [Bridge(weft)(tensor) for tensor in inputs]
    actual = getattr(ours, function)(*mine, **options)
    agree("the result", actual, expected, tolerance)
    leaves = [i for i, tensor in enumerate(inputs) if tensor is not None and tensor.requires_grad]
    if not leaves:
        return
    weights = [torch.randn_like(expected, requires_grad=True)]
    weights += [torch.randn_like(inputs[i]) for i in leaves]
    my_weights = [Bridge(weft)(weight) for weight in weights]
    wanted = gradients(torch, expected, [inputs[i] for i in leaves], weights)
    got = gradients(weft, actual, [mine[i] for i in leaves], my_weights)
    for i, (a, b) in enumerate(zip(got[0], wanted[0], strict=True)):
        agree(f"gradient {i}", a, b, 4 * tolerance)
    for i, (a, b) in enumerate(zip(got[1], wanted[1], strict=True)):
        if a is None or b is None:
            assert a is None or not a.any(), f"second derivative {i} should be nothing or zero"
            assert b is None or not b.any(), f"second derivative {i} is missing"
        else:
            agree(f"second derivative {i}", a, b, 16 * tolerance)


def tensor(*sizes: int, dtype: torch.dtype = torch.float32) -> Any:
    return torch.randn(*sizes, dtype=dtype, requires_grad=True)


# ---- convolutions -------------------------------------------------------------------------------


def convolution(pick: random.Random, transposed: bool) -> tuple[str, list[Any], dict[str, Any]]:
    spatial = pick.choice([1, 2, 2, 2, 3])
    groups = pick.choice([1, 1, 2, 3])
    channels = groups * pick.choice([1, 2, 5, 16])
    out = groups * pick.choice([1, 2, 4, 16])
    dtype = pick.choice([torch.float32, torch.float64])

    def each(low: int, high: int) -> list[int]:
        return [pick.randint(low, high) for _ in range(spatial)]

    kernel, stride, padding, dilation = each(1, 4), each(1, 3), each(0, 2), each(1, 2)
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    size = [max(n, r - 2 * p, 1) for n, r, p in zip(each(1, 11), reach, padding, strict=True)]
    batch = pick.choice([0, 1, 2, 3, 17])
    options: dict[str, Any] = {
        "stride": stride, "padding": padding, "dilation": dilation, "groups": groups,
    }  # fmt: skip
    weight_shape = (channels, out // groups) if transposed else (out, channels // groups)
    if transposed:
        most = [max(s, d) - 1 for s, d in zip(stride, dilation, strict=True)]
        options["output_padding"] = [pick.randint(0, m) for m in most]
        least = [2 * p - r + 2 for p, r in zip(padding, reach, strict=True)]
        size = [max(n, m) for n, m in zip(size, least, strict=True)]
    inputs: list[Any] = [tensor(batch, channels, *size, dtype=dtype)]
    inputs.append(tensor(*weight_shape, *kernel, dtype=dtype))
    inputs.append(tensor(out, dtype=dtype) if pick.random() < 0.6 else None)
    return f"conv{'_transpose' if transposed else ''}{spatial}d", inputs, options


@pytest.mark.parametrize("seed", range(40))
def test_convolutions(seed: int) -> None:
    torch.manual_seed(seed)
    function, inputs, options = convolution(random.Random(seed), transposed=False)
    compare(function, inputs, **options)


@pytest.mark.parametrize("seed", range(30))
def test_transposed_convolutions(seed: int) -> None:
    torch.manual_seed(seed)
    function, inputs, options = convolution(random.Random(seed), transposed=True)
    compare(function, inputs, **options)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")  # PyTorch's
@pytest.mark.parametrize("kernel", [2, 3, (4, 1)])
@pytest.mark.parametrize("dilation", [1, 2])
def test_same_padding(kernel: Any, dilation: int) -> None:
    sizes = (kernel, kernel) if isinstance(kernel, int) else kernel
    inputs = [tensor(2, 3, 9, 8, dtype=torch.float64), tensor(4, 3, *sizes, dtype=torch.float64)]
    compare("conv2d", inputs, padding="same", dilation=dilation)


@pytest.mark.parametrize(
    ("images", "weight"),
    [
        ((8, 1, 28, 28), (32, 1, 3, 3)),  # few input channels: another order for the library
        ((1, 16, 97, 61), (32, 16, 3, 3)),  # one image, cut into rows
        ((40, 8, 5, 5), (16, 8, 5, 5)),  # several images to a tile
        ((2, 64, 9, 9), (64, 1, 3, 3)),  # depth-wise
    ],
    ids=["few channels", "rows", "many images", "depth-wise"],
)
def test_large_convolutions(images: tuple[int, ...], weight: tuple[int, ...]) -> None:
    groups = images[1] // weight[1]
    inputs = [tensor(*images), tensor(*weight), tensor(weight[0])]
    compare("conv2d", inputs, padding=1, groups=groups)
    compare("conv2d", inputs, padding=2, stride=2, groups=groups)


@pytest.mark.parametrize("seed", range(6))
def test_channels_last(seed: int) -> None:
    torch.manual_seed(seed)
    x = torch.randn(3, 6, 9, 11).to(memory_format=torch.channels_last).requires_grad_()
    weight = tensor(4 * 2, 3, 3, 3)
    compare("conv2d", [x, weight], padding=1, groups=2, stride=1 + seed % 2)
    compare("conv_transpose2d", [x, tensor(6, 4, 3, 3)], stride=1 + seed % 3)
    compare("max_pool2d", [x], kernel_size=3, stride=2, padding=1)
    compare("avg_pool2d", [x], kernel_size=2)
    compare("adaptive_avg_pool2d", [x], output_size=(2, 3))
    mine = Bridge(weft)(x.detach())
    result = ours.conv2d(mine, Bridge(weft)(weight.detach()), groups=2)
    assert result.is_contiguous(memory_format=weft.channels_last)


def test_parameters_that_are_views() -> None:
    x, weight = tensor(4, 10, 12, 6), tensor(3, 3, 6, 5)
    expected = theirs.conv2d(x.permute(0, 3, 1, 2), weight.permute(3, 2, 0, 1))
    mine, my_weight = Bridge(weft)(x), Bridge(weft)(weight)
    actual = ours.conv2d(mine.permute(0, 3, 1, 2), my_weight.permute(3, 2, 0, 1))
    agree("the result", actual, expected, 3e-5)
    expected.square().sum().backward()
    actual.square().sum().backward()
    agree("the weight's gradient", my_weight.grad, weight.grad, 1e-4)
    agree("the input's gradient", mine.grad, x.grad, 1e-4)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_precision(name: str) -> None:
    x, weight = torch.randn(2, 4, 8, 8), torch.randn(6, 4, 3, 3)
    dtype = getattr(torch, name)
    expected = theirs.conv2d(x.to(dtype), weight.to(dtype))
    actual = ours.conv2d(Bridge(weft)(x.to(dtype)), Bridge(weft)(weight.to(dtype)))
    assert str(actual.dtype).endswith(name)
    agree("the result", actual.float(), expected.float(), 0.01)


def test_integers_wrap_as_they_do_elsewhere() -> None:
    x = torch.randint(-100, 100, (2, 3, 6, 6))
    weight = torch.randint(-100, 100, (4, 3, 3, 3))
    expected = theirs.conv2d(x, weight, padding=1)
    actual = ours.conv2d(Bridge(weft)(x), Bridge(weft)(weight), padding=1)
    assert (to_numpy(actual, weft) == expected.numpy()).all()


# ---- pooling ------------------------------------------------------------------------------------


def pooling(pick: random.Random) -> tuple[int, Any, dict[str, Any]]:
    spatial = pick.choice([1, 2, 2, 3])
    kernel = [pick.randint(1, 4) for _ in range(spatial)]
    options: dict[str, Any] = {
        "kernel_size": kernel,
        "stride": [pick.randint(1, 3) for _ in range(spatial)],
        "padding": [pick.randint(0, k // 2) for k in kernel],
        "ceil_mode": pick.random() < 0.5,
    }
    size = [pick.randint(5, 12) for _ in range(spatial)]
    if pick.random() < 0.3:
        size[-1] += 60  # long lines take another way
    leading = [pick.randint(1, 3)] if pick.random() < 0.3 else [pick.choice([0, 1, 3]), 4]
    dtype = pick.choice([torch.float32, torch.float64])
    return spatial, tensor(*leading, *size, dtype=dtype), options


@pytest.mark.parametrize("seed", range(30))
def test_max_pooling(seed: int) -> None:
    torch.manual_seed(seed)
    pick = random.Random(seed)
    spatial, x, options = pooling(pick)
    options["dilation"] = pick.randint(1, 2)
    compare(f"max_pool{spatial}d", [x], **options)
    expected = getattr(theirs, f"max_pool{spatial}d")(x, **options, return_indices=True)
    actual = getattr(ours, f"max_pool{spatial}d")(Bridge(weft)(x), **options, return_indices=True)
    assert (to_numpy(actual[1], weft) == expected[1].numpy()).all()


@pytest.mark.parametrize("seed", range(30))
def test_average_pooling(seed: int) -> None:
    torch.manual_seed(seed)
    pick = random.Random(seed)
    spatial, x, options = pooling(pick)
    options["count_include_pad"] = pick.random() < 0.5
    if spatial > 1 and pick.random() < 0.5:
        options["divisor_override"] = pick.randint(1, 9)
    compare(f"avg_pool{spatial}d", [x], **options)


@pytest.mark.parametrize("size", [1, 2, 3, (4, None), (5, 7), (9, 2)])
def test_adaptive_pooling(size: Any) -> None:
    x = tensor(2, 3, 6, 9, dtype=torch.float64)
    compare("adaptive_avg_pool2d", [x], output_size=size)
    compare("adaptive_max_pool2d", [x], output_size=size)
    if isinstance(size, int):
        compare("adaptive_avg_pool1d", [x[0]], output_size=size)
        compare("adaptive_max_pool1d", [x[0]], output_size=size)
        compare("adaptive_avg_pool3d", [x], output_size=size)


def test_the_first_of_equal_elements_is_the_largest_and_nan_above_all() -> None:
    x = torch.tensor([[[1.0, 1.0, 2.0, 2.0, float("nan"), 5.0, -float("inf"), -float("inf")]]])
    expected = theirs.max_pool1d(x, 2, return_indices=True)
    actual = ours.max_pool1d(Bridge(weft)(x), 2, return_indices=True)
    assert to_numpy(actual[1], weft).tolist() == expected[1].tolist()
    assert str(to_numpy(actual[0], weft).tolist()) == str(expected[0].tolist())


@pytest.mark.parametrize("output_size", [None, (9, 9)])
def test_unpooling(output_size: Any) -> None:
    x = torch.randn(2, 3, 8, 8)
    values, indices = theirs.max_pool2d(x, 2, return_indices=True)
    values.requires_grad_()
    expected = theirs.max_unpool2d(values, indices, 2, output_size=output_size)
    mine = Bridge(weft)(values)
    actual = ours.max_unpool2d(mine, Bridge(weft)(indices), 2, output_size=output_size)
    agree("the result", actual, expected, 0.0)
    weight = torch.randn_like(expected)
    (expected * weight).sum().backward()
    (actual * Bridge(weft)(weight)).sum().backward()
    agree("the gradient", mine.grad, values.grad, 0.0)


# ---- other sizes --------------------------------------------------------------------------------

MODES = {
    3: ["nearest", "nearest-exact", "linear", "area"],
    4: ["nearest", "nearest-exact", "bilinear", "bicubic", "area"],
    5: ["nearest", "nearest-exact", "trilinear", "area"],
}


@pytest.mark.parametrize("seed", range(40))
def test_interpolation(seed: int) -> None:
    torch.manual_seed(seed)
    pick = random.Random(seed)
    rank = pick.choice([3, 4, 4, 5])
    mode = pick.choice(MODES[rank])
    x = tensor(2, 3, *(pick.randint(1, 7) for _ in range(rank - 2)), dtype=torch.float64)
    options: dict[str, Any] = {"mode": mode}
    if pick.random() < 0.5:
        options["size"] = [pick.randint(1, 12) for _ in range(rank - 2)]
    else:
        options["scale_factor"] = pick.choice([1.0, 1.3, 2.0, 2.7])
        options["recompute_scale_factor"] = pick.choice([None, False, True])
    if mode in ("linear", "bilinear", "bicubic", "trilinear"):
        options["align_corners"] = pick.choice([None, False, True])
    compare("interpolate", [x], **options)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular", "constant"])
@pytest.mark.parametrize("pad", [(1, 2), (2, 0, 1, 3), (-1, 2, 0, 1)])
def test_padding(mode: str, pad: tuple[int, ...]) -> None:
    spatial = len(pad) // 2
    compare("pad", [tensor(2, 3, *[5, 6][:spatial], dtype=torch.float64)], pad=pad, mode=mode)


@pytest.mark.parametrize("seed", range(12))
def test_windows_as_columns(seed: int) -> None:
    torch.manual_seed(seed)
    pick = random.Random(seed)
    options: dict[str, Any] = {
        "kernel_size": (pick.randint(1, 3), pick.randint(1, 3)),
        "dilation": pick.randint(1, 2),
        "padding": (pick.randint(0, 2), pick.randint(0, 2)),
        "stride": (pick.randint(1, 3), pick.randint(1, 2)),
    }
    x = tensor(2, 3, 7, 8, dtype=torch.float64)
    compare("unfold", [x], **options)
    columns = theirs.unfold(x, **options).detach().requires_grad_()
    compare("fold", [columns], output_size=(7, 8), **options)


def test_channels_and_pixels() -> None:
    compare("pixel_shuffle", [tensor(2, 12, 3, 4)], upscale_factor=2)
    compare("pixel_unshuffle", [tensor(2, 3, 6, 9)], downscale_factor=3)
    compare("channel_shuffle", [tensor(2, 6, 3, 4)], groups=3)


# ---- PyTorch's own samples ----------------------------------------------------------------------

# float16 and uint8 are left out: PyTorch adds up transposed convolutions in float16 itself, and
# interpolates uint8 in whole numbers, which weft refuses.
NAMES = [
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d",
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "max_unpool1d", "max_unpool2d", "interpolate",
    "upsample_nearest", "upsample_bilinear", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle",
    "unfold", "pad",
]  # fmt: skip
CASES = [
    pytest.param(op, dtype, id=f"{opdb.full_name(op).rpartition('functional.')[2]}-{dtype}")
    for name in NAMES
    for op in opdb.variants_of(f"nn.functional.{name}")
    for dtype in opdb.dtypes_of(op)
    if dtype in ("float32", "float64", "int64", opdb.ERRORS)
]


@pytest.mark.filterwarnings("ignore")  # PyTorch's, about its own samples
@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_samples(op: Any, dtype: str) -> None:
    failures, _ = opdb.check(weft, op, dtype, samples=4)
    shown = "\n".join(f"  {failure.kind}: {failure}" for failure in failures[:10])
    assert not failures, f"{len(failures)} differences from PyTorch:\n{shown}"


# ---- errors -------------------------------------------------------------------------------------

X, W = (2, 4, 8, 8), (6, 4, 3, 3)
ERRORS: list[tuple[str, Callable[[Any, Callable[..., Any]], Any], str]] = [
    ("padding", lambda f, t: f.conv2d(t(*X), t(*W), padding=-1), "negative padding"),
    ("stride", lambda f, t: f.conv2d(t(*X), t(*W), stride=0), "non-positive stride"),
    ("dilation", lambda f, t: f.conv2d(t(*X), t(*W), dilation=0), "non-positive dilation"),
    ("groups", lambda f, t: f.conv2d(t(*X), t(*W), groups=0), "non-positive groups"),
    ("rank", lambda f, t: f.conv2d(t(8, 8), t(*W)), "input to conv2d, but got input of size"),
    ("channels", lambda f, t: f.conv2d(t(2, 3, 8, 8), t(*W)), "to have 4 channels, but got 3"),
    ("bias", lambda f, t: f.conv2d(t(*X), t(*W), t(5)), "expected bias to be 1-dimensional"),
    ("size", lambda f, t: f.conv2d(t(2, 4, 2, 2), t(*W)), "Kernel size can't be greater than"),
    ("list", lambda f, t: f.conv2d(t(*X), t(*W), stride=(1, 2, 3)), "list of 2 values"),
    ("dtype", lambda f, t: f.conv2d(t(*X), t(*W).double()), "should be the same"),
    ("same", lambda f, t: f.conv2d(t(*X), t(*W), padding="same", stride=2), "strided convolutions"),
    ("string", lambda f, t: f.conv2d(t(*X), t(*W), padding="foo"), "Invalid padding string"),
    ("empty", lambda f, t: f.conv2d(t(2, 4, 0, 8), t(*W), padding=2), "Only zero batch or zero"),
    ("output padding", lambda f, t: f.conv_transpose2d(t(*X), t(4, 6, 3, 3), output_padding=1),
     "output padding must be smaller"),
    ("pool padding", lambda f, t: f.max_pool2d(t(*X), 3, padding=2), "at most half of effective"),
    ("pool size", lambda f, t: f.max_pool2d(t(*X), 9), "Output size is too small"),
    ("pool zero", lambda f, t: f.max_pool2d(t(*X), 2, stride=0), "stride should not be zero"),
    ("pool list", lambda f, t: f.max_pool2d(t(*X), (2, 2, 2)), "kernel_size must either be"),
    ("pool rank", lambda f, t: f.max_pool1d(t(*X), 2), "Expected 2D or 3D"),
    ("divisor", lambda f, t: f.avg_pool2d(t(*X), 2, divisor_override=0), "divisor must be not"),
    ("adaptive", lambda f, t: f.adaptive_avg_pool2d(t(*X), -1), "greater than or equal to 0"),
    ("two sizes", lambda f, t: f.interpolate(t(*X), size=4, scale_factor=2), "only one of size"),
    ("mode", lambda f, t: f.interpolate(t(*X), size=4, mode="foo"), "Only 3D, 4D and 5D"),
    ("corners", lambda f, t: f.interpolate(t(*X), size=4, align_corners=True), "align_corners"),
    ("nothing", lambda f, t: f.interpolate(t(*X), size=0), "should be greater than 0"),
    ("blocks", lambda f, t: f.unfold(t(*X), 9), "sliding blocks"),
    ("columns", lambda f, t: f.fold(t(2, 35, 36), (8, 8), 3), "divisible by the product"),
    ("shuffle", lambda f, t: f.pixel_shuffle(t(*X), 3), "is not divisible by 9"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "words"), [e[1:] for e in ERRORS], ids=[e[0] for e in ERRORS])
def test_errors(call: Callable[..., Any], words: str) -> None:
    with pytest.raises(Exception) as expected:
        call(theirs, torch.randn)
    with pytest.raises(type(expected.value)) as actual:
        call(ours, weft.randn)
    assert words in str(actual.value)
    if words not in ("Expected 2D or 3D", "should be the same"):
        assert words in str(expected.value), "the words are not PyTorch's"


# ---- layers -------------------------------------------------------------------------------------

LAYERS: list[tuple[str, Callable[[Any], Any], tuple[int, ...]]] = [
    ("Conv1d", lambda nn: nn.Conv1d(4, 6, 3, 2, 1, padding_mode="circular"), (2, 4, 9)),
    ("Conv2d", lambda nn: nn.Conv2d(4, 6, (3, 2), padding="same", groups=2), (2, 4, 9, 8)),
    ("reflect", lambda nn: nn.Conv2d(4, 6, 3, padding=2, padding_mode="reflect"), (2, 4, 9, 8)),
    ("replicate", lambda nn: nn.Conv2d(4, 6, 3, padding="same", padding_mode="replicate"),
     (4, 9, 8)),
    ("Conv3d", lambda nn: nn.Conv3d(2, 3, 2, dilation=2, bias=False), (1, 2, 5, 6, 7)),
    ("ConvTranspose1d", lambda nn: nn.ConvTranspose1d(4, 6, 3, 2, output_padding=1), (2, 4, 9)),
    ("ConvTranspose2d", lambda nn: nn.ConvTranspose2d(4, 6, 3, 2, 1, groups=2), (2, 4, 5, 6)),
    ("MaxPool1d", lambda nn: nn.MaxPool1d(2, 1), (2, 3, 9)),
    ("MaxPool2d", lambda nn: nn.MaxPool2d(3, 2, 1, ceil_mode=True), (2, 3, 9, 8)),
    ("AvgPool1d", lambda nn: nn.AvgPool1d(3, 2), (2, 3, 9)),
    ("AvgPool2d", lambda nn: nn.AvgPool2d((3, 2), padding=1, count_include_pad=False),
     (2, 3, 9, 8)),
    ("LPPool2d", lambda nn: nn.LPPool2d(2, 3), (2, 3, 9, 8)),
    ("AdaptiveAvgPool1d", lambda nn: nn.AdaptiveAvgPool1d(4), (2, 3, 9)),
    ("AdaptiveAvgPool2d", lambda nn: nn.AdaptiveAvgPool2d((None, 3)), (2, 3, 9, 8)),
    ("AdaptiveMaxPool1d", lambda nn: nn.AdaptiveMaxPool1d(4), (2, 3, 9)),
    ("AdaptiveMaxPool2d", lambda nn: nn.AdaptiveMaxPool2d(4), (2, 3, 9, 8)),
    ("ZeroPad1d", lambda nn: nn.ZeroPad1d(2), (2, 3, 9)),
    ("ZeroPad2d", lambda nn: nn.ZeroPad2d((1, 2, 0, 1)), (2, 3, 9, 8)),
    ("ConstantPad1d", lambda nn: nn.ConstantPad1d((1, -2), 3.5), (2, 3, 9)),
    ("ConstantPad2d", lambda nn: nn.ConstantPad2d(1, 3.5), (2, 3, 9, 8)),
    ("ReflectionPad1d", lambda nn: nn.ReflectionPad1d(2), (2, 3, 9)),
    ("ReflectionPad2d", lambda nn: nn.ReflectionPad2d((1, 2, 3, 0)), (2, 3, 9, 8)),
    ("ReplicationPad1d", lambda nn: nn.ReplicationPad1d(2), (2, 3, 9)),
    ("ReplicationPad2d", lambda nn: nn.ReplicationPad2d(2), (2, 3, 9, 8)),
    ("CircularPad2d", lambda nn: nn.CircularPad2d((1, 2, 3, 0)), (2, 3, 9, 8)),
    ("Upsample", lambda nn: nn.Upsample(scale_factor=2.5, mode="bicubic"), (2, 3, 5, 4)),
    ("UpsamplingNearest2d", lambda nn: nn.UpsamplingNearest2d(size=(7, 9)), (2, 3, 5, 4)),
    ("UpsamplingBilinear2d", lambda nn: nn.UpsamplingBilinear2d(scale_factor=2), (2, 3, 5, 4)),
    ("PixelShuffle", lambda nn: nn.PixelShuffle(2), (2, 8, 5, 4)),
    ("PixelUnshuffle", lambda nn: nn.PixelUnshuffle(2), (2, 8, 6, 4)),
    ("ChannelShuffle", lambda nn: nn.ChannelShuffle(2), (2, 8, 6, 4)),
    ("Unfold", lambda nn: nn.Unfold((2, 3), padding=1), (2, 3, 5, 4)),
    ("Fold", lambda nn: nn.Fold((5, 4), (2, 2)), (2, 12, 12)),
]  # fmt: skip


@pytest.mark.parametrize(("make", "sizes"), [e[1:] for e in LAYERS], ids=[e[0] for e in LAYERS])
def test_layers(make: Callable[..., Any], sizes: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    their_layer, my_layer = make(torch.nn), make(weft.nn)
    assert repr(my_layer) == repr(their_layer)
    assert list(my_layer.state_dict()) == list(their_layer.state_dict())
    bridge = Bridge(weft)
    my_layer.load_state_dict({k: bridge(v) for k, v in their_layer.state_dict().items()})
    x = tensor(*sizes)
    mine = bridge(x)
    expected, actual = their_layer(x), my_layer(mine)
    agree("the result", actual, expected, 3e-5)
    weight = torch.randn_like(expected)
    (expected * weight).sum().backward()
    (actual * bridge(weight)).sum().backward()
    agree("the gradient", mine.grad, x.grad, 1e-4)
    for p, q in zip(my_layer.parameters(), their_layer.parameters(), strict=True):
        agree("a parameter's gradient", p.grad, q.grad, 1e-4)


@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")  # PyTorch's
@pytest.mark.parametrize("spatial", [1, 2, 3])
@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose"])
def test_layers_that_wait_for_their_input(kind: str, spatial: int) -> None:
    name, sizes = f"Lazy{kind}{spatial}d", (2, 6, *[7] * spatial)
    their_layer, my_layer = (getattr(nn, name)(4, 3, groups=2) for nn in (torch.nn, weft.nn))
    assert repr(my_layer) == repr(their_layer)
    assert tuple(my_layer(weft.randn(*sizes)).shape) == their_layer(torch.randn(*sizes)).shape
    assert repr(my_layer) == repr(their_layer)
    assert tuple(my_layer.weight.shape) == their_layer.weight.shape
    assert my_layer.weight.std() > 0
    with pytest.raises(ValueError, match="divisible by groups"):
        getattr(weft.nn, name)(4, 3, groups=2)(weft.randn(2, 5, *[7] * spatial))


def test_layers_begin_as_theirs_do() -> None:
    """The same distribution: bounds are reached, but not exceeded."""
    layer = weft.nn.Conv2d(16, 64, 3)
    bound = (16 * 9) ** -0.5
    for parameter in (layer.weight, layer.bias):
        largest = float(parameter.abs().max())
        assert 0.9 * bound < largest <= bound


def test_output_size_of_transposed_convolutions() -> None:
    layer = weft.nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1)
    x = weft.randn(1, 4, 6, 6)
    assert tuple(layer(x, output_size=(12, 11)).shape) == (1, 2, 12, 11)
    with pytest.raises(ValueError, match="valid sizes range from"):
        layer(x, output_size=(13, 11))
