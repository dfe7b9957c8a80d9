"""Aggregates that are not here: why, and what there is of the same column.

Each has a reason, and a line that works: the same number from aggregates that are here, or what
comes nearest, and the message says then that it does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

from sqlglot import exp

from discreet._dataclass import dataclass
from discreet._exact import show
from discreet.errors import UnsupportedQueryError
from discreet.plan import Expr, Kind, Operand
from discreet.sql._hints import question
from discreet.sql._over import FOLDED
from discreet.sql._text import called, function_name
from discreet.sql._walk import calling
from discreet.sql._wrap import resolved

_FEW: Final = 100
"""So many whole numbers are keys as they are; more are put into bins."""


@dataclass(frozen=True)
class _Asked:
    """A call that is refused: its arguments, and what the first one is."""

    node: exp.Expr
    args: Sequence[exp.Expr]
    operand: Operand | None

    @property
    def is_number(self) -> bool:
        """Whether it is a number, which has a middle."""
        return isinstance(self.operand, Expr) and self.operand.type.is_numeric

    def key(self) -> exp.Expr:
        """The column as a key: numbers of a wide range in bins."""
        if not self.is_number:
            return self.args[0]
        assert isinstance(self.operand, Expr)
        t = self.operand.type
        if t.step == 1 and t.hi - t.lo < _FEW:
            return self.args[0]
        width = show(_width((t.hi - t.lo) * t.step))
        return calling("BIN", self.args[0], exp.Literal.number(width))


def _width(span: Fraction) -> Fraction:
    """About a tenth of a range, as one, two or five of a power of ten."""
    tenth, power = span / 10, Fraction(1)
    while power > tenth > 0:
        power /= 10
    while power * 10 <= tenth:
        power *= 10
    return power * max(n for n in (1, 2, 5) if n == 1 or power * n <= tenth)


def _binned(asked: _Asked) -> str | None:
    """Bins as rows with their counts."""
    return _listed(asked, asked.key())


def _listed(asked: _Asked, key: exp.Expr | None = None) -> str | None:
    """The values as rows with their counts, in a question of its own."""
    select, key = asked.node.find_ancestor(exp.Select), key or asked.args[0]
    group = None if select is None else select.args.get("group")
    keys = [resolved(select, k) for k in group.expressions] if select and group else []
    if select is None or len(select.expressions) > len(keys) + 1:
        return None  # what stands beside the list would get lost
    return question(asked.node, [*keys, key], [])


def _frequent(asked: _Asked) -> str | None:
    """The most frequent values, in a question of its own."""
    select, key = asked.node.find_ancestor(exp.Select), asked.key()
    if select is None or len(select.expressions) > 1:
        return None
    query = question(asked.node, [key], [])
    most = [a.sql() for a in asked.args[1:] if isinstance(a, exp.Literal) and a.is_int]
    return None if query is None else f"{query} ORDER BY n DESC LIMIT {(most or ['1'])[0]}"


def _any(asked: _Asked) -> str | None:
    """Some value of a group: that of most rows, or one in the middle."""
    if asked.is_number:
        return f"MEDIAN({asked.args[0].sql()})"
    text = isinstance(asked.operand, Expr) and asked.operand.type.kind is Kind.TEXT
    return _frequent(asked) if text else f"MODE({asked.args[0].sql()})"


def _best(order: str) -> Callable[[_Asked], str | None]:
    """The group whose rows have the largest value, or the least, on average."""

    def best(asked: _Asked) -> str | None:
        select = asked.node.find_ancestor(exp.Select)
        group = None if select is None else select.args.get("group")
        if select is None or group or len(select.expressions) > 1 or len(asked.args) != 2:
            return None
        query = question(asked.node, asked.args[:1], [calling("AVG", asked.args[1])])
        return None if query is None else f"{query} ORDER BY n{order} LIMIT 1"

    return best


def _logarithm(asked: _Asked) -> str | None:
    """The geometric mean: of the positive rows, where a logarithm begins above zero."""
    x = asked.args[0].sql()
    if isinstance(asked.operand, Expr) and asked.operand.type.lo <= 0:
        return f"EXP(AVG(LN({x})) FILTER (WHERE {x} > 0))"
    return f"EXP(AVG(LN({x})))"


_Form = str | Callable[[_Asked], str | None]
_NEAREST: Final = "what comes nearest is"
_SHOWN: Final = "it shows the value of one row; one of the most frequent, or of the middle, leaves"
_LISTS: Final = "a list shows single values; their counts can be asked"
_WRITTEN: Final = "write it out"
_RANKS: Final = (
    "the rank of a row depends on all other rows, so one person would move every rank; "
    f"{_NEAREST} CORR, of the values themselves"
)
_DECIDED: Final = (
    "one row decides it (it works in a subquery that groups by the unit); what comes nearest is"
)
_TAILS: Final = (
    "(QUANTILE({x}, 0.975) - QUANTILE({x}, 0.025)) / (QUANTILE({x}, 0.75) - QUANTILE({x}, 0.25))"
)
_POWERS: Final = "noise would have to hide a high power of the largest possible value"
_ABSENT: Final[dict[str, tuple[str, _Form]]] = {
    **dict.fromkeys(("ANY_VALUE", "ARBITRARY", "FIRST", "LAST"), (_SHOWN, _any)),
    "DESCRIBE": (_WRITTEN, "COUNT({x}), AVG({x}), STDDEV({x}), MIN({x}), MEDIAN({x}), MAX({x})"),
    **dict.fromkeys(
        (
            *("ARRAY_AGG", "STRING_AGG", "LISTAGG", "GROUP_CONCAT", "COLLECT_SET", "UNIQUE"),
            *("COLLECT_LIST", "VALUE_COUNTS", "LIST", "JSON_AGG", "JSON_ARRAYAGG", "XMLAGG"),
        ),
        (_LISTS, _listed),
    ),
    **dict.fromkeys(("GEOMEAN", "GEOMETRIC_MEAN"), (f"{_WRITTEN}, of positive values", _logarithm)),
    **dict.fromkeys(
        ("PRODUCT", "MULTIPLY"),
        (f"one row decides it; {_NEAREST} the geometric mean", _logarithm),
    ),
    **dict.fromkeys(
        ("BOOL_AND", "BOOL_OR", "LOGICAL_AND", "LOGICAL_OR", "BOOLAND_AGG", "BOOLOR_AGG"),
        (f"one row decides it; {_NEAREST} the share of rows", "AVG({x})"),
    ),
    **dict.fromkeys(
        ("ARG_MAX", "ARGMAX", "MAX_BY", "ARG_MAX_NULL"),
        (
            f"{_DECIDED} the group with the largest average",
            _best(" DESC"),
        ),
    ),
    **dict.fromkeys(
        ("ARG_MIN", "ARGMIN", "MIN_BY", "ARG_MIN_NULL"),
        (
            f"{_DECIDED} the group with the least average",
            _best(""),
        ),
    ),
    **dict.fromkeys(
        ("HISTOGRAM", "HISTOGRAM_NUMERIC"),
        (
            f"bins are public here, and do not follow the data; {_NEAREST} a count of each",
            _binned,
        ),
    ),
    "ENTROPY": ("it is computed from the counts of the values", _binned),
    **dict.fromkeys(("TOP", "TOP_K", "TOPK", "APPROX_TOP"), (_WRITTEN, _frequent)),
    **dict.fromkeys(
        ("KURTOSIS", "KURTOSIS_POP", "KURT"),
        (
            f"{_POWERS}; {_NEAREST} the tails by the width of the middle (2.9 for a normal law)",
            _TAILS,
        ),
    ),
    **dict.fromkeys(
        ("SKEWNESS", "SKEWNESS_POP", "SKEW"),
        (
            f"{_POWERS}; {_NEAREST} Pearson's measure, from the median",
            "3 * (AVG({x}) - MEDIAN({x})) / STDDEV({x})",
        ),
    ),
    **dict.fromkeys(
        ("SPEARMAN", "SPEARMANR", "SPEARMAN_CORR", "CORR_S", "KENDALL", "KENDALLTAU", "CORR_K"),
        (_RANKS, "CORR({x}, {y})"),
    ),
    "IQR": (_WRITTEN, "QUANTILE({x}, 0.75) - QUANTILE({x}, 0.25)"),
    **dict.fromkeys(
        ("MAD", "MEDIAN_ABSOLUTE_DEVIATION"),
        (
            f"it needs the median first; {_NEAREST} half the distance between the quartiles",
            "(QUANTILE({x}, 0.75) - QUANTILE({x}, 0.25)) / 2",
        ),
    ),
    **dict.fromkeys(
        ("TRIMMED_MEAN", "TRIM_MEAN"),
        (
            f"which rows are cut off depends on all others; {_NEAREST} the median",
            "MEDIAN({x})",
        ),
    ),
    **dict.fromkeys(("SEM", "STDERR"), (_WRITTEN, "STDDEV({x}) / SQRT(COUNT({x}))")),
    **dict.fromkeys(("CV", "COEFF_VAR"), (_WRITTEN, "STDDEV({x}) / AVG({x})")),
    **dict.fromkeys(
        ("WEIGHTED_AVG", "AVG_WEIGHTED", "WAVG"), (_WRITTEN, "SUM({x} * {y}) / SUM({y})")
    ),
    **dict.fromkeys(("HLL", "HLL_COUNT_DISTINCT"), (_WRITTEN, "COUNT(DISTINCT {x})")),
    **dict.fromkeys(
        ("LINREG", "LINEAR_REGRESSION"),
        (
            "a line is two numbers, a slope and where it begins",
            "REGR_SLOPE({x}, {y}), REGR_INTERCEPT({x}, {y})",
        ),
    ),
    "APPROX_QUANTILES": ("write how many parts", "APPROX_QUANTILES({x}, 4)"),
}
"""Why an aggregate is not here, and what there is: {x} and {y} stand for its arguments."""
ABSENT: Final = frozenset(_ABSENT)
"""Aggregates that are not here."""


def absent(
    name: str, node: exp.Expr, row: Callable[[exp.Expr], Operand | None]
) -> UnsupportedQueryError:
    """Refuse an aggregate that is not here, with what there is; `row` reads its argument."""
    args = [a.expressions[0] if isinstance(a, exp.Distinct) else a for a in node.expressions]
    why, form = _ABSENT[name]
    what = f"{called(node)} is not supported: {why}"
    if not args:
        return UnsupportedQueryError(what)
    if not isinstance(form, str):
        return UnsupportedQueryError(what, hint=form(_Asked(node, args, row(args[0]))))
    if "{y}" in form and len(args) < 2:
        return UnsupportedQueryError(what)
    own = [f"({a.sql()})" if isinstance(a, exp.Binary) else a.sql() for a in args[:2]]
    if "{x} *" not in form:
        own[0] = args[0].sql()
    return UnsupportedQueryError(what, hint=form.format(x=own[0], y=own[-1]))


def tallied(args: Sequence[exp.Expr], value: Operand) -> str | None:
    """The most frequent texts or numbers, as a question of its own: no list of them is public."""
    kinds = (Kind.TEXT, Kind.NUMBER)
    fits = isinstance(value, Expr) and value.type.kind in kinds
    return _frequent(_Asked(args[0], args, value)) if fits else None


_PLACES: Final = {
    "RANK": "COUNT(*) FILTER (WHERE {x} < {at}) + 1",
    "PERCENT_RANK": "AVG({x} < {at})",
    "CUME_DIST": "AVG({x} <= {at})",
}
"""What place a value would have among the rows."""
_FLIPPED: Final = str.maketrans("<", ">")


def placed(name: str, args: Sequence[exp.Expr], order: exp.Expr | None) -> str | None:
    """RANK(100) WITHIN GROUP (ORDER BY x), as a number of rows."""
    items = [] if order is None else order.expressions
    if name not in _PLACES or len(args) != 1 or len(items) != 1:
        return None
    form = _PLACES[name].translate(_FLIPPED if items[0].args.get("desc") else {})
    return form.format(x=items[0].this.sql(), at=args[0].sql())


def tested_in_having(aggregate: exp.Filter) -> str | None:
    """The question with the test of a FILTER, which tells of groups, in HAVING."""
    select = aggregate.find_ancestor(exp.Select)
    if select is None or select.parent is not None:
        return None
    query = select.copy()
    for node in [n for n in query.find_all(exp.Filter) if n == aggregate]:
        node.replace(node.this.copy())
    return query.having(aggregate.expression.this.copy()).sql()


def without_inner(inner: exp.Expr) -> str | None:
    """An aggregate of an aggregate: over the groups of the answer; without groups, the inner."""
    select, outer = inner.find_ancestor(exp.Select), inner.parent
    if select is None or outer is None or not select.args.get("group"):
        return inner.sql()
    return f"{outer.sql()} OVER ()" if function_name(outer) in FOLDED else None
