"""Regression and surveys: questions whose answers are read by :mod:`discreet.inference`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from discreet._dataclass import dataclass, replace
from discreet._exact import Number
from discreet._print import number
from discreet._text import plain_str
from discreet.answer import Answer
from discreet.curator._offer import read_offer
from discreet.curator._quote import Quote
from discreet.errors import Hint, ParameterError, QueryError
from discreet.plan import Ask, Plan, Query, StatisticValue

if TYPE_CHECKING:
    from discreet.curator._curator import Curator
    from discreet.inference import Logistic, Regression, Survey


class Fits:
    """What a curator asks for statisticians."""

    __slots__ = ()

    def regression(
        self,
        formula: str,
        *,
        table: str | None = None,
        where: str | None = None,
        family: Literal["ols", "logistic"] = "ols",
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
        fresh: bool = False,
    ) -> Regression | Logistic:
        """Fit a line or log-odds, with inference that accounts for the noise.

        Parameters
        ----------
        formula
            ``"pay ~ age + sex"``: columns of the table; categories become indicators, the
            first value being the reference. Odd names stand in double quotes or backquotes.
            ``np.log(x)``, ``I(x**2)``, ``C(x)``, ``x > 30``, ``a:b``, ``a*b`` and ``- 1`` mean
            what they mean to statsmodels; functions have the steps that questions of them have.
        table, where
            Which table (needed when the policy has several) and which rows, as in SQL.
            Rows in which one of the columns is NULL are left out.
        family
            "ols": least squares. "logistic": log-odds of a truth value, or of the second
            of two categories, from counts of values and, for up to three numbers, of splines.
        epsilon, delta, rho, fresh
            As in :meth:`sql`. With several predictors ``rho=`` is the better currency.

        Notes
        -----
        Least squares take errors as homoskedastic (equally spread whatever the predictors are):
        where they are not, intervals may miss more often than they say. Whether there is any
        correlation is tested without that by :func:`discreet.inference.correlation_test`.

        Methods and references: :mod:`discreet.inference._regression` and ``_logistic``.
        """
        own = cast("Curator", self)
        fit = _fit(own, formula, table, where, family)
        return fit(_asks(own, read_offer(None, epsilon, delta, rho), fresh=fresh))

    def preview_regression(
        self,
        formula: str,
        *,
        table: str | None = None,
        where: str | None = None,
        family: Literal["ols", "logistic"] = "ols",
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
    ) -> FitQuote:
        """Price a fit without touching data or budget, and say how many rows it takes.

        Parameters as in :meth:`regression`. With fewer rows than it says, no coefficient may
        come out determined, and the fit be paid for nothing.
        """
        from discreet import inference  # noqa: PLC0415 - loaded when it is called

        own = cast("Curator", self)
        fit = _fit(own, formula, table, where, family)
        offer = read_offer(None, epsilon, delta, rho)

        def plan(
            texts: Sequence[str], keys: Sequence[str], change: Callable[[Query], Query] | None
        ) -> Plan:
            return own._plan(_meant(own, texts, keys, change), offer)  # noqa: SLF001 - part of it

        declared = inference.table_of(own, _plain(table, "table"))
        rows, planned = inference.rows_needed(declared, fit, plan)
        return FitQuote(own._quote(planned, offer, own._standing), rows)  # noqa: SLF001 - as above

    def survey(
        self,
        column: str,
        *,
        by: str | Sequence[str] = (),
        table: str | None = None,
        where: str | None = None,
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
        fresh: bool = False,
    ) -> Survey:
        """Weighted count, total and mean of a population, with design-based intervals.

        The policy declares which column is the survey weight (``weight = "w"``). All three
        and their variances cost as much as one count; see :mod:`discreet.inference._survey`.
        Units are taken as drawn independently, a fixed number of times; how many of them are in
        a group, meet `where` or have no NULL is taken as chance.

        Parameters
        ----------
        column
            The number (or truth value) that is asked about.
        by
            Columns to group by.
        table, where, epsilon, delta, rho, fresh
            As in :meth:`regression`.
        """
        from discreet import inference  # noqa: PLC0415 - loaded when it is called

        own = cast("Curator", self)
        column, table, where = (
            _plain(column, "column"), _plain(table, "table"), _plain(where, "where"),
        )  # fmt: skip
        by = [by] if isinstance(by, str) else list(by)
        by = [_plain(name, "by") for name in by]
        ask = _asks(own, read_offer(None, epsilon, delta, rho), fresh=fresh)
        return inference.survey(own, column, by=by, table=table, where=where, ask=ask)


@dataclass(frozen=True)
class FitQuote:
    """What a fit would cost, and how many rows it takes for coefficients to be determined.

    Nothing here depends on the data.
    """

    quote: Quote
    rows: int | None
    """Rows, spread evenly over the policy's values, from which on all coefficients are determined
    when noise and sample are as expected; None: no number of such rows suffices."""

    @property
    def cost(self) -> dict[str, str]:
        """Price in every currency defined for it."""
        return self.quote.cost

    def __repr__(self) -> str:
        quote = self.quote
        lines = ["cost    free: answered before" if quote.stored else f"cost    {quote.price}"]
        if quote.refused is not None and not quote.stored:
            lines.append(f"        would be refused: {quote.refused}")
        lines += [f"budget  {quote.left}", f"noise   {quote.plan.why}"]
        if self.rows is None:
            lines.append("rows    no number determines the coefficients at this price")
        else:
            lines.append(
                f"rows    about {number(self.rows)}, spread evenly over the policy's values, "
                "determine all coefficients; with fewer, or crowded ones, it may be paid for "
                "nothing"
            )
        return "\n".join(lines)


def _fit(
    curator: Curator, formula: str, table: str | None, where: str | None, family: str
) -> Callable[[Any], Regression | Logistic]:
    """Read what is to be fitted; what it gives wants to know how questions are answered."""
    from discreet import inference  # noqa: PLC0415 - loaded when it is called

    family = _plain(family, "family")
    if family not in ("ols", "logistic"):
        raise ParameterError(
            f"a regression is ols or logistic, not {family!r}", hint=Hint("family", "ols")
        )
    fit = inference.least_squares if family == "ols" else inference.logistic
    formula = _plain(formula, "a formula")
    table, where = _plain(table, "table"), _plain(where, "where")
    return lambda ask: fit(curator, formula, table=table, where=where, ask=ask)


def _asks(curator: Curator, offer: Ask, *, fresh: bool) -> Callable[..., Answer]:
    """What asks SQL at a price, after a change of the question that was read."""

    def ask(
        *texts: str, keys: Sequence[str] = (), change: Callable[[Query], Query] | None = None
    ) -> Answer:
        question = _meant(curator, texts, keys, change)
        return curator._ask(question, offer, key=None, fresh=fresh)  # noqa: SLF001 - part of it

    return ask


def _meant(
    curator: Curator,
    texts: Sequence[str],
    keys: Sequence[str],
    change: Callable[[Query], Query] | None,
) -> Query:
    """The question that SQL means, all its texts together, changed as it is to be."""
    queries = [curator._question(text).query for text in texts]  # noqa: SLF001 - part of it
    for query in queries:
        _check_built(query, keys)
    query = reduce(_together, queries)
    return query if change is None else change(query)


def _together(first: Query, second: Query) -> Query:
    """One question that shows what two show; they ask about the same rows."""
    if replace(second, statistics=first.statistics, outputs=first.outputs) != first:
        raise QueryError("where takes one condition on rows, and no other clause", hint="age >= 18")
    statistics = (*first.statistics, *second.statistics)
    places = {each: i for i, each in enumerate(dict.fromkeys(statistics))}
    outputs = []
    for query in (first, second):
        for out in query.outputs:
            assert isinstance(out.expr, StatisticValue)  # sums and counts, without arithmetic
            place = places[query.statistics[out.expr.index]]
            outputs.append(replace(out, expr=StatisticValue(place)))
    return replace(first, statistics=tuple(places), outputs=tuple(outputs))


def _check_built(query: Query, keys: Sequence[str]) -> None:
    """Refuse a question that a caller's condition has made another than was built."""
    after = (query.having, query.limit, query.other, query.qualify)
    if (
        [key.name for key in query.keys] != [*keys]
        or query.order
        or query.levels
        or any(clause is not None for clause in after)
    ):
        raise QueryError("where takes one condition on rows, and no other clause", hint="age >= 18")


_Argument = TypeVar("_Argument")


def _plain(argument: _Argument, what: str) -> _Argument:
    """Copy a text, so that nobody's own code says what it holds; leave all else to be refused."""
    return cast("_Argument", plain_str(argument, what)) if isinstance(argument, str) else argument
