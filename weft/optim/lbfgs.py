"""L-BFGS: a quasi-Newton method for smooth problems that are computed as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft import _core
from weft.autograd import enable_grad, no_grad
from weft.optim._line_search import Point, strong_wolfe
from weft.optim._stepping import check_lr
from weft.optim.optimizer import Optimizer, ParamsT

_cat: Any = _core.ops["cat"]
_zeros_like: Any = _core.ops["zeros_like"]


class LBFGS(Optimizer):
    """Builds a picture of the curvature from the last ``history_size`` gradients.

    One ``step`` makes up to ``max_iter`` iterations and calls the closure up to ``max_eval`` times
    (1.25 times ``max_iter`` by default). With ``line_search_fn="strong_wolfe"`` each iteration
    looks for a good step length, otherwise it is ``lr``. It ends early when no gradient is larger
    than ``tolerance_grad``, or when parameters or loss change by less than ``tolerance_change``.
    All parameters are one group.

    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = loss_of(model(x), y)
    ...     loss.backward()
    ...     return loss
    >>> optimizer = weft.optim.LBFGS(model.parameters(), line_search_fn="strong_wolfe")
    >>> optimizer.step(closure)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_lr(lr)
        super().__init__(
            params,
            {
                "lr": lr,
                "max_iter": max_iter,
                "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
                "tolerance_grad": tolerance_grad,
                "tolerance_change": tolerance_change,
                "history_size": history_size,
                "line_search_fn": line_search_fn,
            },
        )
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Makes up to ``max_iter`` iterations; returns the loss as it was before the first.

        ``closure`` clears the gradients, computes the loss, calls ``backward()`` and returns the
        loss.
        """
        if closure is None:
            raise TypeError(
                "LBFGS.step() missing 1 required positional argument: 'closure': a function that "
                "computes the loss and its gradients again, and returns the loss"
            )
        with no_grad():
            return self._iterate(enable_grad()(closure))

    def _iterate(self, closure: Callable[[], Any]) -> Any:
        group = self.param_groups[0]
        rate = float(group["lr"])
        tolerance = group["tolerance_change"]
        search = group["line_search_fn"]
        if search not in (None, "strong_wolfe"):
            raise RuntimeError(f"only 'strong_wolfe' is supported, not line_search_fn={search!r}")
        params = group["params"]
        # What belongs to no single parameter is kept with the first, where state dicts expect it.
        state = self.state[params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)

        first_loss = closure()
        loss = float(first_loss)
        state["func_evals"] += 1
        evaluations = 1
        gradient = _flat_gradient(params)
        if _largest(gradient) <= group["tolerance_grad"]:
            return first_loss

        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            if state["n_iter"] == 1:
                direction = _begin(state, gradient)
                step = min(1.0, 1.0 / float(gradient.abs().sum())) * rate
            else:
                _remember(state, gradient, group["history_size"])
                direction = _newton_direction(state, gradient, group["history_size"])
                step = rate
            state["d"], state["t"] = direction, step
            state["prev_flat_grad"], state["prev_loss"] = gradient, loss

            slope = float(gradient.dot(direction))
            if slope > -tolerance:
                break
            calls = 0
            if search is not None:
                start = Point(0.0, loss, gradient, slope)
                found, calls = _search(closure, params, direction, start, step, tolerance)
                step = state["t"] = found.step
                loss, gradient = found.loss, found.gradient
                _move(params, direction, step)
            else:
                _move(params, direction, step)
                if iteration < group["max_iter"]:
                    loss, calls = float(closure()), 1
                    gradient = _flat_gradient(params)
            evaluations += calls
            state["func_evals"] += calls
            if (
                evaluations >= group["max_eval"]
                or _largest(gradient) <= group["tolerance_grad"]
                or _largest(direction) * abs(step) <= tolerance
                or abs(loss - state["prev_loss"]) < tolerance
            ):
                break
        return first_loss


# -- the picture of the curvature -----------------------------------------------------------------


def _begin(state: dict[str, Any], gradient: Any) -> Any:
    """The first direction is that of steepest descent."""
    state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
    return -gradient


def _remember(state: dict[str, Any], gradient: Any, history_size: int) -> None:
    """Adds the last step and the change of the gradient that it made."""
    change = gradient - state["prev_flat_grad"]
    step = state["d"] * state["t"]
    product = change.dot(step)
    if not float(product) > 1e-10:
        return
    if len(state["old_dirs"]) == history_size:
        for name in ("old_dirs", "old_stps", "ro"):
            state[name].pop(0)
    state["old_dirs"].append(change)
    state["old_stps"].append(step)
    state["ro"].append(1.0 / product)
    state["H_diag"] = product / change.dot(change)


def _newton_direction(state: dict[str, Any], gradient: Any, history_size: int) -> Any:
    """Minus the gradient times the inverse of the Hessian that the history describes."""
    history = list(zip(state["old_dirs"], state["old_stps"], state["ro"], strict=True))
    direction = -gradient
    shares = []
    for change, step, scale in reversed(history):
        share = step.dot(direction) * scale
        shares.append(share)
        direction.sub_(change * share)
    direction = direction * state["H_diag"]
    for (change, step, scale), share in zip(history, reversed(shares), strict=True):
        direction.add_(step * (share - change.dot(direction) * scale))
    state["al"] = shares[::-1] + [None] * (history_size - len(shares))  # as PyTorch keeps it
    return direction


# -- all parameters as one row --------------------------------------------------------------------


def _flat_gradient(params: list[Any]) -> Any:
    grads = [_zeros_like(p) if p.grad is None else p.grad.detach() for p in params]
    return _cat([grad.reshape(-1) for grad in grads])


def _largest(row: Any) -> float:
    return float(row.abs().max())


def _move(params: list[Any], direction: Any, step: float) -> None:
    start = 0
    for param in params:
        end = start + param.numel()
        param.add_(direction[start:end].view(param.shape), alpha=step)
        start = end


def _search(
    closure: Callable[[], Any],
    params: list[Any],
    direction: Any,
    start: Point,
    step: float,
    tolerance: float,
) -> tuple[Point, int]:
    """A line search from where the parameters are, to where it brings them back."""
    origin = [param.clone() for param in params]

    def evaluate(step: float) -> Point:
        _move(params, direction, step)
        loss = float(closure())
        gradient = _flat_gradient(params)
        for param, value in zip(params, origin, strict=True):
            param.copy_(value)
        return Point(step, loss, gradient, float(gradient.dot(direction)))

    return strong_wolfe(evaluate, start, step, _largest(direction), tolerance)
