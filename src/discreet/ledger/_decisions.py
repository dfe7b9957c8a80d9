"""The owner's decisions: each is a line of the chain, with who decided and why."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, TypeAlias

from discreet import _unseen
from discreet._dataclass import replace
from discreet._exact import Number, decimal, show
from discreet.errors import Hint, LedgerError, LedgerIntegrityError, ParameterError
from discreet.ledger import _budget
from discreet.ledger._state import (
    EVERYTHING,
    State,
    amount,
    budget_body,
    rational,
    read_budget,
)
from discreet.policy import Policy

Unit: TypeAlias = tuple[str, str | None]
"""Neighbours of a table, and its unit (None: a row)."""


class Decisions(ABC):
    """What an owner can put on record."""

    @property
    @abstractmethod
    def units(self) -> Mapping[str, Unit] | None:
        """What the policy's prices protect; None where only its identity is known."""

    @abstractmethod
    def _decide(
        self, kind: str, decide: Callable[[State], dict[str, Any]], by: str, note: str
    ) -> None: ...

    def raise_budget(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
        accounting: str | None = None,
        lower: bool = False,
        by: str = "owner",
        note: str = "",
    ) -> None:
        """Put a new total on record; spending stays spent.

        Parameters
        ----------
        epsilon, delta, rho, accounting
            New totals; what is left out stays as it is.
        lower
            Whether the new total may be smaller than the present one.
        by, note
            Who decided, and why.
        """
        totals = {"epsilon": epsilon, "delta": delta, "rho": rho}
        changes: dict[str, Any] = {
            k: rational(decimal(v, k)) for k, v in totals.items() if v is not None
        }
        if accounting is not None:
            changes["accounting"] = accounting
        if not changes:
            raise ParameterError(
                "no new total was stated",
                hint=Hint.call("raise_budget", "discreet budget raise", epsilon="3"),
            )

        def decide(state: State) -> dict[str, Any]:
            body = {**state.budget, **changes}
            if "rho" in changes and "epsilon" not in changes:
                body["epsilon"] = None
            if "epsilon" in changes and "rho" not in changes:
                body["rho"] = None
            budget = read_budget(body)
            decided = _budget.decided(budget)
            if decided["budget"] == dict(state.budget):
                raise ParameterError(
                    "nothing would change: this is the budget that is on record",
                    hint="say a larger total; discreet budget shows what is on record",
                )
            if budget.accounting == "pure" and any(
                cost.delta or cost.rho_delta for cost in state.spent.values()
            ):
                raise ParameterError(
                    "a δ was spent in this period: under pure accounting it would be forgotten",
                    hint='keep accounting = "approx" or "zcdp", or begin a new period',
                )
            if not lower:
                _check_raise(state, decided["caps"], changes)
            return decided

        self._decide("budget", decide, by, note)

    def set_shares(
        self, shares: Mapping[str, Number], *, by: str = "owner", note: str = ""
    ) -> None:
        """Put new shares of the budget on record; an empty mapping abolishes them."""
        parts = {
            who: rational(decimal(part, f"the share of {who}")) for who, part in shares.items()
        }

        def decide(state: State) -> dict[str, Any]:
            return _budget.decided(read_budget({**state.budget, "shares": parts}))

        self._decide("budget", decide, by, note)

    def close(self, table: str | None = None, *, by: str = "owner", note: str = "") -> None:
        """Refuse all new questions about a table, or about everything."""
        body = {"table": EVERYTHING if table is None else table}
        self._decide("close", lambda _: body, by, note)

    def reopen(self, table: str | None = None, *, by: str = "owner", note: str = "") -> None:
        """Allow questions again about a table, or about everything."""
        body = {"table": EVERYTHING if table is None else table}
        self._decide("reopen", lambda _: body, by, note)

    def new_period(self, *, by: str = "owner", note: str = "") -> None:
        """Begin a new period with the whole budget.

        The guarantee then holds for each period by itself; for people whose data
        are in several periods, losses add up. Stored answers of earlier periods
        are not given out again.
        """
        self._decide("period", lambda _: {}, by, note)

    def consent(self, to: str, *, by: str = "owner", note: str = "") -> None:
        """Let another policy over the same data spend from this budget: one cap for both.

        Losses add up only where they are losses of the same people, so the units of this
        policy's tables go on record, and the other policy must state them too.
        """
        units = self.units
        if units is None:
            raise LedgerError(
                "consent records whom the budget protects, and that stands in its policy",
                hint="give the policy as well: open_ledger(ledger, policy)",
            )
        self._decide("consent", lambda _: {"policy": to, "units": units}, by, note)

    def vouch(self, source: str, *, by: str = "owner", note: str = "") -> None:
        """Answer for a source whose data cannot be told from those of another budget.

        Parameters
        ----------
        source
            What a refusal names: a foreign table, a server of unknown identity, a view over
            files. The owner's word is that no other budget is spent on its data.
        by, note
            Who decided, and why.

        Raises
        ------
        LedgerError
            No refusal names a source like this.
        """
        if not _unseen.is_name(source):
            raise LedgerError(
                f"{source!r} is not the name of a source that needs the owner's word",
                hint=f"copy the name from the refusal: {', '.join(_unseen.KINDS)}",
            )
        self._decide("vouch", lambda _: {"source": source}, by, note)


def _check_raise(state: State, caps: Any, changes: Mapping[str, Any]) -> None:
    """Refuse a total that is smaller than the present one in a currency of both."""
    for currency, new in caps.items():
        if currency in state.caps and amount(new) < amount(state.caps[currency]):
            own = {k: v.removesuffix("/1") for k, v in changes.items()}
            raise ParameterError(
                f"this would lower the budget: its {currency} would be smaller than it is",
                hint=Hint.call("raise_budget", "discreet budget raise", **own, lower=True),
            )


def owns(policy: Policy, identity: str) -> bool:
    """Whether an identity is that of a policy, or was before it got its name."""
    return identity in {policy.identity, replace(policy, name=None).identity}


def units_of(policy: Policy) -> dict[str, Unit]:
    """Neighbours and unit of each private table: whom a price protects."""
    private = (t for t in policy.tables.values() if not t.public)
    return {t.name: (t.neighbours.value, t.unit) for t in private}


def consenting(where: str, to: str) -> Hint:
    """Decision that lets a policy spend from the budget of another one."""
    return Hint.call(f'open_ledger("{where}", policy).consent', "discreet ledger consent", to=to)


def check_units(host: str, where: str, state: State, policy: Policy) -> None:
    """Refuse units that are not those under which one budget serves several policies.

    A table of the same name must be protected as it is there; one of another name as all
    tables are there.
    """
    own = units_of(policy)
    guest = policy.identity in state.guests and not owns(policy, host)
    agreed = [state.guests[policy.identity]] if guest else list(state.guests.values())
    for there in agreed:
        if there is None:
            if not guest:
                continue  # consent of an earlier format
            raise LedgerIntegrityError(
                f"the owner of {host!r} has consented before units were on record",
                hint=consenting(where, policy.identity),
            )
        for name, unit in own.items():
            units = [there[name]] if name in there else list(there.values()) if guest else [unit]
            if any(other != unit for other in units):
                raise _other_unit(host, name, unit, units, guest=guest)


def _other_unit(
    host: str, name: str, unit: Unit, units: list[Any], *, guest: bool
) -> LedgerIntegrityError:
    texts = [f"{n} of {'a row' if u is None else u}" for n, u in (unit, *units)]
    where = f"the budget of {host!r}" if guest else "the record that its guests agreed to"
    return LedgerIntegrityError(
        f"table {name!r} protects {texts[0]}, but {where} protects {' and '.join(texts[1:])}: "
        "losses of different units do not add up",
        hint="state the same unit and neighbours, and name the table as there"
        if guest
        else "discreet ledger consent --to NAME, for each of its guests",
    )


def agree(where: str, state: State, policy: Policy) -> None:
    """Refuse a policy whose budget is neither the first one nor the one in force."""
    proposal = budget_body(policy.budget)
    if _totals(proposal) in (_totals(state.declared), _totals(state.budget)):
        return
    raise LedgerError(
        f"the policy's [budget] differs from the one on record in {where!r}: a change must be "
        "recorded by the owner",
        hint=_same(state) if policy.identity != state.policy else _change(where, state, proposal),
    )


def _totals(budget: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in budget.items() if name != "minimum"}


def _same(state: State) -> str:
    """Budget on record, for a policy that spends from it and cannot change it."""
    amounts = ((k, state.budget[k]) for k in ("epsilon", "delta", "rho"))
    lines = (f'{k} = "{show(Fraction(v))}"' for k, v in amounts if v not in (None, "0/1"))
    return f"under [budget], as in {state.policy}: {', '.join(lines)}"


def _change(where: str, state: State, proposal: Mapping[str, Any]) -> str:
    """Owner's decision that would make a proposed budget the one in force."""
    here = f'discreet.ledger.open_ledger("{where}")'
    if where == ":memory:":
        here = "curator.ledger"
    elif "://" in where:
        here = f'discreet.ledger.open_ledger(url, "{state.policy}")'
    totals = {k: proposal[k] for k in ("epsilon", "delta", "rho", "accounting")}
    changed = [k for k, v in totals.items() if v is not None and v != state.budget[k]]
    if changed:
        new = {k: totals[k].removesuffix("/1") for k in changed}
        return Hint.call(f"{here}.raise_budget", "discreet budget raise", **new)
    parts = {who: part.removesuffix("/1") for who, part in proposal["shares"].items()}
    words = " ".join(f"{who}={part}" for who, part in parts.items())
    return f"discreet budget shares {words}".strip()
