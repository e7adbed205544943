"""Products built of matmul, addmm and element-wise operations."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

from weft import _core
from weft._core import Tensor
from weft.ops._composed import alias, composed, write_out
from weft.ops._einsum import Contraction, contraction_of, plan_einsum

Number = bool | int | float


def _check_tensors(operation: str, **arguments: object) -> None:
    for position, (name, value) in enumerate(arguments.items(), 1):
        if not isinstance(value, Tensor):
            raise TypeError(
                f"{operation}(): argument '{name}' (position {position}) must be Tensor, "
                f"not {type(value).__name__}"
            )


def _check_same_dtype(first: Tensor, second: Tensor) -> None:
    if first.dtype != second.dtype:
        raise RuntimeError(
            "both inputs should have same dtype, "
            f"got {first.dtype} and {second.dtype}: convert one with .to(dtype)"
        )


def _into(operation: str, result: Tensor, out: Any) -> Tensor:
    """The result, written into ``out`` if there is one: of the same dtype, as for products."""
    if out is None:
        return result
    if isinstance(out, Tensor) and out.dtype != result.dtype:
        raise RuntimeError(
            f"{operation}(): Expected out tensor to have dtype {result.dtype}, "
            f"but got {out.dtype} instead"
        )
    written: Tensor = write_out(operation, result, out)
    return written


# -- products of vectors ---------------------------------------------------------------------


@composed(kinds="function method")
def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Sums the products over the last dimension of both: ``input @ other.mT`` for matrices."""
    _check_tensors("inner", input=input, other=other)
    if input.dim() == 0 or other.dim() == 0:
        product = input * other
        return product if out is None else write_out("inner", product, out)
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(input.shape)} and {list(other.shape)}"
        )
    _check_same_dtype(input, other)
    if other.dim() <= 2:
        return _into("inner", _core.functional["linear"](input, other), out)
    rows = other.reshape(math.prod(other.shape[:-1]), other.shape[-1])
    result = _core.functional["linear"](input, rows)
    return _into("inner", result.reshape([*input.shape[:-1], *other.shape[:-1]]), out)


@composed(kinds="function method out")
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """All products of an element of ``input`` with one of ``vec2``, as a matrix."""
    _check_tensors("outer", input=input, vec2=vec2)
    for name, vector in (("self", input), ("vec2", vec2)):
        if vector.dim() != 1:
            raise RuntimeError(
                f"outer: Expected 1-D argument {name}, but got {vector.dim()}-D: flatten() it first"
            )
    return input.unsqueeze(1) * vec2


@composed(kinds="function method out")
def ger(input: Tensor, vec2: Tensor) -> Tensor:
    """The same as :func:`outer`."""
    return outer(input, vec2)


def _cross_dim(input: Tensor, other: Tensor, dim: int) -> int:
    if input.dim() != other.dim():
        raise RuntimeError(
            "linalg.cross: inputs must have the same number of dimensions, "
            f"got {input.dim()} and {other.dim()}."
        )
    at = _wrap_dim(dim, input.dim())
    if input.shape[at] != 3 or other.shape[at] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. "
            f"Got {input.shape[at]} and {other.shape[at]}"
        )
    return at


def _wrap_dim(dim: int, ndim: int) -> int:
    bound = max(ndim, 1)
    if not -bound <= dim < bound:
        raise IndexError(
            "Dimension out of range (expected to be in range of "
            f"[{-bound}, {bound - 1}], but got {dim})"
        )
    return dim % bound


def _cross(input: Tensor, other: Tensor, dim: int) -> Tensor:
    _check_same_dtype(input, other)
    at = _cross_dim(input, other, dim)
    return input.roll(-1, at) * other.roll(-2, at) - input.roll(-2, at) * other.roll(-1, at)


@composed("cross", kinds="function", namespace="linalg")
def linalg_cross(
    input: Tensor, other: Tensor, *, dim: int = -1, out: Tensor | None = None
) -> Tensor:
    """The vector product along a dimension of size 3; other dimensions broadcast."""
    _check_tensors("linalg_cross", input=input, other=other)
    return _into("linalg_cross", _cross(input, other, dim), out)


@composed(kinds="function method")
def cross(
    input: Tensor, other: Tensor, dim: int | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The vector product along ``dim``, or along the first dimension of size 3."""
    _check_tensors("cross", input=input, other=other)
    if dim is None:
        if 3 not in input.shape:
            raise RuntimeError(
                f"no dimension of size 3 in input of shape {list(input.shape)}: name one with dim="
            )
        dim = list(input.shape).index(3)
    return _into("cross", _cross(input, other, dim), out)


# -- a product added to something ---------------------------------------------------------------


@composed(kinds="function method inplace out")
def addr(
    input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Number = 1, alpha: Number = 1
) -> Tensor:
    """``beta * input + alpha * outer(vec1, vec2)``; with ``beta=0``, ``input`` is not read."""
    _check_tensors("addr", input=input, vec1=vec1, vec2=vec2)
    for name, vector in (("vec1", vec1), ("vec2", vec2)):
        if vector.dim() != 1:
            raise RuntimeError(
                f"addr: Expected 1-D argument {name}, but got {vector.dim()}-D: flatten() it first"
            )
    dtype = _core.promote_types(_core.promote_types(vec1.dtype, vec2.dtype), input.dtype)
    for name, factor in (("beta", beta), ("alpha", alpha)):
        if isinstance(factor, bool) and dtype is not _core.bool:
            raise RuntimeError(f"Boolean {name} only supported for Boolean results.")
        if isinstance(factor, float) and not dtype.is_floating_point:
            raise RuntimeError(
                f"For integral input tensors, argument {name} must not be a floating point number."
            )
    size = (vec1.shape[0], vec2.shape[0])
    start = input.expand(size)
    if dtype is _core.bool:
        product = vec1.unsqueeze(1).logical_and(vec2) if alpha else _zeros(size, input, dtype)
        return product.logical_or(start) if beta else product
    scaled = vec1 if alpha == 1 else vec1 * _factor(alpha, dtype)
    product = scaled.unsqueeze(1) * vec2
    if beta == 0:
        return product if product.dtype == dtype else product.to(dtype)
    return product + (start if beta == 1 else start * _factor(beta, dtype))


def _factor(value: Number, dtype: _core.dtype) -> Number | Tensor:
    """In 16 bits the factor itself is rounded to the tensors' dtype, as PyTorch does."""
    return _core.tensor(value, dtype=dtype) if dtype in (_core.float16, _core.bfloat16) else value


def _zeros(size: Sequence[int], like: Tensor, dtype: _core.dtype) -> Tensor:
    return like.new_zeros(size, dtype=dtype)


# -- many matrices ------------------------------------------------------------------------------


@composed("matmul", kinds="function out", namespace="linalg")
def linalg_matmul(input: Tensor, other: Tensor) -> Tensor:
    """The same as :func:`weft.matmul`."""
    return _core.matmul(input, other)


def _best_order(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """Where to split each range of a chain; matrix i has the shape (sizes[i], sizes[i + 1])."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for first in range(count - length):
            last = first + length
            cost[first, last], split[first, last] = min(
                (
                    cost[first, middle]
                    + cost[middle + 1, last]
                    + sizes[first] * sizes[middle + 1] * sizes[last + 1],
                    middle,
                )
                for middle in range(first, last)
            )
    return split


@composed(kinds="function", namespace="linalg")
def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """The product of a chain of matrices in the order that takes the least work.

    The first may be a row and the last a column given as 1-D tensors.
    """
    tensors = list(tensors)
    count = len(tensors)
    if count < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {count}")
    for index, tensor in enumerate(tensors):
        _check_tensors("multi_dot", tensors=tensor)
        outermost = "first" if index == 0 else "last" if index == count - 1 else None
        if outermost and tensor.dim() not in (1, 2):
            raise RuntimeError(
                f"multi_dot(): the {outermost} tensor must be 1D or 2D but got {tensor.dim()}D"
            )
        if not outermost and tensor.dim() != 2:
            raise RuntimeError(f"multi_dot(): tensor {index} must be 2D but got {tensor.dim()}D")
        if tensor.dtype != tensors[0].dtype:
            raise RuntimeError(
                "multi_dot(): all tensors must have be the same dtype "
                f"but tensor 0 is {tensors[0].dtype} and tensor {index} {tensor.dtype}"
            )
    row, column = tensors[0].dim() == 1, tensors[-1].dim() == 1
    if row:
        tensors[0] = tensors[0].unsqueeze(0)
    if column:
        tensors[-1] = tensors[-1].unsqueeze(1)
    for index in range(count - 1):
        if tensors[index].shape[1] != tensors[index + 1].shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {index} and {index + 1} with shapes "
                f"{list(tensors[index].shape)} and {list(tensors[index + 1].shape)} "
                "cannot be multiplied"
            )
    split = _best_order([tensors[0].shape[0], *(tensor.shape[1] for tensor in tensors)])

    def chain(first: int, last: int) -> Tensor:
        if first == last:
            return tensors[first]
        middle = split[first, last]
        return _core.mm(chain(first, middle), chain(middle + 1, last))

    result = chain(0, count - 1)
    if row:
        result = result.squeeze(0)
    return _into("multi_dot", result.squeeze(-1) if column else result, out)


@composed(kinds="function out")
def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of matrices in the order that takes the least work."""
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    for matrix in matrices:
        if matrix.dim() != 2:
            raise RuntimeError(f"Tensor dimension is {matrix.dim()}, expected 2 instead.")
    if len(matrices) == 1:
        return matrices[0].clone()
    return multi_dot(matrices)


def _matrix_power(input: Tensor, n: int) -> Tensor:
    if input.dim() < 2:
        raise RuntimeError(
            "linalg.matrix_power: The input tensor A must have at least 2 dimensions."
        )
    rows, columns = input.shape[-2:]
    if rows != columns:
        raise RuntimeError(
            "linalg.matrix_power: A must be batches of square matrices, "
            f"but they are {rows} by {columns} matrices"
        )
    if n < 0:
        raise NotImplementedError(
            f"linalg.matrix_power: the power {n} needs the inverse, which weft does not have yet"
        )
    if n == 0:
        return _core.ops["eye"](rows, dtype=input.dtype).expand(input.shape).clone()
    result: Tensor | None = None
    square = input
    while True:
        if n & 1:
            result = square if result is None else result @ square
        n >>= 1
        if n == 0:
            break
        square = square @ square
    assert result is not None
    return result.clone() if result is input else result


@composed(kinds="function method out")
def matrix_power(input: Tensor, n: int) -> Tensor:
    """The product of ``n`` copies of each square matrix, by repeated squaring."""
    _check_tensors("matrix_power", input=input)
    return _matrix_power(input, n)


@composed("matrix_power", kinds="function out", namespace="linalg")
def linalg_matrix_power(A: Tensor, n: int) -> Tensor:
    """The same as :func:`weft.matrix_power`."""
    _check_tensors("linalg_matrix_power", A=A)
    return _matrix_power(A, n)


@composed(kinds="function method out")
def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product: every element of ``input`` times the whole of ``other``."""
    _check_tensors("kron", input=input, other=other)
    ndim = max(input.dim(), other.dim())
    ours = (1,) * (ndim - input.dim()) + tuple(input.shape)
    theirs = (1,) * (ndim - other.dim()) + tuple(other.shape)
    coarse = [size for s in ours for size in (s, 1)]
    fine = [size for s in theirs for size in (1, s)]
    product = input.reshape(coarse) * other.reshape(fine)
    return product.reshape([a * b for a, b in zip(ours, theirs, strict=True)])


# -- contractions -------------------------------------------------------------------------------


def _contract(left: Tensor, right: Tensor, how: Contraction) -> Tensor:
    """One product of two tensors, as planned: see :mod:`weft.ops._einsum`."""
    if how.left_order is not None:
        left = left.permute(how.left_order)
    if how.left_shape is not None:
        left = left.reshape(how.left_shape)
    if how.right_order is not None:
        right = right.permute(how.right_order)
    if how.right_shape is not None:
        right = right.reshape(how.right_shape)
    result = left * right if how.elementwise else _core.matmul(left, right)
    return result if how.result_shape is None else result.reshape(how.result_shape)


@composed(kinds="function")
def tensordot(
    a: Tensor,
    b: Tensor,
    dims: int | Sequence[Sequence[int]] | Sequence[int] | Tensor = 2,
    out: Tensor | None = None,
) -> Tensor:
    """Sums products over pairs of dimensions.

    ``dims`` is their number (the last of ``a`` with the first of ``b``) or two lists of them.
    """
    _check_tensors("tensordot", a=a, b=b)
    _check_same_dtype(a, b)
    sum_a, sum_b, how = _plan_tensordot(a.shape, b.shape, _hashable_dims(dims))
    if sum_a:
        a = a.sum(sum_a, keepdim=True, dtype=a.dtype)
    if sum_b:
        b = b.sum(sum_b, keepdim=True, dtype=b.dtype)
    return _into("tensordot", _contract(a, b, how), out)


def _hashable_dims(dims: object) -> int | tuple[tuple[int, ...], ...]:
    """A number of dimensions, or a tuple of them for each side."""
    if isinstance(dims, Tensor):
        dims = dims.tolist() if dims.numel() > 1 else int(dims.item())
    if isinstance(dims, list | tuple) and len(dims) == 1 and isinstance(dims[0], int):
        dims = dims[0]
    if isinstance(dims, int):
        return dims
    if not isinstance(dims, list | tuple) or len(dims) != 2:
        raise RuntimeError(f"tensordot expects dims to be an int or two lists of ints, got {dims}")
    return tuple([(side,) if isinstance(side, int) else tuple(side) for side in dims])


@functools.lru_cache(maxsize=1024)
def _plan_tensordot(
    shape_a: tuple[int, ...],
    shape_b: tuple[int, ...],
    dims: int | tuple[tuple[int, ...], ...],
) -> tuple[list[int], list[int], Contraction]:
    """The dimensions of either side to sum first, and the product that remains."""
    dims_a, dims_b = _tensordot_dims(len(shape_a), len(shape_b), dims)
    sizes_a, sizes_b = list(shape_a), list(shape_b)
    sum_a, sum_b = [], []
    for da, db in zip(dims_a, dims_b, strict=True):
        if sizes_a[da] == sizes_b[db]:
            continue
        # A size of one broadcasts: the other side is summed first.
        if sizes_a[da] == 1:
            sum_b.append(db)
            sizes_b[db] = 1
        elif sizes_b[db] == 1:
            sum_a.append(da)
            sizes_a[da] = 1
        else:
            raise RuntimeError(
                "contracted dimensions need to match, but first has size "
                f"{shape_a[da]} in dim {da} and second has size {shape_b[db]} in dim {db}"
            )
    labels_a = list(range(len(shape_a)))
    labels_b = [len(shape_a) + d for d in range(len(shape_b))]
    for da, db in zip(dims_a, dims_b, strict=True):
        labels_b[db] = labels_a[da]
    summed = {labels_a[da] for da in dims_a}
    keep = frozenset(label for label in (*labels_a, *labels_b) if label not in summed)
    how = contraction_of(tuple(labels_a), tuple(sizes_a), tuple(labels_b), tuple(sizes_b), keep)
    return sum_a, sum_b, how


def _tensordot_dims(
    ndim_a: int, ndim_b: int, dims: int | tuple[tuple[int, ...], ...]
) -> tuple[list[int], list[int]]:
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(ndim_a, ndim_b):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        return list(range(ndim_a - dims, ndim_a)), list(range(dims))
    if len(dims[0]) != len(dims[1]):
        raise RuntimeError(
            f"both dimension lists should have same length, got {len(dims[0])} and {len(dims[1])}"
        )
    wrapped = []
    for ndim, side in zip((ndim_a, ndim_b), dims, strict=True):
        positions = [_wrap_dim(d, ndim) for d in side]
        for d in positions:
            if positions.count(d) > 1:
                raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
        wrapped.append(positions)
    return wrapped[0], wrapped[1]


@composed(kinds="function")
def einsum(*args: object) -> Tensor:
    """Sums products of the operands as the equation says.

    ``einsum("bij,bjk->bik", a, b)`` names dimensions by letters; ``...`` stands for any number of
    dimensions that broadcast. ``einsum(a, [0, 1], b, [1, 2], [0, 2])`` names them by numbers.
    """
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, "
            "or at least one operand and its subscripts list"
        )
    equation, operands = _equation_of(args)
    for index, operand in enumerate(operands):
        if not isinstance(operand, Tensor):
            raise TypeError(
                f"expected Tensor as element {index} in argument 1, "
                f"but got {type(operand).__name__}"
            )
    plan = plan_einsum(equation, tuple([operand.shape for operand in operands]))
    result: Tensor | None = None
    for operand, ready, contraction in zip(
        operands, plan.preparations, plan.contractions, strict=True
    ):
        if ready is not None:
            for first, second in ready.diagonals:
                operand = operand.diagonal(0, first, second)
            if ready.dropped:
                operand = operand.squeeze(ready.dropped)
            if ready.summed:
                operand = operand.sum(ready.summed)
        if contraction is None or result is None:
            result = operand
        else:
            result = _contract(result, operand, contraction)
    assert result is not None
    if plan.result_order is not None:
        result = result.permute(plan.result_order)
    return result


def _equation_of(args: tuple[object, ...]) -> tuple[str, list[Any]]:
    if isinstance(args[0], str):
        operands = list(args[1:])
        if len(operands) == 1 and isinstance(operands[0], list | tuple):
            operands = list(operands[0])
        return args[0], operands
    # operand, subscripts, operand, subscripts, ..., and perhaps the result's subscripts
    terms = [_letters(subscripts) for subscripts in args[1::2]]
    equation = ",".join(terms)
    if len(args) % 2:
        equation += "->" + _letters(args[-1])
    return equation, list(args[: len(args) // 2 * 2 : 2])


def _letters(subscripts: object) -> str:
    if not isinstance(subscripts, list | tuple):
        raise TypeError(
            "einsum(): each operand must be followed by the list of its subscripts, "
            f"got {type(subscripts).__name__}"
        )
    text = ""
    for item in subscripts:
        if item is Ellipsis:
            text += "..."
        elif not 0 <= operator.index(item) < 52:
            raise ValueError(
                f"einsum(): subscript {item} in subscript list is not within the valid range "
                "[0, 52)"
            )
        else:
            text += chr(ord("A") + item) if item < 26 else chr(ord("a") + item - 26)
    return text


# -- layers -------------------------------------------------------------------------------------


@composed(kinds="function")
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input1 @ weight[o] @ input2`` for every output o, over all leading dimensions."""
    _check_tensors("bilinear", input1=input1, input2=input2, weight=weight)
    if input1.dim() != input2.dim():
        raise RuntimeError(
            f"bilinear(): input dimensions do not match: got {input1.dim()} and {input2.dim()}"
        )
    for dim in range(input1.dim() - 1):
        if input1.shape[dim] != input2.shape[dim]:
            raise RuntimeError(
                f"bilinear(): input batch dimensions do not match at dim {dim}: "
                f"got {input1.shape[dim]} and {input2.shape[dim]}"
            )
    for number, given, position in ((1, input1, 1), (2, input2, 2)):
        if given.shape[-1] != weight.shape[position]:
            raise RuntimeError(
                f"bilinear(): input{number} size does not match weight size: "
                f"got {given.shape[-1]} but expected {weight.shape[position]}"
            )
    outputs = weight.shape[0]
    if bias is not None and bias.shape[0] != outputs:
        raise RuntimeError(
            "bilinear(): bias size does not match weight size: "
            f"got {bias.shape[0]} but expected {outputs}"
        )
    size = [*input1.shape[:-1], outputs]
    rows = math.prod(input1.shape[:-1])
    first = input1.reshape(rows, input1.shape[-1])
    second = input2.reshape(rows, input2.shape[-1], 1)
    folded = weight.transpose(0, 1).reshape(weight.shape[1], outputs * weight.shape[2])
    half_way = _core.mm(first, folded).reshape(rows, outputs, weight.shape[2])
    result = _core.bmm(half_way, second).reshape(size)
    return result if bias is None else result + bias


alias("bilinear", "bilinear", namespace="nn.functional")
