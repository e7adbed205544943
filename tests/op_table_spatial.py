"""Lines of the operation table about images: convolution, pooling, other sizes."""

from __future__ import annotations

from typing import Any

from ._target import weft
from .op_rows import Call, Floats, call, kink, row

F = Floats
NAN = float("nan")


def functional(name: str) -> str:
    return f"nn.functional.{name}"


def image(*shape: int, layout: str = "plain") -> Floats:
    return F(shape, layout=layout)


def values_only(name: str) -> Any:
    """The first result of an operation that also gives indices."""
    return lambda *args, **kwargs: weft._core.ops[name](*args, **kwargs)[0]


def convolutions(spatial: int) -> list[Call]:
    x, weight = [4, 3, 3][:spatial], [2, 2, 1][:spatial]
    return [
        call(image(2, 2, *x), image(3, 2, *weight), F((3,))),
        call(
            image(1, 2, *x, layout="transposed"),
            image(2, 1, *weight),
            stride=2,
            padding=1,
            groups=2,
        ),
        call(image(2, *x), image(2, 2, *weight, layout="stepped"), dilation=2, padding=1),
        call(image(0, 2, *x), image(3, 2, *weight), F((3,))),
    ]


def transposed_convolutions(spatial: int) -> list[Call]:
    x, weight = [3, 2, 2][:spatial], [2, 3, 1][:spatial]
    return [
        call(image(2, 2, *x), image(2, 3, *weight), F((3,))),
        call(
            image(1, 2, *x), image(2, 1, *weight), stride=2, padding=0, output_padding=1, groups=2
        ),
        call(image(2, *x, layout="offset"), image(2, 2, *weight), dilation=2),
    ]


SPATIAL = [
    *(row(functional(f"conv{n}d"), convolutions(n)) for n in (1, 2, 3)),
    *(row(functional(f"conv_transpose{n}d"), transposed_convolutions(n)) for n in (1, 2, 3)),
    row(
        functional("max_pool1d"),
        call(image(2, 2, 6), 2),
        call(image(2, 7, layout="transposed"), 3, 2, 1, ceil_mode=True),
        call(image(1, 2, 7), 2, 1, dilation=3),
        kinks=[kink([[1.0, 1.0, 2.0, NAN]], 2, gives=[[1.0, 0.0, 0.0, 1.0]])],
    ),
    row(
        functional("max_pool2d"),
        call(image(2, 2, 4, 5), 2),
        call(image(2, 5, 4, layout="stepped"), (3, 2), 1, (1, 0)),
    ),
    row(functional("max_pool3d"), call(image(1, 2, 3, 4, 2), 2, 1)),
    row(
        functional("avg_pool1d"),
        call(image(2, 2, 6), 2),
        call(image(2, 7, layout="transposed"), 3, 2, 1, True, False),
    ),
    row(
        functional("avg_pool2d"),
        call(image(2, 2, 4, 5), 2),
        call(image(2, 5, 4), (3, 2), 1, 1, count_include_pad=False),
        call(image(2, 5, 4), 2, 2, ceil_mode=True, divisor_override=3),
    ),
    row(functional("avg_pool3d"), call(image(1, 2, 3, 4, 2), 2, 1)),
    row(functional("adaptive_avg_pool1d"), call(image(2, 2, 5), 3), call(image(2, 4), 1)),
    row(
        functional("adaptive_avg_pool2d"),
        call(image(2, 2, 4, 5), (2, 3)),
        call(image(2, 4, 5), 1),
        call(image(2, 2, 3), (5, None)),
    ),
    row(functional("adaptive_avg_pool3d"), call(image(1, 3, 4, 2), (2, 3, 1))),
    *(
        row(
            f"adaptive_max_pool{n}d_with_indices",
            call(image(2, 2, *[5, 4, 2][:n]), [2, 3, 1][:n]),
            function=values_only(f"adaptive_max_pool{n}d_with_indices"),
        )
        for n in (1, 2, 3)
    ),
    row(
        functional("interpolate"),
        call(image(1, 2, 4), 7, mode="nearest"),
        call(image(1, 2, 4), 3, mode="linear"),
        call(image(1, 2, 3, 4), (5, 3), mode="bilinear", align_corners=True),
        call(image(1, 1, 3, 4), scale_factor=1.7, mode="bicubic"),
        call(image(1, 1, 2, 2, 3), 3, mode="trilinear"),
    ),
    row(functional("unfold"), call(image(2, 2, 4, 3), 2), call(image(2, 4, 5), (2, 3), 1, 1, 2)),
    row(functional("fold"), call(image(2, 8, 6), (4, 3), 2), call(image(12, 2), (4, 5), (2, 3), 2)),
]

# Reached through another operation, whose row checks the derivative.
SPATIAL_SAME_AS = {f"max_pool{n}d_with_indices": functional(f"max_pool{n}d") for n in (1, 2, 3)}
