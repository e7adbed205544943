"""Functions of weft.nn and layers that module_db does not go over, against PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from .._target import weft
from . import bridge, opdb

# Functions of op_db that stand in no other list: what weft/ops/{activation,dropout,losses,
# margin_losses}.py define. Random ones are compared where they draw nothing.
FUNCTIONS = (
    "celu", "cosine_embedding_loss", "embedding", "embedding_bag", "gaussian_nll_loss",
    "hardshrink", "hardsigmoid", "hardswish", "hinge_embedding_loss", "linear_cross_entropy",
    "margin_ranking_loss", "mish", "multi_margin_loss", "multilabel_margin_loss",
    "multilabel_soft_margin_loss", "pairwise_distance", "poisson_nll_loss", "prelu", "selu",
    "soft_margin_loss", "softshrink", "softsign", "tanhshrink", "triplet_margin_loss",
)  # fmt: skip
# Where PyTorch rounds between the steps of a formula, or overflows.
INEXACT = {"hinge_embedding_loss", "soft_margin_loss"}
# What is checked beyond the function itself.
NO_OUT = {"softshrink", "hardshrink"}  # weft's out= also takes a wider dtype


def cases() -> list[Any]:
    found = []
    for name in FUNCTIONS:
        for op in opdb.variants_of(f"nn.functional.{name}"):
            for dtype in opdb.dtypes_of(op):
                if dtype in ("float16", "bfloat16") and name in INEXACT:
                    continue
                found.append(pytest.param(op, dtype, id=f"{opdb.full_name(op)}-{dtype}"))
    return found


@pytest.mark.parametrize(("op", "dtype"), cases())
def test_function(op: Any, dtype: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        failures, _ = opdb.check(weft, op, dtype, samples=8, references=0)
    short = op.name.rpartition(".")[2]
    failures = [f for f in failures if not (short in NO_OUT and f.kind.startswith("out-"))]
    shown = "\n".join(f"  {failure.kind}: {failure}" for failure in failures[:10])
    assert not failures, f"{len(failures)} differences from PyTorch:\n{shown}"


# -- layers -----------------------------------------------------------------------------------

Make = Callable[[Any], Any]
LAYERS: dict[str, tuple[Make, list[tuple[int, ...]]]] = {
    "identity": (lambda nn: nn.Identity(3, anything=True), [(2, 3)]),
    "flatten": (lambda nn: nn.Flatten(), [(2, 3, 4)]),
    "flatten_some": (lambda nn: nn.Flatten(0, 1), [(2, 3, 4)]),
    "unflatten": (lambda nn: nn.Unflatten(1, (2, 3)), [(2, 6, 4)]),
    "pairwise_distance": (lambda nn: nn.PairwiseDistance(3.0, keepdim=True), [(4, 5), (4, 5)]),
    "cosine_similarity": (lambda nn: nn.CosineSimilarity(dim=0), [(4, 5), (4, 5)]),
    "hardsigmoid": (lambda nn: nn.Hardsigmoid(), [(3, 4)]),
    "hardsigmoid_inplace": (lambda nn: nn.Hardsigmoid(True), [(3, 4)]),
    "rrelu": (lambda nn: nn.RReLU(0.1, 0.4).eval(), [(3, 4)]),
    "dropout": (lambda nn: nn.Dropout(0.3, inplace=True).eval(), [(3, 4)]),
    "dropout_none": (lambda nn: nn.Dropout(0.0), [(3, 4)]),
    "dropout_all": (lambda nn: nn.Dropout(1.0), [(3, 4)]),
    "dropout1d": (lambda nn: nn.Dropout1d(0.3).eval(), [(3, 4)]),
    "dropout2d": (lambda nn: nn.Dropout2d(0.3).eval(), [(2, 3, 4, 2)]),
    "dropout3d": (lambda nn: nn.Dropout3d(0.3).eval(), [(2, 3, 4, 2)]),
    "alpha_dropout": (lambda nn: nn.AlphaDropout(0.3).eval(), [(3, 4)]),
    "feature_alpha_dropout": (lambda nn: nn.FeatureAlphaDropout(0.3).eval(), [(3, 4)]),
    "triplet": (lambda nn: nn.TripletMarginLoss(2.0, p=1, swap=True), [(5, 4)] * 3),
    "triplet_sum": (lambda nn: nn.TripletMarginLoss(reduction="sum"), [(5, 4)] * 3),
    "triplet_distance": (
        lambda nn: nn.TripletMarginWithDistanceLoss(
            distance_function=lambda x, y: (x - y).abs().sum(-1), swap=True
        ),
        [(5, 4)] * 3,
    ),
    "triplet_default_distance": (lambda nn: nn.TripletMarginWithDistanceLoss(), [(5, 4)] * 3),
    "lazy_linear": (lambda nn: nn.LazyLinear(3), [(5, 4)]),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name: str) -> None:
    make, shapes = LAYERS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, ours = make(torch.nn), make(weft.nn)
    printed = repr(theirs) if "distance" not in name else theirs._get_name()
    assert (repr(ours) if "distance" not in name else ours._get_name()) == printed
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(shape) for shape in shapes]
    # A step in between, so that layers may work in place.
    leaves = [
        [module.tensor(a.tolist(), dtype=module.float64, requires_grad=True) for a in arrays]
        for module in (torch, weft)
    ]
    theirs.to(torch.float64)
    ours.to(weft.float64)
    if name == "lazy_linear":
        theirs(leaves[0][0])
        ours(leaves[1][0])
        assert type(ours) is weft.nn.Linear and repr(ours) == repr(theirs)
        state = {n: bridge.tensor_to(weft, v) for n, v in theirs.state_dict().items()}
        ours.load_state_dict(state)
    expected = theirs(*[leaf * 1 for leaf in leaves[0]])
    actual = ours(*[leaf * 1 for leaf in leaves[1]])
    np.testing.assert_allclose(
        bridge.to_numpy(actual, weft), bridge.to_numpy(expected, torch), rtol=1e-9, atol=1e-12
    )
    expected.sum().backward()
    actual.sum().backward()
    for a, b in zip(leaves[1], leaves[0], strict=True):
        np.testing.assert_allclose(
            bridge.to_numpy(a.grad, weft),
            bridge.to_numpy(b.grad, torch),
            # PyTorch's slope of hardsigmoid is 1/6 in float32.
            rtol=1e-7 if "hardsigmoid" in name else 1e-9,
            atol=1e-12,
        )


EMBEDDINGS: list[dict[str, Any]] = [
    {},
    {"padding_idx": 1},
    {"padding_idx": -1, "scale_grad_by_freq": True},
    {"max_norm": 1.0, "norm_type": 1.0},
]


@pytest.mark.parametrize("options", EMBEDDINGS, ids=str)
def test_embedding(options: dict[str, Any]) -> None:
    theirs, ours = torch.nn.Embedding(5, 3, **options), weft.nn.Embedding(5, 3, **options)
    assert repr(ours) == repr(theirs)
    assert ours.padding_idx == theirs.padding_idx
    if theirs.padding_idx is not None:
        assert ours.weight[ours.padding_idx].tolist() == [0.0] * 3
    table = np.random.default_rng(1).standard_normal((5, 3)).astype(np.float32)
    results = []
    for module in (torch, weft):
        made = module.nn.Embedding.from_pretrained(
            module.from_numpy(table.copy()), freeze=False, **options
        )
        out = made(module.tensor([[1, 2, 1], [4, 0, 2]]))
        out.square().sum().backward()
        results.append([bridge.to_numpy(t, module) for t in (out, made.weight, made.weight.grad)])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)
    frozen = weft.nn.Embedding.from_pretrained(weft.from_numpy(table))
    assert not frozen.weight.requires_grad


BAGS: list[dict[str, Any]] = [
    {},
    {"mode": "sum", "padding_idx": 1},
    {"mode": "max", "padding_idx": -2},
    # Not scale_grad_by_freq: PyTorch divides by how often some other row was read.
    {"max_norm": 1.0, "norm_type": 1.0},
    {"include_last_offset": True, "mode": "sum"},
]


@pytest.mark.parametrize("options", BAGS, ids=str)
def test_embedding_bag(options: dict[str, Any]) -> None:
    theirs, ours = torch.nn.EmbeddingBag(6, 3, **options), weft.nn.EmbeddingBag(6, 3, **options)
    assert repr(ours) == repr(theirs)
    table = np.random.default_rng(1).standard_normal((6, 3)).astype(np.float32)
    results = []
    for module in (torch, weft):
        made = module.nn.EmbeddingBag.from_pretrained(
            module.from_numpy(table.copy()), freeze=False, **options
        )
        bags = made(module.tensor([1, 2, 1, 4, 0, 2, 5]), module.tensor([0, 3, 3, 7]))
        rows = made(module.tensor([[1, 2, 4], [4, 0, 2]]))
        (bags.square().sum() + rows.sum()).backward()
        results.append(
            [bridge.to_numpy(t, module) for t in (bags, rows, made.weight, made.weight.grad)]
        )
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)
    assert not weft.nn.EmbeddingBag.from_pretrained(weft.ones(2, 2)).weight.requires_grad


def test_construction_errors() -> None:
    calls: list[Callable[[Any], Any]] = [
        lambda lib: lib.nn.Bilinear(0, 1, 1),
        lambda lib: lib.nn.Unflatten(1, 3),
        lambda lib: lib.nn.Unflatten(1, (2, 1.5)),
        lambda lib: lib.nn.Hardtanh(2.0, 1.0),
        lambda lib: lib.nn.Dropout(1.5),
        lambda lib: lib.nn.Embedding(3, 2, padding_idx=3),
        lambda lib: lib.nn.Embedding(3, 2, padding_idx=-4),
        lambda lib: lib.nn.Embedding(3, 2, _weight=lib.ones(2, 2)),
        lambda lib: lib.nn.Embedding.from_pretrained(lib.ones(2)),
        lambda lib: lib.nn.EmbeddingBag(3, 2, padding_idx=3),
        lambda lib: lib.nn.EmbeddingBag.from_pretrained(lib.ones(2)),
        lambda lib: lib.nn.MultiMarginLoss(p=3),
        lambda lib: lib.nn.MultiMarginLoss(weight=lib.ones(2, 2)),
        lambda lib: lib.nn.TripletMarginLoss(margin=0),
        lambda lib: lib.nn.TripletMarginWithDistanceLoss(margin=-1),
        lambda lib: lib.nn.Softmax2d()(lib.ones(2, 2)),
        lambda lib: lib.nn.LinearCrossEntropyLoss(2, 2, label_smoothing=2.0),
        lambda lib: lib.nn.Linear(2, 2)(lib.ones(3)),
    ]
    for number, call in enumerate(calls):
        with pytest.raises(Exception) as theirs:
            call(torch)
        with pytest.raises(type(theirs.value)) as ours:
            call(weft)
        if number < len(calls) - 1:  # of the last, only the class: weft says which layer and line
            assert str(ours.value) == str(theirs.value).replace("torch.nn.Module", "weft.nn.Module")
