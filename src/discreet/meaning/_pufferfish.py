r"""Pufferfish: say which secrets, against which, and what the attacker may believe.

A framework is a list of secret pairs (s, s') and a class Θ of beliefs about how
the data arose, dependence between people included. M is ε-Pufferfish private if for
every pair, every belief θ that thinks both possible and every output ω

.. math:: \Pr[M=\omega\mid s,\theta]\le e^{\varepsilon}\Pr[M=\omega\mid s',\theta] \text{ and back}

(Kifer & Machanavajjhala 2012, 2014). By Bayes' rule this says: *the odds of s against s' after
the release are within a factor e^{±ε} of the odds before it*, for every attacker
whose belief is in Θ. It compares with the prior, which differential privacy does only
for independent records (ibid., 2012).

Mechanism (Song, Wang & Chaudhuri 2017). Let μ, ν be the laws of a number F given
s and s'. Couple them so that the two values are never farther apart than
:math:`W_\infty(\mu,\nu)`. Given the coupled values x, y, Laplace noise of scale W/ε (on ℤ:
discrete) has ratio at most :math:`e^{|x-y|\varepsilon/W}\le e^\varepsilon` at every output;
average over the coupling. So F plus noise for *sensitivity* :math:`W=\max W_\infty` over pairs and
beliefs is ε-Pufferfish private. On the line the quantile coupling is optimal, so
:math:`W_\infty=\max_u|F_\mu^{-1}(u)-F_\nu^{-1}(u)|`, computed here exactly.

What is not promised. Beliefs outside Θ, pairs outside the list, and **composition**: two
ε-Pufferfish releases need not be 2ε together. No loss is therefore offered to a
ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from discreet._dataclass import dataclass
from discreet._exact import Number, ceil_float, decimal, exact, show
from discreet.errors import ParameterError
from discreet.meaning._odds import factor_of, pure_epsilon
from discreet.meaning._words import exactly, number

Law = tuple[tuple[Fraction, Fraction], ...]
"""Values of the query with their probabilities, in rising order."""


@dataclass(frozen=True, slots=True, init=False)
class SecretPair:
    """Two statements an attacker must not tell apart, under one belief about the data.

    Parameters
    ----------
    secret, other
        The statements, in words.
    given_secret, given_other
        Law of the query under each statement: value → probability.
    belief
        The belief θ in words.
    """

    secret: str
    other: str
    belief: str
    given_secret: Law
    given_other: Law

    def __init__(
        self,
        secret: str,
        other: str,
        given_secret: Mapping[Number, Number],
        given_other: Mapping[Number, Number],
        belief: str = "as stated",
    ) -> None:
        set_field = object.__setattr__
        set_field(self, "secret", secret)
        set_field(self, "other", other)
        set_field(self, "belief", belief)
        set_field(self, "given_secret", _law(given_secret, secret))
        set_field(self, "given_other", _law(given_other, other))

    @property
    def distance(self) -> Fraction:
        """W∞ between the two laws, exactly."""
        return _w_infinity(self.given_secret, self.given_other)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Pufferfish:
    """Secret pairs under stated beliefs, for one numeric query.

    Examples
    --------
    Four people who live together catch the flu together; how many are ill?

    >>> pair = SecretPair(
    ...     "Ann is well", "Ann is ill",
    ...     {0: "0.2", 1: "0.225", 2: "0.5", 3: "0.075"},
    ...     {1: "0.075", 2: "0.5", 3: "0.225", 4: "0.2"},
    ... )
    >>> framework = Pufferfish([pair])
    >>> framework.sensitivity
    2
    """

    pairs: tuple[SecretPair, ...]

    def __init__(self, pairs: Iterable[SecretPair]) -> None:
        secrets = tuple(pairs)
        if not secrets:
            raise ParameterError("a Pufferfish framework needs at least one secret pair")
        object.__setattr__(self, "pairs", secrets)

    @property
    def sensitivity(self) -> int | float:
        """Distance that noise must hide, for ``m.laplace(value, sensitivity=…, epsilon=…)``."""
        worst = max(pair.distance for pair in self.pairs)
        return worst.numerator if worst.denominator == 1 else ceil_float(worst)

    def meaning(self, epsilon: Number) -> str:
        """Say what is protected, under which beliefs, and what is not."""
        eps = pure_epsilon(epsilon)
        factor = number(factor_of(eps, against="binary"), "up")
        lines = [
            f"The odds of each pair move by at most a factor {factor} (ε = {exactly(eps)}),",
            "compared with before the release:",
        ]
        lines += [f"  {x.secret} | {x.other} (belief: {x.belief})" for x in self.pairs]
        lines.append(
            "Only for attackers with these beliefs, only for these pairs, and for one release: "
            "several releases need not add up."
        )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Pufferfish({len(self.pairs)} secret pairs, sensitivity {self.sensitivity})"


def _law(chances: Mapping[Number, Number], name: str) -> Law:
    if not isinstance(chances, Mapping) or not chances:
        raise ParameterError(f"the law given {name!r} must map values to probabilities")
    law = [(exact(x, "value"), decimal(q, "probability")) for x, q in chances.items()]
    if any(q < 0 for _, q in law) or sum(q for _, q in law) != 1:
        total = sum((q for _, q in law), Fraction(0))
        raise ParameterError(
            f"the probabilities given {name!r} must be at least 0 and sum to 1, not {show(total)}",
            hint='write them as strings or fractions: {0: "1/3", 1: "2/3"}',
        )
    return tuple(sorted((x, q) for x, q in law if q))


def _w_infinity(a: Law, b: Law) -> Fraction:
    """Walk both quantile functions together."""
    i = j = 0
    left_a, left_b = a[0][1], b[0][1]
    worst = Fraction(0)
    while True:
        worst = max(worst, abs(a[i][0] - b[j][0]))
        step = min(left_a, left_b)
        left_a, left_b = left_a - step, left_b - step
        if not left_a:
            i += 1
        if not left_b:
            j += 1
        if i == len(a) or j == len(b):
            return worst
        left_a = left_a or a[i][1]
        left_b = left_b or b[j][1]
