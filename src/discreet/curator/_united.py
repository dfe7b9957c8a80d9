"""UNION ALL: several questions, fixed in advance, priced as a batch and paid once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from discreet._dataclass import dataclass
from discreet.answer import Answer, Union, price
from discreet.curator._batch import Batch
from discreet.curator._quote import Quote
from discreet.errors import Hint, ParameterError
from discreet.plan import Ask, Cost, Plan
from discreet.sql import United

if TYPE_CHECKING:
    from discreet.curator._curator import Curator


def plans(curator: Curator, united: United, offer: Ask) -> tuple[list[Plan], Cost]:
    """Price the branches together; equal ones are measured once."""
    if offer.epsilon is None:
        raise ParameterError(
            "the branches of UNION ALL share one price: say epsilon=", hint=Hint("epsilon", "0.5")
        )
    batch = Batch(curator, offer.epsilon, offer.delta)
    for query in dict.fromkeys(united.branches):
        batch._add(query)  # noqa: SLF001 - read by the curator itself
    return batch.priced()


def answer(curator: Curator, united: United, offer: Ask, *, key: str | None, fresh: bool) -> Answer:
    """Pay for all branches at once and put their answers below each other."""
    priced, cost = plans(curator, united, offer)
    return below(united, curator._run(priced, cost, key=key, fresh=fresh), cost)  # noqa: SLF001 - its own questions


def below(united: United, answers: Sequence[Answer], cost: Cost) -> Answer:
    """Put answers below each other; equal branches share one."""
    by_query = dict(zip(dict.fromkeys(united.branches), answers, strict=True))
    branches = [by_query[query] for query in united.branches]
    return Union(branches, united.order, united.limit, cost=cost.to_dict())


@dataclass(frozen=True)
class UnionQuote(Quote):
    """What a union would cost: the quote of its first branch, with those of the others."""

    total: Cost | None = None
    others: tuple[Quote, ...] = ()

    @property
    def plans(self) -> tuple[Plan, ...]:
        """Plans of all branches."""
        return (self.plan, *(q.plan for q in self.others))

    @property
    def whole(self) -> Cost:
        """Price of all branches."""
        assert self.total is not None
        return self.total

    def error(self, confidence: float | None = None) -> dict[str, str]:
        """Expected margin of every output of every branch, in words."""
        margins = super().error(confidence)
        for place, other in enumerate(self.others, 2):
            margins |= {f"{n} ({place})": text for n, text in other.error(confidence).items()}
        return margins

    def __repr__(self) -> str:
        texts = [super().__repr__(), *(repr(q) for q in self.others)]
        return f"cost    {price(self.cost, self.left)} for all branches\n\n" + "\n\n".join(texts)
