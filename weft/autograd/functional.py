"""Derivatives of a function as a whole: products with its Jacobian or Hessian, or these matrices.

All of it is reverse mode. A product with the Jacobian *from the right* (`jvp`) comes from two
backward passes: the vector-Jacobian product `u -> u J` is linear in `u`, so differentiating it with
respect to `u` and contracting with `v` gives `J v`, whatever `u` was.

In strict mode a result that is zero only because there is no path at all is an error, because it
usually means that a graph was cut by mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft._core import Tensor

Tensors = tuple[Tensor, ...]
MaybeTensors = Tensor | Tensors
Function = Callable[..., Any]


def _as_tuple(value: Any, argument: str, function: str) -> tuple[bool, Tensors]:
    """Whether `value` was a tuple, and its tensors as one."""
    was_tuple = isinstance(value, tuple)
    tensors = value if was_tuple else (value,)
    for i, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            place = f"the value at index {i} has type" if was_tuple else "it has type"
            raise TypeError(
                f"The {argument} given to {function} must be either a Tensor or a tuple of "
                f"Tensors but {place} {type(tensor)}."
            )
    return was_tuple, tensors


def _outputs_of(func: Function, inputs: Tensors, function: str) -> tuple[bool, Tensors]:
    return _as_tuple(func(*inputs), "outputs of the user-provided function", function)


def _scalar_of(func: Function, inputs: Tensors, function: str, strict: bool) -> Tensor:
    """The single number that `func` has to return, as its tensor."""
    was_tuple, outputs = _outputs_of(func, inputs, function)
    if was_tuple:
        raise RuntimeError(
            f"The function given to {function} should return a single Tensor, "
            f"but it returned a tuple of {len(outputs)}."
        )
    if outputs[0].numel() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {function} should contain a single "
            f"element, but its shape is {tuple(outputs[0].shape)}."
        )
    if strict:
        _require_differentiable(outputs)
    return outputs[0]


def _own(tensors: Tensors, create_graph: bool, requires_grad: bool) -> Tensors:
    """Tensors to differentiate with respect to, without touching the caller's.

    With `create_graph` they stay connected to the caller's tensors that require grad.
    """
    return tuple(
        tensor.view_as(tensor)
        if create_graph and tensor.requires_grad
        else tensor.detach().requires_grad_(requires_grad)
        for tensor in tensors
    )


def _results(tensors: Tensors, create_graph: bool) -> Tensors:
    return tensors if create_graph else tuple(tensor.detach() for tensor in tensors)


def _repack(tensors: Sequence[Any], as_tuple: bool) -> Any:
    return tuple(tensors) if as_tuple else tensors[0]


def _checked_vector(v: Any, like: Tensors, function: str, like_is_tuple: bool) -> Tensors:
    """`v` as a tuple, matched against the tensors it is multiplied with."""
    _, vectors = _as_tuple(v, "v", function)
    if len(vectors) != len(like):
        if like_is_tuple:
            raise RuntimeError(
                f"{function}: v is a tuple of invalid length: should be {len(like)} "
                f"but got {len(vectors)}."
            )
        raise RuntimeError(f"{function}: the given v should contain a single Tensor.")
    for i, (vector, tensor) in enumerate(zip(vectors, like, strict=True)):
        if vector.shape != tensor.shape:
            entry = f"entry {i} in " if like_is_tuple else ""
            raise RuntimeError(
                f"{function}: {entry}v has invalid size: should be {tensor.shape} "
                f"but got {vector.shape}."
            )
    return vectors


def _vector_or_one(
    v: Any, like: Tensors, function: str, like_is_tuple: bool, create_graph: bool, subject: str
) -> Tensors:
    """The given `v`; the number 1 where there is none and `like` is a single number."""
    if v is not None:
        vectors = _checked_vector(v, like, function, like_is_tuple)
        return _own(vectors, create_graph, requires_grad=False)
    if len(like) != 1 or like[0].numel() != 1:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in like)
        raise RuntimeError(
            f"{function}: the vector v can only be None if {subject} is a single Tensor with a "
            f"single element, but the shapes are: {shapes}. Pass v of the same shapes."
        )
    return (weft.ones_like(like[0], requires_grad=False),)


def _grad(
    outputs: Sequence[Tensor],
    inputs: Tensors,
    grad_outputs: Sequence[Tensor],
    create_graph: bool = False,
    retain_graph: bool | None = None,
) -> tuple[Tensor | None, ...]:
    """`autograd.grad` that takes outputs without history for what they are: constants."""
    recorded = [
        (output, grad_output)
        for output, grad_output in zip(outputs, grad_outputs, strict=True)
        if output.requires_grad
    ]
    if not recorded:
        return (None,) * len(inputs)
    gradients: tuple[Tensor | None, ...] = weft.autograd.grad(
        [output for output, _ in recorded],
        inputs,
        [grad_output for _, grad_output in recorded],
        allow_unused=True,
        create_graph=create_graph,
        retain_graph=retain_graph,
    )
    return gradients


def _require_differentiable(outputs: Tensors) -> None:
    for i, output in enumerate(outputs):
        if not output.requires_grad:
            raise RuntimeError(
                f"Output {i} of the user-provided function does not require gradients. The "
                "outputs must be computed in a differentiable manner from the input when running "
                "in strict mode."
            )


def _filled(
    gradients: Sequence[Tensor | None],
    like: Tensors,
    strict: bool,
    create_graph: bool,
    what: str,
    of: str = "input",
) -> Tensors:
    """The gradients with zeros where there is no path; in strict mode that is an error.

    `what` names what was differentiated, for the message.
    """
    filled = []
    for i, (gradient, tensor) in enumerate(zip(gradients, like, strict=True)):
        if gradient is None:
            if strict:
                raise RuntimeError(
                    f"{what} is independent of {of} {i}. This is not allowed in strict mode."
                )
            gradient = weft.zeros_like(tensor, requires_grad=False)
        elif strict and create_graph and not gradient.requires_grad:
            raise RuntimeError(
                f"The derivative of {what[0].lower()}{what[1:]} with respect to {of} {i} is "
                "independent of the inputs. This is not allowed in strict mode when "
                "create_graph=True."
            )
        filled.append(gradient)
    return tuple(filled)


_FUNCTION = "The output of the user-provided function"
_JACOBIAN = "The jacobian of the user-provided function"


def vjp(
    func: Function,
    inputs: MaybeTensors,
    v: MaybeTensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The outputs of `func` and the product of `v` with its Jacobian, `v J`.

    Args:
        func: takes tensors, returns a tensor or a tuple of tensors.
        inputs: the tensor or the tuple of tensors to call it with.
        v: as many tensors as `func` returns, of the same shapes; may be left out if `func`
            returns a single number.
        create_graph: whether the results can be differentiated themselves.
        strict: raise if an output does not depend on any input, or an input is not used.

    Returns:
        `(outputs, product)`; the product is a tuple where `inputs` is one.
    """
    with weft.enable_grad():
        inputs_are_tuple, given = _as_tuple(inputs, "inputs", "vjp")
        own = _own(given, create_graph, requires_grad=True)
        outputs_are_tuple, outputs = _outputs_of(func, own, "vjp")
        if strict:
            _require_differentiable(outputs)
        vectors = _vector_or_one(
            v, outputs, "vjp", outputs_are_tuple, create_graph, "the output of the function"
        )
        gradients = _grad(outputs, own, vectors, create_graph)
        product = _filled(gradients, own, strict, create_graph, _FUNCTION)
    return (
        _repack(_results(outputs, create_graph), outputs_are_tuple),
        _repack(_results(product, create_graph), inputs_are_tuple),
    )


def _transposed(
    outputs: Sequence[Tensor], inputs: Tensors, strict: bool
) -> tuple[Tensors, Tensors]:
    """The vector-Jacobian product as a recorded function of its vector `u`.

    Returns the `u` (one per output) and `u J` (one per input).
    """
    vectors = tuple(weft.zeros_like(output, requires_grad=True) for output in outputs)
    gradients = _grad(outputs, inputs, vectors, create_graph=True)
    return vectors, _filled(gradients, inputs, strict, True, _FUNCTION)


def jvp(
    func: Function,
    inputs: MaybeTensors,
    v: MaybeTensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The outputs of `func` and the product of its Jacobian with `v`, `J v`.

    The arguments are those of `vjp`, but `v` is like the inputs, and may be left out if the input
    is a single number. The product is a tuple where `func` returns one.
    """
    with weft.enable_grad():
        inputs_are_tuple, given = _as_tuple(inputs, "inputs", "jvp")
        own = _own(given, create_graph, requires_grad=True)
        vectors = _vector_or_one(
            v, given, "jvp", inputs_are_tuple, create_graph, "the input of the function"
        )
        outputs_are_tuple, outputs = _outputs_of(func, own, "jvp")
        if strict:
            _require_differentiable(outputs)
        dummies, transposed = _transposed(outputs, own, strict)
        gradients = _grad(transposed, dummies, vectors, create_graph)
        product = _filled(gradients, outputs, strict, create_graph, _JACOBIAN, "output")
    return (
        _repack(_results(outputs, create_graph), outputs_are_tuple),
        _repack(_results(product, create_graph), outputs_are_tuple),
    )


def _one_hot(like: Tensor, position: int) -> Tensor:
    flat = weft.zeros(like.numel(), dtype=like.dtype, device=like.device)
    flat[position] = 1
    return flat.reshape(like.shape)


def _jacobian_by_rows(
    outputs: Tensors, inputs: Tensors, create_graph: bool, strict: bool
) -> list[Tensors]:
    """For each output, its Jacobian with respect to each input: a backward pass per element."""
    blocks = []
    for i, output in enumerate(outputs):
        rows: list[list[Tensor]] = [[] for _ in inputs]
        for position in range(output.numel()):
            gradients = _grad(
                (output,), inputs, (_one_hot(output, position),), create_graph, retain_graph=True
            )
            what = f"Output {i} of the user-provided function"
            row = _filled(gradients, inputs, strict, create_graph, what)
            for column, part in zip(rows, row, strict=True):
                column.append(part)
        blocks.append(
            tuple(
                weft.stack(column).reshape(output.shape + tensor.shape)
                if column
                else output.new_zeros(output.shape + tensor.shape)
                for column, tensor in zip(rows, inputs, strict=True)
            )
        )
    return blocks


def _jacobian_by_columns(outputs: Tensors, inputs: Tensors) -> list[Tensors]:
    """The same, with a pass per element of the inputs: better where these are the fewer."""
    dummies, transposed = _transposed(outputs, inputs, strict=False)
    blocks: list[list[Tensor]] = [[] for _ in outputs]
    for i, tensor in enumerate(inputs):
        columns: list[list[Tensor]] = [[] for _ in outputs]
        for position in range(tensor.numel()):
            gradients = _grad(
                (transposed[i],), dummies, (_one_hot(tensor, position),), retain_graph=True
            )
            derivatives = _filled(gradients, outputs, False, False, _JACOBIAN)
            for column, part in zip(columns, derivatives, strict=True):
                column.append(part)
        for block, column, output in zip(blocks, columns, outputs, strict=True):
            shape = output.shape + tensor.shape
            if column:
                block.append(weft.stack(column, dim=-1).reshape(shape))
            else:
                block.append(output.new_zeros(shape))
    return [tuple(block) for block in blocks]


def _check_strategy(
    function: str, strategy: str, create_graph: bool, strict: bool, vectorize: bool
) -> None:
    """Refuses the same combinations as PyTorch, so that code runs on both or on neither."""
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            f'{function}: expected strategy to be either "forward-mode" or "reverse-mode", '
            f"got {strategy!r}. Forward mode is the better one for functions of more outputs than "
            "inputs."
        )
    if strict and (vectorize or strategy == "forward-mode"):
        other = "vectorize=True" if vectorize else 'strategy="forward-mode"'
        raise RuntimeError(
            f"{function}: strict=True and {other} are not supported together. Set strict=False "
            'or use vectorize=False, strategy="reverse-mode".'
        )
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError(
                f'{function}: create_graph=True and strategy="forward-mode" are not supported '
                'together. Set create_graph=False or strategy="reverse-mode".'
            )
        if not vectorize:
            raise NotImplementedError(
                f'{function}: strategy="forward-mode" is only implemented for vectorize=True.'
            )


def jacobian(
    func: Function,
    inputs: MaybeTensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of `func` at `inputs`.

    For one input and one output it is a tensor of shape `output.shape + input.shape`. A tuple of
    inputs gives a tuple of these, a tuple of outputs a tuple with such an entry per output:
    `jacobian(...)[output][input]`.

    Args:
        func: takes tensors, returns a tensor or a tuple of tensors.
        inputs: the tensor or the tuple of tensors to call it with.
        create_graph: whether the result can be differentiated itself.
        strict: raise if an output does not depend on an input.
        vectorize: accepted; the result is the same.
        strategy: "reverse-mode" takes a pass per element of the outputs, "forward-mode" (with
            vectorize=True) one per element of the inputs.
    """
    _check_strategy("jacobian", strategy, create_graph, strict, vectorize)
    with weft.enable_grad():
        inputs_are_tuple, given = _as_tuple(inputs, "inputs", "jacobian")
        own = _own(given, create_graph, requires_grad=True)
        outputs_are_tuple, outputs = _outputs_of(func, own, "jacobian")
        if strict:
            _require_differentiable(outputs)
        if strategy == "forward-mode":
            blocks = _jacobian_by_columns(outputs, own)
        else:
            blocks = _jacobian_by_rows(outputs, own, create_graph, strict)
    per_output = [_repack(_results(block, create_graph), inputs_are_tuple) for block in blocks]
    return _repack(per_output, outputs_are_tuple)


def _with_gradient(func: Function, own: Tensors, name: str, strict: bool) -> tuple[Tensor, Tensors]:
    """The number `func` returns, and its recorded gradient."""
    output = _scalar_of(func, own, name, strict)
    found = _grad((output,), own, (weft.ones_like(output),), create_graph=True)
    return output, _filled(found, own, strict, False, _FUNCTION)


def hessian(
    func: Function,
    inputs: MaybeTensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of `func`, which returns a single number, at `inputs`.

    For one input it is a tensor of shape `input.shape + input.shape`; for a tuple of inputs a
    tuple of tuples, `hessian(...)[i][j]` of shape `inputs[i].shape + inputs[j].shape`.

    The arguments are those of `jacobian`; `outer_jacobian_strategy` is the way in which the
    gradient is differentiated once more.
    """
    _check_strategy("hessian", outer_jacobian_strategy, create_graph, strict, vectorize)
    inputs_are_tuple, given = _as_tuple(inputs, "inputs", "hessian")

    def gradient(*own: Tensor) -> Tensors:
        _, rows = _with_gradient(func, own, "hessian", strict)
        if strict:
            for i, row in enumerate(rows):
                if not row.requires_grad:
                    raise RuntimeError(
                        "The jacobian of the user-provided function with respect to input "
                        f"{i} is independent of the inputs. This is not allowed in strict mode, "
                        "as a linear function has no hessian to speak of."
                    )
        return rows

    blocks = jacobian(gradient, given, create_graph, strict, vectorize, outer_jacobian_strategy)
    return blocks if inputs_are_tuple else blocks[0][0]


def vhp(
    func: Function,
    inputs: MaybeTensors,
    v: MaybeTensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The output of `func` (a single number) and the product of `v` with its Hessian, `v H`.

    The arguments are those of `jvp`. This is the cheaper one of `vhp` and `hvp`, which are equal
    wherever the second derivatives are continuous.
    """
    with weft.enable_grad():
        inputs_are_tuple, given = _as_tuple(inputs, "inputs", "vhp")
        own = _own(given, create_graph, requires_grad=True)
        vectors = _vector_or_one(
            v, given, "vhp", inputs_are_tuple, create_graph, "the input of the function"
        )
        output, gradient = _with_gradient(func, own, "vhp", strict)
        found = _grad(gradient, own, vectors, create_graph)
        product = _filled(found, own, strict, create_graph, _JACOBIAN)
    return (
        _results((output,), create_graph)[0],
        _repack(_results(product, create_graph), inputs_are_tuple),
    )


def hvp(
    func: Function,
    inputs: MaybeTensors,
    v: MaybeTensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The output of `func` (a single number) and the product of its Hessian with `v`, `H v`.

    The arguments are those of `jvp`.
    """
    with weft.enable_grad():
        inputs_are_tuple, given = _as_tuple(inputs, "inputs", "hvp")
        own = _own(given, create_graph, requires_grad=True)
        vectors = _vector_or_one(
            v, given, "hvp", inputs_are_tuple, create_graph, "the input of the function"
        )
        output, gradient = _with_gradient(func, own, "hvp", strict)
        dummies = tuple(weft.zeros_like(tensor, requires_grad=True) for tensor in own)
        rows = _filled(
            _grad(gradient, own, dummies, create_graph=True), own, strict, False, _JACOBIAN
        )
        found = _grad(rows, dummies, vectors, create_graph)
        product = _filled(
            found, own, strict, create_graph, "The hessian of the user-provided function"
        )
    return (
        _results((output,), create_graph)[0],
        _repack(_results(product, create_graph), inputs_are_tuple),
    )
