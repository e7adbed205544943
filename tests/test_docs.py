"""The pages under docs/ and README.md: their code runs and prints what they show; links lead on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ._target import weft, weft_only
from .docs.pages import ROOT, agrees, blocks_of, printed_by, rewritten

pytestmark = weft_only

OUTSIDE = ("reference", "decisions")  # generated, or the record of another time
PAGES = [ROOT / "README.md"] + [
    page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if page.relative_to(ROOT / "docs").parts[0] not in OUTSIDE
]
# Their code is pieces of programs, which tests of their own run whole.
PIECES = ("adding-an-operation", "doctor")
RUN = [page for page in PAGES if page.stem not in PIECES and blocks_of(page.read_text())]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_the_page_shows_what_its_code_prints(page: Path) -> None:
    blocks = blocks_of(page.read_text())
    for block, printed in zip(blocks, printed_by(blocks), strict=True):
        where = f"{name_of(page)}:{block.line}"
        assert agrees(block.shown, printed), f"{where} prints\n{printed}\nand shows\n{block.shown}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        target = link.partition("#")[0]
        if target and "://" not in target:
            assert (page.parent / target).exists(), f"{name_of(page)} links to {link}"


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    for page in PAGES[1:]:
        assert str(page.relative_to(ROOT / "docs")) in navigation


def test_what_is_said_to_be_missing_is_missing() -> None:
    page = (ROOT / "docs" / "coming-from-pytorch.md").read_text()
    table = page.partition("| missing | instead |")[2].partition("\n\n")[0]
    cells = [row.split("|")[1] for row in table.splitlines()[2:]]
    said = [name for cell in cells for name in re.findall(r"`([\w.]+)`", cell)]
    places = [weft, weft.linalg, weft.nn, weft.nn.functional, weft.optim]
    assert len(said) > 20
    for name in said:
        last = name.rpartition(".")[2]
        found = [place.__name__ for place in places if hasattr(place, last)]
        assert not found, f"{name} is in {found}: the page's table says that it is missing"


SAMPLE = """
```python
x = 1
print(x)
```
```
1
```

Then:

```python title="twice.py"
print(2 * x)
raise ValueError("no")
```
"""


def test_a_page_is_run_as_one_program() -> None:
    assert printed_by(blocks_of(SAMPLE)) == ["1\n", "2\nValueError: no\n"]


def test_a_page_that_shows_something_else_is_noticed() -> None:
    assert agrees("a ... c\n", "a b c\n")
    assert not agrees("a ... c\n", "a b d\n")
    assert not agrees("", "2\n")
    assert not agrees("1\n", "")


def test_writing_puts_in_what_is_printed() -> None:
    wrong = SAMPLE.replace("\n1\n", "\n7\n")
    written = rewritten(wrong)
    assert "\n1\n" in written
    assert written.count("ValueError: no") == 1
    assert rewritten(written) == written
