"""Load a ``.pt2`` file without running code that is in it.

``torch.export.load`` unpickles what it finds. A pickle can call any function, so each is first read by PyTorch's loader
of weights alone, which knows tensors and plain containers; a file with anything else is refused, and so is one with
compiled code or objects of C++ classes.
"""

import ast
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from lowerfix.errors import LowerfixError, first_line

_SYMBOLS = {"Symbol", "Dummy"}
_FUNCTIONS = {
    "Abs", "Add", "And", "CeilDiv", "CeilToInt", "CleanDiv", "Eq", "Equality", "Float", "FloorDiv", "FloorToInt", "Ge",
    "GreaterThan", "Gt", "Integer", "IntTrueDiv", "Le", "LessThan", "Lt", "Max", "Min", "Mod", "ModularIndexing", "Mul",
    "Ne", "Not", "Or", "Piecewise", "Pow", "PowByNatural", "PythonMod", "Rational", "RoundToInt", "StrictGreaterThan",
    "StrictLessThan", "ToFloat", "TruncToInt", "Unequality", "Where", "ceiling", "floor",
}  # fmt: skip
"""The functions of sizes that sympy and PyTorch have."""
_ARITHMETIC = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Call, ast.keyword, ast.Name, ast.Constant,
    ast.Tuple, ast.Load, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip

_TENSORS = ("weight_", "tensor_")
"""What the names of the files of tensors begin with."""


def load_program(path: Path) -> ExportedProgram:
    """The program in a ``.pt2`` file.

    Raises:
        LowerfixError: for what is no such file, was written for another version of PyTorch, or is not safe.
    """
    try:
        with path.open("rb") as file:
            _check_safe(file, path)
            file.seek(0)
            return torch.export.load(file)
    except LowerfixError:
        raise
    except OSError as error:
        raise LowerfixError(f"{str(path)!r} cannot be read: {error.strerror or error}") from error
    except Exception as error:
        raise LowerfixError(
            f"{str(path)!r} cannot be loaded by torch {torch.__version__}: {first_line(error)}. It may be damaged, or "
            "written by another version. Next step: export the model again with this one"
        ) from error


def _check_safe(file: io.BufferedReader, path: Path) -> None:
    try:
        archive = zipfile.ZipFile(file)
        names = archive.namelist()
        if archive.testzip() is not None:
            raise zipfile.BadZipFile("a part of it is damaged")
    except zipfile.BadZipFile as error:
        raise LowerfixError(
            f"{str(path)!r} is not a .pt2 file, or only a part of one: {error}. "
            "Next step: write it with torch.export.save(torch.export.export(model.eval(), inputs), path)"
        ) from error
    if not any(name.endswith("/models/model.json") for name in names):
        raise LowerfixError(
            f"{str(path)!r} holds no exported program of this kind of file: it may be a TorchScript archive, a "
            "checkpoint, or from before torch 2.8. Next step: write it with torch.export.save"
        )
    if len(set(names)) != len(names):
        raise LowerfixError(f"{str(path)!r} is refused: it holds several files of one name")
    for name in names:
        inside = name.partition("/")[2]
        if inside != inside.lower():  # PyTorch's reader finds them without regard to case
            raise LowerfixError(f"{str(path)!r} is refused: PyTorch writes no {name}")
        if inside.startswith("models/") and name.endswith(".json"):
            _check_expressions(json.loads(archive.read(name)), path)
        if "/data/aotinductor/" in name:
            raise LowerfixError(f"{str(path)!r} is refused: it holds compiled code ({name})")
        if name.endswith("_config.json") and "/data/" in name:
            folder = name.rpartition("/")[0]
            for entry in json.loads(archive.read(name)).get("config", {}).values():
                member = f"{folder}/{entry['path_name']}"
                if not entry["path_name"].startswith(_TENSORS):
                    raise LowerfixError(f"{str(path)!r} is refused: {member} is a pickled object, and not a tensor")
                if entry["use_pickle"]:
                    _check_pickle(archive, member, path)
        elif name.endswith(".pt"):
            _check_pickle(archive, name, path)


def _check_expressions(value: Any, path: Path) -> None:
    """PyTorch evaluates the sizes in a file as Python, by sympy; they have to be arithmetic."""
    pending = [value]
    while pending:
        value = pending.pop()
        pending.extend(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())
        text = value.get("expr_str") if isinstance(value, dict) else None
        if text is not None and not _is_arithmetic(str(text)):
            raise LowerfixError(f"{str(path)!r} is refused: it has a size that is no arithmetic: {str(text)[:80]!r}")


def _is_arithmetic(text: str) -> bool:
    try:
        nodes = list(ast.walk(ast.parse(text.strip(), mode="eval")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    symbols = {id(a) for node in nodes if isinstance(node, ast.Call) and _name(node) in _SYMBOLS for a in node.args}
    return all(isinstance(node, _ARITHMETIC) and _is_harmless(node, id(node) in symbols) for node in nodes)


def _is_harmless(node: ast.AST, names_a_symbol: bool) -> bool:
    if isinstance(node, ast.Call):
        return _name(node) in _FUNCTIONS | _SYMBOLS
    if isinstance(node, ast.Constant) and isinstance(node.value, str):  # sympy would evaluate it elsewhere
        return names_a_symbol and node.value.isidentifier()
    return not isinstance(node, ast.Name) or not node.id.startswith("_")


def _name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _check_pickle(archive: zipfile.ZipFile, member: str, path: Path) -> None:
    content = archive.read(member)
    if not content:
        return
    try:
        torch.load(io.BytesIO(content), weights_only=True)
    except Exception as error:
        raise LowerfixError(
            f"{str(path)!r} is refused: {member} holds more than tensors, which could run code: "
            f"{first_line(error)}. Next step: export with plain tensors as inputs"
        ) from error
