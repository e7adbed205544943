"""Every layer against PyTorch's, over PyTorch's own examples of how it is made and called.

One test for each layer, mode and dtype goes over all examples: the same arguments to both
constructors, PyTorch's parameters copied over, then outputs, gradients of inputs and parameters,
printing, state dictionaries both ways, copies. `-k Conv2d` runs one layer; `WEFT_PARITY_SAMPLES`
limits the examples of each (0: all).
"""

from __future__ import annotations

import copy
import os
import pickle
import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing._internal.common_modules import ModuleErrorEnum, module_db

from .._target import weft
from . import bridge, compare

nn = weft.nn

EXAMPLES = int(os.environ.get("WEFT_PARITY_SAMPLES", "16"))

# The layers weft has to have; others are compared as soon as they exist.
REQUIRED = frozenset(
    [
        "AdaptiveAvgPool1d",
        "AdaptiveAvgPool2d",
        "AdaptiveMaxPool1d",
        "AdaptiveMaxPool2d",
        "AvgPool1d",
        "AvgPool2d",
        "BCELoss",
        "BCEWithLogitsLoss",
        "BatchNorm1d",
        "BatchNorm2d",
        "BatchNorm3d",
        "Bilinear",
        "CELU",
        "CircularPad1d",
        "CircularPad2d",
        "ConstantPad1d",
        "ConstantPad2d",
        "Conv1d",
        "Conv2d",
        "ConvTranspose1d",
        "ConvTranspose2d",
        "CosineEmbeddingLoss",
        "CrossEntropyLoss",
        "ELU",
        "Embedding",
        "GELU",
        "GLU",
        "GRU",
        "GRUCell",
        "GaussianNLLLoss",
        "GroupNorm",
        "Hardshrink",
        "Hardswish",
        "Hardtanh",
        "HingeEmbeddingLoss",
        "HuberLoss",
        "InstanceNorm1d",
        "InstanceNorm2d",
        "KLDivLoss",
        "L1Loss",
        "LSTM",
        "LSTMCell",
        "LayerNorm",
        "LeakyReLU",
        "Linear",
        "LinearCrossEntropyLoss",
        "LogSigmoid",
        "LogSoftmax",
        "MSELoss",
        "MarginRankingLoss",
        "MaxPool1d",
        "MaxPool2d",
        "Mish",
        "MultiLabelMarginLoss",
        "MultiLabelSoftMarginLoss",
        "MultiMarginLoss",
        "MultiheadAttention",
        "NLLLoss",
        "PReLU",
        "PoissonNLLLoss",
        "RMSNorm",
        "RNN",
        "RNNCell",
        "ReLU",
        "ReLU6",
        "ReflectionPad1d",
        "ReflectionPad2d",
        "ReplicationPad1d",
        "ReplicationPad2d",
        "SELU",
        "SiLU",
        "Sigmoid",
        "SmoothL1Loss",
        "SoftMarginLoss",
        "Softmax",
        "Softmax2d",
        "Softmin",
        "Softplus",
        "Softshrink",
        "Softsign",
        "Tanh",
        "Tanhshrink",
        "Threshold",
        "Transformer",
        "TransformerDecoderLayer",
        "TransformerEncoder",
        "TransformerEncoderLayer",
        "TripletMarginLoss",
        "ZeroPad1d",
        "ZeroPad2d",
    ]
)
INFOS = {info.module_cls.__name__: info for info in module_db}
# In module_db under the functional form only.
NOT_IN_MODULE_DB = REQUIRED - INFOS.keys()
DTYPES = (torch.float32, torch.float64)
TOLERANCES = {torch.float32: (1e-4, 2e-5), torch.float64: (1e-7, 1e-9)}


def compared() -> Iterator[Any]:
    for name, info in sorted(INFOS.items()):
        if not hasattr(nn, name):
            continue
        for dtype in DTYPES:
            if dtype in info.dtypes:
                for training in (True, False):
                    mode = "train" if training else "eval"
                    label = f"{name}-{bridge.dtype_name(dtype)}-{mode}"
                    yield pytest.param(info, dtype, training, id=label)


@pytest.mark.parametrize("name", sorted(REQUIRED))
def test_exists(name: str) -> None:
    assert hasattr(nn, name), f"weft.nn.{name} is missing"


class Values(bridge.Bridge):
    """Also converts functions, modules and packed sequences."""

    def __call__(self, value: Any) -> Any:
        layers = self.module.nn
        if isinstance(value, torch.nn.utils.rnn.PackedSequence):
            return layers.utils.rnn.PackedSequence(*(self(part) for part in value))
        if isinstance(value, torch.nn.Module):
            args, kwargs = arguments_of(value)
            return getattr(layers, type(value).__name__)(*args, **self(kwargs))
        name = getattr(value, "__name__", "")
        if callable(value) and getattr(torch.nn.functional, name, None) is value:
            return getattr(layers.functional, name)
        return super().__call__(value)


def arguments_of(module: torch.nn.Module) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments another module like this is made with."""
    if isinstance(module, torch.nn.TransformerEncoderLayer):
        attention = module.self_attn
        return (attention.embed_dim, attention.num_heads, module.linear1.out_features), {
            "dropout": module.dropout.p,
            "activation": module.activation,
            "layer_norm_eps": module.norm1.eps,
            "batch_first": attention.batch_first,
            "norm_first": module.norm_first,
            "bias": module.linear1.bias is not None,
        }
    if isinstance(module, torch.nn.LayerNorm):
        return (tuple(module.normalized_shape), module.eps, module.elementwise_affine), {}
    return (), {}


def seeded(make: Any, *arguments: Any, **keywords: Any) -> list[Any]:
    torch.manual_seed(0)
    return list(make(*arguments, **keywords))


def inputs_of(info: Any, dtype: torch.dtype, training: bool) -> list[Any]:
    examples = seeded(
        info.module_inputs_func,
        info,
        device="cpu",
        dtype=dtype,
        requires_grad=True,
        training=training,
    )
    # Of many, some from everywhere in the list.
    every = 1 if EXAMPLES == 0 else -(-len(examples) // EXAMPLES)
    return examples[::every]


def make_pair(info: Any, example: Any, dtype: torch.dtype, training: bool) -> tuple[Any, Any]:
    made = example.constructor_input
    theirs = info.module_cls(*made.args, **made.kwargs).to(dtype).train(training)
    to_weft = Values(weft, requires_grad=False)
    args, kwargs = to_weft(made.args), to_weft(made.kwargs)
    ours = getattr(nn, info.module_cls.__name__)(*args, **kwargs)
    ours = ours.to(getattr(weft, bridge.dtype_name(dtype))).train(training)
    if any(torch.nn.parameter.is_lazy(p) for p in theirs.parameters()):
        # There are values to copy only after a first call.
        called = example.forward_input
        theirs(*called.args, **called.kwargs)
        ours(*to_weft(called.args), **to_weft(called.kwargs))
    return theirs, ours


def copy_state(theirs: Any, ours: Any) -> None:
    """PyTorch's state into weft's module, and back again."""
    if any(torch.nn.parameter.is_lazy(p) for p in theirs.parameters()):
        return
    state = theirs.state_dict()
    assert list(ours.state_dict()) == list(state)
    assert dict(ours.state_dict()._metadata) == dict(state._metadata)
    report = ours.load_state_dict(
        {name: bridge.tensor_to(weft, value) for name, value in state.items()}
    )
    assert repr(report) == "<All keys matched successfully>"
    back = {n: torch.from_numpy(bridge.to_numpy(v, weft)) for n, v in ours.state_dict().items()}
    assert theirs.load_state_dict(back).missing_keys == []


def check_close(what: str, actual: Any, expected: Any, dtype: torch.dtype) -> None:
    ours, theirs = list(bridge.tensors_in(actual, weft)), list(bridge.tensors_in(expected, torch))
    assert len(ours) == len(theirs), f"{what}: {len(ours)} tensors, torch {len(theirs)}"
    relative, absolute = TOLERANCES[dtype]
    for a, b in zip(ours, theirs, strict=True):
        assert tuple(a.shape) == tuple(b.shape), f"{what}: {tuple(a.shape)}, torch {tuple(b.shape)}"
        assert bridge.dtype_name(a.dtype) == bridge.dtype_name(b.dtype), what
        assert a.requires_grad == b.requires_grad, f"{what}: requires_grad {a.requires_grad}"
        np.testing.assert_allclose(
            bridge.to_numpy(a, weft),
            bridge.to_numpy(b, torch),
            rtol=relative,
            atol=absolute,
            err_msg=what,
        )


def backward(results: Any, module: Any, seed: int) -> None:
    """Backward from every result, with the same gradients in both libraries."""
    random = np.random.default_rng(seed)
    tensors, gradients = [], []
    for result in bridge.tensors_in(results, module):
        gradient = random.standard_normal(tuple(result.shape))
        if result.requires_grad:
            tensors.append(result)
            gradients.append(module.from_numpy(np.asarray(gradient)).to(result.dtype))
    if tensors:
        module.autograd.backward(tensors, gradients)


def check_gradients(what: str, ours: Any, theirs: Any, dtype: torch.dtype) -> None:
    assert (ours is None) == (theirs is None), f"{what}: {ours}, torch {theirs}"
    if theirs is not None:
        check_close(what, ours.detach(), theirs.detach(), dtype)


@pytest.mark.parametrize(("info", "dtype", "training"), list(compared()))
def test_layer(info: Any, dtype: torch.dtype, training: bool) -> None:
    for number, example in enumerate(inputs_of(info, dtype, training)):
        what = f"example {number} ({example.desc})"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs, ours = make_pair(info, example, dtype, training)
            assert repr(ours) == repr(theirs), what
            copy_state(theirs, ours)
            called = example.forward_input
            if called is None:
                continue
            check_call(what, theirs, ours, called, dtype)


def check_call(what: str, theirs: Any, ours: Any, called: Any, dtype: torch.dtype) -> None:
    to_weft = Values(weft)
    to_torch = Values(torch)  # leaves of their own: examples share tensors
    args, kwargs = to_weft(called.args), to_weft(called.kwargs)
    their_args, their_kwargs = to_torch(called.args), to_torch(called.kwargs)
    copied = pickle.loads(pickle.dumps(ours)) if _can_be_pickled(ours) else copy.deepcopy(ours)
    expected = theirs(*their_args, **their_kwargs)
    actual = ours(*args, **kwargs)
    check_close(f"{what}: output", actual, expected, dtype)
    backward(expected, torch, seed=1)
    backward(actual, weft, seed=1)
    for place, (a, b) in enumerate(zip(to_weft.leaves, to_torch.leaves, strict=True)):
        check_gradients(f"{what}: gradient of input {place}", a.grad, b.grad, dtype)
    names = [name for name, _ in theirs.named_parameters()]
    assert [name for name, _ in ours.named_parameters()] == names
    for name, parameter in theirs.named_parameters():
        check_gradients(
            f"{what}: gradient of {name}", ours.get_parameter(name).grad, parameter.grad, dtype
        )
    for name, buffer in theirs.named_buffers():
        check_close(f"{what}: buffer {name}", ours.get_buffer(name), buffer, dtype)
    again = copied(*to_weft(called.args), **to_weft(called.kwargs))
    check_close(f"{what}: output of a copy", again, expected, dtype)


def _can_be_pickled(module: Any) -> bool:
    try:
        pickle.dumps(module)
    except (AttributeError, pickle.PicklingError):  # a lambda among the arguments
        return False
    return True


ERRORS = [
    pytest.param(info, id=name)
    for name, info in sorted(INFOS.items())
    if info.module_error_inputs_func is not None and hasattr(nn, name)
]


@pytest.mark.filterwarnings("ignore:Possible nested set")  # in a pattern of PyTorch's
@pytest.mark.parametrize("info", ERRORS)
def test_errors(info: Any) -> None:
    """The same class of exception as PyTorch's, with the words its own tests look for."""
    for training in (True, False):
        examples = seeded(
            info.module_error_inputs_func,
            info,
            device="cpu",
            dtype=torch.float32,
            requires_grad=False,
            training=training,
        )
        for example in examples:
            words = _pattern(example.error_regex)
            kind = example.error_type
            given = example.module_error_input
            constructs = example.error_on is ModuleErrorEnum.CONSTRUCTION_ERROR
            try:
                _raises(torch, info, given, constructs, training)
            except bridge.Unsupported:  # a complex number
                continue
            except kind as error:
                if re.search(words, str(error)):
                    with pytest.raises(kind, match=words):
                        _raises(weft, info, given, constructs, training)
            # Otherwise PyTorch, too, raises this only in the other mode.


def _raises(module: Any, info: Any, given: Any, constructs: bool, training: bool) -> None:
    values = Values(module)
    made, called = given.constructor_input, given.forward_input
    args, kwargs = values(made.args), values(made.kwargs)
    layer = getattr(module.nn, info.module_cls.__name__)(*args, **kwargs)
    if not constructs:
        layer.train(training)(*values(called.args), **values(called.kwargs))


def _pattern(regex: str) -> str:
    """Names of PyTorch's module may be weft's."""
    return re.sub(r"torch\.(\w+)", r"(torch|weft)\\.\1", regex)


def test_the_comparison_sees_a_difference() -> None:
    info = INFOS["Linear"]
    example = inputs_of(info, torch.float64, True)[0]
    theirs, ours = make_pair(info, example, torch.float64, True)
    with pytest.raises(AssertionError):  # the parameters were not copied
        check_call("planted", theirs, ours, example.forward_input, torch.float64)


def test_required_layers_are_all_compared() -> None:
    only_here = {"TripletMarginLoss"}  # module_db leaves it out: tests/parity/test_nn_losses.py
    assert only_here == NOT_IN_MODULE_DB
    assert compare.TOLERANCES.keys() >= {"float32", "float64"}
