"""What a module does, step by step, in both libraries.

A scenario is a function of the library (PyTorch or weft) and a list that it tells what happened:
texts, names, numbers, errors. Both lists must be the same.
"""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch

from .._target import weft

Scenario = Callable[[Any, "Told"], None]
SCENARIOS: list[Scenario] = []


def scenario(function: Scenario) -> Scenario:
    SCENARIOS.append(function)
    return function


class Told(list[Any]):
    """What happened so far."""

    def __call__(self, *things: Any) -> None:
        self.extend(plain(thing) for thing in things)

    def attempt(self, function: Callable[[], Any]) -> None:
        """What a call gives, or the error it raises."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                self(function())
            except Exception as error:
                self(f"{type(error).__name__}: {first_line(error)}")
        # Of a warning the beginning: advice may differ.
        self.extend(f"{w.category.__name__}: {first_line(w.message)[:40]}" for w in caught)


def first_line(error: Any) -> str:
    text = error.args[0] if isinstance(error, KeyError) else str(error)
    return without_library(text)


def without_library(text: str) -> str:
    text = re.sub(r"(weft|torch|tests\.parity\.\w+|__main__)\.((\w|<|>)+\.)*", "", text)
    # Two slips of PyTorch's that weft's messages do not have.
    text = text.replace("ParametersDict", "ParameterDict").replace(
        "Iterable; isint", "Iterable; is int"
    )
    return re.sub(r"0x[0-9a-f]+", "0x", text)


def plain(thing: Any) -> Any:
    if hasattr(thing, "tolist") and hasattr(thing, "dtype"):
        return without_library(str(thing.dtype)), thing.tolist()
    if isinstance(thing, torch.Size | weft.Size):
        return tuple(thing)
    if isinstance(thing, tuple | list):
        return [plain(item) for item in thing]
    if isinstance(thing, dict):
        return {key: plain(item) for key, item in thing.items()}
    if isinstance(thing, str):
        return without_library(thing)
    if isinstance(thing, int | float | bool | type(None)):
        return thing
    return without_library(repr(thing))


def fill(lib: Any, module: Any) -> Any:
    """Parameters and buffers counted up, so that both libraries hold the same."""
    with lib.no_grad():
        for number, tensor in enumerate([*module.parameters(), *module.buffers()]):
            values = lib.arange(tensor.numel()).to(lib.float32).reshape(tensor.shape)
            tensor.copy_(values * 0.125 - 0.25 + number * 0.0625)
    return module


_nets: dict[str, type] = {}


def net_class(lib: Any) -> type:
    """A small model; one class for each library, so that pickles find it."""
    known = _nets.get(lib.__name__)
    if known is None:

        class Net(lib.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.first = lib.nn.Linear(3, 4)
                self.stack = lib.nn.Sequential(lib.nn.ReLU(), lib.nn.Linear(4, 2, bias=False))
                self.register_buffer("seen", lib.zeros(2))
                self.register_buffer("scratch", lib.ones(1), persistent=False)
                self.scale = lib.nn.Parameter(lib.ones(2))
                self.name = "net"

            def forward(self, x: Any, factor: float = 1.0) -> Any:
                return self.stack(self.first(x)) * self.scale * factor

        known = _nets[lib.__name__] = Net
        Net.__qualname__ = f"Net_{lib.__name__}"
        globals()[Net.__qualname__] = Net
    return known


def make_net(lib: Any) -> Any:
    return fill(lib, net_class(lib)())


# -- registering ------------------------------------------------------------------------------


@scenario
def registration(lib: Any, told: Told) -> None:
    net = make_net(lib)
    told(net, [n for n, _ in net.named_parameters()], [n for n, _ in net.named_buffers()])
    told([n for n, _ in net.named_modules()], [n for n, _ in net.named_children()])
    told(list(net._parameters), list(net._buffers), list(net._modules))
    told([n for n, _ in net.named_parameters(prefix="p", recurse=False)])
    told([n for n, _ in net.named_buffers(prefix="p")])
    told(net.seen, net.scale, net.name, net.training)
    del net.seen, net.scale, net.first, net.name
    told(net, sorted(net.state_dict()))
    for name in ("seen", "scale", "first", "name"):
        told.attempt(lambda name=name: getattr(net, name))
        told.attempt(lambda name=name: delattr(net, name))
    told(net._non_persistent_buffers_set)


@scenario
def registration_errors(lib: Any, told: Told) -> None:
    net = make_net(lib)
    parameter, tensor = lib.nn.Parameter(lib.ones(1)), lib.ones(1)
    for name in ("", "a.b", 3, "forward", "name", "first", "seen", "scale"):
        told.attempt(lambda name=name: net.register_parameter(name, parameter))
        told.attempt(lambda name=name: net.register_buffer(name, tensor))
        told.attempt(lambda name=name: net.add_module(name, lib.nn.Identity()))
    told(sorted(net._parameters), sorted(net._buffers), sorted(net._modules))
    net = make_net(lib)
    told.attempt(lambda: net.register_parameter("new", tensor))
    told.attempt(lambda: net.register_parameter("new", 3))
    told.attempt(lambda: net.register_buffer("new", 3))
    told.attempt(lambda: net.add_module("new", 3))
    told.attempt(lambda: net.register_module("new", None))
    told.attempt(lambda: net.register_parameter("empty", None))
    told.attempt(lambda: net.register_buffer("nothing", None))
    told(net.empty, net.nothing, net.new, net)
    history = lib.nn.Parameter(lib.ones(1)) * 2
    told.attempt(lambda: net.register_parameter("made", history))


@scenario
def assignment(lib: Any, told: Told) -> None:
    net = make_net(lib)
    for name in ("scale", "first", "seen", "plain"):
        for value in (3, "text", lib.ones(2), lib.nn.Identity(), None):
            told.attempt(lambda name=name, value=value: setattr(net, name, value))
            told(name, type(getattr(net, name)).__name__)
    told(net, sorted(net.state_dict()))
    net = make_net(lib)
    net.seen = lib.nn.Parameter(lib.ones(2))
    told.attempt(lambda: setattr(net, "scale", lib.nn.Linear(1, 1)))
    told.attempt(lambda: setattr(net, "first", lib.nn.Parameter(lib.ones(2))))
    told([n for n, _ in net.named_parameters()], list(net._buffers), list(net._modules))
    net.note = lib.nn.Buffer(lib.ones(3))
    net.hidden = lib.nn.Buffer(lib.ones(3), persistent=False)
    told(list(net._buffers), net._non_persistent_buffers_set, sorted(net.state_dict()))
    told(isinstance(net.note, lib.nn.Buffer), isinstance(net.scratch, lib.nn.Buffer))
    net.scratch = lib.zeros(1)
    told(net.scratch, net._non_persistent_buffers_set)
    net.plain = lib.ones(1)
    net.plain = lib.nn.Parameter(lib.ones(1))
    told("plain" in net.__dict__, "plain" in net._parameters)


@scenario
def before_init(lib: Any, told: Told) -> None:
    values = {
        "module": lambda: lib.nn.Identity(),
        "parameter": lambda: lib.nn.Parameter(lib.ones(1)),
        "tensor": lambda: lib.ones(1),
        "number": lambda: 3,
    }
    for kind, value in values.items():

        class Early(lib.nn.Module):
            def __init__(self) -> None:
                self.early = value()  # noqa: B023
                super().__init__()

        told(kind)
        told.attempt(lambda: Early().early is not None)

    class Never(lib.nn.Module):
        def __init__(self) -> None:
            pass

    told.attempt(lambda: Never().register_buffer("b", lib.ones(1)))
    told.attempt(lambda: Never().register_parameter("b", lib.nn.Parameter(lib.ones(1))))
    told.attempt(lambda: Never().weight)
    told.attempt(lambda: lib.nn.Module(3))
    told.attempt(lambda: lib.nn.Module(size=3))
    told.attempt(lambda: lib.nn.Module()(3))


@scenario
def shared_members(lib: Any, told: Told) -> None:
    net = make_net(lib)
    net.again = net.first
    net.weight = net.first.weight
    told([n for n, _ in net.named_parameters()])
    told([n for n, _ in net.named_parameters(remove_duplicate=False)])
    told([n for n, _ in net.named_modules()])
    told([n for n, _ in net.named_modules(remove_duplicate=False)])
    told([n for n, _ in net.named_children()], len(list(net.modules())), len(list(net.children())))
    told(sorted(net.state_dict()))


@scenario
def paths(lib: Any, told: Told) -> None:
    net = make_net(lib)
    for target in ("", "stack", "stack.1", "stack.2", "name", "first.weight", "stack..1"):
        told.attempt(lambda target=target: net.get_submodule(target))
        told.attempt(lambda target=target: net.get_parameter(target) is not None)
        told.attempt(lambda target=target: net.get_buffer(target))
    told.attempt(lambda: net.get_parameter("stack.1.weight"))
    told.attempt(lambda: net.get_buffer("seen"))
    told.attempt(lambda: net.get_buffer("scale"))
    for target in ("", "stack.0", "new", "first.new", "gone.new", "name", "scale"):
        for strict in (False, True):
            told.attempt(
                lambda target=target, strict=strict: net.set_submodule(
                    target, lib.nn.Identity(), strict=strict
                )
            )
    told.attempt(lambda: net.set_submodule("new", 3))
    told(net)


@scenario
def attributes_of_subclasses(lib: Any, told: Told) -> None:
    class Wrapper(lib.nn.Module):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.inner, name)

        @property
        def broken(self) -> Any:
            raise AttributeError("inside")

    wrapped = Wrapper(make_net(lib))
    told(wrapped.name, wrapped.seen, wrapped.inner.name)
    told.attempt(lambda: wrapped.missing)
    told.attempt(lambda: wrapped.broken)

    class Setter(lib.nn.Module):
        def __setattr__(self, name: str, value: Any) -> None:
            log.append(name)
            super().__setattr__(name, value)

        @property
        def size(self) -> int:
            return self._size

        @size.setter
        def size(self, value: int) -> None:
            self._size = value + 1

    log: list[str] = []
    module = Setter()
    log.clear()
    module.layer = lib.nn.Identity()
    module.size = 3
    told(log, module.size, module)
    told(hasattr(module, "layer"), hasattr(module, "nothing"), "layer" in dir(module))
    object.__setattr__(module, "hidden", lib.nn.Identity())
    told(module, "hidden" in module._modules, hasattr(module, "hidden"))
    module._parameters["poked"] = lib.nn.Parameter(lib.ones(1))
    told(module.poked, list(module.state_dict()))

    class Dynamic(lib.nn.Module):
        def __getattr__(self, name: str) -> Any:
            if name == "weight":
                return "computed"
            return super().__getattr__(name)

    dynamic = Dynamic()
    told.attempt(lambda: setattr(dynamic, "weight", lib.nn.Parameter(lib.ones(1))))
    dynamic._parameters["weight"] = lib.nn.Parameter(lib.ones(1))
    told(dynamic.weight)


@scenario
def several_bases(lib: Any, told: Told) -> None:
    class Named:
        def __init__(self, name: str = "nobody") -> None:
            self.label = name

    class Both(lib.nn.Module, Named):
        def __init__(self) -> None:
            lib.nn.Module.__init__(self)
            Named.__init__(self, "both")

    class Chained(lib.nn.Module, Named):
        call_super_init = True

        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)

    told(Both().label, Chained(name="chained").label, Chained().label)
    told.attempt(lambda: Chained(other=3))


@scenario
def listing(lib: Any, told: Told) -> None:
    net = make_net(lib)
    shown = dir(net)
    told([name for name in ("first", "stack", "seen", "scale", "name", "forward") if name in shown])
    told([name for name in dir(net.stack) if name.isdigit()])
    known = set(dir(torch.nn.Module()))
    told(sorted(known - set(shown) - DELIBERATELY_MISSING))


# What PyTorch's Module has and weft's has not, with the reason.
DELIBERATELY_MISSING = frozenset(
    {
        "T_destination",  # a type variable
        "_compiled_call_impl",  # of the compiler that weft has not
        "compile",
        "_slow_forward",  # of its tracer
        "_maybe_warn_non_full_backward_hook",
        "__class_getitem__",
        "ipu",
        "mtia",
        "xpu",
        "__annotations__",
        "__weakref__",  # of a class written in Python
        "_lazy_load_hook",
    }
)


# -- calls and hooks --------------------------------------------------------------------------


@scenario
def call_hooks(lib: Any, told: Told) -> None:
    net = make_net(lib)
    x = lib.arange(6).to(lib.float32).reshape(2, 3)
    told(net(x), net(x=x), net(x, factor=2.0))
    log: list[Any] = []
    handles = [
        net.register_forward_pre_hook(lambda m, args: log.append(("pre", len(args)))),
        net.register_forward_pre_hook(lambda m, args: args[0] + 1, prepend=True),
        net.register_forward_pre_hook(
            lambda m, args, kwargs: (args, {**kwargs, "factor": 3.0}), with_kwargs=True
        ),
        net.register_forward_hook(lambda m, args, out: log.append(("after", plain(out)))),
        net.register_forward_hook(lambda m, args, out: out * 2, prepend=True),
        net.register_forward_hook(
            lambda m, args, kwargs, out: log.append(sorted(kwargs)), with_kwargs=True
        ),
    ]
    told(net(x), log)
    handles[1].remove()
    handles[4].remove()
    log.clear()
    told(net(x), log, len(net._forward_hooks), len(net._forward_pre_hooks))
    for handle in handles:
        handle.remove()
    log.clear()
    told(net(x), log, len(net._forward_hooks), len(net._forward_hooks_with_kwargs))
    net.register_forward_pre_hook(lambda m, args, kwargs: 3, with_kwargs=True)
    told.attempt(lambda: net(x))


@scenario
def always_called_hooks(lib: Any, told: Told) -> None:
    class Failing(lib.nn.Module):
        def forward(self, x: Any) -> Any:
            raise ValueError("no")

    log: list[Any] = []
    module = Failing()
    module.register_forward_hook(lambda m, a, out: log.append("skipped"))
    module.register_forward_hook(lambda m, a, out: log.append(("always", out)), always_call=True)
    told.attempt(lambda: module(1))
    told(log)

    def bad(m: Any, a: Any, out: Any) -> None:
        raise RuntimeError("bad hook")

    module.register_forward_hook(bad, always_call=True)
    told.attempt(lambda: module(1))


@scenario
def forward_of_the_instance(lib: Any, told: Told) -> None:
    net = make_net(lib)
    net.forward = lambda x: x + 1
    told(net(lib.ones(1)))
    del net.forward
    told(net(lib.ones(1, 3)).shape)

    class Calls(lib.nn.Module):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            log.append("call")
            return super().__call__(*args, **kwargs)

        def forward(self, x: Any) -> Any:
            return x * 2

    class Implements(lib.nn.Module):
        def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
            log.append("impl")
            return super()._call_impl(*args, **kwargs)

        def forward(self, x: Any) -> Any:
            return x * 3

    log: list[str] = []
    told(Calls()(2), Implements()(2), log)
    told(lib.nn.Module.__call__(Calls(), 3), net._call_impl(lib.ones(1, 3)).shape)

    class Static(lib.nn.Module):
        @staticmethod
        def forward(x: Any) -> Any:
            return x * 5

    class Descends(Static):
        pass

    told(Descends()(1))
    Descends.__call__ = lambda self, x: x * 7
    told(Descends()(1))
    many = lib.nn.Module()
    many.forward = lambda *args, **kwargs: (args, sorted(kwargs))
    told(many(*range(20), a=1, b=2))


@scenario
def global_hooks(lib: Any, told: Told) -> None:
    modules = lib.nn.modules.module
    log: list[Any] = []
    net = make_net(lib)
    handles = [
        modules.register_module_forward_pre_hook(lambda m, a: log.append(f"pre {m._get_name()}")),
        modules.register_module_forward_hook(lambda m, a, o: log.append(f"post {m._get_name()}")),
        modules.register_module_parameter_registration_hook(
            lambda m, name, p: log.append(f"parameter {name}")
        ),
        modules.register_module_module_registration_hook(
            lambda m, name, p: log.append(f"module {name}")
        ),
        modules.register_module_buffer_registration_hook(
            lambda m, name, p: log.append(f"buffer {name}")
        ),
    ]
    try:
        net(lib.ones(1, 3))
        net_class(lib)()
        net.seen = lib.zeros(2)
    finally:
        for handle in handles:
            handle.remove()
    told(log)
    log.clear()
    net(lib.ones(1, 3))
    net.extra = lib.nn.Parameter(lib.ones(1))
    told(log)


@scenario
def full_backward_hooks(lib: Any, told: Told) -> None:
    net = make_net(lib)
    log: list[Any] = []

    def note(name: str) -> Any:
        return lambda m, grad_in, grad_out: log.append((name, plain(grad_in), plain(grad_out)))

    net.register_full_backward_hook(note("net"))
    net.stack.register_full_backward_hook(note("stack"))
    net.first.register_full_backward_pre_hook(lambda m, grad_out: log.append(plain(grad_out)))
    x = lib.arange(6).to(lib.float32).reshape(2, 3).requires_grad_()
    net(x).sum().backward()
    told(log, x.grad, net.first.weight.grad)
    log.clear()
    told.attempt(lambda: net(x.detach()).sum().backward())
    told(log)
    log.clear()
    with lib.no_grad():
        net(x)
    told(log)


@scenario
def backward_hooks_that_change(lib: Any, told: Told) -> None:
    layer = fill(lib, lib.nn.Linear(2, 2))
    layer.register_full_backward_hook(lambda m, grad_in, grad_out: (grad_in[0] * 10,))
    layer.register_full_backward_pre_hook(lambda m, grad_out: (grad_out[0] * 3,))
    x = lib.ones(1, 2).requires_grad_()
    layer(x).sum().backward()
    told(x.grad, layer.weight.grad)
    told.attempt(lambda: layer.register_backward_hook(lambda *a: None))
    wrong = fill(lib, lib.nn.Linear(2, 2))
    wrong.register_full_backward_hook(lambda m, grad_in, grad_out: (grad_in[0], None))
    told.attempt(lambda: wrong(x).sum().backward())

    class Pair(lib.nn.Module):
        def forward(self, a: Any, n: int, b: Any) -> Any:
            return a * n, b + 1

    pair = Pair()
    log: list[Any] = []
    pair.register_full_backward_hook(lambda m, gi, go: log.append((plain(gi), plain(go))))
    b = lib.ones(1).requires_grad_()
    first, second = pair(x, 3, b)
    (first.sum() + second.sum()).backward()
    told(log, x.grad, b.grad)


# -- state ------------------------------------------------------------------------------------


@scenario
def state_dict(lib: Any, told: Told) -> None:
    net = make_net(lib)
    state = net.state_dict()
    told(state, dict(state._metadata), type(state).__name__)
    told(state["scale"].requires_grad, net.state_dict(keep_vars=True)["scale"].requires_grad)
    told(list(net.state_dict(prefix="a.")), dict(net.state_dict(prefix="a.")._metadata))
    mine: dict[str, Any] = {}
    told(net.state_dict(destination=mine) is mine, list(mine))
    told.attempt(lambda: list(net.state_dict({}, "p.")))


@scenario
def load_state_dict(lib: Any, told: Told) -> None:
    net, other = make_net(lib), net_class(lib)()
    told.attempt(lambda: other.load_state_dict(net.state_dict()))
    told(other.state_dict())
    state = net.state_dict()
    state["unknown"] = lib.ones(1)
    state["first.unknown"] = lib.ones(1)
    state["gone.weight"] = lib.ones(1)
    del state["scale"]
    state["seen"] = lib.ones(3)
    told.attempt(lambda: other.load_state_dict(state))
    told.attempt(lambda: other.load_state_dict(state, strict=False))
    state["seen"] = lib.ones(2)
    told.attempt(lambda: other.load_state_dict(state, strict=False))
    told(repr(other.load_state_dict(state, strict=False)))
    told.attempt(lambda: other.load_state_dict(3))
    told.attempt(lambda: other.load_state_dict({"scale": 3}, strict=False))
    told.attempt(lambda: other.load_state_dict(OrderedDict()))


@scenario
def load_by_assignment(lib: Any, told: Told) -> None:
    net = make_net(lib)
    other = net_class(lib)()
    before = other.scale
    state = make_net(lib).double().state_dict()
    told(other.load_state_dict(state, assign=True))
    told(other.scale.dtype, other.scale is before, type(other.scale).__name__)
    told(other.scale.requires_grad, other.seen is state["seen"], type(other.seen).__name__)
    other = net_class(lib)()
    before = other.scale
    told(other.load_state_dict(state), other.scale.dtype, other.scale is before)
    net.scale.requires_grad_(False)
    net.load_state_dict(make_net(lib).state_dict(), assign=True)
    told(net.scale.requires_grad)
    single = lib.nn.Module()
    single.number = lib.nn.Parameter(lib.ones(()))
    told.attempt(lambda: single.load_state_dict({"number": lib.ones(1)}))


@scenario
def state_hooks(lib: Any, told: Told) -> None:
    net, log = make_net(lib), []
    net.register_state_dict_pre_hook(lambda m, prefix, keep: log.append(("pre", prefix, keep)))
    post = net.register_state_dict_post_hook(
        lambda m, state, prefix, meta: state.update({prefix + "added": 1})
    )
    told(list(net.state_dict(prefix="p.")), log)
    post.remove()
    bad = net.register_state_dict_post_hook(lambda m, state, prefix, meta: state)
    told.attempt(lambda: net.state_dict())
    bad.remove()
    net._register_state_dict_hook(lambda m, state, prefix, meta: {"replaced": 1})
    told.attempt(lambda: net.state_dict())

    def rename(module: Any, state: Any, prefix: str, *rest: Any) -> None:
        log.append((prefix, sorted(rest[0]), rest[1], len(rest)))
        state[prefix + "scale"] = state.pop(prefix + "factor")

    other = net_class(lib)()
    other.register_load_state_dict_pre_hook(rename)
    other.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.append("asked"))
    state = make_net(lib).state_dict()
    state["factor"] = state.pop("scale")
    told.attempt(lambda: other.load_state_dict(state))
    told(log, other.scale)
    last = net_class(lib)()
    last.register_load_state_dict_post_hook(lambda m, keys: 3)
    told.attempt(lambda: last.load_state_dict(make_net(lib).state_dict()))


@scenario
def extra_state(lib: Any, told: Told) -> None:
    class Extra(lib.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.counted = 0

        def get_extra_state(self) -> Any:
            return {"counted": self.counted}

        def set_extra_state(self, state: Any) -> None:
            self.counted = state["counted"]

    one, two = Extra(), Extra()
    one.counted = 5
    told(dict(one.state_dict()), two.load_state_dict(one.state_dict()), two.counted)
    told.attempt(lambda: two.load_state_dict({}))
    told.attempt(lambda: lib.nn.Module().load_state_dict(one.state_dict()))


@scenario
def prefixes(lib: Any, told: Told) -> None:
    wrapped = lib.nn.Module()
    wrapped.module = make_net(lib)
    state = wrapped.state_dict()
    state["other"] = lib.ones(1)
    lib.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    told(sorted(state), dict(sorted(state._metadata.items())))
    told(lib.nn.modules.utils._pair(3), lib.nn.modules.utils._triple((1, 2, 3)))


# -- copies -----------------------------------------------------------------------------------


@scenario
def copies(lib: Any, told: Told) -> None:
    net = make_net(lib)
    net.shared = net.first.weight
    for made in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        told(made, made.state_dict(), made.training, made.name)
        told(made.shared is made.first.weight, made.shared is net.shared)
        told(made(lib.ones(1, 3)), type(made.scale).__name__, made.scale.requires_grad)
    shallow = copy.copy(net)
    told(shallow.first is net.first, shallow(lib.ones(1, 3)))
    shallow.extra = 3
    told(hasattr(net, "extra"))


def doubled(module: Any, args: Any, output: Any) -> Any:
    return output * 2


@scenario
def copies_keep_hooks(lib: Any, told: Told) -> None:
    net = make_net(lib)
    net.register_forward_hook(doubled)
    x = lib.ones(1, 3)
    told(net(x), copy.deepcopy(net)(x), pickle.loads(pickle.dumps(net))(x))


# -- over everything --------------------------------------------------------------------------


@scenario
def conversions(lib: Any, told: Told) -> None:
    net = make_net(lib)
    net.register_buffer("count", lib.tensor([3]))
    scale = net.scale
    net(lib.ones(1, 3)).sum().backward()
    for convert in ("double", "half", "bfloat16", "float"):
        told(getattr(net, convert)() is net, net.scale is scale, net.scale.dtype)
        told(net.scale.grad.dtype, net.count.dtype, net.seen.dtype)
    told(net.to(lib.float64).scale.dtype, net.to("cpu").scale.dtype)
    told(net.to(lib.ones(1, dtype=lib.float32)).scale.dtype)
    told(net.to("cpu", lib.float64).scale.dtype, net.to(dtype=lib.float32).scale.dtype)
    told.attempt(lambda: net.to(lib.int32))
    told(net.type(lib.float64).count.dtype)
    told(net.cpu().scale.dtype)
    told(net.to_empty(device="cpu").scale.shape, net.scale is scale)


@scenario
def modes(lib: Any, told: Told) -> None:
    net = make_net(lib)
    told([m.training for m in net.modules()], net.eval() is net)
    told([m.training for m in net.modules()])
    net.stack.train()
    told([m.training for m in net.modules()])
    told.attempt(lambda: net.train(1))
    names: list[str] = []
    told(net.apply(lambda m: names.append(m._get_name())) is net, names)
    net.requires_grad_(False)
    told([p.requires_grad for p in net.parameters()])
    net.requires_grad_()
    net(lib.ones(1, 3)).sum().backward()
    grad = net.scale.grad
    net.zero_grad(set_to_none=False)
    told(net.scale.grad is grad, grad)
    net.zero_grad()
    told([p.grad is None for p in net.parameters()])


@scenario
def printing(lib: Any, told: Told) -> None:
    class Described(lib.nn.Module):
        def __init__(self, text: str, *inner: Any) -> None:
            super().__init__()
            self.text = text
            for i, module in enumerate(inner):
                self.add_module(f"m{i}", module)

        def extra_repr(self) -> str:
            return self.text

    told(Described(""), Described("one"), Described("one\ntwo"), lib.nn.Module())
    told(Described("one", Described("two\nthree", lib.nn.ReLU()), Described("")))
    nested = lib.nn.Sequential(
        Described("a\n\nb"), lib.nn.Sequential(), Described("", Described("x"))
    )
    told(nested, lib.nn.ModuleList([nested, nested, lib.nn.ReLU()]), lib.nn.ModuleList())
    told(lib.nn.ModuleDict({"a": lib.nn.ReLU(), "b": nested}), lib.nn.ModuleDict())
    holes = lib.nn.Sequential()
    holes.add_module("gap", None)
    told(holes)


# -- containers -------------------------------------------------------------------------------


@scenario
def sequential(lib: Any, told: Told) -> None:
    nn = lib.nn
    net = nn.Sequential(nn.ReLU(), nn.Tanh(), nn.Sigmoid())
    told(net[0], net[-1], net[1:], len(net), list(net), net(lib.ones(1)))
    told.attempt(lambda: net[3])
    told.attempt(lambda: net[-4])
    net[1] = nn.Identity()
    told(net)
    del net[0]
    told(net, list(net._modules))
    net.append(nn.ReLU()).extend([nn.Tanh(), nn.Tanh()])
    net.insert(1, nn.GELU())
    told(net, net.pop(0), net)
    told(net + nn.Sequential(nn.ReLU()), nn.Sequential(nn.ReLU()) * 2, 2 * nn.Sequential(nn.ReLU()))
    net += nn.Sequential(nn.SiLU())
    net *= 2
    told(net)
    del net[1:4]
    told(net)
    told.attempt(lambda: net + nn.ReLU())
    told.attempt(lambda: net * 0)
    told.attempt(lambda: net * 1.5)
    told.attempt(lambda: net.insert(0, 3))
    told.attempt(lambda: net.insert(99, nn.ReLU()))
    named = nn.Sequential(OrderedDict([("a", nn.ReLU()), ("b", nn.Tanh())]))
    told(named, named.a, named[1], named[:1])
    told.attempt(lambda: nn.Sequential(3))


@scenario
def module_list(lib: Any, told: Told) -> None:
    nn = lib.nn
    layers = nn.ModuleList([nn.ReLU(), nn.Tanh()])
    layers.append(nn.Sigmoid())
    layers.extend([nn.ReLU(), nn.ReLU()])
    layers.insert(0, nn.GELU())
    layers += [nn.SiLU()]
    told(layers, len(layers), layers[-1], layers[1:3], [m._get_name() for m in layers])
    layers[0] = nn.Identity()
    del layers[1]
    del layers[-2:]
    told(layers, list(layers._modules), layers.pop(0), layers)
    told(layers + [nn.Tanh()], layers)  # noqa: RUF005
    told.attempt(lambda: layers[9])
    told.attempt(lambda: layers.extend(3))
    told.attempt(lambda: layers.append(3))
    told.attempt(lambda: layers(lib.ones(1)))


@scenario
def module_dict(lib: Any, told: Told) -> None:
    nn = lib.nn
    layers = nn.ModuleDict({"b": nn.ReLU(), "a": nn.Tanh()})
    layers.update([["c", nn.GELU()], ("d", nn.SiLU())])
    layers["e"] = nn.Identity()
    layers.update(nn.ModuleDict({"z": nn.ReLU()}))
    told(layers, list(layers), len(layers), "a" in layers, list(layers.keys()), layers["a"])
    told(layers.pop("a"), [n for n, _ in layers.items()], len(list(layers.values())))
    del layers["b"]
    told(layers)
    told.attempt(lambda: layers["gone"])
    told.attempt(lambda: layers.update(3))
    told.attempt(lambda: layers.update([["only"]]))
    told.attempt(lambda: layers.update([3]))
    layers.clear()
    told(layers)


@scenario
def parameter_list(lib: Any, told: Told) -> None:
    nn = lib.nn
    values = nn.ParameterList([lib.ones(2), nn.Parameter(lib.zeros(1, 3)), "text"])
    values.append(lib.ones(1))
    values.extend([lib.ones(4)])
    values += [lib.ones(2, 2)]
    told(values, len(values), type(values[0]).__name__, values[2], len(values[1:3]))
    values[0] = lib.zeros(3)
    told(values, [n for n, _ in values.named_parameters()], list(values.state_dict()))
    told.attempt(lambda: values[9])
    told.attempt(lambda: values.extend(3))
    told.attempt(lambda: values())
    told(len(copy.deepcopy(values)), [type(v).__name__ for v in values])


@scenario
def parameter_dict(lib: Any, told: Told) -> None:
    nn = lib.nn
    values = nn.ParameterDict({"b": lib.ones(2), "a": lib.zeros(1)})
    values["c"] = lib.ones(3)
    values.update([("d", lib.ones(1)), ("e", "text")])
    told(values, list(values), len(values), "a" in values, values["a"], list(reversed(values)))
    told(values.pop("a"), values.popitem(), values.get("gone"), values.setdefault("new", 3))
    told(list(values.keys()), [type(v).__name__ for v in values.values()], list(values.copy()))
    told(values | nn.ParameterDict({"x": lib.ones(1)}))
    told(values.fromkeys(["p", "q"], 1), [n for n, _ in values.named_parameters()])
    told.attempt(lambda: values["gone"])
    told.attempt(lambda: values[3])
    told.attempt(lambda: values(1))
    told.attempt(lambda: values.update(3))
    told.attempt(lambda: values.update([("only",)]))
    del values["b"]
    values.clear()
    told(values)


@pytest.mark.parametrize("steps", SCENARIOS, ids=lambda steps: steps.__name__)
def test_module(steps: Scenario) -> None:
    theirs, ours = Told(), Told()
    steps(torch, theirs)
    steps(weft, ours)
    for number, (actual, expected) in enumerate(zip(ours, theirs, strict=False)):
        assert actual == expected, f"step {number} of {steps.__name__}"
    assert len(ours) == len(theirs)


def test_a_difference_is_seen() -> None:
    told = Told()
    make_net(weft).register_forward_hook(lambda *a: told("called"))
    told(make_net(weft)(weft.ones(1, 3)))
    other = Told()
    other(make_net(weft).double()(weft.ones(1, 3, dtype=weft.float64)))
    assert told != other
