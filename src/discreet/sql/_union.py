"""UNION ALL: the answers of several questions below each other."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from discreet import policy as pol
from discreet.errors import QueryError
from discreet.plan import build, check_together
from discreet.sql._parsed import Fanout, United
from discreet.sql._select import lower
from discreet.sql._text import label, limit_of, only, refuse

_MOST: Final = 16
"""Questions of one union."""


def unite(root: exp.Union, policy: pol.Policy, public_fanout: Fanout | None) -> United:
    """Lower every branch, and how the whole is ordered and cut."""
    parsed = [lower(node, policy, public_fanout) for node in _branches(root)]
    branches = tuple(p.query for p in parsed)
    check_together(b.weight for b in branches)
    names = [o.name for o in branches[0].outputs]
    if any(len(b.outputs) != len(names) for b in branches):
        raise QueryError("the branches of UNION ALL have different numbers of columns")
    order = root.args.get("order")
    items = () if order is None else tuple(_place(item, names) for item in order.expressions)
    limit = limit_of(root.args.get("limit"))
    return United(branches, items, limit, parsed[0].epsilon, parsed[0].delta)


def _branches(root: exp.Union) -> list[exp.Select]:
    branches: list[exp.Select] = []
    stack: list[tuple[exp.Expr, bool]] = [(root, True)]
    clause = root.args.get("with_")
    while stack:
        node, outer = stack.pop()
        node = node.unnest()
        if isinstance(node, exp.Union):
            own = ("order", "limit", "with_") if outer else ()
            only(node, "this", "expression", "distinct", *own, hint="SELECT … UNION ALL SELECT …")
            if node.args.get("distinct"):
                raise refuse("UNION that drops equal rows (UNION ALL keeps them)")
            stack += [(node.expression, False), (node.this, False)]
        elif isinstance(node, exp.Select):
            branch = node.copy()
            if clause is not None and branch.args.get("with_") is None:
                branch.set("with_", clause.copy())
            branches.append(branch)
        else:
            raise refuse(label(node), "SELECT … UNION ALL SELECT …")
        if len(branches) + len(stack) > _MOST:
            raise QueryError(f"a union holds at most {_MOST} questions")
    return branches


def _place(item: exp.Expr, names: list[str]) -> tuple[int, bool]:
    """A column of the union that ORDER BY names, by place or by name."""
    only(item, "this", "desc", "nulls_first", hint="ORDER BY 1")
    node, down = item.this, bool(item.args.get("desc"))
    if isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdigit():
        place = int(str(node.this)[:9])
    else:
        folded = [n.casefold() for n in names]
        name = node.name.casefold() if isinstance(node, exp.Column) else ""
        place = folded.index(name) + 1 if name in folded else 0
    if not 1 <= place <= len(names):
        raise QueryError(
            "a union is ordered by its columns: " + ", ".join(map(build.quote, names)),
            hint="ORDER BY 1",
        )
    return place - 1, down
