r"""One form for conditions that mean the same, so that what is measured is charged once.

Guarantee
---------
Every rewriting here keeps the value of a condition on every row: true, false and NULL.

Proof sketch
------------
Values are integer codes or NULL. A comparison and a membership are NULL exactly where an argument
is; elsewhere the opposite comparison is their negation, since codes are totally
ordered, and ``x < c`` is ``x <= c - 1``, since they are whole. Kleene's AND and OR are minimum and
maximum of false < NULL < true, and NOT turns that order round: so both commute, associate and
are idempotent, TRUE and FALSE are their neutral elements, De Morgan's laws hold and NOT NOT x
is x. ``x IN A OR x IN B`` and ``x IN (A ∪ B)`` are NULL where x is and agree
elsewhere; with NOT and AND likewise, by De Morgan.

What a person reads keeps the form it was written in as far as possible: order of conditions
and strictness of comparisons are put right in the identity alone (:func:`identity`).
"""

from __future__ import annotations

from collections.abc import Iterable

from discreet._canonical import canonical
from discreet._dataclass import replace
from discreet.plan._expr import Compare, Constant, Expr, Logic, Not, OneOf
from discreet.plan._logic import MIRROR, OPPOSITE
from discreet.plan._relation import Aggregate, Filter, Relation
from discreet.plan._types import Kind, Type


def truth(*, value: bool) -> Constant:
    """Return TRUE or FALSE."""
    return Constant.like(int(value), Type.boolean())


def negation(condition: Expr) -> Expr:
    """Negate, as far inside as it goes."""
    match condition:
        case Not(arg):
            return arg
        case Logic(op, args):
            return junction("or" if op == "and" else "and", map(negation, args))
        case Compare(op):
            return replace(condition, op=OPPOSITE[op])
        case Constant(int(code)):
            return truth(value=not code)
    return Not(condition)


def junction(op: str, conditions: Iterable[Expr]) -> Expr:
    """Join conditions by AND or OR: nested ones become one, lists of one value are united."""
    parts: list[Expr] = []
    neutral = truth(value=op == "and")
    for c in conditions:
        parts += c.args if isinstance(c, Logic) and c.op == op else (c,)
    parts = [p for p in parts if p != neutral] or [neutral]
    parts = list(dict.fromkeys(_united(parts, wanted=op == "or")))
    return parts[0] if len(parts) == 1 else Logic("and" if op == "and" else "or", tuple(parts))


def _united(parts: list[Expr], *, wanted: bool) -> list[Expr]:
    """Unite memberships (or, where not wanted, their negations) of the same value."""
    lists: dict[Expr, list[int | str]] = {}
    memberships = [_membership(p, wanted=wanted) for p in parts]
    for membership in memberships:
        if membership is not None:
            lists.setdefault(membership[0], []).extend(membership[1])
    many = {arg for arg in lists if sum(r is not None and r[0] == arg for r in memberships) > 1}
    united: list[Expr] = []
    for part, membership in zip(parts, memberships, strict=True):
        if membership is None or membership[0] not in many:
            united.append(part)
            continue
        codes = dict.fromkeys(lists[membership[0]])
        texts = membership[0].type.kind is Kind.TEXT  # as they were written
        whole = OneOf(membership[0], tuple(codes if texts else sorted(codes, key=int)))
        united.append(whole if wanted else Not(whole))
    return united


def _membership(part: Expr, *, wanted: bool) -> tuple[Expr, tuple[int | str, ...]] | None:
    """A value and the codes it must be one of (or, where not wanted, must not be)."""
    inner = part if wanted else part.arg if isinstance(part, Not) else None
    if isinstance(inner, OneOf):
        return inner.arg, inner.codes
    match part:
        case Compare(op, left, Constant(int(code)) as right) if op == ("=" if wanted else "<>"):
            inside = _alike(left, right) and left.type.lo <= code <= left.type.hi
            return (left, (code,)) if inside else None
    return None


def _alike(left: Expr, right: Expr) -> bool:
    """Whether equal codes are equal values."""
    return (left.type.kind, left.type.step) == (right.type.kind, right.type.step)


def identity(aggregate: Aggregate) -> Aggregate:
    """Give the one form in which equal aggregates are equal; for hashes, not for engines."""
    return replace(aggregate, relation=_relation(aggregate.relation))


def _relation(node: Relation) -> Relation:
    changes: dict[str, object] = {
        part: _relation(below) for part, below in zip(node.parts, node.inputs, strict=True)
    }
    if isinstance(node, Filter):
        changes["condition"] = _ordered(node.condition)
    changes = {name: new for name, new in changes.items() if getattr(node, name) is not new}
    return replace(node, **changes) if changes else node  # type: ignore[type-var]  # every node is a dataclass


def _ordered(condition: Expr) -> Expr:
    match condition:
        case Not(arg):
            return Not(_ordered(arg))
        case Logic(_, args):
            return replace(condition, args=tuple(sorted(map(_ordered, args), key=canonical)))
        case OneOf(_, codes):
            return replace(condition, codes=tuple(sorted(codes, key=str)))
        case Compare("<" | ">" as op, left, Constant(int(code)) as right):
            closed = code - 1 if op == "<" else code + 1
            if _alike(left, right) and left.type.lo <= closed <= left.type.hi:
                return Compare("<=" if op == "<" else ">=", left, Constant.like(closed, left.type))
        case Compare(_, _, Constant()):
            return condition
        case Compare(op, left, right) if canonical(right) < canonical(left):
            return Compare(MIRROR[op], right, left)
    return condition
