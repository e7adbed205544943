"""Every recorded operation remembers the user's line; weft's own frames are passed over."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ._target import weft, weft_only

pytestmark = weft_only


def this_line(offset: int = 0) -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno + offset


def saved_line_in_error(build: Callable[[Any], Any]) -> str:
    """The text of the version error for a result whose saved value is overwritten."""
    x = weft.ones(3, requires_grad=True) * 1
    y = build(x)
    with weft.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError) as caught:
        y.sum().backward()
    return str(caught.value)


def assert_names(text: str, line: int, file: str = "test_provenance.py") -> None:
    assert re.search(rf"{re.escape(file)}(:|\", line |, line ){line}\b", text), f"{line}: {text}"


def test_operators_methods_and_functions() -> None:
    builders: list[tuple[Callable[[Any], Any], int]] = [
        (lambda x: x * x, this_line()),
        (lambda x: x.mul(x), this_line()),
        (lambda x: weft.mul(x, x), this_line()),
        (lambda x: x.exp() * x, this_line()),
        (lambda x: x.sin(), this_line()),
    ]
    for build, line in builders:
        assert_names(saved_line_in_error(build), line)


def test_composed_operations_name_the_callers_line() -> None:
    functional = weft.nn.functional
    builders: list[tuple[Callable[[Any], Any], int]] = [
        (lambda x: functional.softplus(x * 1) + x.sin(), this_line()),
        (lambda x: functional.normalize(x, dim=0), this_line()),
        (lambda x: functional.smooth_l1_loss(x * x, x), this_line()),
        (lambda x: weft.einsum("i,i->i", x, x), this_line()),
    ]
    for build, line in builders:
        text = saved_line_in_error(build)
        assert_names(text, line)
        assert "weft/ops" not in text


def test_statements_of_several_lines() -> None:
    x = weft.ones(3, requires_grad=True) * 1
    first = this_line(1)
    y = (
        x
        * x
    )  # fmt: skip
    x.add_(1)
    with pytest.raises(RuntimeError) as caught:
        y.sum().backward()
    found = re.search(r"test_provenance\.py(?::|\", line |, line )(\d+)", str(caught.value))
    assert found is not None
    assert first <= int(found.group(1)) <= first + 3


def test_lines_in_loops_comprehensions_and_generators() -> None:
    for build, line in (
        (lambda x: [x * x for _ in range(2)][-1], this_line()),
        (lambda x: next(x * x for _ in range(2)), this_line()),
        (lambda x: max([x * x], key=lambda t: 0), this_line()),
    ):
        assert_names(saved_line_in_error(build), line)


def test_threads_have_their_own_lines() -> None:
    texts: dict[int, str] = {}

    def work() -> None:
        texts[0] = saved_line_in_error(lambda x: x * x)

    line = this_line(-2)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert_names(texts[0], line)


def test_code_that_is_gone() -> None:
    """Code objects live as long as the nodes that name them."""
    scope: dict[str, Any] = {}
    exec(compile("def build(x):\n\n    return x * x\n", "generated.py", "exec"), scope)
    build = scope.pop("build")
    x = weft.ones(3, requires_grad=True) * 1
    y = build(x)
    del build
    scope.clear()
    x.add_(1)
    with pytest.raises(RuntimeError) as caught:
        y.sum().backward()
    assert_names(str(caught.value), 3, "generated.py")


def test_errors_in_hooks_point_at_the_forward_line() -> None:
    x = weft.ones(3, requires_grad=True)
    y = x.exp()
    line = this_line(-1)

    def hook(grad: Any) -> Any:
        return grad[:1]

    y.register_hook(hook)
    with pytest.raises(RuntimeError) as caught:
        y.sum().backward()
    text = str(caught.value) + "".join(getattr(caught.value, "__notes__", []))
    assert_names(text, line)


def test_errors_in_a_custom_backward_point_at_the_forward_line() -> None:
    class Fails(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad @ weft.ones(7)

    y = Fails.apply(weft.ones(3, requires_grad=True))
    line = this_line(-1)
    with pytest.raises(RuntimeError) as caught:
        y.sum().backward()
    text = str(caught.value) + "".join(getattr(caught.value, "__notes__", []))
    assert_names(text, line)


def test_nan_in_backward_names_the_forward_line_and_the_operation() -> None:
    x = weft.zeros(3, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with weft.autograd.detect_anomaly():
            y = (x * x).sqrt()
            line = this_line(-1)
            with pytest.raises(RuntimeError) as caught:
                (y * 0).sum().backward()
    text = str(caught.value)
    assert_names(text, line)
    assert "Sqrt" in text or "sqrt" in text
    assert "nan" in text.lower()


def test_a_parent_is_named_in_second_backward() -> None:
    x = weft.ones(3, requires_grad=True)
    shared = x.exp()
    line = this_line(-1)
    shared.sum().backward()
    with pytest.raises(RuntimeError) as caught:
        (shared * 2).sum().backward()
    assert_names(str(caught.value), line)


def test_lines_of_scripts_modules_and_strings(tmp_path: Path) -> None:
    """The same in a fresh process: a module, a script, `-c`."""
    (tmp_path / "model.py").write_text("def layer(x, w):\n    h = x * w\n    return h.exp()\n")
    (tmp_path / "train.py").write_text(
        textwrap.dedent(
            """\
            import weft
            from model import layer

            w = weft.ones(2, requires_grad=True)
            y = layer(weft.ones(2), w)
            y += 1
            y.sum().backward()
            """
        )
    )
    finished = subprocess.run(
        [sys.executable, "train.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{Path(weft.__file__).parents[1]}:{tmp_path}", "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert finished.returncode == 1
    assert_names(finished.stderr, 3, "model.py")
    assert_names(finished.stderr, 6, "train.py")


def test_it_costs_little() -> None:
    """Recording the line may not be what recording costs: a bound with room for slow machines."""
    import time

    x = weft.ones(4, requires_grad=True)

    def chain() -> float:
        start = time.perf_counter()
        y = x
        for _ in range(2_000):
            y = y * x
        return time.perf_counter() - start

    best = min(chain() for _ in range(5))
    assert best / 2_000 < 5e-6
