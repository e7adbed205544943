"""Golden messages: what PyTorch's class of exception says of the common mistakes.

Each case is a mistake and the fragments its message must hold: the operation, the arguments' shapes
and dtypes, and the cure. `<<mistake>>` marks the line that the message or the traceback must name.
Fragments are given, not whole texts, so that a sentence may be improved.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from ._target import weft, weft_only

pytestmark = weft_only


@dataclasses.dataclass(frozen=True)
class Mistake:
    make: Callable[[], Any]
    error: type[BaseException]
    fragments: tuple[str, ...]


MISTAKES: dict[str, Mistake] = {}


def mistake(error: type[BaseException], *fragments: str) -> Callable[[Callable[[], Any]], Any]:
    """Fragments are regular expressions, looked for without regard to case."""

    def register(make: Callable[[], Any]) -> Callable[[], Any]:
        MISTAKES[make.__name__] = Mistake(make, error, fragments)
        return make

    return register


def leaf(*shape: int) -> Any:
    return weft.ones(*shape, requires_grad=True)


def marked_lines(function: Callable[[], Any], mark: str) -> list[int]:
    """Line numbers of `# <<mark>>` in a function's source."""
    lines, first = inspect.getsourcelines(function)
    return [first + i for i, line in enumerate(lines) if f"<<{mark}>>" in line]


# -- shapes ---------------------------------------


@mistake(RuntimeError, r"add", r"\[?2, 3\]?", r"4", r"broadcast|match|size")
def shapes_that_do_not_broadcast() -> None:
    weft.ones(2, 3) + weft.ones(4)  # <<mistake>>


@mistake(RuntimeError, r"matmul|mm|@", r"2.{0,3}3", r"4.{0,3}5")
def matrices_that_do_not_fit() -> None:
    weft.ones(2, 3) @ weft.ones(4, 5)  # <<mistake>>


@mistake(RuntimeError, r"linear", r"2.{0,3}3", r"4.{0,3}5")
def a_layer_fed_with_the_wrong_width() -> None:
    weft.nn.functional.linear(weft.ones(2, 3), weft.ones(4, 5))  # <<mistake>>


@mistake(RuntimeError, r"view|reshape", r"2, 3", r"4")
def a_view_of_another_size() -> None:
    weft.ones(2, 3).view(4)  # <<mistake>>


@mistake(RuntimeError, r"view", r"reshape")
def a_view_across_strides() -> None:
    weft.ones(2, 3).t().view(6)  # <<mistake>>


@mistake(RuntimeError, r"view|reshape", r"-1")
def two_unknown_sizes() -> None:
    weft.ones(6).view(-1, -1)  # <<mistake>>


@mistake(RuntimeError, r"cat", r"2, 3", r"4, 4")
def joining_what_does_not_fit() -> None:
    weft.cat([weft.ones(2, 3), weft.ones(4, 4)])  # <<mistake>>


@mistake(RuntimeError, r"stack", r"2", r"3", r"cat|equal|same")
def stacking_unequal_shapes() -> None:
    weft.stack([weft.ones(2), weft.ones(3)])  # <<mistake>>


@mistake(IndexError, r"dim", r"-2.{0,10}1", r"5")
def a_dimension_that_is_not_there() -> None:
    weft.ones(2, 3).sum(dim=5)  # <<mistake>>


@mistake(RuntimeError, r"dim", r"once|twice|multiple|repeat|duplicate|appears")
def a_dimension_given_twice() -> None:
    weft.ones(2, 3).sum(dim=(0, 0))  # <<mistake>>


@mistake(RuntimeError, r"expand", r"2, 3")
def expanding_what_is_not_one() -> None:
    weft.ones(2, 3).expand(2, 6)  # <<mistake>>


@mistake(RuntimeError, r"out", r"2", r"broadcast|size|shape")
def writing_more_than_fits() -> None:
    target = weft.zeros(2)
    target += weft.ones(3, 2)  # <<mistake>>


# -- indices ---------------------------------------


@mistake(IndexError, r"index 5", r"size 3|0", r"out of|range|bounds")
def an_index_out_of_range() -> None:
    weft.ones(3)[5]  # <<mistake>>


@mistake(IndexError, r"too many indices", r"1|2")
def too_many_indices() -> None:
    weft.ones(3)[0, 0]  # <<mistake>>


@mistake(IndexError, r"7", r"3", r"out of|range|bounds")
def a_tensor_index_out_of_range() -> None:
    weft.ones(3)[weft.tensor([0, 7])]  # <<mistake>>


@mistake(IndexError, r"mask", r"2", r"3")
def a_mask_of_another_shape() -> None:
    weft.ones(3)[weft.tensor([True, False])]  # <<mistake>>


@mistake(IndexError, r"int|long|bool", r"float")
def indexing_with_floats() -> None:
    weft.ones(3)[weft.tensor([0.0])]  # <<mistake>>


@mistake(RuntimeError, r"gather", r"int64|long|index", r"float32|float")
def gathering_with_floats() -> None:
    weft.gather(weft.ones(2, 2), 0, weft.zeros(2, 2))  # <<mistake>>


@mistake(IndexError, r"7", r"3|class", r"out of|range|bounds|target")
def a_label_that_is_no_class() -> None:
    weft.nn.functional.cross_entropy(weft.ones(2, 3), weft.tensor([0, 7]))  # <<mistake>>


@mistake(ValueError, r"step", r"-1|positive|greater", r"flip|negative|positive|greater")
def a_negative_step() -> None:
    weft.arange(4)[::-1]  # <<mistake>>


# -- dtypes ---------------------------------------


@mistake(RuntimeError, r"float32|float", r"float64|double", r"matmul|mm|dtype", r"\.to\(|float\(\)")
def products_of_two_precisions() -> None:
    weft.ones(2, 2) @ weft.ones(2, 2, dtype=weft.float64)  # <<mistake>>


@mistake(RuntimeError, r"float", r"int64|long", r"add_|in-place|result type|cast")
def adding_a_fraction_to_integers_in_place() -> None:
    value = weft.ones(2, dtype=weft.int64)
    value += 1.5  # <<mistake>>


@mistake(RuntimeError, r"mean", r"int64|long", r"float")
def the_mean_of_integers() -> None:
    weft.tensor([1, 2, 3]).mean()  # <<mistake>>


@mistake(RuntimeError, r"floating point|float", r"int64|integer|dtype")
def integers_that_require_gradients() -> None:
    weft.tensor([1, 2], requires_grad=True)  # <<mistake>>


@mistake(RuntimeError, r"bool", r"-|neg", r"~|logical_not")
def the_negative_of_a_mask() -> None:
    -weft.tensor([True])  # <<mistake>>


@mistake(RuntimeError, r"bool", r"-|sub", r"\^|xor|logical")
def the_difference_of_masks() -> None:
    weft.tensor([True]) - weft.tensor([False])  # <<mistake>>


# -- Python and tensors ---------------------------------------


@mistake(RuntimeError, r"ambiguous|more than one", r"any\(\)|all\(\)")
def the_truth_of_many_elements() -> None:
    if weft.ones(2) > 0:  # <<mistake>>
        pass


@mistake(RuntimeError, r"item|scalar", r"\[?2\]?|2 elements", r"tolist|one element|single")
def the_item_of_many_elements() -> None:
    weft.ones(2).item()  # <<mistake>>


@mistake(RuntimeError, r"numpy", r"requires.grad", r"detach\(\)")
def numpy_of_a_result_with_history() -> None:
    leaf(2).numpy()  # <<mistake>>


@mistake(TypeError, r"add|\+", r"str")
def adding_a_string() -> None:
    weft.ones(2) + "1"  # <<mistake>>


@mistake(TypeError, r"softmax", r"dim")
def a_missing_argument() -> None:
    weft.softmax(weft.ones(2))  # <<mistake>>


@mistake(TypeError, r"sum", r"axes|unexpected|keyword")
def an_argument_that_does_not_exist() -> None:
    weft.sum(weft.ones(2), axes=0)  # <<mistake>>


@mistake(ValueError, r"length|size", r"2", r"3|1")
def ragged_lists() -> None:
    weft.tensor([[1, 2], [3]])  # <<mistake>>


@mistake(AttributeError, r"resume_grad|no attribute", r"Tensor")
def a_method_that_does_not_exist() -> None:
    weft.ones(2).resume_grad()  # <<mistake>>


# -- devices and memory ---------------------------------------


@mistake(
    RuntimeError, r"cuda|device", r"not available|no .*device|not .*built|cannot|found|without"
)
def a_device_that_is_not_there() -> None:
    if hasattr(weft, "cuda") and weft.cuda.is_available():
        pytest.skip("there is one")
    weft.ones(2, device="cuda")  # <<mistake>>


@mistake(RuntimeError, r"nowhere", r"cpu")
def a_device_that_does_not_exist() -> None:
    weft.ones(2, device="nowhere")  # <<mistake>>


@mistake(RuntimeError, r"memory|large|alloc|bytes|overflow")
def more_memory_than_there_is() -> None:
    weft.zeros(2**50)  # <<mistake>>


# -- recording and backward ---------------------------------------


@mistake(RuntimeError, r"scalar", r"\[?3\]?", r"gradient|sum\(\)|mean\(\)")
def backward_of_many_elements() -> None:
    (leaf(3) * 2).backward()  # <<mistake>>


@mistake(RuntimeError, r"does not require grad", r"<<cut>>", r"detach")
def backward_after_detach() -> None:
    x = leaf(3)
    y = (x * 2).detach()  # <<cut>>
    (y * 3).sum().backward()  # <<mistake>>


@mistake(RuntimeError, r"does not require grad", r"<<cut>>", r"item")
def backward_after_item() -> None:
    x = leaf(1)
    y = weft.tensor((x * 2).item())  # <<cut>>
    (y * 3).backward()  # <<mistake>>


@mistake(RuntimeError, r"does not require grad", r"<<cut>>", r"no_grad")
def backward_of_what_was_not_recorded() -> None:
    x = leaf(3)
    with weft.no_grad():
        y = x * 2  # <<cut>>
    y.sum().backward()  # <<mistake>>


@mistake(RuntimeError, r"does not require grad", r"<<cut>>", r"argmax|integer|int64")
def backward_through_integers() -> None:
    x = leaf(3)
    y = x.argmax()  # <<cut>>
    (y * 1.0).backward()  # <<mistake>>


@mistake(RuntimeError, r"second time", r"<<recorded>>", r"detach|retain_graph|history|reus")
def backward_through_history_of_the_last_step() -> None:
    w = leaf(3)
    state = weft.zeros(3)
    for _ in range(2):
        state = (state + w).tanh()  # <<recorded>>
        state.sum().backward()  # <<mistake>>


@mistake(RuntimeError, r"second time", r"retain_graph")
def backward_twice_of_one_loss() -> None:
    loss = leaf(3).exp().sum()
    loss.backward()
    loss.backward()  # <<mistake>>


@mistake(RuntimeError, r"in-?place", r"<<saved>>", r"<<overwrote>>", r"exp|Exp", r"version|clone")
def a_saved_result_overwritten() -> None:
    x = leaf(3)
    y = x.exp()  # <<saved>>
    y += 1  # <<overwrote>>
    y.sum().backward()  # <<mistake>>


@mistake(RuntimeError, r"in-?place", r"<<saved>>", r"<<overwrote>>", r"mul|Mul")
def a_saved_input_overwritten_through_a_view() -> None:
    x = leaf(4) * 1
    y = (x * x).sum()  # <<saved>>
    x[0] = 5.0  # <<overwrote>>
    y.backward()  # <<mistake>>


@mistake(RuntimeError, r"leaf", r"in-?place", r"no_grad")
def writing_to_a_leaf() -> None:
    x = leaf(3)
    x += 1  # <<mistake>>


@mistake(RuntimeError, r"leaf", r"view", r"in-?place", r"no_grad|clone")
def writing_to_a_view_of_a_leaf() -> None:
    x = leaf(3)
    x[0] = 1.0  # <<mistake>>


@mistake(RuntimeError, r"gradient|grad", r"\[?3\]?", r"\[?2\]?", r"shape|size")
def a_gradient_of_another_shape() -> None:
    (leaf(3) * 2).backward(weft.ones(2))  # <<mistake>>


@mistake(RuntimeError, r"allow_unused", r"input|1")
def an_input_that_was_not_used() -> None:
    weft.autograd.grad(leaf(3).sum(), [leaf(3)])  # <<mistake>>


@mistake(RuntimeError, r"inference", r"clone|outside|inference_mode")
def an_inference_tensor_in_training() -> None:
    with weft.inference_mode():
        x = weft.ones(3)
    leaf(3) * x  # <<mistake>>


@mistake(RuntimeError, r"deepcopy|copy", r"leaf|leaves|created", r"detach|clone")
def a_deep_copy_of_a_result() -> None:
    import copy

    copy.deepcopy(leaf(3) * 2)  # <<mistake>>


@mistake(RuntimeError, r"expand|overlap|single memory|same memory", r"clone")
def writing_to_an_expanded_tensor() -> None:
    weft.ones(1).expand(3).add_(1)  # <<mistake>>


@mistake(RuntimeError, r"Halves", r"2", r"1", r"gradient")
def a_custom_backward_with_too_few_gradients() -> None:
    class Halves(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            return a + b

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    Halves.apply(leaf(2), leaf(2)).sum().backward()  # <<mistake>>


@mistake(RuntimeError, r"shape|size", r"\[?5\]?", r"\[?2\]?", r"Wrong", r"<<recorded>>")
def a_custom_backward_with_a_wrong_shape() -> None:
    class Wrong(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            return a * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return weft.ones(5)

    y = Wrong.apply(leaf(2) * 2)  # <<recorded>>
    y.sum().backward()  # <<mistake>>


# -- the test ---------------------------------------


@pytest.mark.parametrize("name", sorted(MISTAKES))
def test_message(name: str) -> None:
    case = MISTAKES[name]
    with pytest.raises(case.error) as caught:
        case.make()
    error = caught.value
    assert type(error) is case.error or case.error is not AttributeError
    message = str(error)
    text = message + "".join(getattr(error, "__notes__", []))
    for fragment in case.fragments:
        mark = re.fullmatch(r"<<(\w+)>>", fragment)
        if mark is None:
            assert re.search(fragment, text, re.IGNORECASE | re.DOTALL), (
                f"no {fragment!r} in {text}"
            )
            continue
        lines = marked_lines(case.make, mark.group(1))
        assert lines, f"the case has no line <<{mark.group(1)}>>"
        assert names_line(text, lines), f"line {lines} is not named in {text}"
    frames = traceback.extract_tb(error.__traceback__)
    (line,) = marked_lines(case.make, "mistake")
    assert any(frame.lineno == line for frame in frames if frame.filename == __file__), (
        "the traceback must pass the faulty line"
    )
    # Nothing of weft's own is shown but its topmost calls.
    assert "core/" not in text
    assert ".cpp" not in text
    assert not message.startswith(" ")
    assert len(message) < 1500


def names_line(text: str, lines: list[int]) -> bool:
    """Whether this file and one of the lines are named: `test_errors.py:12` or `line 12`."""
    numbers = "|".join(map(str, lines))
    pattern = rf"test_errors\.py(:|\",? line |, line )({numbers})\b"
    return re.search(pattern, text) is not None


def test_there_are_enough() -> None:
    assert len(MISTAKES) >= 30


def test_mistakes_leave_the_tensors_alone() -> None:
    x = weft.ones(2, 3)
    for refused in (
        lambda: x.add_(weft.ones(4)),
        lambda: x.mul_("a"),
        lambda: x.copy_(weft.ones(5)),
        lambda: x.__setitem__((0, 7), 1.0),
        lambda: x.__setitem__(weft.tensor([0, 9]), 1.0),
        lambda: x.index_add_(0, weft.tensor([0, 5]), weft.ones(2, 3)),
        lambda: x.scatter_(1, weft.tensor([[0, 9]]), 1.0),
        lambda: x.masked_fill_(weft.ones(7, dtype=weft.bool), 1.0),
        lambda: x.clamp_(),
        lambda: x.transpose_(0, 9),
        lambda: x.unsqueeze_(9),
    ):
        version = x._version
        with pytest.raises((RuntimeError, IndexError, TypeError, ValueError)):
            refused()
        assert x.tolist() == [[1.0] * 3] * 2
        assert x.shape == (2, 3)
        assert x._version == version
