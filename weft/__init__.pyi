# Written by tools/make_stubs.py from the registry, weft/__init__.py and
# tools/stubs/__init__.pyi.in: edit those.
#
# Overloads follow PyTorch's, which overlap: the first that fits is taken.
# mypy: disable-error-code="overload-overlap, overload-cannot-match"

from builtins import bool as _bool
from builtins import float as _float
from builtins import int as _int
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, overload

from weft._core import Number, _device, _dtype
from weft._memory_format import layout as _layout
from weft._memory_format import memory_format as _memory_format

from weft._core import Generator as Generator
from weft._size import Size as Size
from weft._core import Tensor as Tensor
from weft._settings import (
    are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled,
)
from weft._functions import as_tensor as as_tensor
from weft._functions import asarray as asarray
from weft import autograd as autograd
from weft._core import bfloat16 as bfloat16
from weft._core import bool as bool
from weft._core import can_cast as can_cast
from weft._memory_format import channels_last as channels_last
from weft._memory_format import channels_last_3d as channels_last_3d
from weft._core import complex128 as complex128
from weft._core import complex64 as complex64
from weft._functions import conj as conj
from weft._memory_format import contiguous_format as contiguous_format
from weft._core import default_generator as default_generator
from weft._functions import detach_ as detach_
from weft._core import device as device
from weft._core import dtype as dtype
from weft.autograd import enable_grad as enable_grad
from weft._dtypes import finfo as finfo
from weft._core import float16 as float16
from weft._core import float32 as float32
from weft._core import float64 as float64
from weft._functions import from_dlpack as from_dlpack
from weft._functions import from_numpy as from_numpy
from weft._functions import frombuffer as frombuffer
from weft._settings import get_default_device as get_default_device
from weft._core import get_default_dtype as get_default_dtype
from weft._functions import get_device as get_device
from weft._settings import get_float32_matmul_precision as get_float32_matmul_precision
from weft._settings import get_num_interop_threads as get_num_interop_threads
from weft._core import get_num_threads as get_num_threads
from weft._printing import get_printoptions as get_printoptions
from weft.ops.random import get_rng_state as get_rng_state
from weft._dtypes import iinfo as iinfo
from weft._functions import imag as imag
from weft.autograd import inference_mode as inference_mode
from weft.ops.random import initial_seed as initial_seed
from weft._core import int16 as int16
from weft._core import int32 as int32
from weft._core import int64 as int64
from weft._core import int8 as int8
from weft.autograd._modes import is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled
from weft.autograd._modes import is_anomaly_enabled as is_anomaly_enabled
from weft._functions import is_complex as is_complex
from weft._functions import is_conj as is_conj
from weft._functions import is_floating_point as is_floating_point
from weft._core import is_grad_enabled as is_grad_enabled
from weft._functions import is_inference as is_inference
from weft._core import is_inference_mode_enabled as is_inference_mode_enabled
from weft._functions import is_neg as is_neg
from weft._functions import is_same_size as is_same_size
from weft._functions import is_signed as is_signed
from weft._functions import is_storage as is_storage
from weft._functions import is_tensor as is_tensor
from weft._memory_format import layout as layout
from weft.ops.random import manual_seed as manual_seed
from weft._memory_format import memory_format as memory_format
from weft.autograd import no_grad as no_grad
from weft._functions import numel as numel
from weft import ops as ops
from weft._memory_format import preserve_format as preserve_format
from weft._printing import printoptions as printoptions
from weft._core import promote_types as promote_types
from weft._functions import real as real
from weft._functions import resolve_conj as resolve_conj
from weft._functions import resolve_neg as resolve_neg
from weft.ops.random import seed as seed
from weft._settings import set_default_device as set_default_device
from weft._settings import set_default_dtype as set_default_dtype
from weft._settings import set_float32_matmul_precision as set_float32_matmul_precision
from weft.autograd import set_grad_enabled as set_grad_enabled
from weft._settings import set_num_interop_threads as set_num_interop_threads
from weft._settings import set_num_threads as set_num_threads
from weft._printing import set_printoptions as set_printoptions
from weft.ops.random import set_rng_state as set_rng_state
from weft._memory_format import strided as strided
from weft._core import tensor as tensor
from weft._functions import typename as typename
from weft._core import uint8 as uint8
from weft._settings import use_deterministic_algorithms as use_deterministic_algorithms
from weft.torch_names import as_torch as as_torch
from weft import backends as backends
from weft import check as check
from weft.keeping import checkpoint as checkpoint
from weft import cli as cli
from weft import cuda as cuda
from weft import doctor as doctor
from weft.graph import graph as graph
from weft import linalg as linalg
from weft.keeping import load as load
from weft import nn as nn
from weft import optim as optim
from weft import overrides as overrides
from weft import random as random
from weft import return_types as return_types
from weft.keeping import save as save
from weft import special as special
from weft import torch_names as torch_names
from weft import utils as utils
from weft.check import verify as verify
from weft._core import abs as abs
from weft._core import acos as acos
from weft._core import acosh as acosh
from weft._core import adaptive_avg_pool1d as adaptive_avg_pool1d
from weft._core import add as add
from weft._core import addbmm as addbmm
from weft._core import addcdiv as addcdiv
from weft._core import addcmul as addcmul
from weft._core import addmm as addmm
from weft._core import addmv as addmv
from weft._core import adjoint as adjoint
from weft._core import all as all
from weft._core import amax as amax
from weft._core import amin as amin
from weft._core import any as any
from weft._core import arange as arange
from weft._core import argmax as argmax
from weft._core import argmin as argmin
from weft._core import argsort as argsort
from weft._core import as_strided as as_strided
from weft._core import asin as asin
from weft._core import asinh as asinh
from weft._core import atan as atan
from weft._core import atan2 as atan2
from weft._core import atanh as atanh
from weft._core import avg_pool1d as avg_pool1d
from weft._core import baddbmm as baddbmm
from weft._core import bernoulli as bernoulli
from weft._core import bincount as bincount
from weft._core import bitwise_and as bitwise_and
from weft._core import bitwise_left_shift as bitwise_left_shift
from weft._core import bitwise_not as bitwise_not
from weft._core import bitwise_or as bitwise_or
from weft._core import bitwise_right_shift as bitwise_right_shift
from weft._core import bitwise_xor as bitwise_xor
from weft._core import bmm as bmm
from weft._core import broadcast_to as broadcast_to
from weft._core import bucketize as bucketize
from weft._core import cat as cat
from weft._core import ceil as ceil
from weft._core import chunk as chunk
from weft._core import clamp as clamp
from weft._core import clamp_max as clamp_max
from weft._core import clamp_min as clamp_min
from weft._core import clone as clone
from weft._core import concat as concat
from weft._core import concatenate as concatenate
from weft._core import constant_pad_nd as constant_pad_nd
from weft._core import conv1d as conv1d
from weft._core import conv2d as conv2d
from weft._core import conv3d as conv3d
from weft._core import conv_transpose1d as conv_transpose1d
from weft._core import conv_transpose2d as conv_transpose2d
from weft._core import conv_transpose3d as conv_transpose3d
from weft._core import copysign as copysign
from weft._core import cos as cos
from weft._core import cosh as cosh
from weft._core import count_nonzero as count_nonzero
from weft._core import cummax as cummax
from weft._core import cummin as cummin
from weft._core import cumprod as cumprod
from weft._core import cumsum as cumsum
from weft._core import deg2rad as deg2rad
from weft._core import detach as detach
from weft._core import diag as diag
from weft._core import diag_embed as diag_embed
from weft._core import diagonal as diagonal
from weft._core import diagonal_scatter as diagonal_scatter
from weft._core import digamma as digamma
from weft._core import div as div
from weft._core import dot as dot
from weft._core import embedding as embedding
from weft._core import empty as empty
from weft._core import empty_like as empty_like
from weft._core import empty_strided as empty_strided
from weft._core import eq as eq
from weft._core import erf as erf
from weft._core import erfc as erfc
from weft._core import erfinv as erfinv
from weft._core import exp as exp
from weft._core import exp2 as exp2
from weft._core import expm1 as expm1
from weft._core import eye as eye
from weft._core import fill as fill
from weft._core import flatten as flatten
from weft._core import flip as flip
from weft._core import floor as floor
from weft._core import floor_divide as floor_divide
from weft._core import fmax as fmax
from weft._core import fmin as fmin
from weft._core import fmod as fmod
from weft._core import frac as frac
from weft._core import full as full
from weft._core import full_like as full_like
from weft._core import gather as gather
from weft._core import gcd as gcd
from weft._core import ge as ge
from weft._core import gru_cell as gru_cell
from weft._core import gt as gt
from weft._core import heaviside as heaviside
from weft._core import hypot as hypot
from weft._core import index_add as index_add
from weft._core import index_copy as index_copy
from weft._core import index_fill as index_fill
from weft._core import index_select as index_select
from weft._core import isfinite as isfinite
from weft._core import isinf as isinf
from weft._core import isnan as isnan
from weft._core import isneginf as isneginf
from weft._core import isposinf as isposinf
from weft._core import kthvalue as kthvalue
from weft._core import lcm as lcm
from weft._core import le as le
from weft._core import lerp as lerp
from weft._core import lgamma as lgamma
from weft._core import linspace as linspace
from weft._core import log as log
from weft._core import log10 as log10
from weft._core import log1p as log1p
from weft._core import log2 as log2
from weft._core import log_softmax as log_softmax
from weft._core import logaddexp as logaddexp
from weft._core import logaddexp2 as logaddexp2
from weft._core import logcumsumexp as logcumsumexp
from weft._core import logical_and as logical_and
from weft._core import logical_not as logical_not
from weft._core import logical_or as logical_or
from weft._core import logical_xor as logical_xor
from weft._core import logit as logit
from weft._core import logsumexp as logsumexp
from weft._core import lt as lt
from weft._core import masked_fill as masked_fill
from weft._core import masked_scatter as masked_scatter
from weft._core import masked_select as masked_select
from weft._core import matmul as matmul
from weft._core import max as max
from weft._core import max_pool1d as max_pool1d
from weft._core import max_pool1d_with_indices as max_pool1d_with_indices
from weft._core import max_pool2d as max_pool2d
from weft._core import max_pool3d as max_pool3d
from weft._core import maximum as maximum
from weft._core import mean as mean
from weft._core import median as median
from weft._core import min as min
from weft._core import minimum as minimum
from weft._core import mm as mm
from weft._core import moveaxis as moveaxis
from weft._core import movedim as movedim
from weft._core import mul as mul
from weft._core import multinomial as multinomial
from weft._core import mv as mv
from weft._core import nan_to_num as nan_to_num
from weft._core import nanmedian as nanmedian
from weft._core import nansum as nansum
from weft._core import narrow as narrow
from weft._core import ne as ne
from weft._core import neg as neg
from weft._core import normal as normal
from weft._core import ones as ones
from weft._core import ones_like as ones_like
from weft._core import permute as permute
from weft._core import pow as pow
from weft._core import prod as prod
from weft._core import put as put
from weft._core import rad2deg as rad2deg
from weft._core import rand as rand
from weft._core import rand_like as rand_like
from weft._core import randint as randint
from weft._core import randint_like as randint_like
from weft._core import randn as randn
from weft._core import randn_like as randn_like
from weft._core import randperm as randperm
from weft._core import ravel as ravel
from weft._core import reciprocal as reciprocal
from weft._core import relu as relu
from weft._core import remainder as remainder
from weft._core import repeat_interleave as repeat_interleave
from weft._core import reshape as reshape
from weft._core import rms_norm as rms_norm
from weft._core import rnn_relu_cell as rnn_relu_cell
from weft._core import rnn_tanh_cell as rnn_tanh_cell
from weft._core import roll as roll
from weft._core import round as round
from weft._core import rsqrt as rsqrt
from weft._core import scalar_tensor as scalar_tensor
from weft._core import scatter as scatter
from weft._core import scatter_add as scatter_add
from weft._core import scatter_reduce as scatter_reduce
from weft._core import searchsorted as searchsorted
from weft._core import select as select
from weft._core import select_scatter as select_scatter
from weft._core import sigmoid as sigmoid
from weft._core import sign as sign
from weft._core import signbit as signbit
from weft._core import sin as sin
from weft._core import sinc as sinc
from weft._core import sinh as sinh
from weft._core import slice_scatter as slice_scatter
from weft._core import softmax as softmax
from weft._core import sort as sort
from weft._core import split as split
from weft._core import split_with_sizes as split_with_sizes
from weft._core import sqrt as sqrt
from weft._core import square as square
from weft._core import squeeze as squeeze
from weft._core import stack as stack
from weft._core import std as std
from weft._core import std_mean as std_mean
from weft._core import sub as sub
from weft._core import sum as sum
from weft._core import swapaxes as swapaxes
from weft._core import swapdims as swapdims
from weft._core import t as t
from weft._core import take as take
from weft._core import tan as tan
from weft._core import tanh as tanh
from weft._core import tensor_split as tensor_split
from weft._core import tile as tile
from weft._core import topk as topk
from weft._core import transpose as transpose
from weft._core import tril as tril
from weft._core import tril_indices as tril_indices
from weft._core import triu as triu
from weft._core import triu_indices as triu_indices
from weft._core import trunc as trunc
from weft._core import unbind as unbind
from weft._core import unflatten as unflatten
from weft._core import unsqueeze as unsqueeze
from weft._core import var as var
from weft._core import var_mean as var_mean
from weft._core import vdot as vdot
from weft._core import where as where
from weft._core import xlogy as xlogy
from weft._core import zeros as zeros
from weft._core import zeros_like as zeros_like

__version__: str

short: _dtype
int: _dtype
long: _dtype
half: _dtype
float: _dtype
double: _dtype
cfloat: _dtype
cdouble: _dtype

e: _float
inf: _float
nan: _float
pi: _float
newaxis: None

_SUBMODULES: frozenset[str]
_LAZY: dict[str, str]

def abs_(input: Tensor) -> Tensor: ...
def absolute(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def acos_(input: Tensor) -> Tensor: ...
def acosh_(input: Tensor) -> Tensor: ...
def adaptive_max_pool1d(input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]: ...
def addmv_(
    input: Tensor, mat: Tensor, vec: Tensor, *, beta: Number = 1, alpha: Number = 1
) -> Tensor: ...
def addr(
    input: Tensor,
    vec1: Tensor,
    vec2: Tensor,
    *,
    beta: Number = 1,
    alpha: Number = 1,
    out: Tensor | None = None,
) -> Tensor: ...
def allclose(
    input: Tensor,
    other: Tensor,
    rtol: _float = 1e-05,
    atol: _float = 1e-08,
    equal_nan: _bool = False,
) -> _bool: ...
def aminmax(
    input: Tensor,
    *,
    dim: _int | None = None,
    keepdim: _bool = False,
    out: Sequence[Tensor] | None = None,
) -> Any: ...
def arccos(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arccos_(input: Tensor) -> Tensor: ...
def arccosh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arccosh_(input: Tensor) -> Tensor: ...
def arcsin(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arcsin_(input: Tensor) -> Tensor: ...
def arcsinh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arcsinh_(input: Tensor) -> Tensor: ...
def arctan(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arctan2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arctan_(input: Tensor) -> Tensor: ...
def arctanh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arctanh_(input: Tensor) -> Tensor: ...
def argwhere(input: Tensor) -> Tensor: ...
def asin_(input: Tensor) -> Tensor: ...
def asinh_(input: Tensor) -> Tensor: ...
def atan_(input: Tensor) -> Tensor: ...
def atanh_(input: Tensor) -> Tensor: ...
def atleast_1d(*tensors: Any) -> Any: ...
def atleast_2d(*tensors: Any) -> Any: ...
def atleast_3d(*tensors: Any) -> Any: ...
def bilinear(
    input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor: ...
def block_diag(*tensors: Any) -> Tensor: ...
def broadcast_shapes(*shapes: _int | Sequence[_int]) -> Size: ...
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]: ...
def cartesian_prod(*tensors: Tensor) -> Tensor: ...
def ceil_(input: Tensor) -> Tensor: ...
def celu(input: Tensor, alpha: _float = 1.0, inplace: _bool = False) -> Tensor: ...
def celu_(input: Tensor, alpha: _float = 1.0) -> Tensor: ...
def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor: ...
def channel_shuffle(input: Tensor, groups: _int) -> Tensor: ...
@overload
def clamp_(input: Tensor, min: Tensor | Number, max: Tensor | Number) -> Tensor: ...
@overload
def clamp_(
    input: Tensor, min: Tensor | Number | None = None, max: Tensor | Number | None = None
) -> Tensor: ...
def clamp_max_(input: Tensor, max: Tensor | Number) -> Tensor: ...
def clamp_min_(input: Tensor, min: Tensor | Number) -> Tensor: ...
@overload
def clip(
    input: Tensor, min: Tensor | Number, max: Tensor | Number, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def clip(
    input: Tensor,
    min: Tensor | Number | None = None,
    max: Tensor | Number | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def clip_(input: Tensor, min: Tensor | Number, max: Tensor | Number) -> Tensor: ...
@overload
def clip_(
    input: Tensor, min: Tensor | Number | None = None, max: Tensor | Number | None = None
) -> Tensor: ...
def column_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor: ...
def combinations(input: Tensor, r: _int = 2, with_replacement: _bool = False) -> Tensor: ...
def complex(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> NoReturn: ...
def cos_(input: Tensor) -> Tensor: ...
def cosh_(input: Tensor) -> Tensor: ...
def cosine_similarity(x1: Tensor, x2: Tensor, dim: _int = 1, eps: _float = 1e-08) -> Tensor: ...
def cross(
    input: Tensor, other: Tensor, dim: _int | None = None, *, out: Tensor | None = None
) -> Tensor: ...
def deg2rad_(input: Tensor) -> Tensor: ...
def diagflat(input: Tensor, offset: _int = 0) -> Tensor: ...
def diff(
    input: Tensor,
    n: _int = 1,
    dim: _int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def divide(
    input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def divide(
    input: Tensor | Number,
    other: Tensor | Number,
    *,
    rounding_mode: str | None,
    out: Tensor | None = None,
) -> Tensor: ...
def dsplit(input: Tensor, indices_or_sections: _int | Sequence[_int]) -> tuple[Tensor, ...]: ...
def dstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor: ...
def einsum(*args: object) -> Tensor: ...
def equal(input: Tensor, other: Tensor) -> _bool: ...
def erf_(input: Tensor) -> Tensor: ...
def erfc_(input: Tensor) -> Tensor: ...
def exp2_(input: Tensor) -> Tensor: ...
def exp_(input: Tensor) -> Tensor: ...
def expm1_(input: Tensor) -> Tensor: ...
def fill_(input: Tensor, value: Any) -> Tensor: ...
def fix(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def fix_(input: Tensor) -> Tensor: ...
def fliplr(input: Tensor) -> Tensor: ...
def flipud(input: Tensor) -> Tensor: ...
def float_power(input: Any, exponent: Any, *, out: Tensor | None = None) -> Tensor: ...
def floor_(input: Tensor) -> Tensor: ...
def frac_(input: Tensor) -> Tensor: ...
def gcd_(input: Tensor, other: Tensor) -> Tensor: ...
def ger(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def greater(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
def greater_equal(
    input: Tensor, other: Tensor | Number, *, out: Tensor | None = None
) -> Tensor: ...
def hardshrink(input: Tensor, lambd: _float = 0.5, *, out: Tensor | None = None) -> Tensor: ...
def histc(
    input: Tensor, bins: _int = 100, min: Number = 0, max: Number = 0, *, out: Tensor | None = None
) -> Tensor: ...
def hsplit(input: Tensor, indices_or_sections: _int | Sequence[_int]) -> tuple[Tensor, ...]: ...
def hstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor: ...
def index_put(
    input: Tensor,
    indices: Sequence[Tensor | None],
    values: Tensor,
    accumulate: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def index_put_(
    input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: _bool = False
) -> Tensor: ...
def index_reduce(
    input: Tensor,
    dim: _int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: _bool = True,
    out: Tensor | None = None,
) -> Tensor: ...
def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def is_nonzero(input: Tensor) -> _bool: ...
def isclose(
    input: Tensor,
    other: Tensor,
    rtol: _float = 1e-05,
    atol: _float = 1e-08,
    equal_nan: _bool = False,
) -> Tensor: ...
def isin(
    elements: Tensor | Number,
    test_elements: Tensor | Number,
    *,
    assume_unique: _bool = False,
    invert: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
def kron(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def lcm_(input: Tensor, other: Tensor) -> Tensor: ...
def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def ldexp_(input: Tensor, other: Tensor) -> Tensor: ...
def less(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
def less_equal(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
def log10_(input: Tensor) -> Tensor: ...
def log1p_(input: Tensor) -> Tensor: ...
def log2_(input: Tensor) -> Tensor: ...
def log_(input: Tensor) -> Tensor: ...
def logit_(input: Tensor, eps: _float | None = None) -> Tensor: ...
def logspace(
    start: Any,
    end: Any,
    steps: _int,
    base: _float = 10.0,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]: ...
def matrix_power(input: Tensor, n: _int, *, out: Tensor | None = None) -> Tensor: ...
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]: ...
def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def multiply(
    input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None
) -> Tensor: ...
def nan_to_num_(
    input: Tensor,
    nan: _float | None = None,
    posinf: _float | None = None,
    neginf: _float | None = None,
) -> Tensor: ...
def nanmean(
    input: Tensor,
    dim: _int | Sequence[_int] | None = None,
    keepdim: _bool = False,
    *,
    dtype: Any = None,
    out: Tensor | None = None,
) -> Tensor: ...
def narrow_copy(input: Tensor, dim: _int, start: _int, length: _int) -> Tensor: ...
def neg_(input: Tensor) -> Tensor: ...
def negative(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def negative_(input: Tensor) -> Tensor: ...
def nonzero(
    input: Tensor, *, as_tuple: _bool = False, out: Tensor | None = None
) -> Tensor | tuple[Tensor, ...]: ...
def norm(
    input: Tensor,
    p: _float | str | None = "fro",
    dim: _int | Sequence[_int] | None = None,
    keepdim: _bool = False,
    out: Tensor | None = None,
    dtype: Any = None,
) -> Tensor: ...
def not_equal(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: _float = 2.0, eps: _float = 1e-06, keepdim: _bool = False
) -> Tensor: ...
def pixel_shuffle(input: Tensor, upscale_factor: _int) -> Tensor: ...
def pixel_unshuffle(input: Tensor, downscale_factor: _int) -> Tensor: ...
def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> NoReturn: ...
def polygamma(n: _int, input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def positive(input: Tensor) -> Tensor: ...
def prelu(input: Tensor, weight: Tensor) -> Tensor: ...
def rad2deg_(input: Tensor) -> Tensor: ...
def reciprocal_(input: Tensor) -> Tensor: ...
def relu_(input: Tensor) -> Tensor: ...
def result_type(tensor1: Any, tensor2: Any) -> Any: ...
def rot90(input: Tensor, k: _int = 1, dims: Sequence[_int] = (0, 1)) -> Tensor: ...
@overload
def round_(input: Tensor) -> Tensor: ...
@overload
def round_(input: Tensor, *, decimals: _int) -> Tensor: ...
def row_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor: ...
def rrelu(
    input: Tensor,
    lower: _float = 0.125,
    upper: _float = 0.3333333333333333,
    training: _bool = False,
    inplace: _bool = False,
) -> Tensor: ...
def rrelu_(
    input: Tensor,
    lower: _float = 0.125,
    upper: _float = 0.3333333333333333,
    training: _bool = False,
) -> Tensor: ...
def rsqrt_(input: Tensor) -> Tensor: ...
def rsub(input: Tensor, other: Any, *, alpha: Any = 1, out: Tensor | None = None) -> Tensor: ...
def selu(input: Tensor, inplace: _bool = False) -> Tensor: ...
def selu_(input: Tensor) -> Tensor: ...
def sgn(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sigmoid_(input: Tensor) -> Tensor: ...
def sin_(input: Tensor) -> Tensor: ...
def sinc_(input: Tensor) -> Tensor: ...
def sinh_(input: Tensor) -> Tensor: ...
def sqrt_(input: Tensor) -> Tensor: ...
def square_(input: Tensor) -> Tensor: ...
@overload
def subtract(
    input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def subtract(
    input: Tensor | Number, other: Tensor | Number, *, alpha: Number, out: Tensor | None = None
) -> Tensor: ...
def svd(input: Tensor, some: _bool = True, compute_uv: _bool = True, *, out: Any = None) -> Any: ...
def take_along_dim(
    input: Tensor, indices: Tensor, dim: _int | None = None, *, out: Tensor | None = None
) -> Tensor: ...
def tan_(input: Tensor) -> Tensor: ...
def tanh_(input: Tensor) -> Tensor: ...
def tensordot(
    a: Tensor,
    b: Tensor,
    dims: _int | Sequence[Sequence[_int]] | Sequence[_int] | Tensor = 2,
    out: Tensor | None = None,
) -> Tensor: ...
def threshold(
    input: Tensor, threshold: _float, value: _float, inplace: _bool = False
) -> Tensor: ...
def threshold_(input: Tensor, threshold: _float, value: _float) -> Tensor: ...
def trace(input: Tensor) -> Tensor: ...
@overload
def true_divide(
    input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def true_divide(
    input: Tensor | Number,
    other: Tensor | Number,
    *,
    rounding_mode: str | None,
    out: Tensor | None = None,
) -> Tensor: ...
def trunc_(input: Tensor) -> Tensor: ...
def unique(
    input: Tensor,
    sorted: _bool = True,
    return_inverse: _bool = False,
    return_counts: _bool = False,
    dim: _int | None = None,
) -> Tensor | tuple[Tensor, ...]: ...
def unique_consecutive(
    input: Tensor,
    return_inverse: _bool = False,
    return_counts: _bool = False,
    dim: _int | None = None,
) -> Tensor | tuple[Tensor, ...]: ...
def vsplit(input: Tensor, indices_or_sections: _int | Sequence[_int]) -> tuple[Tensor, ...]: ...
def vstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor: ...
def xlogy_(input: Tensor, other: Tensor | Number) -> Tensor: ...
def zero_(input: Tensor) -> Tensor: ...
