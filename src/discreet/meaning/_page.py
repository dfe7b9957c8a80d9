"""One page, in words and a small chart, that says what an ε means."""

from __future__ import annotations

import math
import textwrap
from fractions import Fraction

from discreet import privacy as p
from discreet._exact import Number, decimal
from discreet.meaning._attacker import Attacker
from discreet.meaning._odds import ceiling, chance, factor_of, pure_epsilon, read_group
from discreet.meaning._spending import of
from discreet.meaning._words import exactly, frequency, number, odds, percent
from discreet.privacy import read_neighbours

_WIDTH = 78
_BAR = 40
_EIGHTHS = " ▏▎▍▌▋▊▉"
CHART_EPSILONS = ("0.01", "0.1", "0.25", "0.5", "1", "2", "4", "8")


def page(
    epsilon: Number,
    prior: Number = "0.02",
    *,
    delta: Number = 0,
    group: int = 1,
    neighbours: p.Neighbours | str = p.Neighbours.ADD_REMOVE,
) -> str:
    """Return a readable page about an ε, odds first.

    Parameters
    ----------
    epsilon, delta
        Everything released about the people in question.
    prior
        Probability an attacker gives to some fact when the data are *not* used.
    group
        Number of people considered together.
    neighbours
        Relation that ε is stated under.

    Examples
    --------
    >>> print(page("0.5", "0.02").splitlines()[0])
    What ε = 0.5 means for one person
    """
    eps, size, before = pure_epsilon(epsilon), read_group(group), chance(prior, "prior")
    relation = read_neighbours(neighbours) or p.Neighbours.ADD_REMOVE
    dlt = decimal(delta, "delta")
    loss = p.Approx(eps, dlt) if dlt else p.Pure(eps)
    view = of(loss.under(relation), group=size).attacker
    who = "one person" if size == 1 else f"{size} people together"
    also = f", δ = {exactly(dlt)}" if dlt else ""
    title = f"What ε = {exactly(eps)}{also} means for {who}"
    lines = [f"  {text} {'.' * (56 - len(text))} {share}" for text, share in attack_rows(view)]
    parts = [title, "═" * len(title), ""]
    parts += _exceptions(view, dlt) if dlt else _beliefs(eps, before, size, relation)
    parts += ["", "What attacks can achieve at best", *lines, ""]
    if size == 1 and not dlt:
        parts += [*_family(eps, before), ""]
    parts += ["What this rests on", *assumption_lines(relation, exact=not dlt)]
    return "\n".join(parts) + "\n"


def _beliefs(eps: Fraction, before: float, size: int, relation: p.Neighbours) -> list[str]:
    lines = [*_wrap(sentence(eps, before, size, relation)), "", f"From {percent(before)}, at most:"]
    epsilons = sorted({Fraction(e) for e in CHART_EPSILONS} | {eps})
    for e in epsilons:
        after = ceiling(before, factor_of(e, size))
        mark = "▸" if e == eps else " "
        lines.append(f"{mark} ε = {exactly(e):<6} {_bar(after)} {percent(after, 'up')}")
    return lines


def sentence(eps: Fraction, before: float, size: int, relation: p.Neighbours) -> str:
    """Say the counterfactual bound in words, odds first."""
    factor = factor_of(eps, size)
    o = before / (1 - before)
    after, least = ceiling(before, factor), before / (before + (1 - before) * factor)
    whose = "this person's" if size == 1 else f"these {size} people's"
    world = (
        f"had {whose} data not been used"
        if relation is p.Neighbours.ADD_REMOVE
        else f"had {whose} data been replaced by fixed others"
    )
    return (
        f"The odds of anything about them change by at most a factor {number(factor, 'up')}. "
        f"Suppose that, {world}, someone who sees the release would give some fact about them "
        f"odds of {odds(o)} ({percent(before)}, {frequency(before)}). With the data used, the "
        f"same reader cannot come to more than {odds(o * factor, 'up')} "
        f"({percent(after, 'up')}, {frequency(after, 'up')}), nor to less than "
        f"{odds(o / factor, 'down')} ({percent(least, 'down')})."
    )


def _exceptions(view: Attacker, delta: Fraction) -> list[str]:
    mass = min((float(b.mass_at_infinity) for b in view.bounds), default=1.0)
    rare = 2 * mass
    factor = view.factor(rare) if rare < 1 else math.inf
    return _wrap(
        f"With δ = {exactly(delta)} an unlucky output may reveal everything, so no bound on "
        f"beliefs holds for every output. Except with probability {exactly(rare)}, the odds of "
        f'"their data were used" against "not used" rise by at most a factor '
        f"{number(factor, 'up')}."
    )


def attack_rows(view: Attacker) -> list[tuple[str, str]]:
    """Return what attacks achieve, as label and percentage."""
    return [
        ("telling whether the data were used (a coin: 50 %)", percent(view.accuracy(), "up")),
        ("recognising members, 1 % of others accused", percent(view.tpr(0.01), "up")),
        ("recognising members, 5 % of others accused", percent(view.tpr(0.05), "up")),
        ("finding the right one of 100 (blindly: 1 %)", percent(view.reidentification(100), "up")),
        ("guessing 10 unknown bits (blindly: 0.0977 %)", percent(view.reconstruction(10), "up")),
    ]


def _family(eps: Fraction, before: float) -> list[str]:
    after = [(k, ceiling(before, factor_of(eps, k))) for k in (2, 4, 10)]
    words = ", ".join(f"{percent(x, 'up')} for {k}" for k, x in after)
    return _wrap(f"A fact shared by several people is protected less: {words} people together.")


def assumption_lines(relation: p.Neighbours, *, exact: bool) -> list[str]:
    """Return the conditions of every figure on the page."""
    world = (
        "is left out of the data"
        if relation is p.Neighbours.ADD_REMOVE
        else "is replaced; the number of people is public"
    )
    others = "What can be learnt from other people's data is not counted as a loss."
    items = [
        "ε counts everything ever released about these people, not one answer.",
        f"The comparison is with a world in which the person {world} ({relation}). {others}",
        "It holds for every attacker and whatever the attacker knows.",
        "Facts published exactly (invariants) are outside the promise.",
    ]
    if exact:
        before = "Compared with what was known before the release, the same factor holds only if"
        items.insert(3, f"{before} the person's data are independent of everybody else's.")
    return [line for item in items for line in _wrap(item, "  • ", "    ")]


def _bar(share: float) -> str:
    eighths = round(share * _BAR * 8)
    full, rest = divmod(eighths, 8)
    text = "█" * full + (_EIGHTHS[rest] if rest else "")
    return text.ljust(_BAR, "·")


def _wrap(text: str, first: str = "", later: str = "") -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=first, subsequent_indent=later)
