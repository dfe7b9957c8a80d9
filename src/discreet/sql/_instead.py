"""What to ask instead: the same question of all rows, or the regression that it is about."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from discreet._dataclass import dataclass
from discreet.errors import QueryError
from discreet.sql._text import tree

_CHOOSING: Final = ("having", "qualify", "order", "limit", "offset", "hint")
_PAIRS: Final = ("CORR", "COVAR_", "REGR_")


def of_all_rows(question: str) -> str | None:
    """A question without what chooses rows after the noise; None where it is of another form.

    >>> of_all_rows("SELECT g, COUNT(*) AS n FROM t GROUP BY g HAVING COUNT(*) > 9 LIMIT 3")
    'SELECT g, COUNT(*) AS n FROM t GROUP BY g'
    """
    root = _plain(question)
    if root is None:
        return None
    for clause in _CHOOSING:
        root.set(clause, None)
    return str(root.sql())


@dataclass(frozen=True, slots=True)
class Line:
    """A straight line through two columns: its formula, the table and which rows."""

    formula: str
    table: str
    where: str | None


def line_of(question: str) -> Line | None:
    """What a question about a pair of columns would be as a regression; None: of another form.

    >>> line_of("SELECT REGR_SLOPE(pay, age) AS b FROM jobs WHERE age > 30")
    Line(formula='pay ~ age', table='jobs', where='age > 30')
    """
    root = _plain(question)
    if root is None or root.args.get("group") is not None:
        return None
    calls = [node for node in root.find_all(exp.Func) if _name(node).startswith(_PAIRS)]
    sides = [_sides(node) for node in calls]
    if not sides or any(not isinstance(side, exp.Column) for side in sides[0]):
        return None
    left, right = (side.name for side in sides[0])
    where = root.args.get("where")
    tests = None if where is None else where.this.sql()
    table = root.args["from_"].this.name
    names = (left, right, table)
    return Line(f"{left} ~ {right}", table, tests) if all(map(str.isidentifier, names)) else None


def _name(node: exp.Func) -> str:
    own = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
    return str(own).upper()


def _sides(node: exp.Func) -> tuple[exp.Expr, ...]:
    sides = node.expressions if isinstance(node, exp.Anonymous) else [node.this, node.expression]
    return tuple(sides) if len(sides) == 2 else ()


def _plain(question: str) -> exp.Select | None:
    """One SELECT from one table, as its author wrote it."""
    try:
        root = tree(question, spelled=False)
    except QueryError:
        return None
    if not isinstance(root, exp.Select) or root.args.get("from_") is None:
        return None
    return root if isinstance(root.args["from_"].this, exp.Table) else None
