"""The page of weft.graph in a real browser: looking, opening, searching, stepping, keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .._target import weft, weft_only
from .chromium import Browser, Page, executable, running

PROGRAM = executable()
pytestmark = [
    weft_only,
    pytest.mark.skipif(
        PROGRAM is None, reason="no Chromium on this machine (apt-get install chromium)"
    ),
]

Open = Callable[..., Page]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    assert PROGRAM is not None
    with running(PROGRAM, tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens a graph's page; afterwards the page must have had no error and asked for nothing."""
    pages = []

    def open_page(graph: Any, width: int = 1280, height: int = 800, *, dark: bool = False) -> Page:
        page = Page(browser, width, height, dark=dark)
        pages.append(page)
        page.open(graph.html(tmp_path / f"{len(pages)}.html"))
        return page

    yield open_page
    for page in pages:
        assert page.errors() == []
        page.close()


class Layer(weft.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = weft.nn.Parameter(weft.randn(size, size))

    def forward(self, x: Any) -> Any:
        return weft.tanh(x @ self.weight)


class Model(weft.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self, layers: int = 3) -> None:
        super().__init__()
        self.layers = weft.nn.ModuleList(Layer(4) for _ in range(layers))

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x.sum()


def model_graph() -> Any:
    return weft.graph(Model(), weft.randn(2, 4))


def shown(page: Page) -> list[str]:
    """The names on the boxes and frames in the picture."""
    names = "[...document.querySelectorAll('.picture .name')].map((t) => t.textContent)"
    return sorted(page.evaluate(names))


def panel(page: Page) -> str:
    return str(page.evaluate("document.getElementById('panel').innerText"))


def selector(page: Page, name: str) -> str:
    """A CSS selector of the first box or frame with this name."""
    found = page.evaluate(
        "[...document.querySelectorAll('.picture [data-id]')]"
        f".find((e) => e.querySelector('.name').textContent === '{name}').dataset.id"
    )
    return f".picture [data-id={found}]"


def test_modules_open_and_close(open_page: Open) -> None:
    page = open_page(model_graph())
    page.press("f")
    assert "tanh" in shown(page)
    page.click(selector(page, "layers.1") + " .chevron")
    names = shown(page)
    assert names.count("tanh") == 2 and "layers.1" in names
    page.click(selector(page, "layers.1"), times=2)
    assert shown(page).count("tanh") == 3


def test_a_click_shows_operation_shapes_gradients_formula_and_source(open_page: Open) -> None:
    page = open_page(model_graph())
    page.press("f")
    page.click(selector(page, "tanh"))
    text = panel(page)
    for expected in (
        "TanhBackward0",
        "[2, 4] float32",
        "g · (1 − y²)",
        "return weft.tanh(x @ self.weight)",
        "in forward",
        "Kept for backward: 32 B",
        "norm",
    ):
        assert expected in text
    # Two by four values of the result, and as many of each gradient.
    assert page.evaluate("document.querySelectorAll('#panel td[data-strength]').length") >= 24


def test_search_finds_and_shows_what_is_hidden(open_page: Open) -> None:
    page = open_page(model_graph())
    page.evaluate("weftGraph.model.closeAll(), weftGraph.redraw()")
    assert "tanh" not in shown(page)
    page.press("/")
    page.write("layers.2 tanh")
    assert page.evaluate("document.querySelectorAll('#found [role=option]').length") == 1
    page.press("Enter")
    assert "tanh" in shown(page)
    assert "Model.layers.2" in page.evaluate("weftGraph.chosen.module")
    page.press("/")
    page.write("nothing like it")
    assert "nothing found" in page.evaluate("document.getElementById('found').innerText")


def test_recording_step_by_step(open_page: Open) -> None:
    graph = model_graph()
    page = open_page(graph)
    page.click("[data-mode=forward][role=radio]")
    seen = []
    for _ in graph.nodes:
        seen.append(page.evaluate("weftGraph.chosen.position"))
        assert page.evaluate("document.querySelectorAll('.now').length") == 1
        page.press("ArrowRight")
    assert seen == list(range(len(graph)))
    page.press("Home")
    assert page.evaluate("document.getElementById('counter').innerText").startswith("1 of ")
    assert page.evaluate("document.querySelectorAll('.future').length") > 0


def test_backward_step_by_step_with_gradients(open_page: Open) -> None:
    graph = model_graph()
    page = open_page(graph)
    page.press("3")
    seen = []
    for _ in graph.nodes:
        seen.append(page.evaluate("weftGraph.chosen.position"))
        page.press("ArrowRight")
    assert seen == graph.backward_order()
    assert graph.nodes[seen[0]].name() == "SumBackward0"
    page.press("Home")
    assert "Gradient that arrives: g\n\nnorm 1\n" in panel(page)
    assert panel(page).index("Gradient that arrives") < panel(page).index("Arguments")
    page.press("Escape")
    assert page.evaluate("document.getElementById('stepper').hidden")


def test_keys_move_along_edges(open_page: Open) -> None:
    page = open_page(model_graph())
    page.press("ArrowUp")
    assert page.evaluate("weftGraph.chosen.name") == "sum"
    page.press("ArrowUp")
    assert page.evaluate("weftGraph.chosen.name") == "tanh"
    page.press("ArrowDown")
    assert page.evaluate("weftGraph.chosen.name") == "sum"
    page.press("ArrowLeft")
    assert page.evaluate("weftGraph.chosen.name") == "tanh"
    page.press("c")
    assert page.evaluate("weftGraph.chosen.name") == "layers.2"
    assert not page.evaluate("weftGraph.chosen.open")
    page.press("Enter")
    assert page.evaluate("weftGraph.chosen.open")
    before = len(shown(page))
    page.press("l")
    assert len(shown(page)) == before - 3  # the weights
    page.press("?")
    help_text = page.evaluate("document.querySelector('dialog[open]').innerText")
    assert "search" in help_text and "zoom" in help_text


def test_zoom_and_pan(open_page: Open) -> None:
    page = open_page(model_graph())
    start = page.evaluate("[weftGraph.camera.x, weftGraph.camera.scale]")
    page.wheel((300, 300), -200)
    zoomed = page.wait_for(f"weftGraph.camera.scale > {start[1]} && weftGraph.camera.scale")
    x = page.evaluate("weftGraph.camera.x")
    page.drag((40, 400), (140, 430))
    assert page.evaluate("weftGraph.camera.x") == pytest.approx(x + 100)
    assert page.evaluate("weftGraph.chosen") is None  # a drag is no click
    page.press("-")
    assert page.evaluate("weftGraph.camera.scale") < zoomed


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
def test_nothing_is_cut_off(open_page: Open, size: tuple[int, int], dark: bool) -> None:
    page = open_page(model_graph(), *size, dark=dark)
    page.press("2")
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    outside = page.evaluate(
        "[...document.querySelectorAll('button, input, #counter')].filter((e) => {"
        " const r = e.getBoundingClientRect();"
        " return r.width && !e.closest('#panel, dialog') &&"
        " (r.right > innerWidth + 1 || r.bottom > innerHeight + 1) }).length"
    )
    assert outside == 0
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(map(int, background.removeprefix("rgb(").removesuffix(")").split(",")))
    assert (brightness < 200) == dark
    page.press("t")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != background


def test_names_are_shown_as_text(open_page: Open) -> None:
    x = weft.ones(2, requires_grad=True)

    def graph_of(tensors: dict[str, Any]) -> Any:
        return (tensors["</script><img src=x onerror=alert(1)>"] * 2).sum()

    page = open_page(weft.graph(graph_of, {"</script><img src=x onerror=alert(1)>": x}))
    assert any("<img src=x" in name for name in shown(page))
    assert page.evaluate("document.images.length") == 0


def test_a_finished_tensor_says_what_is_not_known(open_page: Open) -> None:
    x = weft.ones(2, requires_grad=True)
    page = open_page(weft.graph(x.exp().log().sum()))
    assert "finished tensor" in panel(page)
    page.click(selector(page, "log"))
    assert "not known" in panel(page)
    page.click(selector(page, "exp"))
    assert "2.718" in panel(page)  # kept for backward, so known


def test_a_difference_is_marked_and_listed(open_page: Open, tmp_path: Path) -> None:
    model, x = Model(), weft.randn(2, 4)
    before = weft.graph(model, x)
    after = weft.graph(lambda x: model(x) * 2, x)
    page = open_page(after)
    page.open(before.diff(after).html(tmp_path / "difference.html"))
    assert "Differences from Model" in panel(page)
    assert panel(page).index("#11 mul") < panel(page).index("layers.0.weight")
    assert page.evaluate("document.querySelectorAll('.differs-new').length") == 1
    page.press("/")
    page.write("new")
    page.press("Enter")
    assert "Difference: new" in panel(page)


def loop(count: int) -> Any:
    w = weft.randn(4, 4, requires_grad=True)
    h = weft.zeros(2, 4)
    for _ in range(count // 4):
        h = weft.tanh(h @ w) * 0.5 + 1.0
    return h.sum()


def irregular(count: int) -> Any:
    """No two neighbours alike, with connections across."""
    import random

    chance = random.Random(0)
    values = [weft.randn(3, requires_grad=True)]
    for _ in range(count):
        a, b = chance.choice(values[-30:]), chance.choice(values[-3:])
        values.append(chance.choice([weft.add, weft.mul, weft.sub, weft.maximum])(a, b))
    return sum(values[-30:]).sum()


@pytest.mark.native_only
@pytest.mark.parametrize("program", [loop, irregular])
def test_ten_thousand_nodes_open_in_three_seconds(open_page: Open, program: Any) -> None:
    graph = weft.graph(program(12_000))
    assert len(graph) >= 10_000
    page = open_page(graph)
    assert float(page.evaluate("document.body.dataset.ready")) <= 3000
    boxes = "document.querySelectorAll('.picture [data-id]').length"
    assert 2 <= page.evaluate(boxes) <= 120
    page.press("2")
    for _ in range(5):
        page.press("ArrowRight")
    assert page.evaluate(boxes) <= 250
    page.press("/")
    page.write(f"#{len(graph) // 2}")
    page.press("Enter")
    assert page.evaluate("weftGraph.chosen.position") == len(graph) // 2 - 1
