r"""The debit of a question, computed anew from the noise that its release draws.

Each part says what it draws and how far one unit moves that (``Part.drawn``); the formulas here
are the textbook's and know nothing of how a price was found:

- Laplace noise of scale b loses Δ₁/b, Gaussian noise of variance σ² the ρ of Δ₂²/(2σ²);
- a choice whose scores one unit spreads by s loses ε·s/Δ, half of it where Δ stands for moves
  both ways; by the exponential mechanism in cells that share the rows, the ρ of
  (ε·s/Δ)²/8 · Σc²/(Σc)²;
- a threshold fails with the probability that noise carries a key of one unit alone across it.

What no formula knows is a fault.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from discreet import privacy as p
from discreet.noise import DiscreteGaussian, DiscreteLaplace
from discreet.plan import Ask, Choice, Chosen, Drawn, Hidden, Lowered, Plan, price

DELTA = Fraction(1, 10**6)
_HAIR = 1 + Fraction(1, 10**9)
"""Roots are rounded."""


def faults(low: Lowered, *, both: bool = True) -> Iterator[str]:
    """What is wrong with the prices of a question: by ε, and (if `both`) by ρ."""
    yield from undercharged(price(low, Ask(Fraction(1), delta=DELTA), "laplace"))
    if both:
        yield from undercharged(price(low, Ask(rho=Fraction(1, 2), delta=DELTA)))


def undercharged(plan: Plan) -> Iterator[str]:
    """Compare the losses of what is drawn with the debit."""
    pure, rho, failure, cost = Fraction(0), Fraction(0), Fraction(0), plan.cost
    bounded = True
    for priced in plan.parts:
        draws = [*priced.part.drawn(priced.law)]
        worst: dict[tuple[object, int], Fraction] = {}
        for key in (d for d in draws if isinstance(d, Hidden)):
            # a unit has one degree in a round of selecting: the worst of them
            worst[key.law, key.at] = max(_failure(key), worst.get((key.law, key.at), Fraction(0)))
        failure += sum(worst.values())
        for d in (d for d in draws if not isinstance(d, Hidden)):
            loss = _loss(d)
            if loss is None:
                yield f"a {priced.part.kind} draws by a law whose loss is not known"
                return
            bounded &= loss[0] is not None
            pure, rho = pure + (loss[0] or 0), rho + Fraction(loss[1])
    if failure > min(cost.delta, cost.rho_delta):
        least = float(min(cost.delta, cost.rho_delta))
        yield f"keys of one unit show with δ={float(failure):.6g}, debited at δ={least:.6g}"
    if rho > cost.rho * _HAIR:
        yield f"noise of ρ={float(rho):.6g} is debited at ρ={float(cost.rho):.6g}"
    if (not bounded or pure > cost.epsilon) and rho:
        delta = p.Zcdp(rho).delta(cost.epsilon)
        if delta > (cost.delta - failure) * _HAIR:
            noise = f"noise of ε={float(pure):.6g}" if bounded else f"noise of ρ={float(rho):.6g}"
            yield f"{noise} is debited at ε={float(cost.epsilon):.6g}, δ={float(cost.delta):.6g}"


def _failure(d: Hidden) -> Fraction:
    return p.key_threshold_delta(d.law, d.at, d.keys, sensitivity=d.weight)


def _loss(d: Drawn | Chosen) -> tuple[Fraction | None, Fraction | float] | None:
    """Largest ε (None: there is none) and ρ of one draw; None where no formula fits."""
    match d:
        case Drawn(DiscreteLaplace() as law, moves):
            pure = Fraction(moves.l1) / law.scale
            return pure, p.DiscreteLaplace(law.scale, moves.l1).rho
        case Drawn(DiscreteGaussian() as law, moves):
            return None, Fraction(moves.l2_squared) / (2 * law.sigma2)
        case Chosen(Choice() as choice, span, squares, rows):
            pure = choice.epsilon * span / (choice.sensitivity * (1 if choice.monotone else 2))
            if choice.flip:
                return pure, p.Pure(pure).rho
            return pure, min(pure**2 * squares / (8 * rows**2), Fraction(p.Pure(pure).rho))
    return None
