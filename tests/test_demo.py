"""`weft demo`, in a hurry: everything it promises is there, in 80 columns, plain when piped."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from weft import demo


def test_the_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demo.main(tmp_path, patience=0.05)
    text = capsys.readouterr().out
    assert all(len(line) < 80 for line in text.splitlines()), text
    assert "\033" not in text and "\r" not in text
    assert re.search(r"gradients with the mistake: WRONG", text)
    assert re.search(r"detach\(\) cut the loss off from MistakenReader\.digits\.weight", text)
    assert re.search(r"at listops\.py:\d+:  state = fold\(self\.read\(argument\)\.detach\(\)", text)
    assert re.search(r"gradients corrected: right", text)
    assert re.search(r"tree network: [\d,]+ examples, loss [\d.]+, [\d.]+% right", text)
    assert re.search(r"different graphs met in training: +[\d,]+", text)
    before = json.loads((tmp_path / "gradients-before.json").read_text())
    after = json.loads((tmp_path / "gradients-after.json").read_text())
    assert not before["passed"] and after["passed"]
    page = (tmp_path / "listops.html").read_text()
    assert "<html" in page and "GRUCell" in page
