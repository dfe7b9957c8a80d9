"""The policy itself: tables, units, limits and the budget, as frozen values.

Two hashes name a policy. The **identity** ties it to its ledger: it is the
policy's own name or, without one, a hash of what the private tables *are* (name,
source, unit column). Limits, bounds, budget and comments do not enter it, so
editing them never mints a fresh budget; moving or renaming a source does, so a
policy that will live long should state ``[policy] name``. The **fingerprint**
hashes everything that answers depend on and goes into release records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Final, Literal, TypeAlias, cast

from discreet._canonical import canonical, digest
from discreet._dataclass import dataclass, replace
from discreet._exact import Number, show
from discreet._frozen import Frozen
from discreet._text import plain_str, quote
from discreet.errors import PolicyError
from discreet.policy._check import (
    choice,
    collect,
    count,
    flag,
    nearest,
    number,
    plain,
    positive,
    refusal,
    settle,
    text,
)
from discreet.policy._check import (
    name as read_name,
)
from discreet.policy._columns import Column
from discreet.policy._domain import describe
from discreet.policy._owner import Owner, linked, owner_of, with_ids
from discreet.policy._service import Service
from discreet.policy._toml import dump
from discreet.privacy import Neighbours

Accounting: TypeAlias = Literal["pure", "approx", "zcdp"]
ACCOUNTING: Final = ("pure", "approx", "zcdp")
Exact: TypeAlias = tuple[str, ...]
NUMBERS: Final = ("1,234.50", "1.234,50")
"""Ways in which CSV files write numbers, besides the plain one."""
LIMITS: Final = (
    "max_rows_per_unit", "max_groups_per_unit", "max_rows_per_group", "max_rows_per_parent",
)  # fmt: skip
MAX_LIMIT: Final = 10**9

_HASHED: Final = "sha256:"
MADE_UP: Final = " (made-up data)"
"""End of the name of a policy about made-up data."""

_USUAL: Final = Service()
MINIMUM: Final = Fraction(1, 1000)
"""ε that any question costs at least, unless the policy says otherwise."""


@dataclass(frozen=True, slots=True, init=False)
class Budget:
    """How much privacy may be lost in total, and how the loss is added up.

    Parameters
    ----------
    epsilon, delta, rho
        Exact numbers (text, int, Fraction; a float is its shortest decimal).
    accounting
        ``"pure"``: ε adds up and δ is 0. ``"approx"``: ε and δ add up.
        ``"zcdp"``: ρ adds up; the budget is `rho`, or the ρ that `epsilon` and
        `delta` allow. Left out: ``"pure"`` without `delta` and `rho`, otherwise ``"zcdp"``.
    shares
        Parts of this budget that single analysts may spend: each in (0, 1],
        together at most 1. Parts, never additions.
    minimum
        ε that any question costs at least (a twentieth of the budget at most), so
        that whatever a run shows besides its answer is metered. In ρ, the same
        part of the whole. With `rho` in place of `epsilon`, that part itself: a
        thousandth of the total unless it is stated.

    Examples
    --------
    >>> Budget("2", delta="1e-6").accounting
    'zcdp'
    >>> str(Budget("2", delta="1e-6").least_part)
    '1/2000'
    >>> str(Budget(rho="0.1", delta="1e-6").least_part)
    '1/1000'
    """

    epsilon: Fraction | None
    delta: Fraction
    rho: Fraction | None
    accounting: Accounting
    shares: Mapping[str, Fraction]
    minimum: Fraction

    def __init__(
        self,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        accounting: Accounting | None = None,
        shares: Mapping[str, Number] | None = None,
        *,
        minimum: Number = MINIMUM,
    ) -> None:
        loss = None if epsilon is None else positive(epsilon, "budget", "epsilon", "1")
        failure = number(delta, "budget", "delta")
        if not 0 <= failure < 1:
            raise refusal("budget: delta must lie in [0, 1)", "delta", fix={"delta": "1e-6"})
        concentrated = None if rho is None else positive(rho, "budget", "rho", "0.1")
        mode: object = accounting
        if accounting is None:
            mode = "pure" if failure == 0 and concentrated is None else "zcdp"
        settle(self, epsilon=loss, delta=failure, rho=concentrated)
        settle(self, accounting=choice(mode, ACCOUNTING, "budget", "accounting"))
        settle(self, shares=_shares({} if shares is None else shares))
        settle(self, minimum=positive(minimum, "budget", "minimum", "0.001"))
        self._agree()

    @property
    def least_part(self) -> Fraction:
        """Part of the whole that any question costs at least."""
        return min(self.minimum / (self.epsilon or 1), Fraction(1, 20))

    def _agree(self) -> None:
        """Refuse a budget whose parts do not fit its accounting."""
        mode, epsilon, delta, rho = self.accounting, self.epsilon, self.delta, self.rho
        if rho is not None and mode != "zcdp":
            raise refusal(f"budget: rho has no meaning under {mode} accounting", "rho",
                 fix={"accounting": "zcdp"})  # fmt: skip
        if epsilon is None and rho is None:
            raise refusal("budget: needs epsilon", fix={"epsilon": "1"})
        if epsilon is not None and rho is not None:
            raise refusal("budget: state epsilon or rho, not both", "rho", fix={"rho": None})
        if mode == "pure" and delta:
            raise refusal(
                "budget: pure accounting has no delta", "delta", fix={"accounting": "zcdp"}
            )
        if mode != "pure" and not delta:
            raise refusal(f"budget: {mode} accounting needs delta", fix={"delta": "1e-6"})


def _shares(shares: object) -> Frozen[Fraction]:
    if not isinstance(shares, Mapping):
        raise refusal("budget: shares must map analysts to parts", "shares",
             fix={"shares": {"analyst": "0.5"}})  # fmt: skip
    parts: dict[str, Fraction] = {}
    for analyst, part in shares.items():
        who = read_name(analyst, "share")
        exact = number(part, f"share of {quote(who)}", "shares", who)
        left = 1 - sum(parts.values(), Fraction())
        if not 0 < exact <= left:
            equal = {str(a): plain(Fraction(1, len(shares))) for a in shares}
            raise refusal(
                f"budget: the share of {quote(who)} is {show(exact)}, but it must be positive "
                f"and {show(left)} is left of the whole",
                "shares",
                who,
                fix={"shares": equal},
            )
        parts[who] = exact
    return Frozen(parts)


@dataclass(frozen=True, slots=True, init=False)
class Table:
    """A table: where it is, whom it protects, what each column may hold.

    Parameters
    ----------
    name
        Name used in queries.
    columns
        Columns, as a list or a mapping by name. Others in the source do not exist.
    source
        Path, glob or URL of the data; None when the data is handed over in Python.
    unit
        Column that says which person (household, company) a row belongs to. None:
        one row is one unit. As unit it may hold any type and is never groupable,
        declared or not.
    neighbours
        ``"add-remove"`` (default) or ``"change-one"``. Without meaning for a public table.
    public
        True: the table protects nobody and may be joined freely.
    max_rows_per_unit, max_groups_per_unit, max_rows_per_group
        How much of one unit is kept. A private table with `unit` needs the first,
        or the other two together; without `unit` there is nothing to limit.
    max_rows_per_parent
        In place of the first, for a table with `owner`: how many rows of each row of the owner
        are kept, of as many such rows as the owner's own limit allows.
    numbers
        How a CSV file writes numbers, ``"1,234.50"`` or ``"1.234,50"``; currency signs, spaces
        and apostrophes are then left out. None: plain, as in ``1234.50``.
    key
        Column by which rows of other tables name the rows of this one.
    owner
        In place of `unit`: the table to whose rows, and so to whose units, the rows belong,
        and the column that names its key.
    weight
        Column of survey weights, a number that is never negative: how many people of the
        population a row stands for. ``curator.survey`` reads it.
    unprotected
        Numbers of rows that publications may release exactly, without any protection:
        ``"total"``, or ``"total by area"`` for a column. The owner's word, needed for each; of
        tables in which a row is a unit (``"total"`` also under `max_rows_per_unit` alone).
    fixed
        Columns of which no row is ever given another value; rows may come and go. The owner's
        word, needed for ``curator.partition``, which outlives changes of the data, and for
        streams whose ticks are no dates.
    """

    name: str
    columns: Mapping[str, Column]
    source: str | None = None
    unit: str | None = None
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    public: bool = False
    max_rows_per_unit: int | None = None
    max_groups_per_unit: int | None = None
    max_rows_per_group: int | None = None
    max_rows_per_parent: int | None = None
    numbers: str | None = None
    key: str | None = None
    owner: Owner | None = None
    weight: str | None = None
    unprotected: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()

    def __init__(
        self,
        name: str,
        columns: Mapping[str, Column] | Iterable[Column] = (),
        *,
        source: str | None = None,
        unit: str | None = None,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        public: bool = False,
        max_rows_per_unit: int | None = None,
        max_groups_per_unit: int | None = None,
        max_rows_per_group: int | None = None,
        max_rows_per_parent: int | None = None,
        numbers: str | None = None,
        key: str | None = None,
        owner: Owner | Mapping[str, str] | None = None,
        weight: str | None = None,
        unprotected: Iterable[str] = (),
        fixed: Iterable[str] = (),
    ) -> None:
        own = read_name(name, "table")
        subject = f"table {quote(own)}"
        above = owner_of(owner, subject)
        key_name = None if key is None else text(key, subject, "key", limit=255)
        listed = collect(columns, "column", "columns", Column)
        ids = (None if key_name == unit else key_name, None if above is None else above.column)
        limits = max_rows_per_unit, max_groups_per_unit, max_rows_per_group, max_rows_per_parent
        relation = choice(neighbours, [n.value for n in Neighbours], subject, "neighbours")
        settle(
            self,
            name=own,
            columns=with_ids(listed, ids),
            source=None if source is None else text(source, subject, "source", limit=4096),
            unit=None if unit is None else text(unit, subject, "unit", limit=255),
            neighbours=Neighbours(relation),
            public=flag(public, subject, "public"),
            **{
                key: None if limit is None else count(limit, subject, key, MAX_LIMIT)
                for key, limit in zip(LIMITS, limits, strict=True)
            },
            numbers=None if numbers is None else choice(numbers, NUMBERS, subject, "numbers"),
            key=key_name,
            owner=above,
            weight=None if weight is None else text(weight, subject, "weight", limit=255),
            unprotected=self._exact(unprotected, listed, relation, subject),
            fixed=_listed(fixed, tuple(listed), subject, "fixed"),
        )
        if self.weight is not None:
            self._check_weight(self.weight)
        self._check_public() if self.public else self._check_private()

    @staticmethod
    def _exact(value: object, columns: Iterable[str], relation: str, subject: str) -> Exact:
        """Read what may be released exactly; it needs a relation that keeps the total."""
        options = ("total", *(f"total by {name}" for name in columns))
        totals = _listed(value, options, subject, "unprotected")
        if totals and relation != Neighbours.CHANGE_ONE:
            raise refusal(
                f"{subject}: an exact total tells whether one row more is there; totals may be "
                "unprotected only where neighbours keep them",
                "unprotected",
                fix={"neighbours": "change-one"},
            )
        return totals

    def _check_weight(self, name: str) -> None:
        subject, column = f"table {quote(self.name)}", self.columns.get(name)
        if self.public or column is None or column.type not in ("integer", "real"):
            raise refusal(
                f"{subject}: weight must name a number that this private table declares",
                "weight",
                hint='weight = "w" and w = { type = "real", min = 0, max = 50, step = "0.01" }',
            )
        if not 0 <= getattr(column, "min", -1) < getattr(column, "max", 0):
            raise refusal(
                f"{subject}: the weight {quote(name)} must lie between zero and a greatest weight",
                "weight",
                hint=f"{name} = {{ min = 0, max = 50 }}",
            )

    def _check_public(self) -> None:
        subject = f"table {quote(self.name)}"
        for key in ("unit", "key", "owner", "unprotected", "fixed", *LIMITS):
            if getattr(self, key) not in (None, ()):
                raise refusal(f"{subject} is public: {key} has no meaning", key, fix={key: None})
        if self.neighbours is not Neighbours.ADD_REMOVE:
            message = f"{subject} is public: neighbours has no meaning"
            raise refusal(message, "neighbours", fix={"neighbours": None})
        if not self.columns:
            raise refusal(
                f"{subject}: a public table needs its columns and their types",
                "columns",
                hint='columns = { id = { type = "text" } }',
            )

    def _check_private(self) -> None:
        subject = f"table {quote(self.name)}"
        rows, groups, rows_per_group, per_parent = (getattr(self, key) for key in LIMITS)
        linked = self.owner is not None and self.owner.above is not None
        if self.owner is not None and self.unit is not None and not linked:
            raise refusal(f"{subject}: its rows belong to a unit themselves, or through an owner",
                          "owner", fix={"owner": None})  # fmt: skip
        if self.unit is None and self.owner is None:
            for key in LIMITS:
                if getattr(self, key) is not None:
                    message = (
                        f"{subject}: without unit one row is one unit, so {key} has no meaning"
                    )
                    raise refusal(message, key, fix={key: None})
            return
        if self.unit == "":
            raise refusal(f"{subject}: unit must name the column that tells people apart; where "
                          "each row is one person, leave it out", "unit")  # fmt: skip
        folded = {column.casefold(): column for column in self.columns}
        column = None if self.owner is None else self.owner.column
        for key, word in (("unit", self.unit), ("key", self.key), ("owner", column)):
            declared = folded.get((word or "").casefold(), word)
            if declared != word:
                message = f"{subject}: {key} {quote(word or '')} is declared as {quote(declared)}"
                raise refusal(message, key, fix=None if key == "owner" else {key: declared})
        if per_parent is not None and self.owner is None:
            raise refusal(f"{subject} has no owner, so max_rows_per_parent has no meaning",
                          LIMITS[3], fix={LIMITS[3]: None})  # fmt: skip
        if rows is per_parent is None and (groups is None or rows_per_group is None):
            whose = quote(self.unit or "unit of the owner")
            raise refusal(
                f"{subject}: one {whose} may own any number of rows; state "
                "max_rows_per_unit, or max_groups_per_unit with max_rows_per_group",
                "unit" if self.owner is None else "owner",
                fix={"max_rows_per_unit": 1},
            )

    @property
    def ids(self) -> tuple[str, ...]:
        """Columns of the source that tell units and rows apart: read as they are, never mended."""
        names = (self.unit if self.owner is None else self.owner.column, self.key)
        return tuple([name for name in names if name is not None])

    def column(self, name: str) -> Column:
        """Give a declared column by name; refuse an unknown one, naming the nearest."""
        return cast("Column", _pick(self.columns, name, f"column in table {quote(self.name)}"))


@dataclass(frozen=True, slots=True, init=False)
class Policy:
    """What is public about the data, and how much privacy may be lost.

    Parameters
    ----------
    tables
        Tables, as a list or a mapping by name; at least one is private.
    budget
        The total for all private tables together.
    name
        Identity of the policy; state it if sources may move.
    beside
        Name of another policy over the same data, from whose budget this one spends; its
        owner must have consented.
    witness
        URL of a server that keeps the ledger's mark for several hosts, without
        user and password.
    service
        How a service treats questions.

    Examples
    --------
    >>> from discreet.policy import Budget, Integer, Policy, Table
    >>> policy = Policy([Table("people", [Integer("age", 0, 115)])], Budget("1"), name="census")
    >>> policy.identity
    'census'
    >>> policy.table("people").column("age")
    Integer('age', min=0, max=115)
    """

    tables: Mapping[str, Table]
    budget: Budget
    name: str | None = None
    beside: str | None = None
    witness: str | None = None
    service: Service = _USUAL

    def __init__(
        self,
        tables: Mapping[str, Table] | Iterable[Table],
        budget: Budget,
        name: str | None = None,
        beside: str | None = None,
        witness: str | None = None,
        *,
        service: Service = _USUAL,
    ) -> None:
        if not isinstance(budget, Budget):
            raise refusal("a policy needs a budget", "budget", hint='Budget("1")')
        members = linked(collect(tables, "table", "tables", Table))
        if all(table.public for table in members.values()):
            raise refusal(
                "a policy needs at least one private table", "tables", hint="public = false"
            )
        settle(
            self,
            tables=members,
            budget=budget,
            name=policy_name(name),
            beside=None if beside is None else read_name(beside, "policy"),
            witness=_witness(witness),
            service=service,
        )

    def table(self, name: str) -> Table:
        """Give a table by name; refuse an unknown one, naming the nearest."""
        return cast("Table", _pick(self.tables, name, "table in this policy"))

    @property
    def identity(self) -> str:
        """What the ledger is tied to: the name, or a hash of what the private tables are."""
        if self.name is not None:
            return self.name
        private = sorted(
            ([t.name, t.source, t.unit] for t in self.tables.values() if not t.public),
            key=lambda entry: str(entry[0]),
        )
        return _HASHED + digest(canonical(private))[:32]

    @property
    def payer(self) -> str:
        """Identity of the policy whose budget is charged: the one it stands beside, or itself."""
        return self.beside or self.identity

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything the policy says about answers, in hexadecimal.

        What it says to a service decides who waits how long, and is left out.
        """
        mapping = self.to_mapping()
        mapping.pop("service", None)
        return digest(canonical(mapping))

    def rehearsed(self) -> Policy:
        """Give this policy under the name that marks answers from made-up data.

        It names no sources: what is made up comes from nowhere, and is charged to no budget.
        """
        name = self.identity.removeprefix(_HASHED) + MADE_UP
        tables = [replace(table, source=None) for table in self.tables.values()]
        return Policy(tables, self.budget, name, service=self.service)

    @property
    def rehearses(self) -> bool:
        """Whether this policy is about made-up data."""
        return (self.name or "").endswith(MADE_UP)

    def to_mapping(self) -> dict[str, object]:
        """Give the policy as the mapping its file would parse to."""
        mapping: dict[str, object] = {}
        about: dict[str, object] = {} if self.name is None else {"name": self.name}
        if self.beside is not None:
            about["beside"] = self.beside
        if about:
            mapping["policy"] = about
        if self.witness is not None:
            mapping["ledger"] = {"witness": self.witness}
        mapping["budget"] = _arguments(self.budget)
        if stated := self.service.to_mapping():
            mapping["service"] = stated
        mapping["tables"] = {n: _table_mapping(t) for n, t in self.tables.items()}
        return mapping

    def to_toml(self) -> str:
        """Write the policy file; loading it gives an equal policy."""
        return dump(self.to_mapping())


def policy_name(name: str | None) -> str | None:
    """Accept a policy's name, unless it looks like the identity of an unnamed one."""
    if name is None:
        return None
    if name == "":
        raise refusal("a policy's name must not be empty", "name", fix={"name": "people"})
    own = read_name(name, "policy")
    if own.startswith(_HASHED):
        message = f"a policy's name may not begin with {_HASHED}: unnamed policies do"
        raise refusal(message, "name", fix={"name": own.removeprefix(_HASHED) or "policy"})
    return own


_WITNESSES: Final = (
    "postgresql://", "postgres://", "https://", "http://127.0.0.1:", "http://localhost:",
)  # fmt: skip


def _witness(url: object) -> str | None:
    """Accept the address of a witness; a policy is public, so it holds no password."""
    if url is None:
        return None
    text = plain_str(url, "a witness", PolicyError)
    if not text.startswith(_WITNESSES) or "@" in text or "password" in text:
        raise refusal(
            "a witness is a PostgreSQL URL, or a service's https address, without user and "
            "password: a policy is public",
            "witness",
            fix={"witness": "postgresql://db.example/marks"},
        )
    return text


def _listed(value: object, options: Sequence[str], subject: str, key: str) -> tuple[str, ...]:
    """Read a list of words, each one of those that are known."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise refusal(f"{subject}: {key} is a list", key, fix={key: list(options[:1])})
    return tuple([choice(word, options or ("a declared column",), subject, key) for word in value])


def _arguments(budget: Budget) -> dict[str, object]:
    amounts = {k: getattr(budget, k) for k in ("epsilon", "delta", "rho") if getattr(budget, k)}
    shares = {"shares": dict(budget.shares)} if budget.shares else {}
    least = {} if budget.minimum == MINIMUM else {"minimum": budget.minimum}
    return {**amounts, "accounting": budget.accounting, **shares, **least}


def _table_mapping(table: Table) -> dict[str, object]:
    owner = table.owner and {"table": table.owner.name, "column": table.owner.column}
    whose: dict[str, object] = {"unit": table.unit, "neighbours": table.neighbours.value}
    whose = {"public": True} if table.public else {"owner": owner} if owner else whose
    mapping = {"source": table.source, "numbers": table.numbers, "key": table.key, **whose}
    mapping |= {"weight": table.weight, "unprotected": list(table.unprotected) or None}
    mapping |= {"fixed": list(table.fixed) or None}
    mapping |= {key: getattr(table, key) for key in LIMITS}
    mapping = {key: value for key, value in mapping.items() if value is not None}
    return {**mapping, "columns": {n: describe(c) for n, c in table.columns.items()}}


def _pick(choices: Mapping[str, object], name: str, kind: str) -> object:
    if isinstance(name, str) and name in choices:
        return choices[name]
    near = nearest(name, choices)
    names = ", ".join(quote(n) for n in list(choices)[:10]) or "none"
    raise refusal(f"there is no {kind} called {quote(name)}; known: {names}", hint=near)
