"""Small faults that a source text can have, each an edit of a few characters.

=============  ===============================================================
operator       what it does
=============  ===============================================================
compare        ``<`` for ``<=`` and the reverse, ``==`` for ``!=``
off by one     an integer is one larger
swapped bound  ``min`` for ``max``, ``floor`` for ``ceil``, low for high
dropped term   one side of a sum, product or condition is gone
sign           plus for minus, minus for plus
no clamp       ``min``, ``max`` and ``clip`` give back what they were given
no call        a statement that only calls (a debit, a check) is gone
no refusal     a ``raise`` is gone
=============  ===============================================================

Texts, annotations, docstrings, defaults of ``__all__`` and ``__repr__`` are left alone.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SILENT = {"__repr__", "__str__", "_repr_html_", "_details", "_shown", "describe", "words", "sql",
          "name"}  # fmt: skip
"""Functions whose result is for people: a change there is no privacy fault."""

_COMPARE = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
}  # fmt: skip
_SWAPS = {"min": "max", "floor": "ceil", "minimum": "maximum", "low": "high", "lower": "upper",
          "left": "right"}  # fmt: skip
_EVERYWHERE = {"min", "max", "floor", "ceil", "minimum", "maximum"}
_SWAPS |= {b: a for a, b in _SWAPS.items()}
_CLAMPS = {"min", "max", "clip", "maximum", "minimum"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault: replace ``text[start:end]`` of a file by ``new``."""

    file: str
    function: str
    line: int
    operator: str
    start: int
    end: int
    old: str
    new: str
    number: int = 0

    @property
    def name(self) -> str:
        """Name that survives edits elsewhere in the file."""
        words = f"{self.file}|{self.function}|{self.operator}|{self.old}|{self.new}|{self.number}"
        return hashlib.sha256(words.encode()).hexdigest()[:10]

    def apply(self, text: str) -> str:
        """Return the file with the fault in it."""
        return text[: self.start] + self.new + text[self.end :]

    def __str__(self) -> str:
        old, new = (" ".join(t.split())[:70] for t in (self.old, self.new))
        return f"{self.name}  {self.file}:{self.line} {self.function}  {old!r} -> {new!r}"


def mutants_of(root: Path, file: str) -> list[Mutant]:
    """Return every fault that the operators make of a file."""
    text = (root / file).read_text("utf-8")
    found, seen = [], Counter[tuple[str, ...]]()
    for made in _Walk(text, file).walk():
        key = made.function, made.operator, made.old, made.new
        numbered = Mutant(*(getattr(made, f) for f in made.__slots__[:-1]), seen[key])
        seen[key] += 1
        found.append(numbered)
    return found


def compiles(mutant: Mutant, text: str) -> bool:
    """Whether a fault leaves a program at all."""
    try:
        compile(mutant.apply(text), mutant.file, "exec")
    except SyntaxError:
        return False
    return True


class _Walk:
    def __init__(self, text: str, file: str) -> None:
        self._text, self._file = text, file
        self._lines = [0]
        for line in text.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._rows = text.splitlines()
        self._around = text

    def walk(self) -> Iterator[Mutant]:
        yield from self._body(ast.parse(self._text), "<module>")

    def _at(self, row: int, column: int) -> int:
        # columns of the parser count bytes
        return self._lines[row - 1] + len(self._rows[row - 1].encode()[:column].decode())

    def _span(self, node: ast.AST) -> tuple[int, int]:
        start = self._at(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        return start, self._at(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def _of(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self._text[start:end]

    def _make(self, where: str, operator: str, node: ast.AST, new: str) -> Mutant:
        start, end = self._span(node)
        line: int = node.lineno  # type: ignore[attr-defined]
        return Mutant(self._file, where, line, operator, start, end, self._of(node), new)

    def _body(self, node: ast.AST, where: str) -> Iterator[Mutant]:
        for child in ast.iter_child_nodes(node):
            yield from self._visit(child, where)

    def _visit(self, node: ast.AST, where: str) -> Iterator[Mutant]:
        match node:
            case (ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name)
                  | ast.ClassDef(name=name)):  # fmt: skip
                if name in SILENT:
                    return
                inner = name if where == "<module>" else f"{where}.{name}"
                if not isinstance(node, ast.ClassDef):
                    self._around = self._of(node)
                for child in node.body:
                    yield from self._visit(child, inner)
                return
            case ast.AnnAssign(value=value):
                if value is not None:
                    yield from self._visit(value, where)
                return
            case ast.Expr(value=ast.Constant()) | ast.Import() | ast.ImportFrom() | ast.JoinedStr():
                return
            case ast.Assert():
                return
            case ast.Assign(targets=[ast.Name(id="__all__" | "__slots__")]):
                return
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                return
            case ast.Raise():
                yield self._make(where, "no refusal", node, "pass")
                return
        yield from self._changes(node, where)
        yield from self._body(node, where)

    def _changes(self, node: ast.AST, where: str) -> Iterator[Mutant]:
        of, make = self._of, self._make
        match node:
            case ast.Expr(value=ast.Call() | ast.Await()):
                yield make(where, "no call", node, "pass")
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
                new = f"{of(left)} {_COMPARE[type(op)]} {of(right)}"
                yield make(where, "compare", node, new)
            case ast.Constant(value=value) if type(value) is int:
                yield make(where, "off by one", node, str(value + 1))
            case ast.BinOp(left=a, right=b, op=ast.Add() | ast.Sub() as op):
                yield make(where, "dropped term", node, f"({of(a)})")
                flipped = "-" if isinstance(op, ast.Add) else "+"
                yield make(where, "sign", node, f"(({of(a)}) {flipped} ({of(b)}))")
            case ast.BinOp(left=a, right=b, op=ast.Mult() | ast.Div() | ast.FloorDiv()):
                yield make(where, "dropped term", node, f"({of(a)})")
            case ast.BoolOp(values=[first, *rest]):
                yield make(where, "dropped term", node, f"({of(rest[-1])})")
                yield make(where, "dropped term", node, f"({of(first)})")
            case ast.UnaryOp(op=ast.USub(), operand=x) if not isinstance(x, ast.Constant):
                yield make(where, "sign", node, f"({of(x)})")
            case ast.UnaryOp(op=ast.Not(), operand=x):
                yield make(where, "sign", node, f"({of(x)})")
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _CLAMPS:
                yield from self._unclamped(node, where)
        match node:
            case ast.Name(id=name, ctx=ast.Load()) if self._swaps(name):
                yield make(where, "swapped bound", node, _SWAPS[name])
            case ast.Attribute(value=value, attr=name, ctx=ast.Load()) if self._swaps(name):
                yield make(where, "swapped bound", node, f"{of(value)}.{_SWAPS[name]}")

    def _swaps(self, name: str) -> bool:
        """Whether the other bound exists here: a name that nobody knows is no fault to find."""
        other = _SWAPS.get(name)
        return other is not None and (
            name in _EVERYWHERE or re.search(rf"\b{other}\b", self._around) is not None
        )

    def _unclamped(self, node: ast.Call, where: str) -> Iterator[Mutant]:
        if len(node.args) < 2 or any(isinstance(a, ast.Starred) for a in node.args):
            return
        named = isinstance(node.func, ast.Name) or not isinstance(node.func.value, ast.Name)
        kept = [a for a in node.args[:2] if not isinstance(a, ast.Constant)]
        for argument in kept if named else kept[:1]:
            yield self._make(where, "no clamp", node, f"({self._of(argument)})")
