"""What a reader of a PyTorch tutorial expects, typed in as it stands there."""

from __future__ import annotations

import math
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from ._target import MODULE_NAME, weft

torch = weft  # `import weft as torch` is what such a reader writes
ROOT = Path(__file__).resolve().parents[1]


def run_script(
    tmp_path: Path, text: str, typed: str = "", *, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Runs a program in a fresh process, with `typed` at its standard input."""
    script = tmp_path / "lesson.py"
    script.write_text(textwrap.dedent(text).replace("import weft", f"import {MODULE_NAME}"))
    return subprocess.run(
        [sys.executable, str(script)],
        input=typed,
        capture_output=True,
        text=True,
        timeout=60,
        check=check,
    )


def test_the_first_example() -> None:
    x = torch.ones(2, 2, requires_grad=True)
    y = x + 2
    assert str(y) == "tensor([[3., 3.],\n        [3., 3.]], grad_fn=<AddBackward0>)"
    z = y * y * 3
    out = z.mean()
    assert str(out) == "tensor(27., grad_fn=<MeanBackward0>)"
    out.backward()
    assert str(x.grad) == "tensor([[4.5000, 4.5000],\n        [4.5000, 4.5000]])"


def test_the_mean_of_one_two_three() -> None:
    assert torch.tensor([1.0, 2.0, 3.0]).mean().item() == 2.0
    assert str(torch.tensor([1.0, 2.0, 3.0]).mean().item()) == "2.0"
    with pytest.raises(RuntimeError, match=r"[Ff]loat"):
        torch.tensor([1, 2, 3]).mean()


def test_printing_a_grad_fn() -> None:
    a = torch.tensor([2.0, 3.0], requires_grad=True)
    q = 3 * a**3
    assert str(q.grad_fn).startswith("<MulBackward0 object at 0x")
    assert str(q.grad_fn.next_functions[0][0]).startswith("<PowBackward0 object at 0x")


def test_two_variables() -> None:
    a = torch.tensor([2.0, 3.0], requires_grad=True)
    b = torch.tensor([6.0, 4.0], requires_grad=True)
    q = 3 * a**3 - b**2
    q.backward(gradient=torch.tensor([1.0, 1.0]))
    assert (9 * a**2 == a.grad).tolist() == [True, True]
    assert (-2 * b == b.grad).tolist() == [True, True]


def test_branches_on_data() -> None:
    def f(x: Any) -> Any:
        if x.sum() > 0:
            return x * 2
        return x**3

    up = torch.tensor([1.0], requires_grad=True)
    down = torch.tensor([-1.0], requires_grad=True)
    one, other = f(up), f(down)
    assert type(one.grad_fn).__name__ == "MulBackward0"
    assert type(other.grad_fn).__name__ == "PowBackward0"
    one.backward()
    other.backward()
    assert (up.grad.item(), down.grad.item()) == (2.0, 3.0)


def test_a_while_loop_until_the_norm_is_large() -> None:
    x = torch.tensor([0.5, -0.25, 1.0], requires_grad=True)
    y = x * 2
    doublings = 1
    while y.data.norm() < 1000:
        y = y * 2
        doublings += 1
    y.backward(torch.tensor([0.1, 1.0, 0.0001]))
    factor = 2.0**doublings
    assert x.grad.tolist() == pytest.approx([0.1 * factor, factor, 0.0001 * factor])


def test_calling_backward_twice() -> None:
    inp = torch.eye(4, 5, requires_grad=True)
    out = (inp + 1).pow(2).t()
    out.backward(torch.ones_like(out), retain_graph=True)
    first = inp.grad.clone()
    out.backward(torch.ones_like(out), retain_graph=True)
    assert inp.grad.tolist() == (2 * first).tolist()
    inp.grad.zero_()
    out.backward(torch.ones_like(out), retain_graph=True)
    assert inp.grad.tolist() == first.tolist()


def test_linear_regression_by_hand() -> None:
    torch.manual_seed(0)
    x = torch.linspace(-1, 1, 50).unsqueeze(1)
    y = 3 * x + 0.5
    w = torch.randn(1, 1, requires_grad=True)
    b = torch.zeros(1, requires_grad=True)
    for _ in range(200):
        loss = ((x @ w + b - y) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            w -= 0.3 * w.grad
            b -= 0.3 * b.grad
        w.grad.zero_()
        b.grad.zero_()
    assert w.item() == pytest.approx(3.0, abs=1e-3)
    assert b.item() == pytest.approx(0.5, abs=1e-3)


def test_a_polynomial_fitted_to_sin() -> None:
    x = torch.linspace(-math.pi, math.pi, 500)
    y = torch.sin(x)
    a, b, c, d = (torch.full((), 0.1 * k, requires_grad=True) for k in range(4))
    losses = []
    for step in range(500):
        y_pred = a + b * x + c * x**2 + d * x**3
        loss = (y_pred - y).pow(2).sum()
        if step % 100 == 0:
            losses.append(loss.item())
        loss.backward()
        with torch.no_grad():
            for p in (a, b, c, d):
                p -= 1e-6 * p.grad
                p.grad = None
    assert losses == sorted(losses, reverse=True)


def test_a_new_activation() -> None:
    class LegendrePolynomial3(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, input: Any) -> Any:
            ctx.save_for_backward(input)
            return 0.5 * (5 * input**3 - 3 * input)

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (input,) = ctx.saved_tensors
            return grad_output * 1.5 * (5 * input**2 - 1)

    x = torch.tensor([0.3, -0.6], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(LegendrePolynomial3.apply, (x,))


def test_a_recurrent_network_over_lists_of_any_length() -> None:
    torch.manual_seed(0)
    w, u = torch.randn(4, 4) * 0.3, torch.randn(1, 4) * 0.3
    w.requires_grad_()
    u.requires_grad_()
    for sequence in ([1.0], [1.0, 2.0, 3.0], []):
        h = torch.zeros(1, 4)
        for value in sequence:
            h = torch.tanh(h @ w + value * u)
        if sequence:
            h.sum().backward()
    assert w.grad.shape == (4, 4)
    assert u.grad.abs().sum() > 0


def test_shapes_and_numpy() -> None:
    np = pytest.importorskip("numpy")
    data = [[1, 2], [3, 4]]
    x = torch.tensor(data)
    assert torch.ones_like(x).tolist() == [[1, 1], [1, 1]]
    assert torch.rand_like(x, dtype=torch.float).shape == (2, 2)
    t = torch.ones(5)
    n = t.numpy()
    t.add_(1)
    assert n.tolist() == [2.0] * 5
    n = np.ones(5)
    t = torch.from_numpy(n)
    np.add(n, 1, out=n)
    assert str(t) == "tensor([2., 2., 2., 2., 2.], dtype=torch.float64)"


def test_errors_are_raised_at_the_faulty_line(tmp_path: Path) -> None:
    finished = run_script(
        tmp_path,
        """\
        import weft as torch

        def layer(x, w):
            return x @ w

        x = torch.ones(2, 3)
        h = layer(x, torch.ones(3, 4))
        y = layer(h, torch.ones(3, 4))
        print(y)
        """,
        check=False,
    )
    assert finished.returncode != 0
    lines = finished.stderr.splitlines()
    assert any("lesson.py" in line and "line 4, in layer" in line for line in lines)
    assert any("line 8, in <module>" in line for line in lines)
    assert any(line.startswith("RuntimeError: ") for line in lines)


def test_debugger_in_the_middle_of_a_model(tmp_path: Path) -> None:
    finished = run_script(
        tmp_path,
        """\
        import pdb
        import weft as torch

        def model(x, w):
            h = x * w
            pdb.Pdb(readrc=False, nosigint=True).set_trace()
            y = h.exp()
            return y.sum()

        w = torch.tensor([0.0, 0.0], requires_grad=True)
        loss = model(torch.tensor([1.0, 2.0]), w)
        loss.backward()
        print("gradient", w.grad)
        """,
        typed="p h\nn\np y\np y.grad_fn\nh = h + 5\np torch.is_grad_enabled()\nw\nc\n",
    )
    shown = finished.stdout
    assert "tensor([0., 0.], grad_fn=<MulBackward0>)" in shown
    assert "tensor([1., 1.], grad_fn=<ExpBackward0>)" in shown
    assert "<ExpBackward0 object at 0x" in shown
    assert "True" in shown
    assert "gradient tensor([1., 2.])" in shown


def test_debugger_inside_a_hook_and_a_custom_backward(tmp_path: Path) -> None:
    finished = run_script(
        tmp_path,
        """\
        import pdb
        import weft as torch

        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, grad):
                pdb.Pdb(readrc=False, nosigint=True).set_trace()
                result = grad * 2
                return result

        x = torch.tensor([1.0], requires_grad=True)
        (Double.apply(x) * 3).sum().backward()
        print("gradient", x.grad)
        """,
        typed="p grad\nn\np result\nc\n",
    )
    assert "tensor([3.])" in finished.stdout
    assert "tensor([6.])" in finished.stdout
    assert "gradient tensor([6.])" in finished.stdout


def test_stepping_through_lines(tmp_path: Path) -> None:
    finished = run_script(
        tmp_path,
        """\
        import weft as torch
        import pdb
        pdb.Pdb(readrc=False, nosigint=True).set_trace()
        a = torch.ones(2, requires_grad=True)
        b = a * 3
        c = b.sum()
        c.backward()
        print(a.grad)
        """,
        typed="n\nn\nn\np a, b\nn\np c\nn\np a.grad\nq\n",
        check=False,
    )
    assert "(tensor([1., 1.], requires_grad=True), tensor([3., 3.], grad_fn=<MulBackward0>))" in (
        finished.stdout
    )
    assert "tensor(6., grad_fn=<SumBackward0>)" in finished.stdout
    assert "tensor([3., 3.])" in finished.stdout


def test_interrupting_a_long_backward(tmp_path: Path) -> None:
    """Ctrl-C in the middle of backward gives KeyboardInterrupt, and the process lives on."""
    finished = run_script(
        tmp_path,
        """\
        import os, signal, threading, time
        import weft as torch
        x = torch.ones(300, 300, requires_grad=True)
        y = x
        for _ in range(400):
            y = (y @ x).tanh()
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        try:
            while True:
                torch.autograd.grad(y.sum(), x, retain_graph=True)
        except KeyboardInterrupt:
            print("interrupted")
        z = torch.ones(2, requires_grad=True)
        z.sum().backward()
        print(z.grad)
        """,
    )
    assert "interrupted" in finished.stdout
    assert "tensor([1., 1.])" in finished.stdout
