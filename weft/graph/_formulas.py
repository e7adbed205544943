"""The chain rule's formula for each operation, as it is shown beside a node.

``g`` is the gradient that comes in (``g0``, ``g1`` where an operation has several results), ``y``
the result. Gradients of broadcast arguments are summed over the dimensions that were broadcast;
that is the same everywhere and is not repeated. An operation that is not listed is shown by name.
"""

from __future__ import annotations

# Operation: argument: the gradient with respect to that argument.
FORMULAS: dict[str, dict[str, str]] = {
    # arithmetic
    "add": {"self": "g", "other": "alpha · g"},
    "sub": {"self": "g", "other": "−alpha · g"},
    "mul": {"self": "g · other", "other": "g · self"},
    "div": {"self": "g / other", "other": "−g · self / other²"},
    "neg": {"self": "−g"},
    "square": {"self": "2 · g · self"},
    "pow": {"self": "g · exponent · self^(exponent − 1)", "exponent": "g · y · log(self)"},
    "hypot": {"self": "g · self / y", "other": "g · other / y"},
    "atan2": {
        "self": "g · other / (self² + other²)",
        "other": "−g · self / (self² + other²)",
    },
    "lerp": {"self": "g · (1 − weight)", "end": "g · weight", "weight": "g · (end − self)"},
    "addcmul": {
        "self": "g",
        "tensor1": "g · value · tensor2",
        "tensor2": "g · value · tensor1",
    },
    "addcdiv": {
        "self": "g",
        "tensor1": "g · value / tensor2",
        "tensor2": "−g · value · tensor1 / tensor2²",
    },
    "reciprocal": {"self": "−g · y²"},
    "abs": {"self": "g · sign(self)"},
    # functions of one number
    "sqrt": {"self": "g / (2 · y)"},
    "rsqrt": {"self": "−g · y³ / 2"},
    "exp": {"self": "g · y"},
    "exp2": {"self": "g · y · log 2"},
    "expm1": {"self": "g · (y + 1)"},
    "log": {"self": "g / self"},
    "log2": {"self": "g / (self · log 2)"},
    "log10": {"self": "g / (self · log 10)"},
    "log1p": {"self": "g / (1 + self)"},
    "sin": {"self": "g · cos(self)"},
    "cos": {"self": "−g · sin(self)"},
    "tan": {"self": "g · (1 + y²)"},
    "asin": {"self": "g / √(1 − self²)"},
    "acos": {"self": "−g / √(1 − self²)"},
    "atan": {"self": "g / (1 + self²)"},
    "sinh": {"self": "g · cosh(self)"},
    "cosh": {"self": "g · sinh(self)"},
    "tanh": {"self": "g · (1 − y²)"},
    "asinh": {"self": "g / √(self² + 1)"},
    "acosh": {"self": "g / √(self² − 1)"},
    "atanh": {"self": "g / (1 − self²)"},
    "erf": {"self": "g · (2/√π) · exp(−self²)"},
    "erfc": {"self": "−g · (2/√π) · exp(−self²)"},
    # activations
    "sigmoid": {"self": "g · y · (1 − y)"},
    "relu": {"self": "g where y > 0, else 0"},
    "leaky_relu": {"input": "g where input > 0, else negative_slope · g"},
    "silu": {"input": "g · σ(input) · (1 + input · (1 − σ(input)))"},
    "softplus": {"input": "g · σ(beta · input)"},
    "logsigmoid": {"input": "g · σ(−input)"},
    "gelu": {"input": "g · (Φ(input) + input · φ(input))"},
    "hardtanh": {"input": "g where min_val < input < max_val, else 0"},
    "softmax": {"self": "y · (g − sum(g · y, dim))"},
    "log_softmax": {"self": "g − exp(y) · sum(g, dim)"},
    # choices
    "where": {"self": "g where condition, else 0", "other": "0 where condition, else g"},
    "maximum": {"self": "g where self > other (g/2 at ties)", "other": "the rest of g"},
    "minimum": {"self": "g where self < other (g/2 at ties)", "other": "the rest of g"},
    "clamp": {"self": "g inside the limits, else 0"},
    "clamp_min": {"self": "g where self ≥ min, else 0"},
    "clamp_max": {"self": "g where self ≤ max, else 0"},
    "masked_fill": {"self": "0 where mask, else g", "value": "sum(g where mask)"},
    # products
    "mm": {"self": "g @ mat2ᵀ", "mat2": "selfᵀ @ g"},
    "bmm": {"self": "g @ mat2ᵀ", "mat2": "selfᵀ @ g"},
    "matmul": {"self": "g @ otherᵀ", "other": "selfᵀ @ g"},
    "mv": {"self": "g ⊗ vec", "vec": "selfᵀ @ g"},
    "dot": {"self": "g · tensor", "tensor": "g · self"},
    "addmm": {"self": "beta · g", "mat1": "alpha · g @ mat2ᵀ", "mat2": "alpha · mat1ᵀ @ g"},
    "linear": {"input": "g @ weight", "weight": "gᵀ @ input", "bias": "sum(g, rows)"},
    "matrix_product": {"self": "g @ otherᵀ", "other": "selfᵀ @ g"},
    "convolve": {
        "input": "g convolved with weight, transposed",
        "weight": "input convolved with g",
        "bias": "g, summed over all but the channels",
    },
    "convolve_transposed": {
        "input": "g convolved with weight",
        "weight": "g convolved with input",
        "bias": "g, summed over all but the channels",
    },
    "attention": {
        "query": "scale · dS @ key, with dS = P · (dP − sum(dP · P)), dP = g @ valueᵀ",
        "key": "scale · dSᵀ @ query",
        "value": "Pᵀ @ g, with P = softmax(scale · query @ keyᵀ)",
    },
    # normalisation: x̂ is the normalised input, σ its standard deviation, h = g · weight
    "row_norm": {
        "input": "(h − mean(h) − x̂ · mean(h · x̂)) / σ",
        "weight": "sum(g · x̂)",
        "bias": "sum(g)",
    },
    "rms_norm": {
        "input": "(h − x̂ · mean(h · x̂)) / σ, with σ = √mean(input²)",
        "weight": "sum(g · x̂)",
    },
    "batch_norm": {  # by running statistics
        "input": "h / σ",
        "weight": "sum(g · x̂)",
        "bias": "sum(g)",
    },
    "batch_norm_forward": {
        "input": "(h − mean(h) − x̂ · mean(h · x̂)) / σ",
        "weight": "sum(g · x̂)",
        "bias": "sum(g)",
    },
    # reductions
    "sum": {"self": "g, repeated over what was summed"},
    "mean": {"self": "g / n, repeated over the n averaged"},
    "prod": {"self": "g · y / self"},
    "logsumexp": {"self": "g · exp(self − y)"},
    "var_mean": {"self": "2 · g0 · (self − mean(self)) / (n − correction) + g1 / n"},
    "std_mean": {"self": "g0 · (self − mean(self)) / (y · (n − correction)) + g1 / n"},
    "amax": {"self": "g at the largest, shared equally at ties"},
    "amin": {"self": "g at the smallest, shared equally at ties"},
    "max": {"self": "g at the largest, else 0"},
    "min": {"self": "g at the smallest, else 0"},
    "linalg_vector_norm": {"self": "g · self / y, for the 2-norm"},
    "max_windows": {"input": "g at the largest of each window, else 0"},
    "average_windows": {"input": "g / n, at each of the n in the window"},
    "average_adaptive": {"input": "g / n, at each of the n in the window"},
    "cumsum": {"self": "the reversed cumulative sum of g"},
    # losses
    "mse_loss": {"self": "2 · g · (self − target) / n", "target": "2 · g · (target − self) / n"},
    "nll_loss_forward": {"self": "−g0 · weight / (sum of weights) at target, else 0"},
    # the same numbers in another arrangement
    "view": {"self": "g, with the shape of self"},
    "reshape": {"self": "g, with the shape of self"},
    "flatten": {"self": "g, with the shape of self"},
    "squeeze": {"self": "g, with the shape of self"},
    "unsqueeze": {"self": "g, with the shape of self"},
    "t": {"self": "gᵀ"},
    "transpose": {"self": "g, with dim0 and dim1 exchanged"},
    "permute": {"self": "g, with the dimensions put back"},
    "expand": {"self": "g, summed over what was repeated"},
    "broadcast_to": {"self": "g, summed over what was repeated"},
    "im2col": {"input": "g, added where each window came from"},
    "resample": {"input": "g, shared out by the same weights"},
    "clone": {"self": "g"},
    "alias": {"self": "g"},
    "contiguous": {"self": "g"},
    "cast": {"self": "g, in the dtype of self"},
    "flip": {"self": "g, flipped back"},
    "select": {"self": "g at the selected place, else 0"},
    "slice": {"self": "g inside the slice, else 0"},
    "narrow": {"self": "g inside the slice, else 0"},
    "basic_index": {"self": "g at the indexed places, else 0"},
    "index": {"self": "g added at the indexed places, else 0"},
    "gather": {"self": "g added at index, else 0"},
    "index_select": {"self": "g added at index, else 0"},
    "embedding": {"weight": "g added to the rows that were looked up"},
    "copy": {"self": "0", "src": "g"},
    "copy_slices": {"self": "g, but 0 where it was written to", "src": "g where it was written to"},
    "cat_parts": {"tensors": "the part of g that came from this tensor"},
    "stack": {"tensors": "the part of g that came from this tensor"},
    "split": {"self": "the gradients of the parts, joined"},
    "unbind": {"self": "the gradients of the parts, stacked"},
}

# Colours and captions of the page go by family.
_FAMILIES: dict[str, str] = {
    "product": (
        "mm bmm mv dot vdot addmm addmv addbmm baddbmm matmul linear matrix_product sum_of_outer "
        "linear_scan convolve convolve_transposed convolve_weight attention attention_weights"
    ),
    "activation": (
        "sigmoid relu relu6 leaky_relu elu silu gelu gelu_tanh softplus logsigmoid hardtanh tanh "
        "glu softmax log_softmax lstm_update gru_update"
    ),
    "normalisation": "row_norm batch_norm",
    "reduction": (
        "sum mean prod logsumexp var std amax amin max min median linalg_vector_norm cumsum "
        "cumprod nansum std_mean var_mean kthvalue topk sort logcumsumexp cummax cummin all any "
        "running_sum running_product max_windows average_windows max_adaptive average_adaptive "
        "nuclear_norm"
    ),
    "loss": "mse_loss cross_entropy nll_loss binary_cross_entropy",
    "shape": (
        "view reshape flatten unflatten squeeze unsqueeze t transpose permute expand broadcast_to "
        "clone alias contiguous cast flip roll select slice narrow basic_index index gather "
        "index_select embedding cat cat_parts stack split split_with_sizes chunk unbind diagonal "
        "diag_embed tril triu as_strided unfold repeat copy copy_slices detach movedim scatter "
        "scatter_add index_put constant_pad_nd take index_add masked_select where shift_along "
        "select_scatter slice_scatter view_gradient im2col col2im resample masked_fill "
        "index_fill index_copy put_at_indices add_at_indices take_at_indices masked_scatter"
    ),
}
_FAMILY_OF = {name: family for family, names in _FAMILIES.items() for name in names.split()}


def family(operation: str) -> str:
    """One of the families above; a derivative's is that of its operation; else elementwise."""
    if operation == "leaf":
        return "leaf"
    for ending in ("", "_grad", "_forward"):
        found = _FAMILY_OF.get(operation.removesuffix(ending))
        if found:
            return found
    return "elementwise"


# Operations whose formula is another one unless a setting says so.
_UNLESS = {
    "row_norm": ("centered=True", "rms_norm"),
    "batch_norm_forward": ("training=True", "batch_norm"),
}


def formula(operation: str, argument: str, settings: str) -> str:
    """The gradient with respect to one argument, or "" where none is written down."""
    setting, other = _UNLESS.get(operation, ("", operation))
    text = FORMULAS.get(operation if setting in settings else other, {}).get(argument, "")
    if operation in ("add", "sub") and "alpha" not in settings:
        text = text.replace("alpha · ", "").replace("−alpha", "−")
    return text
