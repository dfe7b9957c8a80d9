"""A short tour of the core: run it with ``python examples/tour.py``.

The town below is made up; the noise is not. Run it twice and every answer changes.
"""

from __future__ import annotations

import time

import numpy as np

from discreet import audit
from discreet import mechanisms as m
from discreet import privacy as p
from discreet.errors import BudgetExceededError

WIDTH = 78


def title(number: int, text: str) -> None:
    """Print a section heading."""
    print(f"\n {number}  {text}\n {'─' * (WIDTH - 1)}")


def row(label: str, value: object, note: str = "") -> None:
    """Print one aligned line."""
    print(f"   {label:<27}{value!s:>13}   {note}".rstrip())


def town() -> dict[str, np.ndarray]:
    """Make up 8000 people: income, and how they get to work."""
    made_up = np.random.default_rng(2019)
    ways = ["car", "bus", "bicycle", "on foot", "horse"]
    return {
        "income": made_up.lognormal(10.3, 0.6, 8000).round(2),
        "way": made_up.choice(ways, 8000, p=[0.55, 0.25, 0.1405, 0.059, 0.0005]),
    }


def counts_and_means(people: dict[str, np.ndarray]) -> None:
    """Answer numbers with intervals that mean what they say."""
    title(1, "Numbers: a count and a mean, each with an honest interval")
    by_bus = int((people["way"] == "bus").sum())
    count = m.geometric(by_bus, sensitivity=1, epsilon="0.1", neighbours="add-remove")
    row("people who take the bus", by_bus, "the secret")
    row("released", count.value, "95 % interval {} … {}".format(*count.interval(0.95)))
    row("cost", f"ε = {count.loss.epsilon()}", "if one person is added or removed")

    # whole cents, summed exactly: no float carries a sensitivity
    n, most = len(people["income"]), 10_000_000
    cents = (people["income"] * 100).round().astype(np.int64).clip(0, most)
    total = m.geometric(int(cents.sum()), most, "0.5", neighbours="change-one")
    low, high = (end / n / 100 for end in total.interval(0.95))
    row("mean income", f"{cents.sum() / n / 100:,.2f}", "clipped to a public 0 … 100 000")
    row("released", f"{total.value / n / 100:,.2f}", f"95 % interval {low:,.0f} … {high:,.0f}")

    median = m.smooth_median(people["income"], 0, 100_000, 1, "1e-6", step=1)
    row("median income", f"{np.median(people['income']):,.0f}", "the secret")
    row("released", f"{median.value:,.0f}", "noise fitted to the data")


def unknown_groups(people: dict[str, np.ndarray]) -> None:
    """Release groups that nobody listed, without naming the one rider."""
    title(2, "Groups: which answers exist is itself a secret")
    names, sizes = np.unique(people["way"], return_counts=True)
    secret = dict(zip(names.tolist(), sizes.tolist(), strict=True))
    answer = m.threshold_keys(secret, epsilon="0.5", delta="1e-6")
    for name, size in secret.items():
        shown = answer.value.get(name, "withheld")
        note = "" if name in answer.value else f"below the threshold of {answer.threshold}"
        row(f"{name} ({size})", shown, note)


def choices() -> None:
    """Choose by score: the table of Zhu et al., and one draw."""
    title(3, "Choices: the exponential mechanism on a medical table")
    scores = {"diabetes": 24, "hepatitis": 8, "flu": 28, "HIV": 5}
    print(f"   {'':<12}{'cases':>7}{'ε = 0':>11}{'ε = 0.1':>11}{'ε = 1':>13}")
    tables = [m.Exponential(1, e).probabilities(list(scores.values())) for e in (0, "0.1", 1)]
    for i, (name, cases) in enumerate(scores.items()):
        none, some, much = (table[i] for table in tables)
        print(f"   {name:<12}{cases:>7}{none:>11.5f}{some:>11.5f}{much:>13.6g}")
    choice = m.exponential(list(scores.values()), 1, 1, candidates=list(scores))
    row("one draw at ε = 1", choice.value)


def composition() -> None:
    """Compose a hundred answers, three ways."""
    title(4, "Many answers: what a hundred releases at ε = 0.1 cost together")
    fine = m.laplace(0.5, sensitivity=1, epsilon="0.1").loss
    start = time.perf_counter()
    tight = p.compose([fine] * 100).epsilon(delta="1e-6")
    spent = time.perf_counter() - start
    classical = 0.1 * (200 * np.log(1e6)) ** 0.5 + 100 * 0.1 * np.expm1(0.1)
    for label, epsilon in (
        ("adding up", 10.0),
        ("advanced composition", classical),
        ("zero-concentrated", p.Zcdp("0.5").epsilon("1e-6")),
        ("discreet, exact lattice", tight),
    ):
        row(label, f"ε = {epsilon:.4f}", "█" * round(3 * epsilon))
    print(f"   at δ = 1e-6; computed in {1000 * spent:.0f} ms, error bounds included")


def budget() -> None:
    """Fill a budget exactly, and be refused."""
    title(5, "A budget that holds: ten times 0.1 is 1, and not one bit more")
    filter_ = p.BasicFilter(epsilon=1)
    for _ in range(10):
        filter_.spend(p.Pure(0.1))
    print(f"   {filter_!r}")
    try:
        filter_.spend(p.Pure("1e-18"))
    except BudgetExceededError as refusal:
        print(f"   refused: {str(refusal).replace(chr(10), chr(10) + '   ')}")


def audits() -> None:
    """Accuse a broken mechanism, and fail to accuse ours."""
    title(6, "Trust, but audit: 200 000 runs on neighbouring data, claim ε = 1")
    honest = m.geometric(0, sensitivity=1, epsilon=1).law
    broken = m.geometric(0, sensitivity=1, epsilon=2).law
    for label, law in (("ours", honest), ("with half the noise", broken)):
        verdict = audit.estimate(lambda x, n, law=law: x + law.sample(n), 0, 1, epsilon=1)
        words = "CAUGHT" if verdict.violated else "not refuted"
        row(label, f"ε ≥ {verdict.epsilon_lower_bound:.3f}", words)


def main() -> None:
    """Walk through the core."""
    print("\n discreet: exact noise, honest error bars, a budget that holds")
    people = town()
    counts_and_means(people)
    unknown_groups(people)
    choices()
    composition()
    budget()
    audits()
    print()


if __name__ == "__main__":
    main()
