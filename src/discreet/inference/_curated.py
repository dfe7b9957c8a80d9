"""SciPy's tests over a curator's table: the test of tests, paid from the ledger.

Guarantee: that of :mod:`._testoftests`. At most one row per unit enters (the
curator's own contribution limit, with a fresh secret salt), rows are split at random,
and one noisy integer is released: ε-DP for the policy's unit, under its relation.

The road is the curator's own: the question is parsed and checked against the policy,
the ledger is debited before any data is read, the outcome is stored before it is
shown, and a repeated question gets the stored outcome for free. Failures of the
engine are the curator's constant error; failures of the test never show.

Only SciPy's own tests, by identity, are run: a function of the analyst's would see
private rows and could keep them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from discreet import _exact, noise
from discreet import mechanisms as m
from discreet import privacy as p
from discreet._exact import Number
from discreet.curator import Job, execute, travel
from discreet.errors import Hint, ParameterError, PrivacyError
from discreet.inference._inputs import Noisy
from discreet.inference._laws import Noise, Rng
from discreet.inference._regression import table_of
from discreet.inference._results import TestResult
from discreet.inference._rows import moves_of, one_row_each
from discreet.inference._testoftests import plan_parts, rejecting_parts
from discreet.inference._ump import ump_test
from discreet.plan import (
    Aggregate,
    charge,
    digest,
)

if TYPE_CHECKING:
    from discreet.curator import Curator

ALLOWED: Final[dict[str, Mapping[str, str]]] = {
    **{
        name: {}
        for name in (
            "bartlett", "brunnermunzel", "f_oneway", "fligner", "jarque_bera", "kruskal",
            "kurtosistest", "levene", "median_test", "mood", "normaltest", "pearsonr", "ranksums",
            "shapiro", "skewtest", "spearmanr", "ttest_1samp", "ttest_ind", "ttest_rel",
        )
    },
    "cramervonmises_2samp": {"method": "asymptotic"},
    "kendalltau": {"method": "asymptotic"},
    "ks_2samp": {"method": "asymp"},
    "mannwhitneyu": {"method": "asymptotic"},
    "wilcoxon": {"method": "asymptotic"},
}  # fmt: skip
"""SciPy tests that read samples and return a p-value, with what is fixed about each.

Exact null laws take time that depends on sizes and ties of private samples: seconds
against a minute for one person more. So no test that has one without a switch is here,
and where there is a switch it is not the caller's.
"""

OPTIONS: Final = frozenset(
    {"alternative", "center", "correction", "ddof", "equal_var", "popmean", "proportiontocut",
     "use_continuity", "zero_method"}
)  # fmt: skip
"""Arguments of tests that a caller may set: none of them decides how much is computed."""


def curated_test(
    curator: Curator,
    test: Callable[..., Any],
    *columns: str,
    epsilon: Number,
    by: str | None = None,
    table: str | None = None,
    where: str | None = None,
    options: Mapping[str, Any] | None = None,
    parts: int | None = None,
    alpha0: Number | None = None,
    alpha: Number = 0.05,
    fresh: bool = False,
    rng: Rng = None,
) -> TestResult:
    """Run one of SciPy's tests privately over a curator's table.

    Parameters
    ----------
    curator
        Whose table is tested; its ledger is debited.
    test
        A test of :mod:`scipy.stats`, for instance ``stats.ttest_ind``.
    columns
        Columns (or row expressions) that are the test's samples, in order. NULL rows
        are left out.
    epsilon
        Cost of the whole procedure.
    by
        Instead of several columns: split one column by the public values of this one.
    table, where
        Which table (needed when the policy has several) and which rows, as in SQL.
    options
        Further arguments of the test: numbers, strings and truth values.
    parts, alpha0, alpha
        As for :func:`test_of_tests`; must not depend on the data.
    fresh
        Pay again even if the same question was answered before.

    Examples
    --------
    >>> import discreet as dc
    >>> from scipy import stats
    >>> from discreet import inference as inf
    >>> inf.curated_test(None, print, "age", epsilon=1)
    Traceback (most recent call last):
        ...
    discreet.errors.PrivacyError: only SciPy's own tests may see private rows, not 'print'
        try: scipy.stats.ttest_ind
    """
    name = _scipy_name(test)
    arguments = {**_options(options), **ALLOWED[name]}
    eps = _exact.epsilon(epsilon)
    count, level = plan_parts(epsilon, parts, alpha0, alpha)
    aggregate, query = one_row_each(curator, columns, by, table, where)
    request = {"test": name, "by": by, "options": arguments, "parts": count, "alpha0": level}
    law = noise.DiscreteLaplace(1 / eps)
    loss = p.DiscreteLaplace(law.scale, 1)

    def run() -> str:
        samples = _samples(curator, aggregate, split=by is not None)
        rejected = rejecting_parts(samples, lambda *s: test(*s, **arguments), count, level)
        value = int(m.geometric(rejected, sensitivity=1, epsilon=eps).value)
        coin = noise.random_words(2).tobytes().hex()
        return json.dumps({"test of tests": 1, "rejected": value, "coin": coin})

    job = Job(
        plan=f"test-of-tests {json.dumps(request, sort_keys=True)} {digest(aggregate)}",
        cost=charge([loss]),
        noise=json.dumps(law.to_dict(), sort_keys=True),
        neighbours=query.neighbours.value,
        unit=aggregate.unit,
        tables=(table_of(curator, table).name,),
        run=run,
    )
    release = json.loads(travel(curator, job, aggregate, moves_of(query), fresh=fresh).text)
    item = Noisy(
        float(release["rejected"]),
        Noise(law),
        query.neighbours.value,
        aggregate.unit or "row",
        coin=release.get("coin"),
    )
    result = ump_test(item, count, level, alternative="greater", rng=rng)
    return replace(
        result,
        method=f"test of tests: {name} in {count} random parts",
        parameters={"parts": count, "level of each": level},
        loss=loss.under(query.neighbours, unit=aggregate.unit or "row"),
        _interval=None,
    )


def _scipy_name(test: Any) -> str:
    name = str(getattr(test, "__name__", type(test).__name__))
    module = sys.modules.get("scipy.stats")
    if name not in ALLOWED or module is None or getattr(module, name, None) is not test:
        raise PrivacyError(
            f"only SciPy's own tests may see private rows, not {name!r}",
            hint="scipy.stats.ttest_ind",
        )
    return name


def _options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    arguments = dict(options or {})
    for name, value in arguments.items():
        if name not in OPTIONS:
            raise PrivacyError(
                f"option {name!r} may decide how long a test takes, and so tell about the data",
                hint=Hint("options", {"equal_var": False}),
            )
        # anything else could carry code into the test
        if type(value) not in (bool, int, float, str):
            raise ParameterError(
                f"option {name!r} must be a number, a string or a truth value",
                hint=Hint("options", {"equal_var": False}),
            )
    return arguments


def _samples(curator: Curator, aggregate: Aggregate, *, split: bool) -> list[list[Any]]:
    """Read the rows: a list of samples, each with its columns."""
    groups = execute(curator, aggregate)
    types = [k.expr.type for k in aggregate.keys]
    codes = list(groups)
    times = np.array([groups[c][0] for c in codes], dtype=np.int64)
    columns = [
        np.repeat(np.array([t.value(c[i]) for c in codes], dtype=np.float64), times)
        for i, t in enumerate(types[: len(types) - split])
    ]
    if not split:
        return [columns]
    place = np.repeat(np.array([c[-1] for c in codes], dtype=object), times)
    return [[columns[0][place == code]] for code in aggregate.keys[-1].codes or ()]
