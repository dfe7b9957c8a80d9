r"""A partition that is named first: questions about different parts cost the dearest part.

Guarantee
---------
Let a row be a unit, and neighbours differ by one row more or less. Whoever opens a partition
pays ε (or ρ) once; after that every part has questions of ε in all, whoever asks them, one
after the other, each chosen in view of all answers so far. All of them together cost one row ε.

Proof sketch
------------
Two tables differ in one row, which is in one part v, or in none. A question of a part w is
accepted only where the public types prove that no row outside of w reaches it
(:mod:`discreet.plan._disjoint`). The questions are asked at different times, of data that may
have changed in between; the owner's word is that no row is ever given another value of the column
(``fixed`` in the policy), so the row is in v, or in none, whenever it is asked. So the answers of
all other parts have the same law with and without it, given the answers before them, and only
those of v add up: adaptive composition of what v was charged, which is ε at most. (A change of one
row may touch two parts: such policies are refused. So are units with several rows.)

What a part has spent is under the ledger's seal. Its k-th question is something that is released
once in a period, under the name "partition, part, k", and needs the one before it to have been
answered (``paid_by``). Whoever asks walks along the questions that are stored, adds up their
prices, and takes the next free place if the sum leaves room. Two that take one place at once run
both, but only the outcome that is stored first is released; the other one walks on, also where it
failed. A run that was
killed has released nothing, and its place is taken by the next question. A run that failed has
released that it failed, which counts as its answer: its place is taken and its price is spent, as
on every road. So what composes is what was charged, and the part goes on with what is left. Each
place costs the policy's least price besides, as every run does.

References
----------
.. [1] F. McSherry, "Privacy integrated queries", SIGMOD 2009, section 2.4.3.
"""

from __future__ import annotations

import json
import secrets
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from discreet import _exact, noise
from discreet import privacy as p
from discreet._canonical import canonical, digest
from discreet._dataclass import dataclass, replace
from discreet._exact import Number, show
from discreet._text import plain_str, quote
from discreet.answer import Answer
from discreet.curator import _stored
from discreet.curator._guests import asker
from discreet.curator._release import check_state, measured
from discreet.curator._road import Job, Outcome
from discreet.errors import (
    BudgetExceededError,
    Hint,
    LedgerIntegrityError,
    ParameterError,
    PolicyError,
    QueryError,
)
from discreet.plan import Ask, Cost, Plan, apart, charge
from discreet.policy import Boolean, Category

if TYPE_CHECKING:
    from discreet.curator._curator import Curator
    from discreet.frame import Table

_FREE = Cost(*[Fraction(0)] * 4)
Currency = Literal["epsilon", "rho"]


@dataclass(frozen=True)
class _Place:
    """What stands in one place of a part: a question, its price and its outcome."""

    identity: str
    price: Fraction
    outcome: str | None
    """What was measured; None: the run failed, and its price is spent."""
    cached: bool

    @classmethod
    def read(cls, outcome: Outcome) -> _Place:
        try:
            data = json.loads(outcome.text)
            price, failed = Fraction(data["price"]), data.get("failed") is True
            text = None if failed else data["outcome"]
            return cls(data["asked"], price, text, outcome.cached)
        except (ValueError, KeyError, TypeError, ZeroDivisionError):
            raise LedgerIntegrityError("a stored answer was edited or damaged") from None


def _offer(epsilon: Number | None, rho: Number | None) -> tuple[Currency, Fraction]:
    """Read what every part has: ε or ρ."""
    if (epsilon is None) == (rho is None):
        raise ParameterError("state what every part has: epsilon or rho", hint=Hint("epsilon", "1"))
    if epsilon is not None:
        return "epsilon", _exact.epsilon(epsilon)
    assert rho is not None
    return "rho", _exact.epsilon(rho, "rho")


@dataclass(frozen=True, slots=True, repr=False, init=False)
class Partition:
    """Parts of a table by the public values of a column, paid for together.

    Made by :meth:`discreet.Curator.partition`. ``partition["F"]`` is the part of one value.

    **Rows keep their part.** Whoever moves from one part to another between two questions is
    asked about in both, and is paid for once. So the policy's owner says of the column that no
    row is ever given another value of it (``fixed``), also not by leaving and coming again.
    """

    _curator: Curator
    column: str
    table: str
    currency: Currency
    price: Fraction
    name: str

    def __init__(
        self,
        curator: Curator,
        column: str,
        table: str | None = None,
        name: str = "",
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
    ) -> None:
        """Read everything anew, as :meth:`Curator.partition` does: there is no other way in."""
        currency, price = _offer(epsilon, rho)
        fields = {
            "_curator": curator,
            "column": plain_str(column, "column"),
            "table": _table(curator, None if table is None else plain_str(table, "table")),
            "currency": currency,
            "price": price,
            "name": plain_str(name, "name"),
        }
        for field, value in fields.items():
            object.__setattr__(self, field, value)
        _check_fixed(curator, self.table, self.column)
        self._pay()

    def _pay(self) -> None:
        """Pay. What a part may spend is what was paid, because the price is part of the name."""
        pure = self.currency == "epsilon"
        loss: p.PrivacyLoss = p.Pure(self.price) if pure else p.Zcdp(self.price)
        delta = Fraction(1, 10**6)
        claim = None if pure else (Fraction(loss.epsilon(delta)), delta)
        text = f"parts of {self.table} by {self.column}, {self._sign}={show(self.price)} for each"
        job = Job(
            plan=self._name,
            cost=charge([loss], claim),
            noise="[]",
            neighbours=str(p.Neighbours.ADD_REMOVE),
            unit=None,
            tables=(self.table,),
            run=lambda: json.dumps({"partition": text}),
            once=True,
            text=text,
        )
        self._curator._road.travel(job)  # noqa: SLF001 - same package

    @property
    def values(self) -> tuple[object, ...]:
        """The public values of the column."""
        return _values(self._curator, self.table, self.column)

    @property
    def _name(self) -> str:
        """What was paid for: policy, data and analyst, the column and the price."""
        price = [self.currency, str(self.price)]
        terms = [*asker(self._curator), self.table, self.column, *price, self.name]
        return f"partition {digest(canonical(terms))}"

    @property
    def _sign(self) -> str:
        return "ε" if self.currency == "epsilon" else "ρ"

    def __getitem__(self, value: object) -> Part:
        """Return the part of one value of the column."""
        return Part(self, value)

    def __iter__(self) -> Any:
        return (Part(self, value) for value in self.values)

    def __repr__(self) -> str:
        rest = f"{self._sign} {show(self.price)} for each of {len(self.values)} parts"
        return f"Partition({self.table} by {self.column}; {rest})"


@dataclass(frozen=True, slots=True, repr=False)
class Part:
    """One part of a partition: questions about its rows draw on the partition's price."""

    partition: Partition
    value: object

    def __post_init__(self) -> None:
        """Take the policy's own spelling of the value: a part has one budget."""
        if type(self.partition) is not Partition:
            raise ParameterError("a part belongs to a partition", hint='partition["F"]')
        object.__setattr__(self, "value", self._value)

    @property
    def _value(self) -> object:
        """The value as the policy lists it."""
        own = self.partition
        for label in own.values:
            if isinstance(self.value, type(label)) and label == self.value:
                return label
        raise ParameterError(
            f"{quote(str(self.value)[:60])} is not among the public values of {own.column!r}",
            hint=f"partition[{own.values[0]!r}]",
        )

    def sql(self, query: str, **how: Any) -> Answer:
        """Answer a SQL query about rows of this part; the parameters are those of :meth:`ask`."""
        return self.ask(query, **how).asked(query)

    def ask(
        self,
        question: str | Table,
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        fresh: bool = False,
    ) -> Answer:
        """Answer a question whose WHERE keeps to the rows of this part.

        Parameters
        ----------
        question
            SQL text, or a table of the fluent API.
        epsilon, rho
            What it costs of this part's share, in the currency of the partition.
        fresh
            Pay for new noise though the same question has been answered.
        """
        plan = self._plan(question, epsilon, rho)
        price = getattr(plan.cost, self.partition.currency)
        identity = digest(canonical([plan.lowered.measured, _stored.describe_noise([plan])]))
        place = self._walk(plan, identity, price, fresh=fresh)
        assert place.outcome is not None
        (record,) = _stored.restore(place.outcome, [plan])
        return Answer(
            record,
            left=self._balance(self.spent),
            tainted=noise.is_deterministic(),
            cached=place.cached,
        )

    @property
    def spent(self) -> Fraction:
        """What was charged to this part so far."""
        return sum((place.price for place in self._places()), Fraction(0))

    @property
    def left(self) -> Fraction:
        """What this part has left."""
        return self.partition.price - self.spent

    def _plan(self, question: str | Table, epsilon: Number | None, rho: Number | None) -> Plan:
        own, curator = self.partition, self.partition._curator  # noqa: SLF001 - same module
        offers = {"epsilon": epsilon, "rho": rho}
        amount = offers.pop(own.currency)
        if amount is None or any(x is not None for x in offers.values()):
            raise ParameterError(
                f"questions of this partition are paid in {own._sign}",  # noqa: SLF001 - as above
                hint=Hint(own.currency, "0.1"),
            )
        query = curator._question(question).query  # noqa: SLF001 - same package
        others = curator._question(self._others()).query  # noqa: SLF001 - as above
        if apart([query, others]) != [[0, 1]]:
            raise QueryError(
                f"the question may reach rows outside of the part {self._condition()}: it is not "
                "about this table alone, or its WHERE does not keep to the part",
                hint=f"WHERE {self._condition()}",
            )
        exact = _exact.epsilon(amount, own.currency)
        ask = Ask(epsilon=exact) if own.currency == "epsilon" else Ask(rho=exact)
        plan = curator._plan(query, ask)  # noqa: SLF001 - as above
        if plan.cost.rho_delta or (own.currency == "epsilon" and plan.cost.delta):
            raise QueryError("questions of a partition spend no δ: list the public values of keys")
        return plan

    def _condition(self) -> str:
        """SQL that holds for the rows of this part."""
        return f"{_identifier(self.partition.column)} = {_literal(self._value)}"

    def _others(self) -> str:
        """Count all rows that are not in this part."""
        column, table = _identifier(self.partition.column), _identifier(self.partition.table)
        outside = f"{column} <> {_literal(self._value)} OR {column} IS NULL"
        return f"SELECT COUNT(*) AS n FROM {table} WHERE {outside}"  # noqa: S608 - read by our own parser

    def _job(self, k: int) -> Job:
        """The k-th place of this part, without a run."""
        own = self.partition
        before = own._name if k == 0 else self._place_name(k - 1)  # noqa: SLF001 - same module
        return Job(
            plan=self._place_name(k),
            cost=_FREE,
            noise="[]",
            neighbours=str(p.Neighbours.ADD_REMOVE),
            unit=None,
            tables=(own.table,),
            run=str,
            once=True,
            paid_by=before,
        )

    def _place_name(self, k: int) -> str:
        label = canonical([self.partition.column, str(self._value)])
        return f"{self.partition._name} {label} {k}"  # noqa: SLF001 - same module

    def _places(self) -> list[_Place]:
        """Every place that is taken, in order."""
        road = self.partition._curator._road  # noqa: SLF001 - same package
        places: list[_Place] = []
        while (purchase := road.find(self._job(len(places)))) is not None:
            assert purchase.outcome is not None
            places.append(_Place.read(purchase.outcome))
        return places

    def _walk(self, plan: Plan, identity: str, price: Fraction, *, fresh: bool) -> _Place:
        """Find the question among the answers, or take the next free place for it."""
        curator = self.partition._curator  # noqa: SLF001 - same package
        places = self._places()
        if not fresh:
            for place in places:
                if place.identity == identity and place.outcome is not None:
                    return place
        own = _stored.job([plan], plan.cost, str)
        check_state([plan], curator._engine)  # noqa: SLF001 - as above
        terms = {"asked": identity, "price": str(price)}
        # its own: of two runs for one place that fail, one is told so and the other one walks on
        failed = json.dumps({**terms, "failed": True, "run": secrets.token_hex(8)})
        while True:
            spent = sum((place.price for place in places), Fraction(0))
            if spent + price > self.partition.price:
                raise BudgetExceededError(
                    f"the question costs {show(price)}; {self._balance(spent)}",
                    hint=Hint(self.partition.currency, show(self.partition.price - spent))
                    if spent < self.partition.price
                    else Hint("name", "another partition"),
                )

            def run() -> str:
                text = _stored.write(measured([plan], curator._engine, curator.policy))  # noqa: SLF001 - as above
                return json.dumps({**terms, "outcome": text})

            job = replace(self._job(len(places)), run=run, noise=own.noise, text=own.text)
            place = _Place.read(curator._road.travel(replace(job, failed=failed)))  # noqa: SLF001 - as above
            if place.identity == identity and not place.cached:
                return place
            places.append(place)  # somebody else was first

    def _balance(self, spent: Fraction) -> str:
        own = self.partition
        return f"{show(own.price - spent)} of {own._sign} {show(own.price)} left in {self!r}"  # noqa: SLF001 - same module

    def __repr__(self) -> str:
        return f"{self.partition.table}[{self.partition.column} = {self.value!r}]"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def _table(curator: Curator, name: str | None) -> str:
    """The table meant: it must be private, a row of it one unit that comes or goes."""
    private = [t for t in curator.policy.tables.values() if not t.public]
    if name is None and len(private) != 1:
        raise ParameterError("name the table to divide", hint=Hint("table", private[0].name))
    table = curator.policy.table(name) if name is not None else private[0]
    if table.public or table.unit is not None or table.owner is not None:
        raise PolicyError(
            f"rows of {table.name!r} cannot be divided into parts: one unit may have rows in "
            "several of them"
        )
    if table.neighbours is not p.Neighbours.ADD_REMOVE:
        raise PolicyError(
            "under change-one a row may leave one part and enter another, so prices of parts add up"
        )
    return table.name


def _check_fixed(curator: Curator, table: str, column: str) -> None:
    """Refuse a column that rows may have another value of tomorrow."""
    _values(curator, table, column)
    if column not in curator.policy.table(table).fixed:
        raise PolicyError(
            f"a partition lasts while the data change: whoever moves from one {column} to another "
            "between two questions would be asked about in both, and be paid for once; the owner "
            "has to say that no row is ever given another value of it",
            hint=f'fixed = ["{column}"] under [tables.{table}] of the policy',
        )


def _values(curator: Curator, table: str, column: str) -> tuple[object, ...]:
    """The public values by which a column divides a table."""
    field = curator.policy.table(table).columns.get(column)
    if isinstance(field, Category):
        return tuple(field.domain)
    if isinstance(field, Boolean):
        return (False, True)
    raise ParameterError(
        f"{table} is divided by a column whose values the policy lists, and {quote(column[:60])} "
        "is none",
        hint=Hint("column", _listed(curator, table)) if _listed(curator, table) else None,
    )


def _listed(curator: Curator, table: str) -> str | None:
    columns = curator.policy.table(table).columns.values()
    return next((c.name for c in columns if isinstance(c, Category | Boolean)), None)
