r"""What releases have meant for a person: one loss, a fixed batch, or a whole ledger.

* An ε, a loss, or a sequence of losses: the parameters are taken as *fixed in
  advance*, and the losses are composed as tightly as is known.
* A ledger, or its entries: the questions and their prices were chosen as answers
  came in, so numerical composition along the path taken would not be a bound. Instead:

  - *All debits pure.* Given the past, each debit moves the likelihood of the answer
    that came by at most :math:`e^{\varepsilon_i}`, and εᵢ is a function of the past. So at the
    answers actually given the likelihood moved by at most :math:`e^{\sum\varepsilon_i}`, and
    every statement about odds holds with the sum of the debits made.
  - *Otherwise* the running total is read by an odometer, valid at every moment
    (:class:`discreet.privacy.Odometer`), or by the basic sums, whichever says more.
  - *The whole budget* is the promise that holds whatever will still be asked: the
    guarantee of the ledger's filter. It is printed beside the reading.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, cast

from discreet import privacy as p
from discreet._exact import Number
from discreet.errors import ParameterError, TaintedNoiseError
from discreet.meaning._attacker import Attacker, grouped, read_loss
from discreet.meaning._odds import (
    Against,
    Belief,
    Privacy,
    ceiling,
    factor_of,
    posterior,
    read_group,
)
from discreet.meaning._words import exactly, number, percent
from discreet.privacy import shared_label

if TYPE_CHECKING:
    from discreet.ledger import Entry, Ledger

Releases: TypeAlias = "Privacy | Sequence[p.PrivacyLoss] | Sequence[Entry] | Ledger"
"""What has been released: an ε, losses, a ledger, or a ledger's entries."""


@dataclass(frozen=True, slots=True, repr=False)
class Meaning:
    """What releases mean for one person or a group; made by :func:`of`.

    Attributes
    ----------
    losses
        Bounds on what was released, per person; none when nothing was released.
    group
        Number of people considered together.
    basis
        What the figures rest on.
    budget
        The same question for a ledger's whole budget, spent to the end.
    """

    losses: tuple[p.PrivacyLoss, ...]
    group: int
    basis: str
    budget: Meaning | None = None

    @property
    def neighbours(self) -> p.Neighbours | None:
        """The relation the losses are stated under."""
        return shared_label(self.losses)[0]

    @property
    def epsilon(self) -> float:
        """Pure ε for one person; 0 when nothing was released, inf when there is none."""
        return min((loss.epsilon() for loss in self.losses), default=0.0)

    @property
    def factor(self) -> float:
        """Factor by which odds can move against the counterfactual world (inf if unbounded)."""
        if self.epsilon == math.inf:
            return math.inf
        return factor_of(Fraction(self.epsilon), self.group)

    @property
    def attacker(self) -> Attacker:
        """What any attack on the group can achieve."""
        # with nothing released the two worlds are the same
        bounds = [b for loss in self.losses or (_NOTHING,) for b in grouped(loss, self.group)]
        return Attacker(tuple(bounds), self.group)

    def posterior(self, prior: Number, against: Against | str = Against.COUNTERFACTUAL) -> Belief:
        """Return the beliefs an attacker can come to from probability `prior`."""
        if self.epsilon == math.inf:
            return posterior(prior, self.losses[0], self.group, against=against)
        return posterior(
            prior, Fraction(self.epsilon), self.group, neighbours=self.neighbours, against=against
        )

    def for_group(self, group: int) -> Meaning:
        """Return the meaning for a number of people together."""
        whole = None if self.budget is None else self.budget.for_group(group)
        return Meaning(self.losses, read_group(group), self.basis, whole)

    def __str__(self) -> str:
        who = "One person" if self.group == 1 else f"{self.group} people together"
        lines = [f"{who} ({self.basis}):", *_sentences(self)]
        if self.budget is not None:
            lines += ["If the whole budget is spent:", *_sentences(self.budget)]
        return "\n".join(lines)

    __repr__ = __str__


def of(
    releases: Releases, *, group: int = 1, table: str | None = None, delta: Number = "1e-6"
) -> Meaning:
    """Return what releases mean for a person, or for `group` people together.

    Parameters
    ----------
    releases
        An ε, a loss, losses with parameters fixed in advance, a ledger or its entries.
    group
        Number of people considered together, for example a family of four.
    table
        Of a ledger, only what was asked about this table; for people who are in no
        other one.
    delta
        Failure probability of an odometer's reading; used only for ledgers with
        debits that are not pure.

    Examples
    --------
    >>> of("0.5")
    One person (parameters fixed in advance):
      The odds of anything about them move by at most a factor 2.72 (ε = 0.5) by the use of their data.
      A belief of 2 % without their data can become at most 5.26 % with them; 50 % at most 73.2 %.
      A guess whether their data were used is right at most 62.3 % of the time (a coin: 50 %).
    """  # noqa: E501 - the sentences are printed on one line each
    size = read_group(group)
    if _is_ledger(releases):
        entries = list(releases.entries)
        whole = _budget(releases, entries)
    elif _are_entries(releases):
        entries, whole = list(releases), None
    elif isinstance(releases, Sequence) and not isinstance(releases, str) and not releases:
        return Meaning((), size, "nothing was released")
    else:
        loss = read_loss(cast("Privacy | Sequence[p.PrivacyLoss]", releases))
        return Meaning((loss,), size, "parameters fixed in advance")
    if table is not None:
        # a debit that names no table may have been about any
        entries = [e for e in entries if not e.tables or table in e.tables]
    read = _reading(entries, delta)
    kind = "debit" if len(entries) == 1 else "debits"
    budget = None if whole is None else Meaning((whole,), size, "the whole budget")
    return Meaning(read, size, f"{len(entries)} {kind}, chosen as answers came in", budget)


_NOTHING = p.Pure("1e-300")


def _is_ledger(x: object) -> TypeGuard[Ledger]:
    return hasattr(x, "entries") and hasattr(x, "balance")


def _are_entries(x: object) -> TypeGuard[Sequence[Entry]]:
    return (
        isinstance(x, Sequence)
        and not isinstance(x, str)
        and bool(x)
        and all(hasattr(e, "cost") for e in x)
    )


def _reading(entries: Sequence[Entry], delta: Number) -> tuple[p.PrivacyLoss, ...]:
    if not entries:
        return ()
    if any(e.tainted for e in entries):
        raise TaintedNoiseError("a debit used the test source of noise: it protected nobody")
    eps = sum((e.cost.epsilon for e in entries), Fraction(0))
    dlt = sum((e.cost.delta for e in entries), Fraction(0))
    labels = [_labelled(p.Pure(1), e) for e in entries]
    neighbours, unit = shared_label(labels)
    basic: p.PrivacyLoss = p.Approx(eps, dlt) if dlt else p.Pure(eps)
    if not dlt:
        return (basic.under(neighbours, unit),)
    meter = p.Odometer(delta)
    for e in entries:
        meter.record(p.Zcdp(e.cost.rho, e.cost.rho_delta))
    read = p.Approx(meter.epsilon, meter.delta)
    return (basic.under(neighbours, unit), read.under(neighbours, unit))


def _labelled(loss: p.PrivacyLoss, entry: Entry) -> p.PrivacyLoss:
    return loss.under(entry.neighbours, entry.unit)


def _budget(ledger: Ledger, entries: Iterable[Any]) -> p.PrivacyLoss:
    balance = ledger.balance()
    total = {currency: whole for currency, (_, whole) in balance.amounts.items()}
    delta = total.get("delta", Fraction(0))
    if "rho" in total and "epsilon" in total:
        loss: p.PrivacyLoss = p.Approx(total["epsilon"], balance.delta)
    elif "rho" in total:
        loss = p.Zcdp(total["rho"], delta)
    elif "epsilon" in total:
        loss = p.Approx(total["epsilon"], delta) if delta else p.Pure(total["epsilon"])
    else:
        raise ParameterError("this ledger keeps its budget in an unknown currency")
    for e in entries:
        return _labelled(loss, e)
    return loss


def _sentences(m: Meaning) -> list[str]:
    """Say it in sentences, odds first."""
    if not m.losses:
        return ["  Nothing was released, so nothing can have been learnt."]
    lines = _odds_lines(m)
    if m.factor < math.inf:
        ends = [percent(ceiling(x, m.factor), "up") for x in (0.02, 0.5)]
        lines.append(
            f"A belief of 2 % without their data can become at most {ends[0]} with them; "
            f"50 % at most {ends[1]}."
        )
    guess = percent(m.attacker.accuracy(), "up")
    lines.append(
        f"A guess whether their data were used is right at most {guess} of the time (a coin: 50 %)."
    )
    return [f"  {line}" for line in lines]


def _odds_lines(m: Meaning) -> list[str]:
    if m.factor < math.inf:
        eps = exactly(m.epsilon) if m.group == 1 else f"{m.group} × {exactly(m.epsilon)}"
        factor = number(m.factor, "up")
        told = f"The odds of anything about them move by at most a factor {factor} (ε = {eps})"
        return [f"{told} by the use of their data."]
    lost = min((float(loss.mass_at_infinity) for loss in m.attacker.bounds), default=1.0)
    exception = max(1e-6, 2 * lost)
    if exception >= 1 or (most := m.attacker.factor(exception)) == math.inf:
        return ["No promise about odds is left for a group of this size."]
    return [
        f'The odds of "used" against "not used" rise by at most a factor {number(most, "up")},',
        f"except with probability {exactly(exception)}; with δ > 0 no bound holds always.",
    ]
