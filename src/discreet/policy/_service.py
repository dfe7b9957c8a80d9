"""What a policy says to a service that answers under it: sizes, waiting, days."""

from __future__ import annotations

from fractions import Fraction

from discreet._dataclass import dataclass, fields
from discreet._exact import Number
from discreet.policy._check import number, plain, refusal, settle, whole

_ROWS_AT_MOST = 10**12


@dataclass(frozen=True, slots=True, init=False)
class Service:
    """How a service treats questions under this policy; no answer depends on it.

    Parameters
    ----------
    rows
        Rows that no private table exceeds, stated by the owner as a public fact. When an
        answer leaves is decided from it; left out, every answer takes equally long.
    approval
        ε above which a question waits for an owner's decision. Left out: none waits.
    daily
        ε that one analyst may spend on one day (UTC). Left out: no such limit.
    expiry
        Days after which a question that waits is declined by itself.
    owners
        Owners who must agree before the budget is raised through the service: 1, or 2.

    Examples
    --------
    >>> Service(rows="1e6", approval="0.5").rows
    1000000
    """

    rows: int | None
    approval: Fraction | None
    daily: Fraction | None
    expiry: int
    owners: int

    def __init__(
        self,
        rows: Number | None = None,
        approval: Number | None = None,
        daily: Number | None = None,
        *,
        expiry: Number = 7,
        owners: Number = 1,
    ) -> None:
        most = None if rows is None else whole(rows, "service", "rows")
        if most is not None and not 1 <= most <= _ROWS_AT_MOST:
            raise refusal("service: rows must be from 1 to 10^12", "rows", fix={"rows": 1_000_000})
        days = whole(expiry, "service", "expiry")
        if not 1 <= days <= 366:
            raise refusal("service: expiry is a number of days up to 366", fix={"expiry": 7})
        agree = whole(owners, "service", "owners")
        if agree not in (1, 2):
            raise refusal("service: owners must be 1 or 2", "owners", fix={"owners": 2})
        settle(self, rows=most, expiry=days, owners=agree)
        settle(self, approval=_price(approval, "approval"), daily=_price(daily, "daily"))

    def to_mapping(self) -> dict[str, object]:
        """Give what is not as it is by default, as the policy's file states it."""
        usual = Service()
        stated = {f.name: getattr(self, f.name) for f in fields(self)}
        return {
            name: plain(value) if isinstance(value, Fraction) else value
            for name, value in stated.items()
            if value != getattr(usual, name)
        }


def _price(value: Number | None, key: str) -> Fraction | None:
    if value is None:
        return None
    exact = number(value, "service", key)
    if exact <= 0:
        raise refusal(f"service: {key} must be positive", key, fix={key: "0.5"})
    return exact
