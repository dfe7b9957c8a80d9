"""A table to ask questions about, step by step; every step gives a new table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, Protocol

from discreet._dataclass import dataclass, replace
from discreet._text import plain_str
from discreet.errors import Hint, QueryError
from discreet.frame._terms import col

if TYPE_CHECKING:
    from discreet import policy as pol
    from discreet.frame._terms import TermLike
    from discreet.plan import Query
    from discreet.sql import Fanout, Parsed


class Asker(Protocol):
    """Who answers: a curator."""

    @property
    def ask(self) -> Callable[..., Any]:
        """Answer a question, spending budget."""

    @property
    def preview(self) -> Callable[..., Any]:
        """Price a question without touching data."""


@dataclass(frozen=True, repr=False)
class Table:
    """A table, or a question about it in the making.

    Text is SQL, and means what it means in :func:`discreet.sql.parse`.

    Examples
    --------
    >>> from discreet import frame as f, policy as p
    >>> people = p.Table("people", [p.Category("sex", ["F", "M"]), p.Integer("age", 0, 115)])
    >>> policy = p.Policy(tables=[people], budget=p.Budget("1"))
    >>> adults = f.Table("people", policy).where("age >= 18")
    >>> print(adults.group_by("sex").agg(n=f.count(), age=f.mean("age")))
    select sex, count(*) as n, avg(age) as age
      group by sex: F, M
        limit each row to 1 row
          where age >= 18
            scan people
    """

    name: str
    policy: pol.Policy
    asker: Asker | None = None
    public_fanout: Fanout | None = None
    joins: tuple[tuple[str, tuple[tuple[str, str], ...], str], ...] = ()
    conditions: tuple[TermLike, ...] = ()
    keys: tuple[tuple[str | None, TermLike], ...] = ()
    outputs: tuple[tuple[str, TermLike], ...] = ()
    tests: tuple[TermLike, ...] = ()
    order: tuple[tuple[TermLike, bool], ...] = ()
    most: int | None = None
    skipped: int = 0
    rest: str | None = None
    inner: Table | None = None

    def where(self, *conditions: TermLike) -> Table:
        """Keep the rows for which all conditions are true."""
        return replace(self, conditions=(*self.conditions, *conditions))

    def group_by(self, *keys: TermLike, **aliases: TermLike) -> Table:
        """Group by columns or expressions; ``year="EXTRACT(YEAR FROM joined)"`` names one."""
        return replace(self, keys=(*self.keys, *((None, k) for k in keys), *aliases.items()))

    def other(self, label: str) -> Table:
        """Gather text keys that are not selected in one row called `label`."""
        return replace(self, rest=label)

    def agg(self, **outputs: TermLike) -> Table:
        """Ask for statistics, each under its name."""
        return replace(self, outputs=(*self.outputs, *outputs.items()))

    def having(self, *conditions: TermLike) -> Table:
        """Keep groups by their noisy outputs."""
        return replace(self, tests=(*self.tests, *conditions))

    def order_by(self, *items: TermLike, descending: bool = False) -> Table:
        """Sort by outputs or keys, after the noise."""
        return replace(self, order=(*self.order, *((i, descending) for i in items)))

    def limit(self, rows: int, *, offset: int = 0) -> Table:
        """Keep the first rows after the noise, or as many after the first `offset`."""
        for number in (rows, offset):
            if isinstance(number, bool) or not isinstance(number, int):
                raise QueryError("limit takes whole numbers", hint=".limit(10)")
        return replace(self, most=rows, skipped=offset)

    def per_unit(self, **outputs: TermLike) -> Table:
        """Make one row of each unit (and key): what follows asks about units, not about rows.

        >>> from discreet import frame as f, policy as p
        >>> visits = p.Table("visits", [p.Integer("cost", 0, 9)], unit="id", max_rows_per_unit=9)
        >>> table = f.Table("visits", p.Policy([visits], p.Budget("1")))
        >>> often = table.per_unit(n=f.count()).where("n >= 5").agg(people=f.count())
        >>> f.to_sql(often).partition(" FROM ")[2]
        '(SELECT "id", COUNT(*) AS "n" FROM "visits" GROUP BY 1) AS "visits" WHERE n >= 5'
        """
        unit = self.policy.table(self.name).unit
        if unit is None:
            raise QueryError(f"each row of table {self.name!r} is a unit of its own already")
        whole = replace(self, keys=((None, col(unit)), *self.keys), outputs=tuple(outputs.items()))
        return Table(self.name, self.policy, self.asker, self.public_fanout, inner=whole)

    def join(
        self,
        public: str,
        on: str | Iterable[str | tuple[str, str]],
        *,
        how: Literal["inner", "left"] = "inner",
    ) -> Table:
        """Add the columns of a public table's rows with equal columns `on`."""
        if how not in ("inner", "left"):
            raise QueryError("a join is inner or left", hint=Hint("how", "left"))
        listed = [on] if isinstance(on, str) else list(on)
        pairs = tuple((item, item) if isinstance(item, str) else item for item in listed)
        if not pairs:
            raise QueryError(
                "a join needs columns", hint=Hint.call(".join", None, "regions", on="region")
            )
        return replace(self, joins=(*self.joins, (public, pairs, how)))

    @property
    def query(self) -> Query:
        """The question, as the plan sees it."""
        return parse(self, self.policy, self.public_fanout).query

    def answer(self, **options: Any) -> Any:
        """Ask the curator, spending budget: ``answer(epsilon="0.5")``."""
        return self._asker().ask(self, **options)

    def preview(self, **options: Any) -> Any:
        """Price and expected error, without touching data."""
        return self._asker().preview(self, **options)

    def _asker(self) -> Asker:
        if self.asker is None:
            raise QueryError(
                "this table belongs to no curator", hint=Hint.call("curator.table", None, "people")
            )
        return self.asker

    def __repr__(self) -> str:
        from discreet.plan import describe  # noqa: PLC0415 - as in query

        return describe(self.query) if self.outputs else f"table {self.name}"


def to_sql(question: Table) -> str:
    """Write a question as the SQL text that means the same.

    >>> from discreet import policy as p
    >>> people = p.Table("people", [p.Integer("age", 0, 115)])
    >>> policy = p.Policy([people], p.Budget("1"))
    >>> to_sql(Table("people", policy).where("age >= 18").agg(n="COUNT(*)"))
    'SELECT COUNT(*) AS "n" FROM "people" WHERE age >= 18'
    """
    from discreet.frame._tree import to_text  # noqa: PLC0415 - sqlglot loads when asked

    if question.rest is not None:
        raise QueryError("a label for other keys has no spelling in SQL text")
    return to_text(question)


def parse(question: Table, policy: pol.Policy, fanout: Fanout | None) -> Parsed:
    """Read a question under a policy, whatever policy it was begun under."""
    # sqlglot loads with the first question
    from discreet.frame._tree import select  # noqa: PLC0415 - sqlglot loads when asked
    from discreet.sql import lower  # noqa: PLC0415 - as above

    _check_type(question)
    if not question.outputs:
        raise QueryError("the question asks for no statistic", hint="end with .agg(count())")
    rest = None if question.rest is None else plain_str(question.rest, "the label of other keys")
    return lower(select(question).copy(), policy, fanout, rest)  # terms may stand in others too


def rows_of(question: Table, policy: pol.Policy, asker: Asker, fanout: Fanout | None) -> Table:
    """Return the rows that a question is about, under a policy, whatever it was begun under.

    Nothing of the caller's stays but plain texts, each read once: no policy, no count of
    repeated keys, no object whose code would run later.
    """
    from discreet.frame._tree import rewritten  # noqa: PLC0415 - sqlglot loads when asked

    _check_type(question)
    beyond = question.tests, question.order, question.most, question.skipped, question.rest
    if beyond != ((), (), None, 0, None):
        raise QueryError(
            "rows of a table are chosen by where and join alone; having, order_by, limit and "
            "other are about answers",
            hint=Hint.call("curator.table", None, "people"),
        )
    inner = None if question.inner is None else rows_of(question.inner, policy, asker, fanout)
    return Table(
        policy=policy, asker=asker, public_fanout=fanout, inner=inner, **rewritten(question)
    )


def _check_type(question: object) -> None:
    if type(question) is not Table:
        raise QueryError(
            f"a question is SQL text or a table of the fluent API, not {type(question).__name__}",
            hint=Hint.call(
                "curator.sql", "discreet ask", "SELECT COUNT(*) AS n FROM people", epsilon="0.1"
            ),
        )
