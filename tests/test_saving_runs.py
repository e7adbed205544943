"""`weft.checkpoint`: which states are kept, and what a run resumes from."""

from __future__ import annotations

import json
import os
import random
import struct
from pathlib import Path
from typing import Any

import pytest

from ._target import weft
from .saving_mutations import signed
from .saving_samples import bits

keeping = pytest.importorskip("weft.keeping")


class Part:
    """Something with a state."""

    def __init__(self, value: Any = 0) -> None:
        self.value = value

    def state_dict(self) -> dict[str, Any]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.value = state["value"]


def files(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-3] ^= 16
    path.write_bytes(bytes(data))


def test_the_newest_state_is_resumed_and_old_ones_go(tmp_path: Path) -> None:
    part = Part()
    keeper = weft.checkpoint(tmp_path / "a" / "b", keep=2, part=part)
    assert keeper.resume() == 0 and keeper.resumed is None
    for step in (10, 20, 30):
        part.value = weft.full((3,), float(step))
        path = keeper.save(step, note="fine")
        assert os.path.exists(path)
    assert files(tmp_path / "a" / "b") == [
        "00000002-step-20.safetensors",
        "00000003-step-30.safetensors",
    ]
    other = Part()
    again = weft.checkpoint(str(tmp_path / "a" / "b"), part=other)
    assert again.resume() == 30
    assert other.value.tolist() == [30.0] * 3
    assert again.resumed["extra"] == {"note": "fine"} and again.resumed["path"] == path
    assert again.resumed["versions"]["weft"] == weft.__version__
    assert "part" in repr(again)


def test_damaged_states_are_passed_over_and_named(tmp_path: Path) -> None:
    part = Part()
    keeper = weft.checkpoint(tmp_path, keep=3, part=part)
    for step in (1, 2, 3):
        part.value = weft.full((2,), float(step))
        keeper.save(step)
    damage(tmp_path / "00000003-step-3.safetensors")
    (tmp_path / "00000002-step-2.safetensors").write_bytes(b"")
    other = Part()
    again = weft.checkpoint(tmp_path, keep=3, part=other)
    with pytest.warns(UserWarning) as warned:
        assert again.resume() == 1
    texts = [str(warning.message) for warning in warned]
    assert "00000003-step-3" in texts[0] and "checksum" in texts[0]
    assert "00000002-step-2" in texts[1] and "begins like no format" in texts[1]
    assert other.value.tolist() == [1.0, 1.0]
    # The damaged ones do not count among the three that are kept, though they are newer.
    for step in (2, 3):
        again.save(step)
    assert files(tmp_path)[0] == "00000001-step-1.safetensors"
    again.save(4)
    assert "00000001-step-1.safetensors" not in files(tmp_path)
    assert weft.checkpoint(tmp_path, part=other).resume() == 4


def test_when_all_are_damaged_the_run_begins_anew(tmp_path: Path) -> None:
    part = Part(weft.ones(2))
    weft.checkpoint(tmp_path, part=part).save(5)
    damage(tmp_path / "00000001-step-5.safetensors")
    with pytest.warns(UserWarning, match="passed over"):
        assert weft.checkpoint(tmp_path, part=part).resume() == 0


def test_a_state_of_a_newer_weft_is_an_error(tmp_path: Path) -> None:
    keeper = weft.checkpoint(tmp_path)
    path = Path(keeper.save(5))
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    table = json.loads(data[8 : 8 + length])
    content = table["__metadata__"]["weftfile.content"]
    table["__metadata__"]["weftfile.content"] = content.replace('"weftfile":1', '"weftfile":2')
    path.write_bytes(signed(table, data[8 + length :]))
    with pytest.raises(keeping.RefusedFileError, match="newer weft"):
        keeper.resume()


def test_a_state_of_something_else_is_passed_over(tmp_path: Path) -> None:
    weft.save({"a": 1}, tmp_path / "00000009-step-7.safetensors")
    (tmp_path / "notes.txt").write_text("keep me")
    with pytest.warns(UserWarning, match="no state that weft.checkpoint keeps"):
        assert weft.checkpoint(tmp_path).resume() == 0
    weft.checkpoint(tmp_path, keep=1).save(1)
    assert files(tmp_path) == ["00000010-step-1.safetensors", "notes.txt"]


def test_starting_anew_in_a_used_folder_goes_on_counting(tmp_path: Path) -> None:
    part = Part("old")
    weft.checkpoint(tmp_path, keep=1, part=part).save(1000)
    part.value = "new"
    weft.checkpoint(tmp_path, keep=1, part=part).save(1)
    assert weft.checkpoint(tmp_path, part=part).resume() == 1
    assert part.value == "new"


def test_random_numbers_go_on_where_they_were(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    generator = weft.Generator().manual_seed(4)
    keeper = weft.checkpoint(tmp_path, generator=generator)

    def draw() -> Any:
        return [
            weft.randn(5),
            weft.randn(5, generator=generator),
            random.gauss(0, 1),
            numpy.random.randn(3).tolist(),
        ]

    draw()
    keeper.save(1)
    expected = bits(draw())
    draw()
    assert keeper.resume() == 1
    assert bits(draw()) == expected


def test_other_parts_are_an_error_before_anything_is_touched(tmp_path: Path) -> None:
    weft.checkpoint(tmp_path, model=Part(1)).save(3)
    model, extra = Part(2), Part(3)
    with pytest.raises(ValueError, match="keeps the state of model, but this run has extra, model"):
        weft.checkpoint(tmp_path, model=model, extra=extra).resume()
    assert model.value == 2


def test_what_has_no_state_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="lr is a float, expected something with state_dict"):
        weft.checkpoint(tmp_path, lr=0.1)
    with pytest.raises(ValueError, match="keep must be a whole number from 1 on, not 0"):
        weft.checkpoint(tmp_path, keep=0)
    with pytest.raises(TypeError, match="'step' must be int, not str"):
        weft.checkpoint(tmp_path).save("3")


def test_a_config_that_cannot_be_kept_is_refused_at_once(tmp_path: Path) -> None:
    import argparse

    options = argparse.Namespace(lr=0.1)
    with pytest.raises(TypeError, match=r"obj\['config'\]\['options'\] .*save vars\("):
        weft.checkpoint(tmp_path, config={"options": options})
    nan = {"start": float("nan"), "weights": weft.ones(3)}
    weft.checkpoint(tmp_path, config=nan).save(1)
    assert weft.checkpoint(tmp_path, config=nan).resume() == 1  # and no warning


def test_another_config_is_a_warning(tmp_path: Path) -> None:
    weft.checkpoint(tmp_path, config={"lr": 0.1, "layers": 3}).save(1)
    assert weft.checkpoint(tmp_path, config={"lr": 0.1, "layers": 3}).resume() == 1
    with pytest.warns(UserWarning, match=r"another config \(different: 'lr', 'width'\)"):
        weft.checkpoint(tmp_path, config={"lr": 0.2, "layers": 3, "width": 1}).resume()


def test_a_state_that_cannot_be_kept_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    part = Part(weft.ones(1))
    keeper = weft.checkpoint(tmp_path, keep=1, part=part)
    keeper.save(1)
    part.value = print
    with pytest.raises(TypeError, match=r"obj\['parts'\]\['part'\]\['value'\]"):
        keeper.save(2)
    assert files(tmp_path) == ["00000001-step-1.safetensors"]


def test_what_killed_processes_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".00000001-step-1.safetensors.77-abcd.part").write_bytes(b"half")
    (tmp_path / ".hidden").write_bytes(b"")
    weft.checkpoint(tmp_path).save(1)
    assert files(tmp_path) == [".hidden", "00000001-step-1.safetensors"]


def test_the_commit_of_the_program_is_recorded(tmp_path: Path) -> None:
    keeper = weft.checkpoint(tmp_path)
    keeper.save(1)
    keeper.resume()
    commit = keeper.resumed["commit"]
    assert commit is None or len(commit.removesuffix("-dirty")) >= 40
