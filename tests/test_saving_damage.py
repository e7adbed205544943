"""Damaged files: refused with one exception, or loaded as what was saved. Never anything else.

WEFT_MUTATIONS is how many damaged files each test loads.
"""

from __future__ import annotations

import itertools
import os
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ._target import weft
from .saving_mutations import (
    damaged,
    members_of,
    with_edited_content,
    with_edited_header,
    with_edited_pickle,
    zip_of,
)
from .saving_samples import (
    bits,
    loaded,
    old_torch_file,
    plain_tensors,
    saved,
    torch_zip,
    torch_zip_content,
    training_state,
)

keeping = pytest.importorskip("weft.keeping")
DamagedFileError, RefusedFileError = keeping.DamagedFileError, keeping.RefusedFileError

MUTATIONS = int(os.environ.get("WEFT_MUTATIONS", "1500"))
SEED = int(os.environ.get("WEFT_MUTATIONS_SEED", "1"))


def outcomes(
    data: bytes, damage: Callable[[bytes, random.Random], bytes], expected: Any
) -> dict[str, int]:
    """How many damaged files were refused, and how many loaded as if nothing had happened.

    With `expected` None any content will do: such damage is not to be told from a change made on
    purpose, and the test is that loading ends well.
    """
    counts = {"refused": 0, "the same": 0}
    for number in range(MUTATIONS):
        mutant = damage(data, random.Random(SEED * 1_000_003 + number))
        try:
            found = loaded(mutant)
        except DamagedFileError as error:
            assert "weft.load(): the file object" in str(error)
            counts["refused"] += 1
            continue
        if expected is not None:
            assert bits(found) == bits(expected), f"damage {number} was not noticed"
        bits(found)  # whatever it is, it can be looked at
        counts["the same"] += 1
    return counts


def test_every_damage_to_a_file_of_wefts_is_noticed() -> None:
    state = training_state()
    counts = outcomes(saved(state), damaged, state)
    # Pieces that are exchanged with their like, or bytes set to what they were.
    assert counts["refused"] > 0.97 * MUTATIONS


def test_every_single_bit_of_a_file_of_wefts_is_covered() -> None:
    data = saved(training_state())
    for bit in range(len(data) * 8):
        mutant = bytearray(data)
        mutant[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedFileError):
            loaded(bytes(mutant))


def test_a_file_of_wefts_is_not_taken_for_another_programs() -> None:
    """Other programs' files have no checksums: the mark that tells them apart must not get lost."""
    data = saved(training_state())
    places = data.count(b"weftfile")
    assert places == 4
    for damaged_places in itertools.product((False, True), repeat=places):
        if any(damaged_places) and not all(damaged_places):
            pieces = data.split(b"weftfile")
            marks = [b"weftfi1e" if is_damaged else b"weftfile" for is_damaged in damaged_places]
            mutant = b"".join(itertools.chain(*zip(pieces, [*marks, b""], strict=True)))
            with pytest.raises(DamagedFileError):
                loaded(mutant)


def test_every_cut_is_noticed() -> None:
    for data in (saved(training_state()), torch_zip(), old_torch_file()):
        for size in range(len(data)):
            with pytest.raises(DamagedFileError):
                loaded(data[:size])


def test_an_edited_header_is_noticed() -> None:
    state = training_state()
    assert outcomes(saved(state), with_edited_header, state)["refused"] == MUTATIONS


def test_a_description_that_lies_does_no_harm() -> None:
    data = saved({**training_state(), **plain_tensors(), "list": [1, (2.5, None)], "set": {1}})
    counts = outcomes(data, with_edited_content, None)
    assert counts["refused"] > 0.5 * MUTATIONS and counts["the same"] > 0


def test_damage_to_files_of_other_programs_does_no_harm() -> None:
    table = (
        b'{"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"__metadata__":{"by":"hand"},'
        b'"m":{"dtype":"BOOL","shape":[3],"data_offsets":[24,27]}}'
    )
    data = struct.pack("<Q", len(table)) + table + bytes(27)
    assert loaded(data).keys() == {"w", "m"}
    for damage in (damaged, with_edited_header):
        assert outcomes(data, damage, None)["refused"] > 0.3 * MUTATIONS


def test_every_damage_to_a_zip_file_of_pytorchs_is_noticed() -> None:
    data = torch_zip()
    assert bits(loaded(data)) == bits(torch_zip_content())
    assert outcomes(data, damaged, torch_zip_content())["refused"] > 0.8 * MUTATIONS


def test_a_pickle_that_lies_does_no_harm() -> None:
    counts = outcomes(torch_zip(), with_edited_pickle, None)
    assert counts["refused"] > 0.5 * MUTATIONS


def test_damage_to_old_files_of_pytorchs_does_no_harm() -> None:
    data = old_torch_file()
    assert bits(loaded(data)) == bits(torch_zip_content())
    assert outcomes(data, damaged, None)["refused"] > 0.5 * MUTATIONS


# ---- zip files -----------------------------------------------------------------------------------


def test_a_changed_number_in_a_storage_is_noticed() -> None:
    data = torch_zip()
    number = struct.pack("<f", 4.0)
    assert data.count(number) == 1
    with pytest.raises(DamagedFileError, match="data/0' are not those that were saved"):
        loaded(data.replace(number, struct.pack("<f", 4.5)))


def test_compressed_members_are_refused() -> None:
    import io
    import zipfile

    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members_of(torch_zip()):
            archive.writestr(f"archive/{name}", content * 1000)
    with pytest.raises(RefusedFileError, match="compressed"):
        loaded(file.getvalue())


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_twice_is_noticed() -> None:
    members = members_of(torch_zip())
    with pytest.raises(DamagedFileError, match="two members called"):
        loaded(zip_of([*members, members[-1]]))


def test_the_long_form_of_the_directory_is_read() -> None:
    """Above 4 GB sizes and places stand in an extra field."""
    data = torch_zip()
    end = len(data) - 22
    (size, start) = struct.unpack_from("<2L", data, end + 12)
    directory, at = b"", start
    while at < start + size:
        name_size, extra_size = struct.unpack_from("<2H", data, at + 28)
        lengths, place = struct.unpack_from("<2L", data, at + 20), data[at + 42 : at + 46]
        extra = struct.pack("<2H3Q", 1, 24, lengths[1], lengths[0], *struct.unpack("<L", place))
        entry = bytearray(data[at : at + 46 + name_size])
        entry[20:28] = b"\xff" * 8
        entry[30:32] = struct.pack("<H", len(extra))
        entry[42:46] = b"\xff" * 4
        directory += bytes(entry) + extra
        at += 46 + name_size + extra_size
    count = struct.unpack_from("<H", data, end + 10)[0]
    record = struct.pack(
        "<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, len(directory), start
    )
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, start + len(directory), 1)
    last = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 65535, 65535, 2**32 - 1, 2**32 - 1, 0)
    long = data[:start] + directory + record + locator + last
    assert bits(loaded(long)) == bits(torch_zip_content())
    counts = outcomes(long, damaged, torch_zip_content())
    assert counts["refused"] > 0.8 * MUTATIONS


def test_zip_files_of_other_makers_are_named() -> None:
    with pytest.raises(DamagedFileError, match="none of torch"):
        loaded(zip_of([("letter.txt", b"dear all")]))
    with pytest.raises(RefusedFileError, match="TorchScript"):
        loaded(zip_of([*members_of(torch_zip()), ("constants.pkl", b"")]))
    members = [
        (name, b"big" if name == "byteorder" else content)
        for name, content in members_of(torch_zip())
    ]
    with pytest.raises(RefusedFileError, match="big-endian"):
        loaded(zip_of(members))


def test_a_storage_of_another_size_is_noticed() -> None:
    with pytest.raises(DamagedFileError, match="should take 24 bytes, not 20"):
        loaded(torch_zip(floats=5))
    members = [member for member in members_of(torch_zip()) if member[0] != "data/0"]
    with pytest.raises(DamagedFileError, match="should take 24 bytes, but is not there"):
        loaded(zip_of(members))


# ---- pickles -------------------------------------------------------------------------------------


def pickled(program: bytes) -> Any:
    return loaded(torch_zip(b"\x80\x02" + program + b"."))


STORAGE = b"(U\x07storagectorch\nFloatStorage\nU\x010U\x03cpuK\x06tQ"
HUGE = b"L4611686018427387904L\n"
TENSOR = b"ctorch._utils\n_rebuild_tensor_v2\n("


@pytest.mark.parametrize(
    "name",
    [
        b"os\nsystem", b"builtins\neval", b"builtins\ngetattr", b"torch\nload", b"__main__\nModel",
        b"torch.nn.modules.linear\nLinear", b"numpy.core.multiarray\n_reconstruct", b"torch\nint4",
        b"weft._core\n_zeros", b"collections\ndefaultdict", b"\n", b"builtins\n__import__",
    ],
)  # fmt: skip
def test_names_that_are_not_in_the_table_are_refused(name: bytes) -> None:
    with pytest.raises(RefusedFileError, match="Unsupported global: GLOBAL"):
        pickled(b"c" + name + b"\n(U\x04echot R")
    module, _, inner = name.partition(b"\n")
    with pytest.raises(RefusedFileError, match="Unsupported global: GLOBAL"):
        pickled(b"U" + bytes([len(module)]) + module + b"U" + bytes([len(inner)]) + inner + b"\x93")


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (b"", "empty stack"),
        (b"]]", "more than one object"),
        (b"(]", "more than one object"),
        (b"e", "no mark"),
        (b"NNa", "no container"),
        (b"N(NNu", "no container"),
        (b"}(Nu", "without a value"),
        (b"h\x05", "never remembered"),
        (b"q\x05", "remembers what is not there"),
        (b"\x80\x09N", "protocol 9"),
        (b"X\xff\xff\xff\xffabc", "is cut"),
        (b"\x8b\xff\xff\xff\xff", "less than no bytes"),
        (b"I12x\n", "is none"),
        (b"I" + b"9" * 5000 + b"\n", "is none"),
        (b"U\x02\xff\xfe", "no UTF-8"),
        (b"c" + b"a" * 20_000, "without end"),
        (b"i__main__\nModel\n", "makes no data"),
        (b"]q\x00h\x00a", "contains itself"),
        (b"]q\x00}(Nh\x00ua", "contains itself"),
        (b"(lq\x00(h\x00tp1\n0h\x00g1\na0", "contains itself"),
        (b"]" * 200 + b"a" * 199, "more than 100 levels"),
        (b"}" + b"N" + b"\x85" * 3 + b"Ns", "uses a tuple as a key"),
        (b"}]Ns", "uses a list as a key"),
        (b"\x8f(]\x90", "uses a list as a key"),
        (b"(]\x91", "uses a list as a key"),
        (b"ctorch\nFloatStorage\n", "which is no data"),
        (b"ctorch\nTensor\n", "which is no data"),
        (b"]ccollections\nOrderedDict\na", "'collections.OrderedDict', which is no data"),
        (STORAGE, "which is no data"),
        (b"NQ", "unknown way"),
        (b"(U\x07storageNU\x010U\x03cpuK\x06tQ", "unknown way"),
        (b"(U\x07storagectorch\nFloatStorage\nU\x010U\x03cpuK\x05tQ", "should take 20 bytes"),
        (b"(U\x07storagectorch\nFloatStorage\nU\x010U\x03cpuL-1L\ntQ", "said to hold '-1'"),
        (STORAGE + b"0(U\x07storagectorch\nByteStorage\nU\x010U\x03cpuK\x06tQ", "two sizes"),
        (TENSOR + STORAGE + b"K\x00(K\x07t(K\x01t\x89NtR", "does not lie inside"),
        (TENSOR + STORAGE + b"K\x06(K\x01t(K\x01t\x89NtR", "does not lie inside"),
        (TENSOR + STORAGE + b"L-1L\n(K\x01t(K\x01t\x89NtR", "not whole numbers"),
        (TENSOR + STORAGE + b"K\x00(L-1L\nt(K\x01t\x89NtR", "not whole numbers"),
        (TENSOR + STORAGE + b"K\x00(K\x03t(L-1L\nt\x89NtR", "not whole numbers"),
        (TENSOR + STORAGE + b"K\x00(K\x03t(K\x01K\x01t\x89NtR", "sizes, strides"),
        (TENSOR + STORAGE + b"K\x00(" + HUGE + b"t(" + HUGE + b"t\x89NtR", "more elements"),
        (TENSOR + b"NK\x00(K\x03t(K\x01t\x89NtR", "something else than a storage"),
        (TENSOR + STORAGE + b"tR", "with 1 arguments"),
        (TENSOR + STORAGE + b"K\x00(K\x03t(K\x01tNNtR", "require a gradient"),
        (TENSOR + STORAGE + b"K\x00(K\x03t(K\x01t\x89N}(U\x04conj\x88utR", "marked"),
        (b"NNR", "cannot be called"),
        (b"ccollections\nOrderedDict\nNR", "cannot be called"),
        (b"ccollections\nOrderedDict\n(K\x03tR", "something else than pairs"),
        (b"ccollections\nOrderedDict\n(]]N\x86atR", "something else than pairs"),
        (b"ccollections\nOrderedDict\n)R}(U\x05itemsNub", "sets attributes"),
        (b"N}b", "no container"),
        (b"c__builtin__\nset\n((]ltR", "something else than keys"),
        (b"c__builtin__\nbytearray\n(K\x09tR", "unknown way"),
        (b"c__builtin__\nbytes\n(K\x09tR", "with 1 arguments"),
        (b"c__builtin__\nxrange\n(K\x01K\x02K\x00tR", "steps of 0"),
        (b"ctorch\ndevice\n(U\x03abctR", "no device"),
        (b"ctorch\nSize\n((U\x01attR", "whole numbers"),
        (b"c_codecs\nencode\n(U\x01aU\x05utf-8tR", "unknown way"),
        (b"ctorch._utils\n_rebuild_parameter\n(NNNtR", "no tensor"),
        (b"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch\nSize\nN)NtR", "unknown way"),
    ],
)  # fmt: skip
def test_programs_that_make_no_data_are_refused(program: bytes, reason: str) -> None:
    with pytest.raises(DamagedFileError, match=reason):
        pickled(program)


def test_shared_parts_stay_cheap() -> None:
    """Thirty levels of a list that holds the level below twice: a billion leaves, if copied."""
    program = b"]" + b"".join(
        b"r%s0](j%sj%se" % ((struct.pack("<I", level),) * 3) for level in range(30)
    )
    value = pickled(program)
    for _ in range(30):
        assert value[0] is value[1]
        value = value[0]


def test_a_long_chain_is_refused_and_freed() -> None:
    for link in (b"\x85", b"N\x86"):
        with pytest.raises(DamagedFileError, match="more than 100 levels"):
            pickled(b"N" + link * 100_000)


def test_a_refused_file_is_refused_as_pytorch_refuses_it() -> None:
    import pickle

    with pytest.raises(pickle.UnpicklingError):
        pickled(b"cos\nsystem\n")
    assert issubclass(RefusedFileError, RuntimeError)


def test_views_of_one_storage_share_it() -> None:
    back = loaded(torch_zip())
    back["w"][1] = 7.0
    assert back["s"].tolist() == [7.0] * 3


def test_a_storage_at_an_odd_place_can_be_mapped(tmp_path: Path) -> None:
    for length in range(4):
        path = tmp_path / str(length)
        members = members_of(torch_zip())
        path.write_bytes(zip_of([("x", bytes(length)), *members]))
        back = weft.load(path, mmap=True)
        assert bits(back) == bits(torch_zip_content())
        assert back["w"].data_ptr() % 4 == 0


def test_an_expanded_tensor_of_pytorchs_takes_no_memory() -> None:
    huge = 2**40
    program = TENSOR + STORAGE + b"K\x02(\x8a\x06" + huge.to_bytes(6, "little") + b"t(K\x00t\x89NtR"
    back = pickled(program)
    assert back.shape == (huge,) and back.stride() == (0,) and back[12345].item() == 2.0
    assert weft.equal(back[:3], weft.full((3,), 2.0))
