"""Older methods: each does what it says, and fails where it is known to fail."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import discreet
from discreet import lab, meaning
from discreet import privacy as p
from discreet.audit import clopper_pearson
from discreet.errors import ParameterError
from discreet.lab._compare import Comparison
from discreet.lab._tabular import secondary

TOWN = lab.town()
SHARED = next(
    (
        folder / "shared" / "data"
        for folder in Path(__file__).resolve().parents
        if (folder / "shared" / "data").is_dir()
    ),
    None,
)


def rng(seed=1):
    return np.random.default_rng(seed)


# -- tables --------------------------------------------------------------------------


def test_the_town_is_the_same_for_everybody():
    again = lab.town()
    assert (again.codes == TOWN.codes).all()
    assert len(TOWN) == 400
    assert 0.2 < TOWN.secrets.mean() < 0.35
    assert not (lab.town(seed=5).codes == TOWN.codes).all()
    assert all(TOWN.counts(names).sum() == 400 for names in TOWN.tables)


def test_tables_come_from_many_forms():
    rows = TOWN.to_dicts()
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    options = {"quasi": ["age", "sex"], "secret": "ill", "number": "income"}
    made = [lab.table(data, **options) for data in (rows, columns, pa.table(columns))]
    pd = pytest.importorskip("pandas")
    made.append(lab.table(pd.DataFrame(columns), **options))
    for each in made:
        assert (each.secrets == TOWN.secrets).all()
        assert each.counts(("sex", "ill")).sum() == 400
    assert made[0].tables == (("ill",), ("age", "sex", "ill"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"quasi": ["nobody"]}, "no column nobody"),
        ({"quasi": []}, "to know people by"),
        ({"secret": "pay"}, "0 and 1"),
        ({"domain": {"sex": ["F"]}}, "outside its domain"),
    ],
)
def test_tables_that_cannot_be_used_are_refused(options, words):
    data = {"sex": ["F", "M"], "ill": [0, 1], "pay": [10, 20]}
    given = {"quasi": ["sex"], "secret": "ill", "number": "pay"} | options
    with pytest.raises(ParameterError, match=words):
        lab.table(data, **given)


# -- methods -------------------------------------------------------------------------


def test_swapping_keeps_totals_and_moves_about_as_many_as_it_says():
    release = lab.swap(TOWN, 0.2, generator=rng())
    moved = (release.records.low[:, 0] != TOWN.codes[:, 0]).sum()
    assert 60 <= moved <= 80
    assert (release.counts["ill",] == TOWN.counts(("ill",))).all()
    assert (release.records.low[:, 1:] == TOWN.codes[:, 1:]).all()
    # associations suffer: counts by block change although block totals do not
    assert not (release.counts["block", "age", "ill"] == TOWN.counts(("block", "age", "ill"))).all()
    assert (release.cells(TOWN, ("block",)) == TOWN.counts(("block",))).all()


def test_top_coding_biases_the_mean_and_protects_nothing_else():
    release = lab.top_code(TOWN, 0.05)
    assert release.average < TOWN.numbers.mean() * 0.99
    assert (release.records.secrets == TOWN.secrets).all()
    assert (release.records.numbers <= np.quantile(TOWN.numbers, 0.95)).all()


def test_suppression_leaves_no_line_with_one_blank():
    release = lab.suppress_cells(TOWN, 3)
    for names in TOWN.tables[1:]:
        cells = release.counts[names]
        blank = np.isnan(cells).reshape(len(cells), -1)
        truth = TOWN.counts(names).reshape(len(cells), -1)
        assert blank[(truth > 0) & (truth < 3)].all()
        for axis in (0, 1):
            assert not (blank.sum(axis=axis) == 1).any()
        assert (cells[~np.isnan(cells)] == TOWN.counts(names)[~np.isnan(cells)]).all()


def test_without_secondary_suppression_totals_give_small_cells_away():
    cells = TOWN.counts(("block", "sex", "group"))
    matrix = cells.reshape(len(cells), -1)
    small = (matrix > 0) & (matrix < 3)

    def told(blank):
        low, high = lab.cell_bounds(
            np.where(blank, np.nan, matrix), matrix.sum(axis=1), matrix.sum(axis=0)
        )
        assert (low[blank] <= matrix[blank] + 1e-6).all()
        assert (matrix[blank] <= high[blank] + 1e-6).all()
        return (high - low < 1e-6)[small].mean()

    hidden = secondary(small, matrix)
    alone = np.zeros_like(small)
    i, j = np.argwhere(small)[0]
    alone[i, j] = True
    assert (
        lab.cell_bounds(np.where(alone, np.nan, matrix), matrix.sum(axis=1), matrix.sum(axis=0))[0][
            i, j
        ]
        == matrix[i, j]
    )
    assert told(hidden) < 0.2
    # and bounds remain narrow: suppression promises no margin
    low, high = lab.cell_bounds(
        np.where(hidden, np.nan, matrix), matrix.sum(axis=1), matrix.sum(axis=0)
    )
    assert np.median((high - low)[small]) <= 10


def test_totals_that_contradict_cells_are_refused():
    with pytest.raises(ParameterError, match="contradict"):
        lab.cell_bounds(np.array([[np.nan, 1.0]]), np.array([0.0]), np.array([5.0, 1.0]))


def test_controlled_adjustment_keeps_totals_and_moves_small_cells():
    release = lab.controlled_adjustment(TOWN, 3)
    for names in TOWN.tables[1:]:
        cells, truth = release.counts[names], TOWN.counts(names)
        assert (cells >= 0).all()
        assert (cells == np.rint(cells)).all()
        flat, true = cells.reshape(len(cells), -1), truth.reshape(len(cells), -1)
        for axis in (0, 1):
            assert (flat.sum(axis=axis) == true.sum(axis=axis)).all()
        small = (true > 0) & (true < 3)
        assert np.isin(flat[small], (0, 3)).mean() > 0.6


@pytest.mark.parametrize("seed", range(6))
def test_tables_of_other_towns_are_protected_alike(seed):
    # made-up towns of several sizes: the invariants of both methods, not one lucky table
    town = lab.town(60 + 90 * seed, 2 + seed, seed=seed)
    blank, moved = lab.suppress_cells(town, 4), lab.controlled_adjustment(town, 4)
    for names in town.tables[1:]:
        truth = town.counts(names).reshape(town.size(names[0]), -1)
        hidden = np.isnan(blank.counts[names]).reshape(truth.shape)
        assert hidden[(truth > 0) & (truth < 4)].all()
        for axis in (0, 1):
            lonely = hidden.sum(axis=axis) == 1
            assert not lonely.any() or truth.shape[axis] == 1
            assert (moved.counts[names].reshape(truth.shape).sum(axis=axis)
                    == truth.sum(axis=axis)).all()  # fmt: skip


def test_ad_hoc_noise_has_the_spread_it_says_in_both_kinds():
    for kind in ("normal", "uniform"):
        wide = lab.town(20_000)
        release = lab.ad_hoc_noise(wide, 2, kind, generator=rng())
        errors = np.concatenate(
            [(release.counts[n] - wide.counts(n)).ravel() for n in wide.tables[1:]]
        )
        assert errors.std() == pytest.approx(2, rel=0.12)


def test_multiplicative_factors_keep_their_distance_from_one():
    single = lab.table(
        {"who": range(300), "ill": [0] * 150 + [1] * 150, "pay": [1000.0] * 300},
        quasi=["who"], secret="ill", number="pay",
    )  # fmt: skip
    release = lab.multiplicative_noise(single, 0.07, 0.13, generator=rng())
    # each person alone is rounded back to one: counts of one person are not protected
    assert lab.multiplicative_noise(single, generator=rng()).cells(single, ("ill",)) is not None
    assert 130 < release.counts["ill",][1] < 170
    with pytest.raises(ParameterError):
        lab.multiplicative_noise(single, 0.2, 0.1)


@pytest.mark.parametrize(("k", "diversity"), [(2, 1), (5, 1), (5, 2), (20, 2)])
def test_every_record_is_one_of_k(k, diversity):
    records = lab.k_anonymity(TOWN, k, diversity).records
    kinds: dict[bytes, list[int]] = {}
    for i in range(len(TOWN)):
        kinds.setdefault(records.low[i].tobytes() + records.high[i].tobytes(), []).append(i)
    for group in kinds.values():
        assert len(group) >= k
        assert len(set(TOWN.secrets[group])) >= diversity
    assert ((records.low <= TOWN.codes) & (TOWN.codes <= records.high)).all()


def test_k_anonymity_falls_to_homogeneity_and_to_a_second_release():
    release = lab.k_anonymity(TOWN, 5)
    sure = [len(set(release.records.secrets[release.records.matching(row)])) == 1
            for row in TOWN.codes]  # fmt: skip
    assert np.mean(sure) > 0.05  # groups in which all share the secret give it away
    # two releases with other groups: the candidates in both are fewer than k
    turned = lab.table(
        TOWN.to_dicts(), quasi=["group", "sex", "age", "block"], secret="ill", number="income"
    )
    other = lab.k_anonymity(turned, 5)
    both = [
        len(set(release.records.matching(a)) & set(other.records.matching(b)))
        for a, b in zip(TOWN.codes, turned.codes, strict=True)
    ]
    assert np.mean(np.array(both) < 5) > 0.2


def test_k_anonymity_counts_add_up():
    release = lab.k_anonymity(TOWN, 5)
    for names in TOWN.tables:
        assert release.counts[names].sum() == pytest.approx(400)
    assert (release.counts["ill",] == TOWN.counts(("ill",))).all()


def test_synthetic_people_resemble_and_are_not_the_people():
    part = lab.partially_synthetic(TOWN, generator=rng())
    assert (part.records.low == TOWN.codes).all()
    assert 0.5 < (part.records.secrets == TOWN.secrets).mean() < 0.9
    full = lab.fully_synthetic(TOWN, 2000, generator=rng())
    assert len(full.records) == 2000
    shares = full.counts["block", "sex", "ill"].sum(axis=(1, 2)) / 2000
    assert np.abs(shares - TOWN.counts(("block",)) / 400).max() < 0.05
    with pytest.raises(ParameterError):
        lab.fully_synthetic(TOWN, 0)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: lab.swap(TOWN, 2),
        lambda: lab.top_code(TOWN, -1),
        lambda: lab.suppress_cells(TOWN, 0),
        lambda: lab.k_anonymity(TOWN, 0),
        lambda: lab.k_anonymity(TOWN, 500),
        lambda: lab.ad_hoc_noise(TOWN, -1),
        lambda: lab.compare(TOWN, trials=3),
        lambda: lab.compare(TOWN, attacks=[]),
    ],
)
def test_parameters_that_mean_nothing_are_refused(bad):
    with pytest.raises(ParameterError):
        bad()


def test_private_release_covers_and_costs_what_it_says():
    # 600 cells, 95 % intervals: fewer than 87 % covered with probability below 1e-9
    release = lab.private(TOWN, 1)
    assert release.loss.epsilon() == 1
    assert release.loss.neighbours == p.Neighbours.CHANGE_ONE
    inside = np.concatenate(
        [
            (np.abs(release.counts[n] - TOWN.counts(n)) <= release.margins[n]).ravel()
            for n in TOWN.tables
        ]
    )
    assert len(inside) > 600
    assert inside.mean() > 0.87


# -- compare -------------------------------------------------------------------------


def test_the_same_attackers_on_older_methods():
    attacks = [lab.DIFFERENCING, lab.AVERAGING, lab.LINKAGE, lab.RECONSTRUCTION]
    methods = [lab.as_it_is, lab.ad_hoc_noise, lab.suppress_cells]
    raw, noisy, blank = lab.compare(TOWN, attacks, methods, trials=100).rows
    assert raw["differencing"] == raw["averaging"] == 1
    assert raw["linkage"] > 0.7
    assert raw["reconstruction"] > 0.52
    # fresh noise of a guessed size: asked 25 times it is gone (failure below 1e-9)
    assert noisy["differencing"] < noisy["averaging"]
    assert noisy["averaging"] > 0.85
    assert blank["differencing"] == 1
    assert blank["missing"] > 0.2
    for row in (raw, noisy, blank):
        assert row["bound"] is None
        assert not row["interval"]


def test_attacks_on_private_releases_stay_below_what_meaning_says():
    # six attacks, two ε, 200 independent trials each: false alarm below 1e-10 per comparison (sums
    # of unequal chances exceed their mean no oftener than binomial ones: Hoeffding 1956)
    small = lab.town(120, 3)
    # (all 200 right would be caught: their lower bound is 0.89)
    methods = [partial(lab.private, epsilon=e) for e in ("0.5", "1.5")]
    for row in lab.compare(small, methods=methods, trials=200).rows:
        assert row["bound"] < 0.85
        for attack in lab.ATTACKS:
            if row[attack.name] is not None:
                hits = int(row[attack.name] * 200)
                assert clopper_pearson(hits, 200, 1e-10)[0] <= row["bound"], attack.name
        assert row["covered"] > 0.78


def test_a_release_that_claims_too_little_is_caught_by_the_same_comparison():
    from dataclasses import replace

    def mutant(table):
        honest = lab.private(table, 60)
        return replace(honest, loss=p.Pure("0.5").under(p.Neighbours.CHANGE_ONE))

    row = lab.compare(lab.town(120, 3), [lab.DIFFERENCING], [mutant], trials=400).rows[0]
    assert row["bound"] == pytest.approx(meaning.attacker("0.5").accuracy())
    assert clopper_pearson(int(row["differencing"] * 400), 400, 1e-10)[0] > row["bound"]


def test_private_answers_are_stored_so_that_averaging_gains_nothing():
    row = lab.compare(
        lab.town(120, 3), [lab.DIFFERENCING, lab.AVERAGING], [partial(lab.private, epsilon=1)],
        trials=100,
    ).rows[0]  # fmt: skip
    assert row["averaging"] == row["differencing"]


def test_frames_charts_and_text():
    result = lab.compare(
        lab.town(120, 3), [lab.DIFFERENCING, lab.LINKAGE], [lab.as_it_is, lab.private], trials=20
    )
    assert [row["method"] for row in result.to_dicts()] == [
        "names removed", "differential privacy, ε = 1",
    ]  # fmt: skip
    assert result.to_arrow().num_rows == 2
    assert list(pytest.importorskip("pandas").DataFrame(result.to_pandas())["method"])
    chart = result.chart()
    json.dumps(chart, allow_nan=False)
    marks = [layer["mark"]["type"] for layer in chart["layer"]]
    assert marks == ["point", "tick", "rule"]
    assert len(chart["layer"][0]["data"]["values"]) == 3  # no records, no linkage
    text = repr(result)
    assert "± 22 % at 95 %" in text
    assert "holds" in text
    assert "<td>names removed</td>" in result._repr_html_()
    renderer = pytest.importorskip("vl_convert")
    assert renderer.vegalite_to_svg(chart).startswith("<svg")


@pytest.mark.parametrize(("success", "lowest"), [(0.17, 0.1), (0.0, 0.0), (0.31, 0.3), (1.0, 0.3)])
def test_a_chart_holds_all_of_its_points_and_can_be_saved(tmp_path, success, lowest):
    rows = [
        {"method": "m", "guess": success, "bound": 0.6},
        {"method": "o", "guess": None, "bound": None},
    ]
    chart = Comparison(tuple(rows), ("guess",), 20).chart()
    for layer in chart["layer"]:
        assert layer["encoding"]["x"]["scale"]["domain"] == [lowest, 1]
    chart.save(tmp_path / "compare.json")
    assert json.loads((tmp_path / "compare.json").read_text("utf-8")) == chart
    assert "How often" in chart._repr_mimebundle_()["text/plain"]


def test_every_attack_and_method_is_documented():
    text = (Path(discreet.__file__).parents[2] / "docs" / "lab.md").read_text("utf-8")
    functions = [name for name in lab.__all__ if name.islower()]
    assert [
        name for name in functions if f"`{name}" not in text and f"lab.{name}" not in text
    ] == []


@pytest.mark.skipif(SHARED is None, reason="the shared data are not on this machine")
def test_real_people_are_linked_too():
    lines = (SHARED / "tabular" / "PUMS_1000.csv").read_text("utf-8").split()
    names = lines[0].split(",")
    rows = [dict(zip(names, map(float, line.split(",")), strict=True)) for line in lines[1:]]
    people = lab.table(
        rows, quasi=["age", "sex", "educ", "race"], secret="married", number="income",
        tables=[("married",), ("age", "sex", "married"), ("educ", "race", "married")],
    )  # fmt: skip
    raw, coarse, private = lab.compare(
        people, [lab.DIFFERENCING, lab.LINKAGE],
        [lab.as_it_is, lab.k_anonymity, partial(lab.private, epsilon=1)], trials=100,
    ).rows  # fmt: skip
    assert raw["linkage"] > 0.85
    assert coarse["linkage"] < raw["linkage"]
    assert coarse["differencing"] == 1
    assert private["linkage"] is None
