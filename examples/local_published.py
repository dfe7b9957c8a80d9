"""RAPPOR's and Apple's published settings, run end to end on made-up people.

python examples/local_published.py
"""

from __future__ import annotations

import numpy as np

from discreet import local

PEOPLE = 20_000
EMOJI = ("😂", "😍", "😭", "🔥", "🐢")


def rappor() -> None:
    """Home pages of browsers, as in the paper of 2014: f = ½, p = ½, q = ¾, two hashes."""
    protocol = local.PUBLISHED["rappor"].protocol
    assert isinstance(protocol, local.Rappor)
    pages = [f"https://example.org/{i}" for i in range(50)]
    share = np.exp(-np.arange(50) / 3)
    made_up = np.random.default_rng(1)
    homes = made_up.choice(pages, 10 * PEOPLE, p=share / share.sum())
    found = protocol.aggregator().update(protocol.randomize(homes)).estimate(candidates=pages)
    print(f"RAPPOR: ε∞ = {protocol.epsilon_permanent:.5f}, ε₁ = {protocol.epsilon_instant:.5f}")
    print(f"  {len(homes)} reports, {len(found.found)} of {len(pages)} pages found")
    for page, value in list(found.found.items())[:3]:
        print(f"  {page}: {value:.3f}, truth {np.mean(homes == page):.3f}")


def apple(name: str, values: np.ndarray) -> None:
    """Emoji, health types or Safari domains: a sketch under thousands of hash functions."""
    protocol = local.PUBLISHED[name].protocol
    estimate = (
        protocol.aggregator(unit="donation")
        .update(protocol.randomize(values))
        .estimate(candidates=EMOJI)
    )
    print(f"{name}: ε = {protocol.epsilon:g} for one donation, {protocol.report_bytes} bytes")
    for emoji, value, error in zip(
        EMOJI, estimate.frequencies, estimate.standard_errors, strict=True
    ):
        print(f"  {emoji} {value:6.3f} ± {1.96 * error:.3f}, truth {np.mean(values == emoji):.3f}")


def main() -> None:
    """Run both."""
    rappor()
    made_up = np.random.default_rng(2)
    values = made_up.choice(EMOJI, PEOPLE, p=[0.4, 0.25, 0.2, 0.1, 0.05])
    for name in ("apple-emoji", "apple-health", "apple-safari"):
        apple(name, values)


if __name__ == "__main__":
    main()
