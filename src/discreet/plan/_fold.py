"""Outputs that are linear in what is measured become one formula each.

``SUM(x) - 3 * COUNT(*)`` and ``COUNT(*) FILTER (WHERE p) / COUNT(*)`` are computed after
the noise. Read as one combination, or one quotient of combinations, of the same noisy integers
they get one interval by exact tails instead of the range over a box of two. Where nothing
else is asked of its expressions, the combination is itself measured as one vector
(:mod:`discreet.plan._combined`): of one expression a row adds a·x + b, no more than the larger of
its ends, at most what the integers of a mean would add up to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Final

from discreet._dataclass import dataclass, replace
from discreet._print import if_divided, if_rows
from discreet.plan._formula import Formula, Mean, Total
from discreet.plan._means import Quotient, WeightedSum
from discreet.plan._parts import Priced
from discreet.plan._query import Apply, Number, OutputExpr, Query, StatisticValue
from discreet.plan._tails import margin

Terms = dict[int, Fraction]
"""Coefficients by statistic (or, later, by release)."""


_OF_ONE: Final = frozenset(
    {"round", "floor", "ceil", "abs", "sqrt", "ln", "log", "exp", "least", "greatest", *"+-*/"}
)
"""Operations that a number of the answer goes through, beside constants."""


def linear(out: OutputExpr) -> tuple[Terms, Fraction] | None:
    """Read an output as a combination of statistics and a constant, if it is one."""
    match out:
        case StatisticValue(index):
            return {index: Fraction(1)}, Fraction(0)
        case Number(value):
            return {}, Fraction(value)
        case Apply("+", (a, b)):
            return _sum(linear(a), linear(b), 1)
        case Apply("-", (a, b)):
            return _sum(linear(a), linear(b), -1)
        case Apply("-", (a,)):
            return _sum(({}, Fraction(0)), linear(a), -1)
        case Apply("*", (a, b)):
            left, right = linear(a), linear(b)
            if left is not None and right is not None and not (left[0] and right[0]):
                one, times = (left, right[1]) if left[0] else (right, left[1])
                return {i: c * times for i, c in one[0].items()}, one[1] * times
        case Apply("/", (a, Number(value))) if value:
            return linear(Apply("*", (a, Number(1 / Fraction(value)))))
    return None


def divisor(out: OutputExpr) -> OutputExpr:
    """What is below the line: ``NULLIF(n, 0)`` divides by n."""
    match out:
        case Apply("nullif", (inner, Number(value))) if not value:
            return inner
    return out


def _sum(
    a: tuple[Terms, Fraction] | None, b: tuple[Terms, Fraction] | None, sign: int
) -> tuple[Terms, Fraction] | None:
    if a is None or b is None:
        return None
    terms = {i: a[0].get(i, Fraction(0)) + sign * b[0].get(i, Fraction(0)) for i in a[0] | b[0]}
    return terms, a[1] + sign * b[1]


def uses(query: Query) -> Counter[int]:
    """How often outputs, HAVING and ORDER BY name each statistic."""
    counts: Counter[int] = Counter()
    outs = [o.expr for o in query.outputs] + [out for out, _ in query.order]
    for out in outs if query.having is None else [*outs, query.having]:
        counts.update(_names(out))
    return counts


def _names(node: object) -> Iterator[int]:
    """Statistics below any node of an output, one by one."""
    if isinstance(node, StatisticValue):
        yield node.index
    elif isinstance(node, tuple | list):
        for each in node:
            yield from _names(each)
    elif hasattr(node, "__dataclass_fields__"):
        for name in node.__dataclass_fields__:
            yield from _names(getattr(node, name))


def weights(terms: Mapping[int, Fraction], formulas: Sequence[Formula]) -> Terms | None:
    """Coefficients by release, where all statistics are counts and sums."""
    coefficients: Terms = {}
    for index, times in terms.items():
        formula = formulas[index]
        if isinstance(formula, Total):
            pairs = [(formula.vector, formula.step)]
        elif isinstance(formula, WeightedSum):
            pairs = [*zip(formula.cells, formula.weights, strict=True)]
        else:
            return None
        for cell, weight in pairs:
            coefficients[cell] = coefficients.get(cell, Fraction(0)) + times * weight
    return coefficients


def weighted(terms: Mapping[int, Fraction]) -> WeightedSum | None:
    """One formula of a combination; None where nothing noisy is left of it."""
    entries = {cell: w for cell, w in sorted(terms.items()) if w}
    return WeightedSum(tuple(entries), tuple(entries.values())) if entries else None


def quotient(top: Terms, bottom: Terms, shares: Mapping[int, Terms]) -> Quotient | None:
    """A mean over rows: a combination over a count, inside its public range.

    `shares` gives every release as a combination of shares of rows, which are never negative and
    count rows; below the line each must stand with one weight or not at all. The mean then lies
    between the least and the greatest weight above.
    """
    cells = tuple(sorted(top | bottom))
    if not all(c in shares for c in cells):
        return None
    above, below = (_on_shares(x, shares) for x in (top, bottom))
    divisor = {s: w for s, w in below.items() if w}
    if len(set(divisor.values())) != 1 or any(w for s, w in above.items() if s not in divisor):
        return None
    times = next(iter(divisor.values()))
    ends = [above.get(s, Fraction(0)) / times for s in divisor]
    return Quotient(
        cells,
        tuple(top.get(c, Fraction(0)) / times for c in cells),
        tuple(bottom.get(c, Fraction(0)) / times for c in cells),
        min(ends),
        max(ends),
    )


@dataclass
class Outputs:
    """Outputs over formulas; formulas of whole outputs are added behind those of statistics."""

    formulas: list[Formula]
    alone: Mapping[int, Formula]
    shares: Mapping[int, Terms]
    combines: bool

    def output(self, out: OutputExpr) -> OutputExpr:
        """An output as one formula, where it is a combination or a mean of what is measured."""
        if isinstance(out, StatisticValue | Number):
            return out
        if (combination := linear(out)) is not None:
            formula = self._combined(combination[0])
            if formula is None:
                return out
            value = self._value(formula)
            return Apply("+", (value, Number(combination[1]))) if combination[1] else value
        mean = self._mean(out)
        return self._inside(out) if mean is None else self._value(mean)

    def _inside(self, out: OutputExpr) -> OutputExpr:
        """ROUND, or another function, of one formula: it acts on the ends of the interval too."""
        if not isinstance(out, Apply) or out.op not in _OF_ONE:
            return out
        if sum(not isinstance(a, Number) for a in out.args) != 1:
            return out
        return Apply(out.op, tuple(self.output(a) for a in out.args))

    def _combined(self, terms: Terms) -> Formula | None:
        own = {self.alone[i] for i in terms if i in self.alone}
        if own:
            return own.pop()
        combination = weights(terms, self.formulas) if len(terms) > 1 and self.combines else None
        return None if combination is None else weighted(combination)

    def _mean(self, out: OutputExpr) -> Formula | None:
        if not isinstance(out, Apply) or out.op != "/":
            return None
        sides = [linear(x) for x in out.args]
        terms = [weights(x[0], self.formulas) for x in sides if x is not None and not x[1]]
        if len(terms) != 2 or terms[0] is None or terms[1] is None:
            return None
        return quotient(terms[0], terms[1], self.shares)

    def _value(self, formula: Formula) -> StatisticValue:
        if formula not in self.formulas:
            self.formulas.append(formula)
        return StatisticValue(self.formulas.index(formula))


def _on_shares(terms: Terms, shares: Mapping[int, Terms]) -> Terms:
    sums: Terms = {}
    for cell, w in terms.items():
        for share, part in shares[cell].items():
            sums[share] = sums.get(share, Fraction(0)) + w * part
    return sums


def ratio_margin(
    out: OutputExpr,
    formulas: Sequence[Formula],
    ends: Sequence[tuple[str, ...] | None],
    priced: Sequence[Priced],
    level: float,
) -> str | None:
    """Error of one sum over another as far as it is known before, in words; None: no such ratio.

    The error of a/b is that of a − m·b over b, with m the ratio itself. Over all rows m lies
    between the least and the greatest number that a row adds (`ends`, by statistic).
    """
    inner, times = _scaled(out)
    if isinstance(inner, StatisticValue):
        return _mean_margin(formulas[inner.index], times, priced, level)
    if not isinstance(inner, Apply):
        return None
    above, below = linear(inner.args[0]), linear(divisor(inner.args[1]))
    if above is None or below is None or above[1] or below[1]:
        return None
    top, bottom = weights(above[0], formulas), weights(below[0], formulas)
    if not top or not bottom:
        return None
    cells = sorted(top | bottom)
    laws = [priced[c].noise for c in cells]
    if not any(laws):
        return None

    def half(m: Fraction, at: float, share: Fraction = times) -> float:
        c = [share * top.get(i, Fraction(0)) - m * bottom.get(i, Fraction(0)) for i in cells]
        return margin(laws, [float(x) for x in c], at)

    if (
        _row(below[0], ends) == (Fraction(1), Fraction(1))
        and (row := _row(above[0], ends)) is not None
    ):
        zero = Fraction(0)
        low, high = sorted((times * min(row[0], zero), times * max(row[1], zero)))
        halves = [half(m, level) for m in (low, (low + high) / 2, high)]
        return f"± about {if_rows((min(halves), max(halves)), float(high - low))}"
    own, other = half(Fraction(0), level), half(Fraction(1), level, Fraction(0))
    return f"± about {if_divided(own, other)}"


def _scaled(out: OutputExpr) -> tuple[OutputExpr | None, Fraction]:
    """A mean or a ratio, and how many times it is taken; ROUND around it is left out."""
    match out:
        case Apply("round", (inner, *_)):
            return _scaled(inner)
        case Apply("*", (Number(value), inner)) | Apply("*", (inner, Number(value))):
            ratio, multiple = _scaled(inner)
            return ratio, multiple * Fraction(value)
        case StatisticValue() | Apply("/", (_, _)):
            return out, Fraction(1)
    return None, Fraction(1)


def _mean_margin(
    formula: Formula, times: Fraction, priced: Sequence[Priced], level: float
) -> str | None:
    if isinstance(formula, Quotient):
        low, high = sorted((times * formula.lo, times * formula.hi))
        top = tuple(times * w for w in formula.top)
        return replace(formula, top=top, lo=low, hi=high).margin(priced, level)
    return formula.margin(priced, level) if isinstance(formula, Mean) and times == 1 else None


def _row(
    terms: Mapping[int, Fraction], ends: Sequence[tuple[str, ...] | None]
) -> tuple[Fraction, Fraction] | None:
    """Least and greatest number that one row adds to a combination."""
    low, high = Fraction(0), Fraction(0)
    for index, times in terms.items():
        own = ends[index] if index < len(ends) else None
        if own is None:
            return None
        each = sorted(times * Fraction(v) for v in own)
        low, high = low + each[0], high + each[-1]
    return low, high
