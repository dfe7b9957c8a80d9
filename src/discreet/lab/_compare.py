"""The same table, the same attackers, one row per method."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from discreet import _vega, meaning
from discreet._dataclass import dataclass, replace
from discreet.answer import Chart
from discreet.errors import Hint, ParameterError
from discreet.lab._attacks import ATTACKS, Attack, Knowledge
from discreet.lab._methods import (
    ad_hoc_noise,
    as_it_is,
    k_anonymity,
    multiplicative_noise,
    swap,
    tables_only,
    top_code,
)
from discreet.lab._private import private
from discreet.lab._release import Method, Release
from discreet.lab._synthetic import fully_synthetic, partially_synthetic
from discreet.lab._table import Table
from discreet.lab._tabular import controlled_adjustment, suppress_cells

METHODS: tuple[Method, ...] = (
    as_it_is,
    tables_only,
    top_code,
    swap,
    suppress_cells,
    controlled_adjustment,
    ad_hoc_noise,
    multiplicative_noise,
    k_anonymity,
    partial(k_anonymity, diversity=2),
    partially_synthetic,
    fully_synthetic,
    *(partial(private, epsilon=epsilon) for epsilon in ("0.1", 1, 8)),
)
"""Older methods with their usual parameters, and differential privacy beside them."""

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Colours of Okabe and Ito, which people with any kind of colour vision tell apart."""
_LOWEST = 0.3
"""Where the axis of a chart begins, unless guesses were right less often."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What each attack gets out of each method, and what each method does to statistics.

    Attributes
    ----------
    rows
        One dictionary per method: ``method``; per attack the share of right guesses (a
        blind guess is right half of the time); ``bound``, the most that any attack can
        reach given the loss (None: no bound); ``count_error``, the mean difference of
        published counts from the truth; ``missing``, the share of cells not published;
        ``mean_error``, the relative error of the published mean; ``interval``, whether
        the release says enough for a valid 95 % interval; ``covered``, how often that held.
    attacks
        Names of the attacks, in order.
    trials
        Trials per attack and method.
    """

    rows: tuple[dict[str, Any], ...]
    attacks: tuple[str, ...]
    trials: int

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return one dictionary per method."""
        return [dict(row) for row in self.rows]

    def to_pandas(self) -> Any:
        """Return a pandas frame."""
        import pandas as pd  # noqa: PLC0415 - only if asked for

        return pd.DataFrame(self.to_dicts())

    def to_arrow(self) -> Any:
        """Return an Arrow table."""
        import pyarrow as pa  # noqa: PLC0415 - only if asked for

        return pa.Table.from_pylist(self.to_dicts())

    def chart(self) -> Chart:
        """Return a Vega-Lite chart: right guesses per attack, and the bound where there is one.

        Notebooks draw it, and ``save("compare.svg")`` writes it to a file, as of answers.
        """
        values = [
            {"method": row["method"], "attack": name, "success": row[name]}
            for row in self.rows
            for name in self.attacks
            if row[name] is not None
        ]
        bounds = [
            {"method": row["method"], "bound": row["bound"]}
            for row in self.rows
            if row["bound"] is not None
        ]
        y = _vega.name("method", sort=[row["method"] for row in self.rows], title=None)
        lowest = min([_LOWEST, *(math.floor(10 * v["success"]) / 10 for v in values)])
        x = {"type": "quantitative", "scale": {"domain": [lowest, 1]}, "axis": {"format": "%"}}
        # one legend needs one domain; each attack has a line of its own, so none hides another
        scale = {"domain": [*self.attacks]}
        kind = _vega.name("attack", scale=scale)
        colours = {**kind, "scale": {**scale, "range": [*_COLOURS[: len(self.attacks)]]}}
        guesses = {
            "y": y, "yOffset": kind, "x": {**x, "field": "success", "title": "right guesses"},
            "color": colours, "shape": kind,
        }  # fmt: skip
        most, coin = {"y": y, "x": {**x, "field": "bound"}}, {"x": {**x, "datum": 0.5}}
        black, grey = {"color": "black", "thickness": 2}, {"color": "#888888", "strokeDash": [3, 3]}
        layers = [
            (values, _vega.layer("point", guesses, filled=True, size=45)),
            (bounds, _vega.layer("tick", most, size=30, **black)),
            ([{}], _vega.layer("rule", coin, **grey)),
        ]
        return _vega.chart(
            {
                "text": ["How often an attacker guesses one person's bit (a coin: 50 %)"],
                "subtitle": f"{self.trials} trials: ± {self._margin:.0f} % at 95 %; "
                "black: the most that any attack can reach",
            },
            width=420,
            height={"step": 34, "for": "position"},
            layer=[{"data": {"values": rows}, **layer} for rows, layer in layers],
        )

    @property
    def _margin(self) -> float:
        """Half of the widest 95 % interval of a share, in per cent."""
        return 196 * 0.5 / math.sqrt(self.trials)

    def __repr__(self) -> str:
        header, rows = self._cells()
        wide = [max(len(line[i]) for line in (header, *rows)) for i in range(len(header))]
        lines = [
            "  ".join(
                cell.ljust(w) if i == 0 else cell.rjust(w)
                for i, (cell, w) in enumerate(zip(line, wide, strict=True))
            )
            for line in (header, *rows)
        ]
        lines.append(
            f"right guesses in {self.trials} trials: ± {self._margin:.0f} % at 95 %; a coin: 50 %"
        )
        return "\n".join(line.rstrip() for line in lines)

    def _repr_html_(self) -> str:
        header, rows = self._cells()
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        header = ["method", *self.attacks, "bound", "count error", "missing", "mean error",
                  "interval"]  # fmt: skip
        return header, [
            [
                row["method"],
                *(_percent(row[name]) for name in (*self.attacks, "bound")),
                f"{row['count_error']:.2f}",
                _percent(row["missing"]),
                f"{100 * row['mean_error']:.1f} %",
                f"holds {_percent(row['covered'])}" if row["interval"] else "none",
            ]
            for row in self.rows
        ]


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"


def compare(
    table: Table,
    attacks: Sequence[Attack] = ATTACKS,
    methods: Sequence[Method] = METHODS,
    *,
    trials: int = 100,
    reference: Table | None = None,
    seed: int = 1,
) -> Comparison:
    """Publish one table by each method and set the same attackers on each release.

    Parameters
    ----------
    table
        The table; see :func:`discreet.lab.town` and :func:`discreet.lab.table`.
    attacks, methods
        What to compare; all of them if left out.
    trials
        Trials per attack and method, two for each person attacked; more of them make the
        shares more precise.
    reference
        Another table of the same population, for attacks that need to know what is
        usual; left out, the table's people with their columns shuffled.
    seed
        Which persons are attacked and how the coins fall. The noise of private releases
        has no seed.

    Examples
    --------
    >>> from functools import partial
    >>> from discreet import lab
    >>> result = lab.compare(
    ...     lab.town(200), [lab.DIFFERENCING],
    ...     [lab.swap, partial(lab.private, epsilon="0.1")], trials=40,
    ... )
    >>> [row["method"] for row in result.rows]
    ['swapping 10%', 'differential privacy, ε = 0.1']
    >>> result.rows[0]["differencing"], round(result.rows[1]["bound"], 3)
    (1.0, 0.522)
    """
    if trials < 2 or trials % 2 or not attacks or not methods:
        raise ParameterError(
            "give attacks, methods and an even number of trials", hint=Hint("trials", 100)
        )
    usual = _shuffled(table, seed) if reference is None else reference
    rows = []
    for method in methods:
        release = method(table)
        row: dict[str, Any] = {"method": release.method}
        row |= _successes(table, usual, attacks, method, (trials, seed))
        row["bound"] = None if release.loss is None else meaning.attacker(release.loss).accuracy()
        row |= _errors(table, release)
        rows.append(row)
    return Comparison(tuple(rows), tuple(attack.name for attack in attacks), trials)


def _successes(
    table: Table, reference: Table, attacks: Sequence[Attack], method: Method, game: tuple[int, int]
) -> dict[str, float | None]:
    """Play the game: pick a person, toss a coin, publish, let every attacker guess."""
    trials, seed = game
    rng = np.random.default_rng(seed)
    right = dict.fromkeys((attack.name for attack in attacks), 0.0)
    tries = dict.fromkeys(right, 0)
    for trial in range(trials):
        # both sides of the coin for each person: whoever always says the same gets one half
        coin = trial % 2
        if coin == 0:
            person, other = int(rng.integers(len(table))), int(rng.integers(len(reference)))
        secret, others = int(table.secrets[person]), table.without(person)
        know = Knowledge(table, table.codes[person], secret, others, reference)
        worlds = {
            "secret": table.with_secret(person, coin),
            "member": table if coin else table.with_person(person, reference, other),
        }
        for about, world in worlds.items():
            releases: list[Release] = []
            for attack in attacks:
                if attack.about != about:
                    continue
                while len(releases) < attack.repeats:
                    again = releases and releases[0].permanent
                    releases.append(releases[0] if again else method(world))
                score = attack.guess(releases[: attack.repeats], know)
                tries[attack.name] += score is not None
                right[attack.name] += 0.5 if not score else float((score > 0) == bool(coin))
    return {name: right[name] / trials if tries[name] else None for name in right}


def _errors(table: Table, release: Release) -> dict[str, Any]:
    """Compare what was published with the truth."""
    wrong, missing, covered = [], [], []
    for names, truth in table.published().items():
        cells = release.counts[names]
        wrong.append(np.abs(cells - truth).ravel())
        missing.append(np.isnan(cells).ravel())
        if release.margins is not None:
            covered.append(wrong[-1] <= release.margins[names])
    mean = float(np.clip(table.numbers, *table.bounds).mean())
    return {
        "count_error": float(np.nanmean(np.concatenate(wrong))),
        "missing": float(np.concatenate(missing).mean()),
        "mean_error": abs(release.average - mean) / mean if mean else math.nan,
        "interval": release.margins is not None,
        "covered": float(np.concatenate(covered).mean()) if covered else None,
    }


def _shuffled(table: Table, seed: int) -> Table:
    """Return people like those of the table, none of whom is in it: columns drawn apart."""
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.permutation(column) for column in table.codes.T])
    secrets, numbers = rng.permutation(table.secrets), rng.permutation(table.numbers)
    return replace(table, codes=codes, secrets=secrets, numbers=numbers)
