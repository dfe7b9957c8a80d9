"""Data-independent strategies: the papers' figures, exact error laws, certificates."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from discreet import release
from discreet.errors import ParameterError, PrivacyError
from discreet.noise._deterministic import deterministic
from discreet.privacy import Neighbours
from discreet.release import _factors, _tree
from discreet.release._counts import read_counts
from discreet.release._hierarchy import Wavelet, best_weights, parts_of
from discreet.release._mechanism import Job
from discreet.release._pidentity import objective, scatter

W = release.Workload
ROOT2 = "1.4142135623730951"


def rmse(workload, method, **kwargs):
    return release.plan(workload, method=method, **kwargs).rmse


# -- figures ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "figure"),
    [("identity", 639.8), ("hierarchical", 217.7), ("hb", 139.03)],
)
def test_prefix_4096_at_a_tenth(method, figure):
    # continuous noise: 640.1, 217.7, 139.03; discrete Laplace is a little narrower
    assert rmse(W.prefix(4096), method, epsilon="0.1") == pytest.approx(figure, rel=3e-4)


def test_hb_finds_the_best_blocks_and_weights():
    found = release.plan(W.prefix(4096), epsilon="0.1", method="hb").mechanism
    weights, sides = zip(*found.query.levels, strict=True)
    assert sides == (1024, 128, 16, 1)
    shares = np.array(weights) / sum(weights)
    assert shares == pytest.approx([0.2489, 0.2177, 0.2223, 0.3111], abs=3e-4)
    assert rmse(W.all_range(4096), "hb", epsilon="0.1") == pytest.approx(161.5, abs=0.1)


def test_plain_haar_and_weighted_haar():
    job = Job(W.prefix(4096), release.Price.read(epsilon="0.1"), Neighbours.ADD_REMOVE)
    plain = math.sqrt(Wavelet(job, weighted=False).error() / 4096)
    assert plain == pytest.approx(216.7, abs=0.05)
    assert math.sqrt(Wavelet(job).error() / 4096) < plain


@pytest.mark.parametrize(
    ("method", "n", "prefix", "ranges"),
    [
        ("identity", 256, 11.34, 9.27),
        ("hierarchical", 256, 3.102, 3.835),
        ("hierarchical", 1024, 3.686, 4.654),
    ],
)
def test_gaussian_figures_at_unit_noise(method, n, prefix, ranges):
    assert rmse(W.prefix(n), method, rho="0.5") == pytest.approx(prefix, rel=2e-3)
    assert rmse(W.all_range(n), method, rho="0.5") == pytest.approx(ranges, rel=2e-3)


def test_gaussian_optimum_is_certified_and_beats_the_published_one():
    for workload, figure in ((W.prefix(256), 2.5245), (W.all_range(256), 2.9015)):
        found = release.gaussian_optimum(workload.gram(), gap=2e-4)
        per_query = math.sqrt(found.error / workload.queries)
        assert found.gap <= 2e-4
        assert per_query == pytest.approx(figure, rel=3e-4)
        columns = (found.matrix**2).sum(axis=0)
        assert columns.max() <= 1 + 1e-9
        # the error is that of the matrix, and no column may grow
        inverse = np.linalg.inv(found.matrix.T @ found.matrix)
        assert np.trace(workload.gram() @ inverse) == pytest.approx(found.error, rel=1e-6)
        # on the integer grid next to nothing is lost
        grid = rmse(workload, "matrix", rho="0.5")
        assert grid == pytest.approx(figure, rel=2e-3)


def test_the_optimum_of_queries_that_leave_cells_out_or_repeat_themselves():
    boxes = W.boxes((8, 8), [[0, 0], [2, 3]], [[8, 4], [5, 8]])
    for workload in (boxes, W.matrix(np.ones((1, 10))), W.marginals((4, 5), 1)):
        found = release.gaussian_optimum(workload.gram())
        assert found.gap <= 1e-3
        assert (found.matrix**2).sum(axis=0).max() <= 1 + 1e-9
        grid = rmse(workload, "matrix", rho="0.5")
        assert grid == pytest.approx(math.sqrt(found.error / workload.queries), rel=0.02)
        assert grid <= 1.001 * rmse(workload, "identity", rho="0.5")


def test_the_dual_bound_lies_below_every_strategy():
    # any strategy's error is above the bound: planted strategies of all kinds
    V = W.prefix(32).gram()
    bound = release.gaussian_optimum(V, gap=1e-6, rounds=2000).bound
    for B in (np.eye(32), np.tril(np.ones((32, 32))), scatter(40, 32) + np.eye(40, 32)):
        norm = (B**2).sum(axis=0).max()
        assert norm * np.trace(V @ np.linalg.inv(B.T @ B)) > bound


def test_hdmm_figures():
    ranges = rmse(W.all_range(256), "hdmm", epsilon=ROOT2)
    assert ranges <= 5.71
    square = W.kron(W.all_range(256), W.all_range(256))
    assert rmse(square, "hdmm", epsilon=ROOT2) <= 32.5
    assert rmse(W.prefix(256), "hdmm", epsilon=ROOT2) <= 5.24


def test_a_matrix_is_learned_for_laplace_noise():
    workload = W.union([W.prefix(32), W.identity(32)])
    learned = rmse(workload, "matrix", epsilon=1)
    assert learned < rmse(workload, "identity", epsilon=1)
    assert learned < rmse(workload, "hb", epsilon=1)


@pytest.mark.long
def test_hdmm_prefix_4096():
    # the shipped HDMM: 127.3 in 174 s
    assert rmse(W.prefix(4096), "hdmm", epsilon="0.1") <= 127.2


@pytest.mark.long
def test_gaussian_optimum_1024():
    for workload, figure in ((W.prefix(1024), 2.9556), (W.all_range(1024), 3.5152)):
        found = release.gaussian_optimum(workload.gram(), gap=2e-4)
        assert math.sqrt(found.error / workload.queries) == pytest.approx(figure, rel=3e-4)


# -- laws of the error ---------------------------------------------------------------------

SMALL = [
    (W.prefix(37), "identity", {}),
    (W.prefix(37), "hierarchical", {}),
    (W.prefix(37), "hb", {}),
    (W.prefix(37), "wavelet", {}),
    (W.all_range(20), "hdmm", {}),
    (W.kron(W.prefix(8), W.identity(3)), "hdmm", {}),
    (W.kron(W.prefix(8), W.identity(5)), "hb", {}),
    (W.union([W.kron(W.prefix(8), W.total(3)), W.kron(W.total(8), W.identity(3))]), "hdmm", {}),
    (W.prefix(9), "matrix", {}),
    (W.prefix(9), "matrix", {"strategy": np.tril(np.ones((9, 9), dtype=int))}),
    (W.marginals((2, 3, 4), (1, 2)), "marginals", {}),
    (W.boxes((6, 7), [[0, 0], [2, 1]], [[6, 3], [5, 7]]), "hb", {}),
]
PRICES = [{"epsilon": 1}, {"rho": "0.5"}, {"epsilon": 1, "delta": "1e-6"}]


@pytest.mark.parametrize("price", PRICES[:2], ids=str)
@pytest.mark.parametrize(("workload", "method", "options"), SMALL, ids=str)
def test_expected_error_is_the_error_of_the_linear_map(workload, method, options, price):
    """Σ over noise coordinates of variance × squared response: exact, no randomness."""
    plan = release.plan(workload, method=method, **price, **options)
    questions, size = [], []

    def answer_zero(question):
        questions.append(question)
        y = np.zeros(len(question.ask(empty)), dtype=np.int64)
        size.append(len(y))
        return y

    empty = read_counts(np.zeros(workload.cells, dtype=int), workload.shape)
    release.conduct(plan.mechanism.course(), plan.price, answer_zero)

    total = 0.0
    for i, question in enumerate(questions):
        for k in range(size[i]):
            position = iter(range(len(questions)))

            def unit(_, i=i, k=k, position=position):
                j = next(position)
                y = np.zeros(size[j], dtype=np.int64)
                if j == i:
                    y[k] = 1
                return y

            estimate, _ = release.conduct(plan.mechanism.course(), plan.price, unit)
            response = plan.mechanism.answers(estimate)
            total += _variance(question, k) * float((response**2).sum())
    assert math.sqrt(total / workload.queries) == pytest.approx(plan.rmse, rel=1e-5)


def _variance(question, k):
    if hasattr(question, "law"):
        return question.law.variance
    return 4.0 ** int(question.scales()[1][k])


@pytest.mark.parametrize(("workload", "method", "options"), SMALL, ids=str)
def test_reconstruction_is_exact_without_noise(workload, method, options):
    """Least squares returns what was measured: Wx̂ = Wx when the noise is 0."""
    x = (np.arange(workload.cells) * 7 % 5).reshape(workload.shape)
    counts = read_counts(x, workload.shape)
    plan = release.plan(workload, method=method, epsilon=1, **options)

    def exactly(question):
        return question.query.apply(counts)

    estimate, _ = release.conduct(plan.mechanism.course(), plan.price, exactly)
    assert np.allclose(plan.mechanism.answers(estimate), workload.answers(x))


def test_residuals_are_exact_without_noise():
    sizes = (2, 3, 4)
    x = (np.arange(24) * 5 % 7).reshape(sizes)
    counts = read_counts(x, sizes)
    plan = release.plan(W.marginals(sizes, (1, 2, 3)), rho=1, method="marginals")

    def exactly(question):
        return question._rows(counts)

    estimate, _ = release.conduct(plan.mechanism.course(), plan.price, exactly)
    for axes, table in estimate.items():
        rest = tuple(i for i in range(3) if i not in axes)
        assert np.allclose(table, x.sum(axis=rest))


def test_pooling_is_least_squares():
    """The linear-time tree against a dense generalised inverse, with unequal variances."""
    n, sides, variances = 16, (8, 4, 1), (2.0, 0.5, 3.0)
    A = np.vstack([np.kron(np.eye(n // s), np.ones((1, s))) for s in sides])
    weights = np.concatenate(
        [np.full(n // s, 1 / v) for s, v in zip(sides, variances, strict=True)]
    )
    y = np.sin(np.arange(len(A)) * 1.7) * 10
    dense = np.linalg.solve(A.T @ (weights[:, None] * A), A.T @ (weights * y))
    levels, at = [], 0
    for s in sides:
        levels.append(y[at : at + n // s])
        at += n // s
    assert np.allclose(_tree.descend(*_tree.pooled(levels, sides, variances)), dense)


def test_weights_of_levels_are_a_minimum():
    parts = parts_of(W.prefix(256), [64, 8, 1])
    sizes = np.array([64.0, 8.0, 1.0])
    value, w = best_weights(parts, sizes, pure=True)
    for i in range(3):
        for step in (0.97, 1.03):
            other = w.copy()
            other[i] *= step
            eigen = np.cumsum((other**2 * sizes)[::-1])[::-1]
            assert math.log(other.sum() ** 2 * (parts / eigen).sum()) >= value - 1e-6


@pytest.mark.parametrize("pure", [True, False])
def test_gradient_of_p_identity(pure):
    axis, B = _factors.AllRange(12), scatter(3, 12) * 3
    value, slope = objective(B, axis, axis.diagonal(), pure=pure)
    s = 1 + B.sum(axis=0) if pure else np.sqrt(1 + (B * B).sum(axis=0))
    A = np.vstack([np.eye(12), B]) / s
    assert value == pytest.approx(np.trace(axis.gram() @ np.linalg.inv(A.T @ A)))
    for at in ((0, 0), (2, 5)):
        step = np.zeros_like(B)
        step[at] = 1e-6
        ends = [objective(B + k * step, axis, axis.diagonal(), pure=pure)[0] for k in (1, -1)]
        assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(slope[at], rel=1e-4)


# -- plan and publication ------------------------------------------------------------------


def test_auto_takes_the_least_expected_error():
    plan = release.plan(W.prefix(128), rho="0.5")
    assert plan.method == min(plan.candidates, key=plan.candidates.get)
    assert plan.rmse == min(plan.candidates.values())
    assert "compared" in repr(plan)


@pytest.mark.parametrize("neighbours", ["add-remove", "change-one"])
@pytest.mark.parametrize("price", PRICES, ids=str)
def test_the_loss_is_what_was_offered(price, neighbours):
    for method in ("identity", "hb", "wavelet", "hdmm"):
        found = release.publish(np.arange(16), W.prefix(16), neighbours=neighbours,
                                method=method, **price)  # fmt: skip
        assert found.loss.neighbours == neighbours
        if price == {"epsilon": 1}:
            assert found.loss.epsilon() <= 1
        elif "rho" in price:
            assert found.loss.rho <= 0.5
        else:
            assert found.loss.delta(1) <= 1e-6


COVERED = {
    "identity": (W.prefix(8), {"epsilon": "0.5"}),
    "hierarchical": (W.prefix(8), {"epsilon": "0.5"}),
    "hb": (W.prefix(8), {"epsilon": "0.5"}),
    "wavelet": (W.all_range(8), {"epsilon": "0.5"}),
    "matrix": (W.prefix(8), {"rho": "0.1"}),
    "hdmm": (W.kron(W.prefix(4), W.all_range(3)), {"epsilon": 1, "delta": "1e-6"}),
    "marginals": (W.marginals((3, 4), (0, 1, 2)), {"rho": "0.1"}),
}


def covered(method, replicates, width=1.0):
    """Share of replicates in which intervals of 95 % hold the truth: mean and least of answers.

    The noise is that of tests, so that nothing is random; the seeds were not searched for.
    """
    workload, price = COVERED[method]
    x = np.arange(workload.cells).reshape(workload.shape)
    truth = workload.answers(x)
    plan = release.plan(workload, method=method, **price)
    hits = np.zeros(len(truth))
    with deterministic(f"cover {method}"):
        for _ in range(replicates):
            found = plan.publish(x)
            half = width * (found.interval("0.95", copies=39).high - found.answers)
            hits += np.abs(found.answers - truth) <= half + 1e-9
    return hits.mean() / replicates, hits.min() / replicates


def test_intervals_cover_by_construction():
    assert covered("hb", 40)[0] > 0.9
    assert covered("hb", 40, width=0.5)[0] < 0.8


@pytest.mark.long
@pytest.mark.parametrize("method", COVERED)
def test_intervals_of_every_method_cover(method):
    """95 % exactly, by exchange; of 400 replicates 358 or fewer have chance 3e-6 for one answer."""
    mean, least = covered(method, 400)
    assert mean >= 0.93
    assert least >= 0.895
    assert covered(method, 100, width=0.6)[0] < 0.86


def test_a_method_without_a_known_error_has_no_interval():
    """All names: either its intervals cover (above), or it refuses to give one."""
    vector, grid = W.prefix(8), W.kron(W.identity(4), W.identity(4))
    how = {
        "marginals": (W.marginals((3, 4), 1), {}), "ireduct": (W.marginals((3, 4), 1), {}),
        "synthetic": (W.marginals((3, 4), 2), {}), "uniform-grid": (grid, {}),
        "adaptive-grid": (grid, {}), "topdown": (grid, {}), "urn": (grid, {"draws": 5}),
        "count-of-counts": (W.identity(8), {"groups": "public"}),
    }  # fmt: skip
    for method in set(release.METHODS) - set(COVERED):
        workload, options = how.get(method, (vector, {}))
        price = {"rho": 1} if method == "synthetic" else {"epsilon": 1}
        made = release.publish(
            np.ones(workload.shape, int), workload, method=method, **price, **options
        )
        with pytest.raises(PrivacyError, match="no interval"):
            made.interval()


def test_nonnegative_never_raises_the_error_of_the_workload():
    x = np.zeros(64, dtype=int)
    x[[3, 40]] = 50
    for workload in (W.prefix(64), W.all_range(64), W.identity(64)):
        truth = workload.answers(x)
        plan = release.plan(workload, epsilon="0.1", method="hb")
        for seed in range(2):
            with deterministic(seed):
                plain = plan.publish(x)
            with deterministic(seed):
                above = plan.publish(x, nonnegative=True)
            assert above.estimate.min() >= 0
            gaps = [np.linalg.norm(p.answers - truth) for p in (above, plain)]
            assert gaps[0] <= gaps[1] * (1 + 1e-6)
    with pytest.raises(PrivacyError, match="no interval"):
        above.interval()


def test_clipping_the_cells_would_wreck_ranges():
    """The trap: naive clipping raises prefix errors many times over."""
    x, workload = np.zeros(1024, dtype=int), W.prefix(1024)
    with deterministic("trap"):
        plain = release.publish(x, workload, epsilon="0.1", method="hb")
    clipped = workload.answers(np.maximum(plain.estimate, 0))
    assert np.linalg.norm(clipped) > 3 * np.linalg.norm(plain.answers)
    with deterministic("trap"):
        sound = release.publish(x, workload, epsilon="0.1", method="hb", nonnegative=True)
    assert np.linalg.norm(sound.answers) <= np.linalg.norm(plain.answers)


def test_a_publication_explains_itself():
    table = release.publish(np.arange(8), W.prefix(8), epsilon=1, method="hb")
    record = table.record()
    assert [q["kind"] for q in record["questions"]] == ["measurement"]
    assert len(record["questions"][0]["released"]) == record["questions"][0]["rows"]
    assert table.to_arrow().column_names == ["query", "value", "low", "high"]
    rows = table.chart(table.interval())
    assert [x["mark"]["type"] for x in rows["layer"]] == ["rule", "point"]
    assert {"row", "low", "high"} <= set(rows["data"]["values"][0])
    long = release.publish(np.arange(80), W.prefix(80), epsilon=1, method="hb")
    assert [x["mark"] for x in long.chart()["layer"]] == ["line"]
    assert [x["mark"] for x in long.chart(long.interval())["layer"]][1] == "line"
    grid = release.publish(np.ones((9, 9)), W.kron(W.identity(9), W.identity(9)), epsilon=1)
    assert grid.chart()["layer"] == [{"mark": "rect"}]
    made = grid.synthesize(50)
    assert made.shape == (50, 2)
    assert made.max() < 9
    assert "TEST NOISE" not in repr(table)
    with deterministic(1):
        assert "TEST NOISE" in repr(release.publish(np.arange(8), W.prefix(8), epsilon=1))


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({}, "one price"),
        ({"epsilon": 1, "rho": 1}, "one price"),
        ({"epsilon": 0}, "positive"),
        ({"epsilon": 1, "method": "magic"}, "no method"),
        ({"epsilon": 1, "method": "hb", "colour": 1}, "options"),
        ({"epsilon": 1, "colour": 1}, "options belong"),
        ({"epsilon": 1, "neighbours": "cousins"}, "neighbours"),
        ({"epsilon": 1, "method": "marginals"}, "marginal tables"),
        ({"epsilon": 1, "method": "matrix", "strategy": [[1] * 8]}, "rank-deficient"),
        ({"epsilon": 1, "method": "matrix", "strategy": [[1] * 7]}, "one column"),
    ],
)
def test_refusals(kwargs, words):
    with pytest.raises(ParameterError, match=words):
        release.plan(W.prefix(8), **kwargs)


def test_a_mechanism_that_asks_too_much_is_stopped_before_it_is_answered():
    workload, price = W.prefix(8), release.Price.read(epsilon=1)
    once = release.plan(workload, epsilon=1, method="identity").mechanism.measurement

    def greedy():
        yield once
        yield once

    answered = []
    with pytest.raises(PrivacyError, match="more than its price"):
        release.conduct(greedy(), price, lambda q: answered.append(q) or np.zeros(8))
    assert len(answered) == 1


# -- marginals ---------------------------------------------------------------------------

ADULT = (85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2)


def test_optimal_gaussian_marginals_match_the_published_optima():
    figures = {1: 3.0468, 2: 6.3587, 3: 10.5153, 4: 14.6558, 5: 17.8436, (0, 1, 2, 3): 10.6650}
    for ways, figure in figures.items():
        found = rmse(W.marginals(ADULT, ways), "marginals", rho="0.5")
        assert found == pytest.approx(figure, abs=6e-5)
    cps = (100, 50, 7, 4, 2)
    figures = {1: 1.7439, 2: 2.0346, 3: 2.0477, 4: 1.6269, 5: 1.0, (0, 1, 2, 3): 2.2759}
    for ways, figure in figures.items():
        found = rmse(W.marginals(cps, ways), "marginals", rho="0.5")
        assert found == pytest.approx(figure, abs=6e-5)
    loans = (101, 101, 101, 101, 3, 8, 36, 6, 51, 4, 5, 15)
    figures = {1: 2.8753, 2: 5.6343, 3: 8.7019, 4: 11.2670, 5: 12.6783, (0, 1, 2, 3): 8.8756}
    for ways, figure in figures.items():
        found = rmse(W.marginals(loans, ways), "marginals", rho="0.5")
        assert found == pytest.approx(figure, abs=6e-5)


def test_a_hundred_attributes_are_planned():
    for d, figure in ((20, 26.92), (50, 107.26), (100, 303.22)):
        found = rmse(W.marginals((10,) * d, (0, 1, 2, 3)), "marginals", rho="0.5")
        assert found == pytest.approx(figure, abs=0.006)


def test_marginals_spend_the_whole_price_and_no_more():
    for relation in ("add-remove", "change-one"):
        plan = release.plan(W.marginals((2, 3, 4), (1, 2)), rho="0.5", neighbours=relation)
        spent = sum(q.spends(plan.price) for q in plan.mechanism._questions())
        assert 0.499 < spent <= plan.price.total


def test_tables_agree_with_each_other():
    rng = np.random.default_rng(0)
    people = release.Records(rng.integers(0, (3, 4, 2), (500, 3)), (3, 4, 2))
    for price in ({"rho": "0.1"}, {"epsilon": 1}):
        tables = release.publish(people, W.marginals((3, 4, 2), (1, 2)), method="marginals",
                                 **price).estimate  # fmt: skip
        assert np.allclose(tables[0, 1].sum(axis=1), tables[0,])
        assert np.allclose(tables[0, 2].sum(axis=1), tables[0,])


def test_laplace_marginals_are_at_least_as_good_as_equal_shares():
    sizes = (5, 4, 3)
    workload = W.marginals(sizes, (1, 2))
    tables = 6
    variance = release.Price.read(epsilon=1).law(tables, 1).variance
    assert rmse(workload, "marginals", epsilon=1) < math.sqrt(variance)
    assert rmse(workload, "marginals", epsilon=1) <= rmse(workload, "identity", epsilon=1) * 1.001


def test_a_plan_tells_time_and_memory_before_anything_happens():
    plan = release.plan(W.prefix(1 << 20), epsilon=1, method="hb")
    assert 0.1 < plan.seconds < 10
    assert 1e7 < plan.memory < 1e9
    assert "needs     about" in repr(plan)
    assert release.plan(W.prefix(16), epsilon=1, method="mwem").seconds is None


@pytest.mark.races
def test_bars_show_on_terminals_after_a_second_and_only_there(monkeypatch):
    from discreet.release import _progress

    drawn = []
    monkeypatch.setattr(_progress.Bar, "show", lambda self: drawn.append(self._what))
    monkeypatch.setattr(_progress, "_PATIENCE", 0.0)

    def work():
        with _progress.progress("outer") as bar:
            bar.step("one")
            with _progress.progress("inner"):
                time.sleep(0.2)

    monkeypatch.setattr("sys.stderr.isatty", lambda: False)
    work()
    assert drawn == []
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    work()
    assert len(drawn) == 1
    assert drawn[0] in ("outer", "one")


@pytest.mark.races
def test_a_bar_draws_what_is_being_done(capsys, monkeypatch):
    from discreet.release import _progress

    monkeypatch.setenv("FORCE_COLOR", "1")
    bar = _progress.Bar("counting", 2)
    bar.show()
    bar.step("tables")
    bar.close()
    assert "tables" in capsys.readouterr().err


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize(
    "workload",
    [W.prefix(64), W.identity(20), W.marginals([3, 4, 2], 2)],
    ids=lambda w: w.describe(),
)
def test_a_delta_never_makes_the_error_greater(workload, rows):
    """At ε = 1 Laplace noise is the smaller; many rows in one table favour neither a priori."""
    pure = release.plan(workload, epsilon=1, rows=rows)
    both = release.plan(workload, epsilon=1, delta="1e-6", rows=rows)
    gaussian = release.plan(workload, epsilon=1, delta="1e-6", rows=rows, noise="gaussian")
    assert both.rmse == min(pure.rmse, gaussian.rmse)
    assert both.loss.delta(1) <= 1e-6
    assert release.plan(workload, epsilon=1, delta="1e-6", noise="laplace").price.pure


def test_gaussian_noise_is_taken_where_it_is_the_smaller():
    """A record is in 190 overlapping tables: its L2 norm is far below its L1 norm."""
    workload = W.marginals([2] * 20, 2)
    found = release.plan(workload, epsilon=1, delta="1e-6")
    assert not found.price.pure
    assert found.rmse < release.plan(workload, epsilon=1).rmse
    many = release.plan(W.marginals([2] * 60, 2), epsilon=1, delta="1e-6")
    assert many.candidates.keys() == {"marginals"}  # too many for Laplace noise: not tried


@pytest.mark.parametrize(
    ("price", "noise"),
    [({"epsilon": 1}, "gaussian"), ({"rho": 1}, "laplace"), ({"epsilon": 1}, "uniform")],
)
def test_noise_that_the_price_does_not_buy_is_refused(price, noise):
    with pytest.raises(ParameterError):
        release.plan(W.prefix(4), noise=noise, **price)
