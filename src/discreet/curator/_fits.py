"""Regression and surveys: questions whose answers are read by :mod:`discreet.inference`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from discreet._exact import Number
from discreet._text import plain_str
from discreet.answer import Answer
from discreet.curator._offer import read_offer
from discreet.errors import Hint, ParameterError, QueryError
from discreet.plan import Ask, Query

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
        from discreet import inference  # noqa: PLC0415 - loaded when it is called

        family = _plain(family, "family")
        if family not in ("ols", "logistic"):
            raise ParameterError(
                f"a regression is ols or logistic, not {family!r}", hint=Hint("family", "ols")
            )
        formula = _plain(formula, "a formula")
        table, where = _plain(table, "table"), _plain(where, "where")
        fit = inference.least_squares if family == "ols" else inference.logistic
        own = cast("Curator", self)
        ask = _asks(own, read_offer(None, epsilon, delta, rho), fresh=fresh)
        return fit(own, formula, table=table, where=where, ask=ask)

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


def _asks(curator: Curator, offer: Ask, *, fresh: bool) -> Callable[..., Answer]:
    """What asks SQL at a price, after a change of the question that was read."""

    def ask(
        text: str, keys: Sequence[str] = (), change: Callable[[Query], Query] | None = None
    ) -> Answer:
        query = curator._question(text).query  # noqa: SLF001 - part of it
        _check_built(query, keys)
        other = query if change is None else change(query)
        return curator._ask(other, offer, key=None, fresh=fresh)  # noqa: SLF001 - part of it

    return ask


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
