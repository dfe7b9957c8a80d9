"""The state of a ledger: budget, shares, spending; and how each line changes it.

Amounts are exact. A running total whose denominator passes 2^512 (it takes
hundreds of unlike Gaussian prices to get there) is rounded up to a multiple of
2^-256, so that totals stay short for ever: spending is never counted too low, and
too high by less than 2^-256 per debit.

A state is remembered and handed out, and the same one admits the next debit. So nothing in it can
be changed: all its mappings are frozen, however deep, by whatever way it was made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from discreet._canonical import canonical, digest
from discreet._dataclass import dataclass, field, replace
from discreet._frozen import Frozen, freeze
from discreet._recent import Recent
from discreet.errors import LedgerError, LedgerIntegrityError, ParameterError
from discreet.plan import Cost
from discreet.policy import Budget

EVERYTHING: Final = "*"
"""In the list of closed tables: all of them."""

CURRENCIES: Final = ("epsilon", "delta", "rho", "rho_delta")

FORMAT: Final = 5
"""Version of the format: 2 seals outcomes; 3 knows other policies of one budget, losses from
elsewhere, and at most so many names; 4 binds keys to what they were answered with, and keeps
a route of payment closed, the units that guests agreed to, and the owner's word on sources; 5
knows what is released once in a period, whatever it costs, and how often lines were lost."""

RESTORED: Final = "restore"
"""Plan of the debit that stands for lines that are lost."""

NAMES: Final = 256
"""Analysts whose spending is kept apart; made-up names must not make every line longer."""

_GUESTS: Final = 3
"""The last format that knew guests by their names alone."""
_ALWAYS: Final = 4
"""The last format that knew nothing of what is released once."""
_GRID: Final = 2**256
_LONGEST: Final = 2**512
_BITS: Final = 12_000
_MAPPINGS: Final = ("declared", "budget", "caps", "spent", "open", "guests")
_MINIMUM: Final = Budget(1).minimum


def hashed(body: Mapping[str, Any]) -> str:
    """Hash of a line's body."""
    return digest(canonical(body))


def _runs(state: State, body: Mapping[str, Any]) -> bool:
    """Whether an outcome is to follow a debit."""
    return state.format > 1 and bool(body.get("runs", True))


def _payer(state: State, analyst: str | None) -> str:
    """Name under which spending is kept; late names share the unnamed one."""
    known = analyst in state.spent or analyst in state.budget["shares"]
    full = state.format > 2 and len(state.spent) >= NAMES
    return "" if analyst is None or (full and not known) else analyst


def by_rho(body: Mapping[str, Any]) -> bool:
    """Whether a debit has a δ of Gaussian noise or of numerical composition."""
    cost = body["cost"]
    # what its amounts were rounded to may hide it, so its body says it
    return bool(body.get("by_rho")) or cost["delta"] != cost["rho_delta"]


def rational(value: Fraction) -> str:
    """Write an exact amount as ``n/d``."""
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _BITS:
        raise ParameterError("an amount has too many digits to be written down")
    return f"{value.numerator}/{value.denominator}"


def coarse(value: Fraction) -> Fraction:
    """Round an amount with a very long denominator up to the grid."""
    if value.denominator <= _LONGEST:
        return value
    return Fraction(-(-value * _GRID // 1), _GRID)


def cost_body(cost: Cost) -> dict[str, str]:
    """Write a cost in every currency, never too low."""
    return {c: rational(coarse(getattr(cost, c))) for c in CURRENCIES}


def read_cost(body: Mapping[str, str]) -> Cost:
    """Invert :func:`cost_body`."""
    return Cost(**{c: amount(body[c]) for c in CURRENCIES})


@lru_cache(maxsize=1024)
def amount(text: str) -> Fraction:
    """Read an amount; most are read many times."""
    return Fraction(text)


def add(a: Cost, b: Cost) -> Cost:
    """Sum two costs, never too low."""
    return Cost(**{c: coarse(getattr(a, c) + getattr(b, c)) for c in CURRENCIES})


NOTHING: Final = Cost(*[Fraction(0)] * 4)


def budget_body(budget: Budget) -> dict[str, Any]:
    """Write a budget with exact amounts."""
    amounts = {
        name: None if (value := getattr(budget, name)) is None else rational(value)
        for name in ("epsilon", "delta", "rho")
    }
    shares = {who: rational(part) for who, part in budget.shares.items()}
    least = {} if budget.minimum == _MINIMUM else {"minimum": rational(budget.minimum)}
    return {**amounts, "accounting": budget.accounting, "shares": shares, **least}


def read_budget(body: Mapping[str, Any]) -> Budget:
    """Invert :func:`budget_body`."""
    return _read_budget(canonical(body))


@lru_cache(maxsize=256)
def _read_budget(text: str) -> Budget:
    return Budget(**json.loads(text))


@dataclass(frozen=True, slots=True)
class State:
    """What the lines of a ledger add up to.

    ``declared`` is the budget of the policy when the ledger was opened first;
    ``budget`` is the one in force and ``caps`` what it allows of each currency,
    computed once, when it was decided. ``spent`` holds this period's spending of
    every analyst ("" for nobody named). ``format`` is the version that the lines
    are written in; since version 2, ``open`` maps the number of each debit whose
    outcome is not stored yet to the hash of its body. ``guests`` maps each policy that may
    spend from this budget to the units of tables that its owner agreed to (None: not said).
    ``by_rho``: something was spent in this period that sums of ε do not cover. ``vouched``
    names sources that the owner answers for. ``lost``: how often lines were lost for good.
    """

    policy: str
    declared: Mapping[str, Any]
    budget: Mapping[str, Any]
    caps: Mapping[str, str]
    closed: tuple[str, ...] = ()
    period: int = 1
    spent: Frozen[Cost] = field(default_factory=Frozen)
    format: int = 1
    open: Frozen[str] = field(default_factory=Frozen)
    guests: Mapping[str, Any] = field(default_factory=Frozen)
    by_rho: bool = False
    vouched: tuple[str, ...] = ()
    lost: int = 0

    def __post_init__(self) -> None:
        for name in _MAPPINGS:
            value = getattr(self, name)
            if not isinstance(value, Frozen):
                object.__setattr__(self, name, freeze(dict(value)))

    @property
    def pure(self) -> bool:
        """Whether sums of ε cover all that was spent: no δ but that of selections."""
        return not self.by_rho and not any(c.by_rho for c in self.spent.values())

    @property
    def limits(self) -> Budget:
        """The budget in force."""
        return read_budget(self.budget)

    def to_text(self) -> str:
        """Write the state in its one spelling."""
        data = {
            "policy": self.policy,
            "declared": self.declared,
            "budget": self.budget,
            "caps": self.caps,
            "closed": list(self.closed),
            "period": self.period,
            "spent": {who: cost_body(cost) for who, cost in self.spent.items()},
        }
        since = {"format": self.format, "open": self.open} if self.format > 1 else {}
        others: dict[str, Any] = {}
        if self.format == _GUESTS:
            others = {"guests": sorted(self.guests)}
        if self.format > _GUESTS:
            others = {"guests": self.guests, "by_rho": self.by_rho, "vouched": list(self.vouched)}
        if self.format > _ALWAYS:
            others["lost"] = self.lost
        whole = {**data, **since, **others}
        # one by one: what is frozen knows its text
        parts = [f'"{name}":{canonical(whole[name])}' for name in sorted(whole)]
        return f"{{{','.join(parts)}}}"

    def remember(self) -> str:
        """Write the state, and remember it: whoever writes one meets it again."""
        text = self.to_text()
        if self.format <= FORMAT:
            _STATES(text, lambda: self)
        return text

    @classmethod
    def from_text(cls, text: str) -> State:
        """Invert :meth:`to_text`."""
        try:
            return _STATES(text, lambda: _read_state(text))
        except (KeyError, TypeError, ValueError):
            raise LedgerIntegrityError("the ledger's state is damaged") from None


_STATES: Final = Recent[str, State](8)
"""The latest states, by their texts."""


def _read_state(text: str) -> State:
    data = json.loads(text)
    version, guests = data.get("format", 1), data.get("guests", ())
    if version > FORMAT:
        raise newer("the ledger", version)
    return State(
        policy=data["policy"],
        declared=data["declared"],
        budget=data["budget"],
        caps=data["caps"],
        closed=tuple(data["closed"]),
        period=data["period"],
        spent=Frozen({who: read_cost(cost) for who, cost in data["spent"].items()}),
        format=version,
        open=data.get("open", {}),
        guests=guests if isinstance(guests, dict) else dict.fromkeys(guests),
        by_rho=data.get("by_rho", False),
        vouched=tuple(data.get("vouched", ())),
        lost=data.get("lost", 0),
    )


def newer(what: str, version: int) -> LedgerError:
    """Refusal of a format that this version does not know."""
    return LedgerError(
        f"{what} is of format {version}, written by a newer discreet; this one knows formats "
        f"up to {FORMAT}",
        hint='pip install --upgrade "discreet"',
    )


def after(
    state: State | None, kind: str, body: Mapping[str, Any], number: int | None = None
) -> State:
    """State after one more line; the only place where lines get their meaning.

    `number` is that of the line; without it a debit is not entered as open.
    """
    if state is None:
        if kind != "open":
            raise LedgerIntegrityError("the ledger's first line does not open it")
        version = body.get("format", 1)
        budget = freeze(body["budget"])  # most lines leave it as it is: it is spelled once
        return State(body["policy"], budget, budget, body["caps"], format=version)
    match kind:
        case "debit":
            return _after_debit(state, body, number)
        case "settle":
            return replace(state, open=state.open.without(str(body["debit"])))
        case "format":
            impure = body.get("by_rho", False)
            return replace(state, format=body["format"], open=body["open"], by_rho=impure)
        case "budget":
            return replace(state, budget=body["budget"], caps=body["caps"])
        case "close":
            return replace(state, closed=tuple(sorted({*state.closed, body["table"]})))
        case "reopen":
            shut = () if body["table"] == EVERYTHING else set(state.closed) - {body["table"]}
            return replace(state, closed=tuple(sorted(shut)))
        case "period":
            return replace(state, period=state.period + 1, spent=Frozen(), by_rho=False)
        case "consent":
            return replace(state, guests={**state.guests, body["policy"]: body.get("units")})
        case "vouch":
            return replace(state, vouched=tuple(sorted({*state.vouched, body["source"]})))
        case "adopt" | "key":
            return state
    raise LedgerIntegrityError("the ledger holds a line of an unknown kind")


def _after_debit(state: State, body: Mapping[str, Any], number: int | None) -> State:
    who, open_ = _payer(state, body["analyst"]), state.open
    total = add(state.spent.get(who, NOTHING), read_cost(body["cost"]))
    if number and _runs(state, body):
        open_ = open_.having(str(number), hashed(body))
    return replace(
        state,
        spent=state.spent.having(who, total),
        open=open_,
        by_rho=state.format > _GUESTS and (state.by_rho or by_rho(body)),
        lost=state.lost + (state.format > _ALWAYS and body["plan"] == RESTORED),
    )
