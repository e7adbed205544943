"""Turns schemas into Python signatures, as the stubs and the reference print them.

Tensor has methods called float, int and bool, and weft has dtypes of those names. So inside the
stubs the builtin types go by _float, _int and _bool, and dtype, device, layout and memory_format by
names with such an underscore, too.
"""

from __future__ import annotations

import keyword
from dataclasses import dataclass, replace

from tools.operations import Operation, Overload
from tools.python_signatures import python_signature
from tools.schema import Parameter, Result, Schema, SchemaError, Type

PYTHON_NAMES = {
    "Tensor": "Tensor",
    "Tensor|Scalar": "Tensor | Number",
    "Scalar": "Number",
    "int": "_int",
    "float": "_float",
    "bool": "_bool",
    "str": "str",
    "DType": "_dtype",
    "Device": "_device | str | _int",
    "Layout": "_layout",
    "MemoryFormat": "_memory_format",
    "Generator": "Generator",
}
LITERALS = {"None", "True", "False"}


@dataclass(frozen=True)
class Signature:
    """One way to call one name: `def name(parameters) -> result`."""

    name: str
    parameters: tuple[str, ...]
    result: str

    def __str__(self) -> str:
        return f"def {self.name}({', '.join(self.parameters)}) -> {self.result}: ..."


def python_name(type: Type) -> str:
    try:
        return PYTHON_NAMES[type.base]
    except KeyError:
        raise SchemaError(
            f"no Python type is known for {type.base!r}: add it to PYTHON_NAMES"
        ) from None


def argument_type(type: Type) -> str:
    name = python_name(type)
    if type.is_list:
        items = f"{name} | None" if type.has_optional_items else name
        many = f"Sequence[{items}]"
        # One number stands for a list of one, or for all places.
        name = f"{name} | {many}" if type.base == "int" else many
    return f"{name} | None" if type.is_optional else name


def default_value(text: str) -> str:
    """A schema's default in Python; `...` where the stub has no name for it."""
    if text in LITERALS or text[0] in "\"'":
        return text.replace("'", '"')
    if text[0] == "[":
        items = [item.strip() for item in text[1:-1].split(",") if item.strip()]
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    try:
        float(text)
    except ValueError:
        return "..."
    return text


def parameter(declared: Parameter) -> str:
    type = argument_type(declared.type)
    if declared.default == "None" and not declared.type.is_optional:
        type = f"{type} | None"
    # A name that Python keeps for itself can be given by position only.
    name = f"__{declared.name}" if keyword.iskeyword(declared.name) else declared.name
    if declared.default is None:
        return f"{name}: {type}"
    return f"{name}: {type} = {default_value(declared.default)}"


def named_tuple(schema: Schema) -> str | None:
    """The class of several named results, such as max's values and indices."""
    names = [result.name for result in schema.results]
    return f"_{schema.name}_result" if len(names) > 1 and all(names) else None


def one_result(result: Result) -> str:
    name = python_name(result.type)
    if result.type.is_list:
        name = f"tuple[{name}, ...]"
    return f"{name} | None" if result.type.is_optional else name


def result_type(schema: Schema) -> str:
    if not schema.results:
        return "None"
    if len(schema.results) == 1:
        return one_result(schema.results[0])
    return named_tuple(schema) or f"tuple[{', '.join(map(one_result, schema.results))}]"


def out_parameter(schema: Schema) -> str:
    if len(schema.results) == 1:
        return f"out: {one_result(schema.results[0])} | None = None"
    return f"out: tuple[{', '.join(map(one_result, schema.results))}] | None = None"


def with_star(positional: list[str], keyword_only: list[str]) -> list[str]:
    if not keyword_only or any(text.startswith("*") for text in positional):
        return [*positional, *keyword_only]
    return [*positional, "*", *keyword_only]


def spread(declared: Parameter) -> str:
    return f"*{declared.name}: {python_name(declared.type)}"


def signatures(
    name: str, parameters: list[Parameter], extra: list[str], result: str
) -> list[Signature]:
    """One signature, or two where a lone list of integers may be given as several arguments."""
    positional = [declared for declared in parameters if not declared.keyword_only]
    keywords = [parameter(declared) for declared in parameters if declared.keyword_only] + extra
    listed = with_star(list(map(parameter, positional)), keywords)
    found = [Signature(name, tuple(listed), result)]
    if len(positional) == 1 and positional[0].type.base == "int" and positional[0].type.is_list:
        spread_out = with_star([spread(positional[0])], keywords)
        found.append(Signature(name, tuple(spread_out), result))
    return found


def self_index(schema: Schema) -> int:
    """Which parameter is the tensor whose method this is."""
    names = [declared.name for declared in schema.parameters]
    return names.index("self") if "self" in names else 0


def function_signatures(name: str, overload: Overload) -> list[Signature]:
    # PyTorch's functions call their first tensor `input`.
    schema = overload.schema
    parameters = [
        replace(declared, name="input") if declared.name == "self" else declared
        for declared in schema.parameters
    ]
    extra = [out_parameter(schema)] if "out" in overload.kinds else []
    return signatures(name, parameters, extra, result_type(schema))


def method_signatures(name: str, overload: Overload, result: str) -> list[Signature]:
    parameters = list(overload.schema.parameters)
    del parameters[self_index(overload.schema)]
    found = signatures(name, parameters, [], result)
    return [replace(one, parameters=("self", *one.parameters)) for one in found]


def as_function(method: Signature) -> Signature:
    """weft.exp_(x) for x.exp_()."""
    return replace(method, parameters=("input: Tensor", *method.parameters[1:]), result="Tensor")


def python_form(operation: Operation, name: str, kind: str) -> Signature:
    assert operation.python is not None
    is_method = kind in ("method", "inplace")
    with_out = "out" in operation.python.kinds and not is_method
    parameters, result = python_signature(operation.python.function, with_out, is_method)
    if kind == "inplace":
        return Signature(f"{name}_", parameters, "Self")
    return Signature(name, parameters, result)


def forms(operation: Operation, kind: str) -> list[Signature]:
    """How the operation is called in one of its KINDS; each way once."""
    if kind == "inplace function":
        return list(map(as_function, forms(operation, "inplace"))) if operation.has(kind) else []
    name = operation.name.rpartition(".")[2]
    if operation.in_python(kind):
        return [python_form(operation, name, kind)]
    found: list[Signature] = []
    for overload in operation.overloads:
        if kind not in overload.kinds:
            continue
        if kind in ("function", "functional"):
            found += function_signatures(name, overload)
        elif kind == "method":
            found += method_signatures(name, overload, result_type(overload.schema))
        else:
            found += method_signatures(f"{name}_", overload, "Self")
    return list(dict.fromkeys(found))
