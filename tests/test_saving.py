"""`weft.save` and `weft.load`: what comes back, what is refused, what other programs see."""

from __future__ import annotations

import io
import json
import os
import random
import struct
import subprocess
import sys
from collections import OrderedDict, defaultdict, namedtuple
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ._target import weft
from .saving_samples import bits, containers, loaded, plain_tensors, saved, training_state

keeping = pytest.importorskip("weft.keeping")
DamagedFileError = keeping.DamagedFileError

DTYPES = (
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "bool",
)


def again(obj: Any) -> Any:
    return loaded(saved(obj))


def header_of(data: bytes) -> dict[str, Any]:
    (length,) = struct.unpack_from("<Q", data)
    table: dict[str, Any] = json.loads(data[8 : 8 + length])
    return table


# ---- what comes back -----------------------------------------------------------------------------


def test_containers_and_plain_values() -> None:
    obj = containers()
    assert bits(again(obj)) == bits(obj)
    for value in obj.values():
        assert bits(again(value)) == bits(value)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3, 4)])
def test_tensors(name: str, shape: tuple[int, ...]) -> None:
    tensor = (weft.randn(shape) * 5).to(getattr(weft, name))
    back = again(tensor)
    assert bits(back) == bits(tensor)
    assert back.stride() == tensor.stride() and back.is_leaf and not back._is_view()


def test_values_that_are_no_numbers_keep_their_bits() -> None:
    patterns = weft.tensor([0x7FC00001, 0x7F800001, -1, -(2**31), 1], dtype=weft.int32)
    back = again(patterns.view(weft.float32))
    assert back.view(weft.int32).tolist() == patterns.tolist()


def test_the_order_in_memory_comes_back() -> None:
    image = weft.randn(2, 4, 5, 3).permute(0, 3, 1, 2)
    for tensor in (image, weft.randn(3, 4).t()):
        back = again(tensor)
        assert back.stride() == tensor.stride()
        assert bits(back) == bits(tensor)


def test_a_view_keeps_only_what_it_shows() -> None:
    whole = weft.randn(100_000)
    for view in (whole[5:9], whole[::1000], whole.reshape(100, 1000)[:, 3]):
        data = saved(view)
        assert len(data) < 3000
        assert bits(loaded(data)) == bits(view)


def test_an_expanded_tensor_keeps_its_memory() -> None:
    tensor = weft.tensor([[1.0], [2.0]]).expand(2, 100_000)
    data = saved(tensor)
    assert len(data) < 3000
    back = loaded(data)
    assert back.stride() == (1, 0) and bits(back) == bits(tensor)


def test_tensors_that_share_memory_share_it_again() -> None:
    base = weft.arange(24.0).reshape(4, 6)
    obj = {
        "base": base, "same": base, "alias": base.detach(), "row": base[2], "column": base[:, 1],
        "turned": base.t(), "integers": base.view(weft.int32)[0], "apart": weft.zeros(3),
    }  # fmt: skip
    back = again(obj)
    assert back["same"] is back["base"] and back["alias"] is not back["base"]
    assert bits(back) == bits(obj)
    back["base"].fill_(7.0)
    for name in ("alias", "row", "column", "turned"):
        assert back[name].unique().tolist() == [7.0], name
        assert back[name].stride() == obj[name].stride()
    assert back["integers"].tolist() == [0x40E00000] * 6
    assert back["apart"].tolist() == [0.0] * 3


def test_views_share_memory_without_the_tensor_they_are_of() -> None:
    base = weft.arange(100.0)
    first, second = base[10:30], base[20:40]
    back = again([first, second, base[90:]])
    assert bits(back) == bits([first, second, base[90:]])
    back[0][10:] = -1.0
    assert back[1].tolist() == [-1.0] * 10 + list(map(float, range(30, 40)))


def random_view(base: Any, rng: random.Random) -> Any:
    """A view of `base`: sliced, turned, expanded, seen as other numbers."""
    view = base
    for _ in range(rng.randint(0, 3)):
        match rng.randrange(5):
            case 0 if view.dim():
                dim = rng.randrange(view.dim())
                start = rng.randint(0, view.size(dim))
                length = rng.randint(0, view.size(dim) - start)
                view = view.narrow(dim, start, length)
            case 1 if view.dim() > 1:
                view = view.transpose(0, rng.randrange(view.dim()))
            case 2 if view.dim() and view.size(0):
                view = view[:: rng.randint(1, 3)]
            case 3 if view.dim() < 4:
                view = view.unsqueeze(0).expand(rng.randint(1, 3), *view.shape)
            case 4 if view.dtype is weft.float32:
                view = view.view(rng.choice((weft.int32, weft.float32)))
            case _ if view.dim() and view.size(0):
                view = view[rng.randrange(view.size(0))]
    return view


@pytest.mark.parametrize("seed", range(60))
def test_random_views_come_back_and_share_what_they_shared(seed: int) -> None:
    rng = random.Random(seed)
    bases = [weft.randn(rng.randint(1, 6), rng.randint(1, 6)) for _ in range(2)]
    tensors = [random_view(rng.choice(bases), rng) for _ in range(rng.randint(1, 5))]
    back = again(tensors)
    assert bits(back) == bits(tensors)
    # Writing to one shows in the others exactly where it did.
    for number, tensor in enumerate(tensors):
        expanded = any(
            n > 1 and step == 0 for n, step in zip(tensor.shape, tensor.stride(), strict=True)
        )
        if not expanded:
            tensor.fill_(number)
            back[number].fill_(number)
        assert bits(back) == bits(tensors)


def test_gradients_are_asked_for_again() -> None:
    parameter = weft.nn.Parameter(weft.ones(2))
    frozen = weft.nn.Parameter(weft.ones(2), requires_grad=False)
    leaf = weft.ones(3, requires_grad=True)
    back = again([parameter, frozen, leaf, leaf * 2])
    assert [type(item).__name__ for item in back] == ["Parameter", "Parameter", "Tensor", "Tensor"]
    assert [item.requires_grad for item in back] == [True, False, True, True]
    assert all(item.is_leaf for item in back)


def test_a_loaded_tensor_is_an_ordinary_one() -> None:
    weight = again(weft.randn(3, 3, requires_grad=True))
    (weight * weight).sum().backward()
    assert weight.grad.tolist() == (2 * weight).tolist()
    weight = again(weft.zeros(3))
    weight += 1
    assert weight.tolist() == [1.0] * 3


# ---- what others see -----------------------------------------------------------------------------


def test_the_header_names_arrays_by_their_way() -> None:
    table = header_of(saved({"model": {"w": weft.ones(2)}, "list": [weft.ones(1), weft.ones(3)]}))
    assert table.keys() == {"__metadata__", "model.w", "list.0", "list.1"}
    assert table["model.w"]["dtype"] == "F32" and table["model.w"]["shape"] == [2]


def test_names_that_meet_are_told_apart() -> None:
    obj = {
        "a": {"b": weft.ones(1)},
        "a.b": weft.zeros(1),
        "": weft.ones(2),
        "__metadata__": weft.ones(3),
    }
    assert bits(again(obj)) == bits(obj)


def test_arrays_are_aligned_and_without_holes() -> None:
    obj = {name: weft.ones(5, dtype=getattr(weft, name)) for name in DTYPES}
    data = saved({**obj, "large": weft.ones(64)})
    table = header_of(data)
    (length,) = struct.unpack_from("<Q", data)
    assert (8 + length) % 64 == 0
    offsets = []
    for name in (*obj, "large"):
        begin, end = table[name]["data_offsets"]
        assert begin % max(1, (end - begin) // (64 if name == "large" else 5)) == 0
        offsets.append((begin, end))
    offsets.sort()
    assert offsets[0][0] == 0 and offsets[-1][1] == len(data) - 8 - length
    assert all(one[1] == other[0] for one, other in pairwise(offsets))


def foreign(table: Any, arrays: bytes = b"") -> bytes:
    text = table if isinstance(table, bytes) else json.dumps(table).encode()
    return struct.pack("<Q", len(text)) + text + arrays


def test_files_of_other_programs() -> None:
    table = {
        "b": {"dtype": "BF16", "shape": [2], "data_offsets": [8, 12]},
        "a": {"dtype": "I32", "shape": [1, 2], "data_offsets": [0, 8]},
        "__metadata__": {"made by": "hand"},
    }
    back = loaded(foreign(table, struct.pack("<2i2H", 3, -4, 0x3F80, 0xC000)))
    assert list(back) == ["b", "a"]
    assert back["a"].tolist() == [[3, -4]] and back["a"].dtype is weft.int32
    assert back["b"].tolist() == [1.0, -2.0] and back["b"].dtype is weft.bfloat16
    assert loaded(foreign({})) == {}


F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("table", "arrays", "reason"),
    [
        ({"a": F32}, 7, "but 7 bytes follow"),
        ({"a": F32}, 9, "but 9 bytes follow"),
        ({"a": F32, "b": F32}, 8, "overlap"),
        ({"a": {**F32, "data_offsets": [4, 12]}}, 12, "holes"),
        ({"a": {**F32, "data_offsets": [8, 0]}}, 8, "said to lie at 8 to 0"),
        ({"a": {**F32, "data_offsets": [0, 2**64]}}, 8, "said to lie"),
        ({"a": {**F32, "data_offsets": [0, 8.0]}}, 8, "no lists of whole numbers"),
        ({"a": {**F32, "data_offsets": [False, 8]}}, 8, "no lists of whole numbers"),
        ({"a": {**F32, "shape": [-2]}}, 8, "no lists of whole numbers"),
        ({"a": {**F32, "shape": [3]}}, 8, "cannot take 8 bytes"),
        ({"a": {**F32, "shape": [2**62, 2**62, 4]}}, 8, "cannot take 8 bytes"),
        ({"a": {**F32, "shape": [2**63, 0], "data_offsets": [0, 0]}}, 0, "impossible shape"),
        ({"a": {**F32, "shape": [1] * 70 + [2]}}, 8, "71 dimensions"),
        ({"a": {**F32, "dtype": "F31"}}, 8, "unknown dtype"),
        ({"a": {**F32, "dtype": "F8_E4M3"}}, 8, "does not have"),
        ({"a": {**F32, "more": 1}}, 8, "has no dtype, shape"),
        ({"a": 3}, 8, "has no dtype, shape"),
        ({"a": F32, "__metadata__": {"x": 1}}, 8, "no object of strings"),
        ({"a": F32, "__metadata__": {"weftfile.content": "{}"}}, 8, "not the one that weft.save"),
        ([1], 0, "no file of tensors"),
        (b'{"a":1', 0, "no JSON"),
        (b'{"a":' + b"[" * 100_000, 0, "nested too deeply"),
        (b'{"a":' + b"1" * 5000 + b"}", 0, "no JSON"),
        (b'{"a\xff":1}', 0, "no JSON"),
        (b'{"a":NaN}', 0, "NaN is no number"),
        (b'{"__metadata__":{},"__metadata__":{}}', 0, "twice"),
        (b"{} x", 0, "no JSON"),
    ],
)
def test_files_that_lie(table: Any, arrays: int, reason: str) -> None:
    with pytest.raises(DamagedFileError, match=reason):
        loaded(foreign(table, bytes(arrays)))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "begins like no format"),
        (b"abc", "begins like no format"),
        (b"\xff" * 8 + b"{}", "header is said to take 18446744073709551615 bytes"),
        (struct.pack("<Q", 3) + b"{}", "header is said to take 3 bytes"),
        (b"just some text in a file\n", "begins like no format"),
        (b"\x80\x04K\x01.", "none of torch.save"),
    ],
)
def test_files_that_are_none(data: bytes, reason: str) -> None:
    with pytest.raises(DamagedFileError, match=reason):
        loaded(data)


def test_another_programs_edit_is_noticed() -> None:
    data = saved(plain_tensors())
    table = header_of(data)
    (length,) = struct.unpack_from("<Q", data)
    with pytest.raises(DamagedFileError, match="another program may have changed"):
        loaded(foreign(table, data[8 + length :]))


def test_a_newer_format_is_said_to_be_newer() -> None:
    from .saving_mutations import signed

    data = saved(3)
    table = header_of(data)
    content = table["__metadata__"]["weftfile.content"]
    table["__metadata__"]["weftfile.content"] = content.replace('"weftfile":1', '"weftfile":2')
    with pytest.raises(keeping.RefusedFileError, match="newer weft"):
        loaded(signed(table, b""))


# ---- what is refused -----------------------------------------------------------------------------


class Module:
    def state_dict(self) -> dict[str, Any]:
        return {}


class Own(weft.Tensor):
    pass


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        ({"a": Module()}, r"obj\['a'\] is a .*Module.*: save obj\['a'\]\.state_dict\(\)"),
        ([weft.Generator()], r"obj\[0\] .*: save obj\[0\]\.get_state\(\)"),
        ([print], r"obj\[0\] is a builtins"),
        (Point(1, 2), r"save tuple\(obj\)"),
        (defaultdict(list), r"save dict\(obj\)"),
        (
            weft.ones(2).as_subclass(Own),
            r"as_subclass\(weft.Tensor\)",
        ),
        ({Point(1, 2): 3}, "has the key"),
        ({weft.ones(1): 3}, "has the key"),
        ({((1,),): 3}, "has the key"),
        ({frozenset((1,)): 3}, "has the key"),
    ],
)
def test_what_is_no_data_is_refused_with_the_cure(obj: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        saved(obj)


def test_numpy_is_refused_with_the_cure() -> None:
    numpy = pytest.importorskip("numpy")
    with pytest.raises(TypeError, match=r"save weft.from_numpy\(obj\[0\]\)"):
        saved([numpy.ones(2)])
    with pytest.raises(TypeError, match=r"save obj\['best'\].item\(\)"):
        saved({"best": numpy.float64(1)})


def test_endless_objects_are_refused() -> None:
    ring: list[Any] = []
    ring.append({"again": ring})
    with pytest.raises(ValueError, match="contains itself"):
        saved(ring)
    deep: Any = 1
    for _ in range(100):
        deep = {"x": deep}
    assert bits(again(deep)) == bits(deep)
    with pytest.raises(ValueError, match="more than 100 levels"):
        saved([[deep]])


def test_pickle_modules_are_refused() -> None:
    import pickle

    with pytest.raises(ValueError, match="neither writes nor executes pickles"):
        weft.save(1, io.BytesIO(), pickle)
    with pytest.raises(ValueError, match="neither writes nor executes pickles"):
        weft.load(io.BytesIO(saved(1)), pickle_module=pickle)


# ---- files ---------------------------------------------------------------------------------------


def test_paths_and_file_objects(tmp_path: Path) -> None:
    obj = training_state()
    path = tmp_path / "state.safetensors"
    weft.save(obj, path)
    assert bits(weft.load(str(path))) == bits(obj)
    with open(path, "rb") as stream:
        assert bits(weft.load(stream)) == bits(obj)
        assert stream.read() == b""
    with open(path, "rb", buffering=0) as raw:
        assert bits(weft.load(raw)) == bits(obj)
    with open(tmp_path / "other", "w+b") as stream:
        stream.write(b"before")
        weft.save(obj, stream)
        stream.seek(6)
        assert bits(weft.load(stream)) == bits(obj)


def test_a_file_object_is_free_after_a_failure() -> None:
    file = io.BytesIO(saved({"a": weft.ones(3)})[:-1])
    with pytest.raises(DamagedFileError) as kept:
        weft.load(file)
    file.write(b"more")  # even while the exception is held
    assert kept.value is not None


def test_a_compressed_file_object_is_read_through_it(tmp_path: Path) -> None:
    import gzip

    with gzip.open(tmp_path / "state.gz", "wb") as stream:
        weft.save({"a": weft.ones(3)}, stream)
    with gzip.open(tmp_path / "state.gz", "rb") as stream:
        assert weft.load(stream)["a"].tolist() == [1.0] * 3


def test_a_descriptor_of_the_system(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.write(write, saved([1, 2]))
    os.close(write)
    try:
        assert weft.load(f"/dev/fd/{read}") == [1, 2]
    finally:
        os.close(read)
    weft.save([1], "/dev/null")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        weft.load(tmp_path / "none")
    with pytest.raises(RuntimeError, match=r"Parent directory .*none does not exist"):
        weft.save(1, tmp_path / "none" / "file")
    with pytest.raises(IsADirectoryError):
        weft.load(tmp_path)
    with pytest.raises(AttributeError, match="that you can read from"):
        weft.load(3)
    with pytest.raises(AttributeError, match="has write"):
        weft.save(1, 3)
    with pytest.raises(TypeError, match="binary mode"):
        weft.load(io.StringIO("text"))
    with pytest.raises(TypeError, match="binary mode"):
        weft.save(1, io.StringIO())
    with pytest.raises(ValueError, match="f must be a file path"):
        weft.load(io.BytesIO(saved(1)), mmap=True)


@pytest.mark.parametrize("nameless", [True, False])
@pytest.mark.parametrize("call", ["open", "fchmod", "fsync", "link", "replace", "write"])
def test_a_failed_save_leaves_the_old_file(
    tmp_path: Path, call: str, nameless: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not nameless:
        monkeypatch.delattr(os, "O_TMPFILE")
    path = tmp_path / "state"
    weft.save("old", path)

    def no_disk(*arguments: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    def full(stream: Any, pieces: Any) -> None:
        stream.write(next(iter(pieces()))[:50])
        no_disk()

    with monkeypatch.context() as patch:
        if call == "write":
            patch.setattr(keeping._writing, "_write_all", full)
        else:
            patch.setattr(os, call, no_disk)
        if call == "link" and not nameless:
            weft.save("old", path)  # does not need it
        else:
            with pytest.raises(OSError, match="No space"):
                weft.save("new", path)
    assert weft.load(path) == "old"
    assert os.listdir(tmp_path) == ["state"]
    weft.save("new", path)
    assert weft.load(path) == "new"


@pytest.mark.parametrize("nameless", [True, False])
def test_links_and_permissions_stay(
    tmp_path: Path, nameless: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not nameless:
        monkeypatch.delattr(os, "O_TMPFILE")
    path, link = tmp_path / "state", tmp_path / "link"
    before = os.umask(0o027)
    try:
        weft.save("old", path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640
    os.chmod(path, 0o604)
    link.symlink_to(path)
    weft.save("new", link)
    assert weft.load(path) == "new" and link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o604
    assert sorted(os.listdir(tmp_path)) == ["link", "state"]


def test_a_file_object_that_takes_parts_gets_all(tmp_path: Path) -> None:
    class Slow(io.RawIOBase):
        taken = b""

        def write(self, data: Any) -> int:
            self.taken += bytes(data[:100])
            return min(100, len(data))

    slow = Slow()
    weft.save({"a": weft.arange(300)}, slow)
    assert weft.equal(loaded(slow.taken)["a"], weft.arange(300))


def test_nothing_refused_touches_the_file(tmp_path: Path) -> None:
    path = tmp_path / "state"
    weft.save("old", path)
    with pytest.raises(TypeError):
        weft.save([weft.ones(3), print], path)
    assert weft.load(path) == "old"


def test_mapped_tensors_look_at_the_file_and_never_change_it(tmp_path: Path) -> None:
    path = tmp_path / "state"
    obj = {**plain_tensors(), "turned": weft.randn(3, 4).t(), "empty": weft.empty(0, 2)}
    weft.save(obj, path)
    before = path.read_bytes()
    back = weft.load(path, mmap=True)
    assert bits(back) == bits(obj)
    back["weight"].fill_(9.0)
    assert back["weight"].tolist() == [[9.0] * 4] * 3
    assert path.read_bytes() == before
    weft.save("other", path)  # the mapped pages are those of the old file
    assert back["bias"].tolist() == [1.5, -2.0]


def test_checks_can_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "state"
    weft.save({"a": weft.zeros(100)}, path)
    data = bytearray(path.read_bytes())
    data[-1] = 0x40
    path.write_bytes(data)
    for options in ({}, {"mmap": True}):
        with pytest.raises(DamagedFileError, match=r"'a' are not those that were saved"):
            weft.load(path, **options)
        assert weft.load(path, check=False, **options)["a"][-1].item() == 2.0


def test_large_arrays_are_checked_piece_by_piece() -> None:
    tensor = weft.arange(9_000_000, dtype=weft.int64)  # 72 MB: five blocks, more than one thread
    data = bytearray(saved({"a": tensor, "b": weft.ones(3)}))
    assert weft.equal(loaded(bytes(data))["a"], tensor)
    data[len(data) - 40_000_000] ^= 1
    with pytest.raises(DamagedFileError, match="checksum"):
        loaded(bytes(data))


def test_memory_that_is_not_there_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*arguments: Any) -> None:
        raise MemoryError

    data = saved(training_state())
    monkeypatch.setattr(keeping._weft_files, "parse_json", none_left)
    with pytest.raises(RuntimeError, match="not enough memory for what is in the file object"):
        loaded(data)


# ---- places --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "map_location",
    [None, "cpu", weft.device("cpu"), {"cuda:0": "cpu"}, lambda storage, location: storage,
     lambda storage, location: None],
)  # fmt: skip
def test_map_location(map_location: Any) -> None:
    obj = training_state()
    assert bits(loaded(saved(obj), map_location=map_location)) == bits(obj)


def test_map_location_gets_the_memory_and_its_place() -> None:
    seen = []
    loaded(saved({"a": weft.ones(3)}), map_location=lambda *args: seen.append(args))
    ((storage, location),) = seen
    assert storage.nbytes() == 12 and location == "cpu"
    with pytest.raises(TypeError, match="map_location"):
        loaded(saved(1), map_location=3)
    with pytest.raises(ZeroDivisionError):
        loaded(saved(weft.ones(1)), map_location=lambda *args: 1 / 0)


def test_a_device_that_is_not_there_is_named_with_the_cure() -> None:
    if weft.cuda.is_available():
        pytest.skip("there is a device")
    with pytest.raises(RuntimeError, match=r"map_location=weft\.device"):
        loaded(saved(weft.ones(1)), map_location="cuda:0")


# ---- what it costs -------------------------------------------------------------------------------


def test_importing_weft_imports_nothing_of_it() -> None:
    program = (
        "import sys, weft; assert 'weft.keeping' not in sys.modules; import io; f = io.BytesIO();"
        "weft.save({'a': weft.ones(2)}, f); f.seek(0); weft.load(f);"
        "assert not {'numpy', 'weft.nn'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_state_dict_metadata_is_no_plain_attribute() -> None:
    state = OrderedDict(a=1)
    state._metadata = {"": {"version": 2}}  # type: ignore[attr-defined]
    assert again(state)._metadata == {"": {"version": 2}}
