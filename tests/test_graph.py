"""weft.graph: what it says of a recording must be what was recorded."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ._target import submodule, weft, weft_only

pytestmark = weft_only
graph_nodes = submodule("graph._nodes")
graph_values = submodule("graph._values")


class Layer(weft.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self, wide: int, out: int) -> None:
        super().__init__()
        self.weight = weft.nn.Parameter(weft.randn(wide, out))
        self.bias = weft.nn.Parameter(weft.zeros(out))

    def forward(self, x: Any) -> Any:
        return weft.tanh(x @ self.weight + self.bias)


class Net(weft.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self, depth: int = 6) -> None:
        super().__init__()
        self.first = Layer(4, 3)
        self.layers = weft.nn.ModuleList(Layer(3, 3) for _ in range(depth))

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        for layer in self.layers:
            x = layer(x)
        return x.sum()


def names(graph: Any) -> list[str]:
    return [node.name() for node in graph]


def document(graph: Any) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(graph.json(), parse_constant=refuse)


# ---- the module that is a function -------------------------------------------------------------


def test_graph_is_a_function_and_a_module() -> None:
    assert weft.graph is sys.modules["weft.graph"]
    x = weft.ones(2, requires_grad=True)
    assert isinstance(weft.graph(x * 2), weft.graph.Graph)
    assert weft.graph.graph(x * 2).nodes[-1].name() == "MulBackward0"


def test_importing_weft_does_not_import_it() -> None:
    program = "import sys, weft; assert 'weft.graph' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


# ---- the walk ------------------------------------------------------------------------------------


def test_nodes_stand_in_the_order_of_recording() -> None:
    a = weft.ones(2, requires_grad=True)
    b = weft.ones(2, requires_grad=True)
    c = a.exp()
    d = b.log()
    graph = weft.graph((d * c).sum())
    assert names(graph) == [
        "AccumulateGrad",
        "ExpBackward0",
        "AccumulateGrad",
        "LogBackward0",
        "MulBackward0",
        "SumBackward0",
    ]
    for node in graph:
        for producer, _ in node.next_functions:
            assert graph.positions[producer] < graph.positions[node]


def test_a_leaf_is_a_graph() -> None:
    x = weft.ones(2, requires_grad=True)
    graph = weft.graph(x)
    assert names(graph) == ["AccumulateGrad"]
    assert "x" in str(graph)


def test_long_chains_do_not_reach_the_stack() -> None:
    x = weft.ones(1, requires_grad=True)
    y = x
    for _ in range(30_000):
        y = -y
    graph = weft.graph(y)
    assert len(graph) == 30_001
    assert "neg: × 30000" in str(graph)


def test_several_results() -> None:
    x = weft.ones(2, requires_grad=True)
    graph = weft.graph({"twice": x * 2, "square": x * x})
    assert set(graph.outputs) == {"['twice']", "['square']"}
    assert len(graph) == 3


# ---- values and gradients ------------------------------------------------------------------------


def test_a_call_is_watched() -> None:
    x = weft.tensor([3.0, 4.0], requires_grad=True)
    graph = weft.graph(lambda x: (x * x).sum(), x)
    leaf, product, total = (graph.seen(node) for node in graph)
    assert product.results[0].elements == [9.0, 16.0]
    assert total.results[0].elements == 25.0
    assert product.gradients[0].elements == [1.0, 1.0]
    assert [value.elements for value in product.argument_gradients] == [[3.0, 4.0], [3.0, 4.0]]
    assert leaf.gradients[0].elements == [6.0, 8.0]
    assert graph.gradient_norm(graph.nodes[0]) == pytest.approx(10.0)
    assert total.backward_seconds > 0


def test_every_gradient_is_the_one_of_autograd() -> None:
    model, x = Net(), weft.randn(5, 4)
    graph = weft.graph(model, x)
    expected = weft.autograd.grad(model(x), list(model.parameters()))
    found = {
        graph.leaf_name(node): graph.seen(node).gradients[0]
        for node in graph
        if node.name() == "AccumulateGrad"
    }
    assert len(found) == len(expected) == 14
    for (name, _), gradient in zip(model.named_parameters(), expected, strict=True):
        assert found[name].norm == pytest.approx(gradient.norm().item(), rel=1e-5)
    for node in graph:
        assert graph.gradient_norm(node) is not None


def test_gradients_of_results_that_are_no_scalars_are_those_of_their_sum() -> None:
    x = weft.ones(2, 3, requires_grad=True)
    graph = weft.graph(lambda x: (x.exp(), x * 2), x)
    assert graph.gradient_norm(graph.nodes[0]) == pytest.approx((math.e + 2) * math.sqrt(6))


def test_grad_is_not_disturbed_and_no_hook_stays() -> None:
    x = weft.ones(2, requires_grad=True)
    x.grad = weft.full((2,), 7.0)
    y = weft.ones(2, requires_grad=True)
    graph = weft.graph(lambda: (x * y).sum())
    assert x.grad.tolist() == [7.0, 7.0] and y.grad is None
    product = graph.seen(graph.nodes[2]).gradients[0]
    assert not any(hooks for node in graph for hooks in (node._hooks or {}).values())
    (x * y).sum().backward()
    assert graph.seen(graph.nodes[2]).gradients[0] is product


def test_nobody_is_watched_after_an_error() -> None:
    def fails(x: Any) -> Any:
        raise ValueError("of the user")

    with pytest.raises(ValueError, match="of the user"):
        weft.graph(fails, weft.ones(1, requires_grad=True))
    assert weft._core._set_observer(None) is None


def test_large_tensors_are_told_in_statistics() -> None:
    x = weft.arange(100.0).requires_grad_()
    value = weft.graph(lambda x: x * 1, x).seen(weft.graph(x).nodes[0]).results[0]
    assert value.elements is None
    expected = {"count": 100, "min": 0.0, "max": 99.0, "mean": 49.5, "zeros": 1}
    assert expected.items() <= value.statistics.items()
    assert value.statistics["std"] == pytest.approx(28.86607)
    assert value.norm == pytest.approx(math.sqrt(sum(i * i for i in range(100))))


@pytest.mark.parametrize("size", [3, 300])
def test_nan_and_infinity_are_counted(size: int) -> None:
    x = weft.ones(size)
    x[0], x[1] = math.nan, math.inf
    value = graph_values.look(x)
    assert value.statistics["nan"] == 1 and value.statistics["inf"] == 1
    assert value.statistics["max"] == 1.0
    assert math.isnan(value.norm)


def test_a_backward_that_fails_is_told() -> None:
    def spoils(x: Any) -> Any:
        y = x.exp()
        z = y * y
        y.add_(1)
        return z.sum()

    graph = weft.graph(spoils, weft.ones(2, requires_grad=True))
    assert "inplace" in graph.backward_error
    assert "gradients are not known" in str(graph)
    assert document(graph)["backward_error"] == graph.backward_error


def test_a_finished_graph_shows_what_its_nodes_keep() -> None:
    x = weft.tensor([1.0, 2.0], requires_grad=True)
    loss = (x.exp() * 3).sum()
    nodes = document(weft.graph(loss))["nodes"]
    assert nodes[1]["values"][0]["elements"] == pytest.approx([math.e, math.e**2], rel=1e-6)
    assert "values" not in nodes[-1] and "gradients" not in nodes[0]
    loss.backward()
    nodes = document(weft.graph(loss))["nodes"]
    assert nodes[1]["freed"] and "saved" not in nodes[1]
    assert nodes[0]["gradients"][0]["elements"] == pytest.approx([3 * math.e, 3 * math.e**2])


# ---- names, sizes, places ------------------------------------------------------------------------


def test_leaves_are_named_by_variables_and_parameters() -> None:
    weights = [weft.ones(2, requires_grad=True) for _ in range(2)]
    table = {"a": weft.ones(2, requires_grad=True)}
    alone = weft.ones(2, requires_grad=True)
    graph = weft.graph((weights[1] * table["a"] + alone).sum())
    leaves = [node for node in graph if node.name() == "AccumulateGrad"]
    assert [graph.leaf_name(node) for node in leaves] == ["weights[1]", "table['a']", "alone"]
    graph = weft.graph(Net(1), weft.ones(1, 4))
    found = [graph.leaf_name(node) for node in graph if node.name() == "AccumulateGrad"]
    assert found == ["first.weight", "first.bias", "layers.0.weight", "layers.0.bias"]


def test_arguments_are_named_as_the_function_names_them() -> None:
    x = weft.ones(2, requires_grad=True)
    given = weft.ones(2, requires_grad=True)
    graph = weft.graph(lambda x, *, scale: x * scale, given, scale=x)
    found = [graph.leaf_name(node) for node in graph if node.name() == "AccumulateGrad"]
    assert found == ["x", "scale"]


def test_kept_bytes_count_shared_memory_once() -> None:
    x = weft.ones(10, requires_grad=True)
    y = x.tanh()  # keeps its result
    z = y * y  # keeps both arguments: the same
    graph = weft.graph(z)
    by_name = {node.name(): graph_nodes.kept_bytes(node) for node in graph}
    assert by_name == {"AccumulateGrad": 0, "TanhBackward0": 40, "MulBackward0": 40}
    assert graph.kept_bytes == 40


def test_the_source_of_each_line_is_there() -> None:
    x = weft.ones(2, requires_grad=True)
    y = x.sin()  # the line to be found
    found = document(weft.graph(y))
    file, line, function = found["nodes"][1]["place"]
    assert found["files"][file]["name"] == __file__
    assert "the line to be found" in found["files"][file]["lines"][str(line)]
    assert function == "test_the_source_of_each_line_is_there"


# ---- groups --------------------------------------------------------------------------------------


def members(group: Any) -> list[Any]:
    return [*group.get("leaves", ()), *group.get("members", ())]


def flat(group: Any) -> list[int]:
    found = []
    for member in members(group):
        found += [member] if isinstance(member, int) else flat(member)
    return found


def all_groups(group: Any) -> list[Any]:
    inner = [g for member in members(group) if isinstance(member, dict) for g in all_groups(member)]
    return [group, *inner]


def irregular(count: int, seed: int = 0) -> Any:
    chance = random.Random(seed)
    values = [weft.randn(3, requires_grad=True) for _ in range(60)]
    values += [values[0] + leaf for leaf in values]
    for _ in range(count):
        a, b = chance.choice(values[-30:]), chance.choice(values[-3:])
        values.append(chance.choice([weft.add, weft.mul, weft.maximum])(a, b))
    return sum(values[1:]).sum()


@pytest.mark.parametrize(
    "graph",
    [
        lambda: weft.graph(Net(), weft.ones(2, 4)),
        lambda: weft.graph(irregular(500)),
        lambda: weft.graph(irregular(3000)),
    ],
)
def test_groups_hold_each_node_once_and_no_cycle(graph: Any) -> None:
    made = graph()
    found = document(made)
    assert sorted(flat(found["groups"])) == list(range(len(made)))
    for group in all_groups(found["groups"]):
        assert len(group.get("members", ())) <= 40
        # Between members, edges go one way: no member needs what a later one makes.
        place = {}
        for number, member in enumerate(members(group)):
            inside = [member] if isinstance(member, int) else flat(member)
            place.update(dict.fromkeys(inside, number))
        for position, number in place.items():
            for edge in found["nodes"][position].get("inputs", ()):
                if edge and edge[0] in place:
                    assert place[edge[0]] <= number


def test_modules_are_groups_and_blocks_are_folded() -> None:
    groups = all_groups(document(weft.graph(Net(), weft.ones(2, 4)))["groups"])
    found = [(group["kind"], group["name"], group.get("label", "")) for group in groups]
    assert found[:3] == [
        ("module", "Net", ""),
        ("module", "first", "Layer"),
        ("repeat", "layers.0 … layers.5", "Layer × 6"),
    ]
    assert found[3:] == [("module", f"layers.{i}", "Layer") for i in range(6)]


def test_loops_are_folded_into_rounds() -> None:
    w = weft.randn(3, 3, requires_grad=True)

    def loop(x: Any) -> Any:
        for _ in range(20):
            x = weft.tanh(x @ w) * 0.5
        return x.sum()

    groups = all_groups(document(weft.graph(loop, weft.ones(1, 3)))["groups"])
    assert groups[1]["kind"] == "repeat" and groups[1]["label"] == "20 × 3 operations"
    assert groups[1]["name"].startswith("loop at test_graph.py:")
    assert [len(group["members"]) for group in groups[2:]] == [3] * 20


# ---- text and pictures ---------------------------------------------------------------------------


def test_text_golden() -> None:
    x = weft.tensor([3.0, 4.0], requires_grad=True)
    source = "def norm(x):\n    y = (x * x).sum()\n    return y.sqrt()\n"
    scope: dict[str, Any] = {}
    exec(compile(source, "/somewhere/norm.py", "exec"), scope)
    assert str(weft.graph(scope["norm"], x)).splitlines() == [
        "norm: 3 operations, 1 leaf, 12 B kept for backward",
        "",
        "operation                result                     kept   |grad| line",
        "---------                ------                     ----   ------ ----",
        "x                        [2] float32                            1",
        "#2 mul(x, x)             [2] float32                 8 B    0.141 norm.py:2",
        "#3 sum(#2)               [] float32                           0.1 norm.py:2",
        "#4 sqrt(#3)              [] float32                  4 B        1 norm.py:3",
    ]


@pytest.mark.parametrize("lines", [None, 5, 400])
def test_text_fits_into_eighty_columns(lines: int | None) -> None:
    graph = weft.graph(Net(), weft.ones(2, 4))
    text = graph.text(lines=lines).splitlines()
    assert max(map(len, text)) <= 80
    assert ("cut after 5 lines" in text[-1]) == (lines == 5)
    if lines is None:
        assert sum("#" in line for line in text) == 7 * 3 + 1


def test_dot_has_every_node_and_edge() -> None:
    graph = weft.graph(Net(), weft.ones(2, 4))
    dot = graph.dot()
    assert dot.count(" -> ") == sum(
        producer is not None for node in graph for producer, _ in node.next_functions
    )
    assert all(f"  n{i} [label=" in dot for i in range(len(graph)))
    assert 'label="layers.0: Layer"' in dot
    assert dot.count("{") == dot.count("}")


def test_html_is_one_file(tmp_path: Path) -> None:
    x = weft.ones(2, requires_grad=True)
    graph = weft.graph({"<b>": x * 2})
    path = graph.html(str(tmp_path / "graph.html"))
    page = path.read_text(encoding="utf-8")
    assert "<title>[&#x27;&lt;b&gt;&#x27;]</title>" in page
    assert "<b>'" not in page
    for outside in ("http:", "https:", "src=", "@import"):
        assert outside not in page.replace("http://www.w3.org/2000/svg", "")
    assert graph._repr_html_().startswith("<iframe ")


def test_numbers_that_json_lacks() -> None:
    x = weft.tensor([0.0, -1.0], requires_grad=True)
    nodes = document(weft.graph(lambda x: x.log().sum(), x))["nodes"]
    assert nodes[1]["values"][0]["elements"] == ["-inf", "nan"]


# ---- differences ---------------------------------------------------------------------------------


def program(scale: float = 1.0, extra: bool = False, columns: int = 3) -> Any:
    weft.manual_seed(0)
    x = weft.randn(2, columns, requires_grad=True)

    def run() -> Any:
        y = x.exp() * scale
        if extra:
            y = y.relu()
        return y.sin().sum()

    return weft.graph(run)


def test_equal_graphs_do_not_differ() -> None:
    difference = program().diff(program())
    assert not difference and difference.changes == []
    assert str(difference) == "no difference in 5 nodes"


def test_new_and_gone_nodes() -> None:
    difference = program().diff(program(extra=True))
    assert [change.after.name() for change in difference.new] == ["ReluBackward0"]
    assert not difference.gone
    back = program(extra=True).diff(program())
    assert [change.before.name() for change in back.gone] == ["ReluBackward0"]
    assert not back.new
    assert "- #" in str(back) and "relu at test_graph.py:" in str(back)


def test_changed_shapes_values_and_gradients() -> None:
    shapes = program().diff(program(columns=4))
    assert all("[2, 3] float32 -> [2, 4] float32" in c.what[0] for c in shapes.changed[:4])
    values = program().diff(program(scale=1.001))
    changed = [
        (c.after.name(), [text.partition("'s")[0] for text in c.what]) for c in values.changed
    ]
    assert changed == [
        ("AccumulateGrad", ["gradient"]),
        ("ExpBackward0", ["gradient"]),
        ("MulBackward0", ["value", "gradient"]),
        ("SinBackward0", ["value"]),
        ("SumBackward0", ["value"]),
    ]
    assert not program().diff(program(scale=1.001), rtol=0.1)


def test_the_first_difference_is_not_a_gradient() -> None:
    difference = program().diff(program(scale=1.001))
    assert difference.changes[0].only_gradient  # of the leaf
    assert difference.first.after.name() == "MulBackward0"
    assert "the first that is not a gradient: ~ #3 mul at test_graph.py" in str(difference)
    assert program().diff(program()).first is None


def test_every_planted_difference_is_found() -> None:
    """One weight of a model is changed: that weight is where the difference begins."""
    model, x = Net(), weft.randn(2, 4)
    before = weft.graph(model, x)
    for number in range(6):
        weight = model.layers[number].weight
        kept = weight.detach().clone()
        with weft.no_grad():
            weight[0, 0] += 0.01
        first = before.diff(weft.graph(model, x)).first
        assert first.where.split(" ")[1:] == ["leaf", f"layers.{number}.weight"]
        with weft.no_grad():
            weight.copy_(kept)
    assert not before.diff(weft.graph(model, x))


def test_large_graphs_are_compared_quickly() -> None:
    difference = weft.graph(irregular(4000)).diff(weft.graph(irregular(4000, seed=1)))
    assert difference.new or difference.gone or difference.changed


# ---- what it refuses -----------------------------------------------------------------------------


def test_errors_name_the_cure() -> None:
    x = weft.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"cut by detach at .*test_graph.py:\d+"):
        weft.graph(x.exp().detach())
    with pytest.raises(RuntimeError, match="does not require grad"):
        weft.graph(weft.ones(2))
    with pytest.raises(TypeError, match="pass them in a list"):
        weft.graph(x, x)
    with pytest.raises(TypeError, match=r"a module or a function.* but got int"):
        weft.graph(3)
    with pytest.raises(RuntimeError, match=r"requires_grad_\(\)"):
        weft.graph(lambda x: x + 1, weft.ones(2))


def test_results_that_are_not_computed_yet_are_not_called_freed() -> None:
    x = weft.ones(2, requires_grad=True)
    weft._core._set_deferred(True)
    try:
        y = x.exp()
    finally:
        weft._core._set_deferred(False)
    assert "freed" not in document(weft.graph(y))["nodes"][1]
    y.sum().backward()
    assert document(weft.graph(y))["nodes"][1]["freed"]
