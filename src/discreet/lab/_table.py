"""Small tables for demonstrations: what others know, one secret, one amount."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet._dataclass import dataclass, replace
from discreet.errors import ParameterError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Names = tuple[str, ...]

_SEED = 1997  # the year in which a governor was found by his birthday, sex and post code


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """One record per person, held as codes; made by :func:`table` or :func:`town`.

    Attributes
    ----------
    quasi
        Columns that others may know about a person (quasi-identifiers).
    domain
        The public values of each of them, in order.
    codes
        For each person the index of each value: an array of shape (people, columns).
    secret, secrets
        Name of the column to be protected, and its bits.
    number, numbers
        Name of an amount, and its values.
    bounds
        Public bounds of the amount.
    tables
        Combinations of columns whose counts are published.
    """

    quasi: Names
    domain: tuple[tuple[Any, ...], ...]
    codes: Ints
    secret: str
    secrets: Ints
    number: str
    numbers: Floats
    bounds: tuple[float, float]
    tables: tuple[Names, ...]

    def __len__(self) -> int:
        return len(self.secrets)

    def __repr__(self) -> str:
        names = ", ".join(self.quasi)
        return f"Table of {len(self)} people: {names}; secret {self.secret}; amount {self.number}"

    def size(self, name: str) -> int:
        """Return the number of public values of a column."""
        return 2 if name == self.secret else len(self.domain[self.quasi.index(name)])

    def shape(self, names: Names) -> tuple[int, ...]:
        """Return the shape of a table of counts."""
        return tuple(self.size(name) for name in names)

    def column(self, name: str) -> Ints:
        """Return the codes of a column."""
        return self.secrets if name == self.secret else self.codes[:, self.quasi.index(name)]

    def counts(self, names: Names, weights: Floats | None = None) -> Floats:
        """Count people by the columns named, each as one or by a weight.

        >>> from discreet import lab
        >>> lab.town(300).counts(("sex",)).sum()
        np.float64(300.0)
        """
        shape = self.shape(names)
        flat = np.ravel_multi_index([self.column(name) for name in names], shape)
        sums = np.bincount(flat, weights, minlength=int(np.prod(shape)))
        return sums.astype(np.float64).reshape(shape)

    def published(self) -> dict[Names, Floats]:
        """Return the true counts of every table that is published."""
        return {names: self.counts(names) for names in self.tables}

    def with_secret(self, person: int, bit: int) -> Table:
        """Return the neighbour in which one person's secret is `bit`."""
        secrets = self.secrets.copy()
        secrets[person] = bit
        return replace(self, secrets=secrets)

    def with_person(self, person: int, other: Table, which: int) -> Table:
        """Return the neighbour in which somebody of another table takes a person's place."""
        codes, secrets, numbers = self.codes.copy(), self.secrets.copy(), self.numbers.copy()
        codes[person] = other.codes[which]
        secrets[person] = other.secrets[which]
        numbers[person] = other.numbers[which]
        return replace(self, codes=codes, secrets=secrets, numbers=numbers)

    def without(self, person: int) -> Table:
        """Return the table of everybody else."""
        keep = np.arange(len(self)) != person
        return replace(
            self, codes=self.codes[keep], secrets=self.secrets[keep], numbers=self.numbers[keep]
        )

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return one dictionary per person."""
        return [
            {name: values[c] for name, values, c in zip(self.quasi, self.domain, row, strict=True)}
            | {self.secret: int(bit), self.number: float(x)}
            for row, bit, x in zip(self.codes, self.secrets, self.numbers, strict=True)
        ]


def table(
    data: Any,
    quasi: Sequence[str],
    secret: str,
    number: str,
    *,
    domain: Mapping[str, Sequence[Any]] | None = None,
    bounds: tuple[float, float] | None = None,
    tables: Sequence[Sequence[str]] | None = None,
) -> Table:
    """Read a table from a mapping of columns, rows, pandas or Arrow.

    Parameters
    ----------
    data
        ``{column: values}``, a list of dictionaries, a pandas frame or an Arrow table.
    quasi
        Columns that others may know about a person.
    secret
        Column of 0 and 1 (or False and True) to be protected.
    number
        Column of an amount.
    domain, bounds
        Public values of the columns in `quasi`, and public bounds of the amount. Left
        out, they are taken from the data: good enough to look at attacks, but not
        public, so nothing made that way is private.
    tables
        Combinations of columns whose counts are published. Left out: the secret alone,
        and with each two of the other columns.

    Examples
    --------
    >>> from discreet import lab
    >>> lab.table(
    ...     {"sex": ["F", "M", "F"], "age": [30, 40, 30], "ill": [0, 1, 0], "pay": [1, 2, 3]},
    ...     quasi=["sex", "age"], secret="ill", number="pay",
    ... )
    Table of 3 people: sex, age; secret ill; amount pay
    """
    columns = _columns(data)
    missing = [name for name in (*quasi, secret, number) if name not in columns]
    if missing or not quasi:
        raise ParameterError(f"the table has no column {', '.join(missing) or 'to know people by'}")
    values = tuple(tuple((domain or {}).get(n) or sorted(set(columns[n]))) for n in quasi)
    codes = np.empty((len(columns[secret]), len(quasi)), dtype=np.int64)
    for j, (name, allowed) in enumerate(zip(quasi, values, strict=True)):
        index = {value: i for i, value in enumerate(allowed)}
        try:
            codes[:, j] = [index[value] for value in columns[name]]
        except KeyError:
            raise ParameterError(f"column {name} has values outside its domain") from None
    secrets = np.array(columns[secret], dtype=np.int64)
    if not np.isin(secrets, (0, 1)).all():
        raise ParameterError(f"column {secret} must hold 0 and 1")
    numbers = np.array(columns[number], dtype=np.float64)
    reach = bounds or (float(numbers.min()), float(numbers.max()))
    margins = tables or [
        (secret,),
        *((*pair, secret) for pair in itertools.combinations(quasi, 2)),
    ]
    return Table(
        tuple(quasi), values, codes, secret, secrets, number, numbers, reach,
        tuple(tuple(names) for names in margins),
    )  # fmt: skip


def _columns(data: Any) -> dict[str, list[Any]]:
    if hasattr(data, "to_pydict"):
        return dict(data.to_pydict())
    if hasattr(data, "to_dict"):
        return dict(data.to_dict("list"))
    if isinstance(data, Mapping):
        return {str(name): list(values) for name, values in data.items()}
    rows = list(data)
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


def town(people: int = 400, blocks: int = 12, *, seed: int = _SEED) -> Table:
    """Make up a town: block, age, sex and group of people, who is ill, and what they earn.

    The town comes from a fixed public generator, so that everybody sees the same one.
    Another `seed` makes another town of the same kind.

    Examples
    --------
    >>> from discreet import lab
    >>> lab.town()
    Table of 400 people: block, age, sex, group; secret ill; amount income
    """
    made_up = np.random.default_rng(seed)
    falling = 1 / np.sqrt(1 + np.arange(blocks))
    block = made_up.choice(blocks, people, p=falling / falling.sum())
    # each block has its own mix of ages and groups, as blocks have
    centre = np.random.default_rng(blocks).uniform(2.5, 5.5, blocks)
    age = np.clip(np.rint(made_up.normal(centre[block], 2.2)), 0, 8).astype(np.int64)
    sex = made_up.integers(0, 2, people)
    group = (made_up.random(people) < 0.25 + 0.1 * (block % 2)).astype(np.int64)
    group += made_up.random(people) < 0.06
    ill = (made_up.random(people) < 0.08 + 0.04 * age).astype(np.int64)
    pay = np.exp(made_up.normal(10.0, 0.6, people) + 0.05 * age - 0.1 * ill)
    return Table(
        quasi=("block", "age", "sex", "group"),
        domain=(
            tuple(range(1, blocks + 1)),
            tuple(f"{10 * d}-{10 * d + 9}" for d in range(9)),
            ("F", "M"),
            ("A", "B", "C"),
        ),
        codes=np.column_stack([block, age, sex, group]).astype(np.int64),
        secret="ill",  # noqa: S106 - the name of a column
        secrets=ill,
        number="income",
        numbers=np.round(pay.clip(0, 200_000)),
        bounds=(0.0, 200_000.0),
        tables=(
            ("ill",),
            ("block", "age", "sex"),
            ("block", "sex", "group"),
            ("block", "age", "ill"),
            ("block", "sex", "ill"),
            ("block", "group", "ill"),
        ),
    )
