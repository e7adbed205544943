"""Reads the data in a pickle without executing it.

Note [Pickles are programs]
A pickle is a program for a machine with a stack; its instructions can import and call whatever
they name. This is another machine for the instructions that make plain data. Where a pickle names
something, the name is looked up in a fixed table, and what the table has is called with arguments
that it checks itself; a name that is not there ends the reading. Nothing is imported, no attribute
is looked up or set by a name from the file.

Plain data can do harm too, and is bounded here:
* Every instruction takes a byte of the file at least and makes at most one object, so the memory
  in use is in proportion to the file's size, whatever is remembered and repeated.
* Keys are plain values or flat tuples of them: hashing nested tuples that share parts takes time
  exponential in their number, and deeply nested ones all of the stack.
* What comes out is walked once: it is no deeper than `MOST_LEVELS`, does not contain itself, and
  holds nothing but data.
"""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from weft import _core
from weft._size import Size
from weft.keeping._errors import Quoted
from weft.keeping._tree import MOST_LEVELS, Malformed, is_key


class Symbol:
    """Something that a pickle may name, and what calling it with a tuple of arguments gives."""

    __slots__ = ("call", "name")

    def __init__(self, name: str, call: Callable[[tuple[Any, ...]], Any]) -> None:
        self.name = name
        self.call = call


Find = Callable[[str, str], Any]  # module and name to a symbol or a value; raises if refused


class Machine:
    """Runs one pickle after the other from `data`."""

    def __init__(self, data: bytes, find: Find, persistent: Callable[[Any], Any]) -> None:
        self._data = data
        self._find = find
        self._persistent = persistent
        self.at = 0

    def run(self) -> Any:
        """What the pickle at the present place makes; the place is then behind it."""
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []  # the stacks below each mark
        self._memo: dict[int, Any] = {}
        instructions = _INSTRUCTIONS
        while True:
            (code,) = self._take(1)
            if code == _STOP:
                result = self._pop()
                if self._stack or self._below:
                    raise Malformed("its pickle leaves more than one object")
                check_plain(result)
                return result
            instruction = instructions.get(code)
            if instruction is None:
                raise Malformed(f"its pickle has the instruction {code:#04x}, which makes no data")
            instruction(self)

    # ---- pieces of the program ----

    def _take(self, count: int) -> bytes:
        end = self.at + count
        piece = self._data[self.at : end]
        if len(piece) != count:
            raise Malformed("its pickle is cut")
        self.at = end
        return piece

    def _number(self, format: struct.Struct) -> Any:
        return format.unpack(self._take(format.size))[0]

    def _line(self) -> str:
        end = self._data.find(b"\n", self.at, self.at + 10_000)
        if end < 0:
            raise Malformed("its pickle has a line without end")
        line = self._take(end - self.at + 1)[:-1]
        return _text(line)

    def _pop(self) -> Any:
        if not self._stack:
            raise Malformed("its pickle takes from an empty stack")
        return self._stack.pop()

    def _top(self, kinds: tuple[type, ...]) -> Any:
        if not self._stack or type(self._stack[-1]) not in kinds:
            raise Malformed("its pickle fills something that is no container")
        return self._stack[-1]

    def _since_mark(self) -> list[Any]:
        if not self._below:
            raise Malformed("its pickle has no mark where it needs one")
        items = self._stack
        self._stack = self._below.pop()
        return items

    # ---- instructions ----

    def mark(self) -> None:
        self._below.append(self._stack)
        self._stack = []

    def duplicate(self) -> None:
        self._stack.append(self._pop())
        self._stack.append(self._stack[-1])

    def remember(self, number: int) -> None:
        if not self._stack:
            raise Malformed("its pickle remembers what is not there")
        self._memo[number] = self._stack[-1]

    def recall(self, number: int) -> None:
        if number not in self._memo:
            raise Malformed("its pickle recalls what it never remembered")
        self._stack.append(self._memo[number])

    def push_tuple(self, count: int) -> None:
        items = [self._pop() for _ in range(count)]
        self._stack.append(tuple(reversed(items)))

    def append(self) -> None:
        item = self._pop()
        self._top((list,)).append(item)

    def appends(self) -> None:
        items = self._since_mark()
        self._top((list,)).extend(items)

    def add_items(self) -> None:
        items = self._since_mark()
        self._top((set,)).update(_keys(items))

    def set_item(self) -> None:
        value = self._pop()
        key = self._pop()
        self._top(_MAPPINGS).update(_pairs([key, value]))

    def set_items(self) -> None:
        items = self._since_mark()
        self._top(_MAPPINGS).update(_pairs(items))

    def push_global(self) -> None:
        module = self._line()
        self._stack.append(self._find(module, self._line()))

    def push_global_from_stack(self) -> None:
        name = self._pop()
        module = self._pop()
        if type(name) is not str or type(module) is not str:
            raise Malformed("its pickle names something by what is no text")
        self._stack.append(self._find(module, name))

    def call(self) -> None:
        arguments = self._pop()
        symbol = self._pop()
        if type(symbol) is not Symbol or type(arguments) is not tuple:
            raise Malformed("its pickle calls what cannot be called")
        self._stack.append(symbol.call(arguments))

    def build(self) -> None:
        """Gives an ordered dict the attribute that Module.state_dict() leaves there."""
        state = self._pop()
        target = self._top((OrderedDict,))
        if type(state) is not dict or not state.keys() <= {"_metadata"}:
            raise Malformed("its pickle sets attributes")
        vars(target).update(state)

    def push_persistent(self) -> None:
        self._stack.append(self._persistent(self._pop()))

    def protocol(self) -> None:
        (number,) = self._take(1)
        if number > 5:
            raise Malformed(f"its pickle is of the protocol {number}")


_MAPPINGS = (dict, OrderedDict, Counter)
_STOP = ord(".")

_INT32 = struct.Struct("<i")
_UINT8, _UINT16, _UINT32, _UINT64 = (struct.Struct(f"<{code}") for code in "BHIQ")
_FLOAT = struct.Struct(">d")


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise Malformed("a text in its pickle is no UTF-8") from None


def _keys(items: list[Any]) -> list[Any]:
    for item in items:
        if not is_key(item):
            raise Malformed(f"its pickle uses a {type(item).__name__} as a key")
    return items


def _pairs(items: list[Any]) -> list[tuple[Any, Any]]:
    if len(items) % 2:
        raise Malformed("its pickle has a key without a value")
    return list(zip(_keys(items[::2]), items[1::2], strict=True))


def _decimal(line: str) -> int | bool:
    if line in ("00", "01"):  # booleans of the oldest protocol
        return line == "01"
    try:
        return int(line.removesuffix("L"))
    except ValueError:
        raise Malformed("a number in its pickle is none") from None


def _real(line: str) -> float:
    try:
        return float(line)
    except ValueError:
        raise Malformed("a number in its pickle is none") from None


def _pushing(make: Callable[[Machine], Any]) -> Callable[[Machine], None]:
    def instruction(machine: Machine) -> None:
        value = make(machine)  # this may exchange the stack
        machine._stack.append(value)

    return instruction


def _sized(size: struct.Struct, make: Callable[[bytes], Any]) -> Callable[[Machine], None]:
    return _pushing(lambda machine: make(machine._take(machine._number(size))))


def _signed(raw: bytes) -> int:
    return int.from_bytes(raw, "little", signed=True)


def _integer(raw_size: int) -> int:
    if raw_size < 0:
        raise Malformed("a number in its pickle has less than no bytes")
    return raw_size


_INSTRUCTIONS: Mapping[int, Callable[[Machine], Any]] = {
    ord(code): instruction
    for code, instruction in {
        "\x80": Machine.protocol,
        "\x95": lambda machine: machine._take(8),  # a frame: only its length
        "(": Machine.mark,
        "0": Machine._pop,
        "1": Machine._since_mark,
        "2": Machine.duplicate,
        # plain values
        "N": _pushing(lambda machine: None),
        "\x88": _pushing(lambda machine: True),
        "\x89": _pushing(lambda machine: False),
        "I": _pushing(lambda machine: _decimal(machine._line())),
        "L": _pushing(lambda machine: _decimal(machine._line())),
        "F": _pushing(lambda machine: _real(machine._line())),
        "J": _pushing(lambda machine: machine._number(_INT32)),
        "K": _pushing(lambda machine: machine._number(_UINT8)),
        "M": _pushing(lambda machine: machine._number(_UINT16)),
        "G": _pushing(lambda machine: machine._number(_FLOAT)),
        "\x8a": _sized(_UINT8, _signed),
        "\x8b": _pushing(lambda machine: _signed(machine._take(_integer(machine._number(_INT32))))),
        "U": _sized(_UINT8, _text),
        "T": _pushing(lambda machine: _text(machine._take(_integer(machine._number(_INT32))))),
        "X": _sized(_UINT32, _text),
        "\x8c": _sized(_UINT8, _text),
        "\x8d": _sized(_UINT64, _text),
        "B": _sized(_UINT32, bytes),
        "C": _sized(_UINT8, bytes),
        "\x8e": _sized(_UINT64, bytes),
        "\x96": _sized(_UINT64, bytearray),
        # containers
        "]": _pushing(lambda machine: []),
        "l": _pushing(Machine._since_mark),
        "a": Machine.append,
        "e": Machine.appends,
        ")": _pushing(lambda machine: ()),
        "t": _pushing(lambda machine: tuple(machine._since_mark())),
        "\x85": lambda machine: machine.push_tuple(1),
        "\x86": lambda machine: machine.push_tuple(2),
        "\x87": lambda machine: machine.push_tuple(3),
        "}": _pushing(lambda machine: {}),
        "d": _pushing(lambda machine: dict(_pairs(machine._since_mark()))),
        "s": Machine.set_item,
        "u": Machine.set_items,
        "\x8f": _pushing(lambda machine: set()),
        "\x90": Machine.add_items,
        "\x91": _pushing(lambda machine: frozenset(_keys(machine._since_mark()))),
        # the memo
        "p": lambda machine: machine.remember(_decimal(machine._line())),
        "q": lambda machine: machine.remember(machine._number(_UINT8)),
        "r": lambda machine: machine.remember(machine._number(_UINT32)),
        "\x94": lambda machine: machine.remember(len(machine._memo)),
        "g": lambda machine: machine.recall(_decimal(machine._line())),
        "h": lambda machine: machine.recall(machine._number(_UINT8)),
        "j": lambda machine: machine.recall(machine._number(_UINT32)),
        # names, calls and what lies beside the pickle
        "c": Machine.push_global,
        "\x93": Machine.push_global_from_stack,
        "R": Machine.call,
        "\x81": Machine.call,
        "b": Machine.build,
        "Q": Machine.push_persistent,
    }.items()
}


# ---- what may come out ---------------------------------------------------------------------------

_LEAVES = frozenset(
    (str, int, float, bool, complex, bytes, bytearray, type(None), slice, range, Size,
     _core.dtype, _core.device)
)  # fmt: skip


def _children(value: Any) -> list[Any]:
    kind = type(value)
    if kind in (list, tuple, set, frozenset):
        return list(value)
    if kind is dict or kind is Counter:
        return [*value, *value.values()]
    if kind is OrderedDict:
        return [*value, *value.values(), *vars(value).values()]
    if isinstance(value, _core.Tensor):
        return []
    name = value.name if isinstance(value, Symbol) else kind.__name__
    raise Malformed(f"its pickle holds {Quoted(name)}, which is no data")


def check_plain(root: Any) -> None:
    """Raises unless `root` is data, of bounded depth, and does not contain itself."""
    depths: dict[int, int] = {}
    open_nodes: set[int] = set()
    waiting = [root]
    while waiting:
        value = waiting[-1]
        number = id(value)
        if type(value) in _LEAVES or number in depths:
            waiting.pop()
            continue
        children = [child for child in _children(value) if type(child) not in _LEAVES]
        if number not in open_nodes:
            open_nodes.add(number)
            for child in children:
                if id(child) in open_nodes:
                    raise Malformed("its pickle makes a container that contains itself")
                if id(child) not in depths:
                    waiting.append(child)
            continue
        waiting.pop()
        open_nodes.discard(number)
        depths[number] = 1 + max((depths[id(child)] for child in children), default=0)
        if depths[number] > MOST_LEVELS:
            raise Malformed(f"its pickle is nested more than {MOST_LEVELS} levels deep")
