"""What a policy says to a service that answers under it: sizes, waiting, days."""

from __future__ import annotations

from fractions import Fraction

from discreet._dataclass import dataclass, fields
from discreet._exact import Number
from discreet.policy._check import count, plain, positive, settle

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
        prices = {"approval": approval, "daily": daily}
        settle(
            self,
            rows=None if rows is None else count(rows, "service", "rows", _ROWS_AT_MOST),
            expiry=count(expiry, "service", "expiry", 366),
            owners=count(owners, "service", "owners", 2),
            **{
                k: None if v is None else positive(v, "service", k, "0.5")
                for k, v in prices.items()
            },
        )

    def to_mapping(self) -> dict[str, object]:
        """Give what is not as it is by default, as the policy's file states it."""
        usual = Service()
        stated = {f.name: getattr(self, f.name) for f in fields(self)}
        return {
            name: plain(value) if isinstance(value, Fraction) else value
            for name, value in stated.items()
            if value != getattr(usual, name)
        }
