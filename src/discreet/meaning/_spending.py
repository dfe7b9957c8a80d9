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
  - *Lines that are lost* (``discreet ledger restore --older``) were admitted, with the
    debits before them in their period, by the filter of the budget then in force: its
    guarantee stands for all of them. Nothing bounds what was spent under a budget
    that was raised, or in a period that was begun, on a lost line.
  - *The whole budget* is the promise that holds whatever will still be asked: the
    guarantee of the ledger's filter. It is printed beside the reading.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, cast

from discreet import privacy as p
from discreet._dataclass import dataclass, replace
from discreet._exact import Number, decimal
from discreet._print import plural
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
    lost
        How often lines of the ledger were lost, counted as the whole budget then in force.
    """

    losses: tuple[p.PrivacyLoss, ...]
    group: int
    basis: str
    budget: Meaning | None = None
    lost: int = 0

    @property
    def neighbours(self) -> p.Neighbours | None:
        """The relation the losses are stated under."""
        return shared_label(self.losses).neighbours

    @property
    def unprotected(self) -> tuple[str, ...]:
        """What was released exactly, in words: nothing is said about what that tells."""
        return shared_label(self.losses).unprotected

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
        return Meaning(self.losses, read_group(group), self.basis, whole, self.lost)

    def __str__(self) -> str:
        who = "One person" if self.group == 1 else f"{self.group} people together"
        lines = [f"{who} ({self.basis}):", *_sentences(self)]
        if self.lost:
            lines += ["Lines of the ledger are lost, and count as the whole budget then in force."]
            lines += ["What was spent after a rise or in a period on a lost line is not known."]
        if self.budget is not None:
            lines += [f"If {self.budget.basis} is spent:", *_sentences(self.budget)]
        return "\n".join(lines)

    __repr__ = __str__


def of(
    releases: Releases,
    *,
    group: int = 1,
    table: str | None = None,
    delta: Number = "1e-6",
    beside: Sequence[str] = (),
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
    beside
        Of a ledger: what its policy lets publications release exactly, in words. What the whole
        budget means is said beside it; what has been released is read off the debits.

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
        whole = _worst(releases, entries, size, delta)
        whole = replace(whole, losses=tuple(loss.beside(*beside) for loss in whole.losses))
    elif _are_entries(releases):
        entries, whole = list(releases), None
    elif isinstance(releases, Sequence) and not isinstance(releases, str) and not releases:
        return Meaning((), size, "nothing was released")
    else:
        loss = read_loss(cast("Privacy | Sequence[p.PrivacyLoss]", releases))
        return Meaning((loss,), size, "parameters fixed in advance")
    debits, lost = _uncovered(entries), sum(e.covers is not None for e in entries)
    if table is not None:
        # a debit that names no table may have been about any
        entries = [e for e in entries if not e.tables or table in e.tables]
        debits = [e for e in debits if not e.tables or table in e.tables]
    losses = _reading(debits, delta)
    basis = f"{plural(len(entries), 'debit')}, chosen as answers came in"
    return Meaning(losses, size, basis, whole, lost)


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


def _uncovered(entries: Sequence[Entry]) -> list[Entry]:
    """Leave out debits that a later one stands for."""
    survivors: dict[int, Entry] = {}
    for n, e in enumerate(entries):
        covered = 0 if e.covers is None else e.covers[1]
        for before in range(n - covered, n):
            survivors.pop(before, None)
        survivors[n] = e
    return list(survivors.values())


def _reading(entries: Sequence[Entry], delta: Number) -> tuple[p.PrivacyLoss, ...]:
    if not entries:
        return ()
    if any(e.tainted for e in entries):
        raise TaintedNoiseError("a debit used the test source of noise: it protected nobody")
    parts = [_parts(e, decimal(delta, "delta")) for e in entries]
    eps = sum((e for e, _, _ in parts), Fraction(0))
    dlt = sum((d for _, d, _ in parts), Fraction(0))
    labels = [_labelled(p.Pure(1), e) for e in entries]
    label = shared_label(labels)
    losses: list[p.PrivacyLoss] = [p.Approx(eps, dlt) if dlt else p.Pure(eps)]
    steps = [step for _, _, step in parts if step is not None]
    if dlt and len(steps) == len(parts):
        meter = p.Odometer(delta)
        for step in steps:
            meter.record(step)
        losses.append(p.Approx(meter.epsilon, meter.delta))
    return tuple(loss.labelled(label) for loss in losses)


def _parts(entry: Entry, delta: Fraction) -> tuple[Fraction, Fraction, p.Zcdp | None]:
    """Loss of a debit as ε and δ, and in ρ where it has one."""
    if entry.covers is None:
        cost = entry.cost
        return cost.epsilon, cost.delta, p.Zcdp(cost.rho, cost.rho_delta)
    from discreet.ledger import caps  # noqa: PLC0415 - only where lines are lost

    budget, total = entry.covers[0], caps(entry.covers[0])
    if budget.epsilon is None:
        whole = p.Zcdp(total["rho"], total["delta"])
        delta += total["delta"]
        return Fraction(whole.epsilon(delta)), delta, whole
    if budget.accounting == "pure":
        return budget.epsilon, Fraction(0), p.Pure(budget.epsilon).zcdp()
    return budget.epsilon, budget.delta, None


def _labelled(loss: p.PrivacyLoss, entry: Entry) -> p.PrivacyLoss:
    exact = getattr(entry, "unprotected", ())  # a caller's own ledger may not know of it
    return loss.under(entry.neighbours, entry.unit).beside(*exact)


def _worst(ledger: Ledger, entries: list[Entry], size: int, delta: Number) -> Meaning:
    """What the whole budget would mean, after all that earlier periods have spent or lost."""
    kinds = [line.kind for line in getattr(ledger, "lines", ())]
    if not entries or "period" not in kinds:
        return Meaning((_budget(ledger, entries),), size, "the whole budget")
    own = kinds[::-1].index("period")
    period: Any = replace(
        entries[-1],
        covers=(cast("Any", ledger).state.limits, kinds[-own:].count("debit") if own else 0),
    )
    losses = _reading(_uncovered([*entries, period]), delta)
    return Meaning(losses, size, "the whole budget of this period, too,")


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
    return loss.labelled(shared_label([_labelled(p.Pure(1), e) for e in entries]))


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
    if exact := " and ".join(m.unprotected):
        lines.append(
            f"All this is said beside the unprotected: {exact}. For what these tell, nothing "
            "is promised."
        )
    return [f"  {line}" for line in lines]


def _odds_lines(m: Meaning) -> list[str]:
    if m.factor < math.inf:
        eps = exactly(m.epsilon) if m.group == 1 else f"{m.group} × {exactly(m.epsilon)}"
        factor = number(m.factor, "up")
        bound = f"The odds of anything about them move by at most a factor {factor} (ε = {eps})"
        return [f"{bound} by the use of their data."]
    mass = min((float(loss.mass_at_infinity) for loss in m.attacker.bounds), default=1.0)
    exception = max(1e-6, 2 * mass)
    if exception >= 1 or (most := m.attacker.factor(exception)) == math.inf:
        return ["No promise about odds is left for a group of this size."]
    return [
        f'The odds of "used" against "not used" rise by at most a factor {number(most, "up")},',
        f"except with probability {exactly(exception)}; with δ > 0 no bound holds always.",
    ]
