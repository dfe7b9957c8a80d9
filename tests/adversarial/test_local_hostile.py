"""Hostile clients, hostile bytes, curious servers: what they can do is what is documented.

Fuzzing is derandomised. Each statistical assertion allows 8 standard deviations
(1.3e-15 each).
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import struct
import sys
import threading
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discreet
from discreet import local
from discreet.errors import BudgetExceededError, DiscreetError, ParameterError

# -- fake clients ----------------------------------------------------------------------


def poisoned(protocol, fake, *, honest=99_000, fakes=1000):
    """Estimates of item 0 from honest people who never hold it, with and without fakes."""
    values = 1 + np.arange(honest) % (protocol.domain - 1)
    clean = protocol.aggregator().update(protocol.randomize(values))
    before = clean.estimate()
    after = clean.update(local.Reports(protocol, fake(fakes))).estimate()
    return before, after


def ones(width):
    return lambda n: (np.full((n, width), 255, dtype=np.uint8),)


@pytest.mark.parametrize(
    ("protocol", "fake"),
    [
        (local.KaryResponse(8, 1), lambda n: (np.zeros(n, dtype=np.uint8),)),
        (local.OptimizedUnary(8, 1), ones(1)),
        (local.SymmetricUnary(8, 1), ones(1)),
        (local.HadamardResponse(8, 1, blocks=1), lambda n: (np.zeros(n, dtype=np.uint8),)),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_one_percent_of_fakes_moves_a_share_by_its_gain(protocol, fake):
    before, after = poisoned(protocol, fake)
    shift = after.frequencies[0] - 0.99 * before.frequencies[0]
    # the fakes' part is exact: β·(1−q)/(p−q), or β/κ
    assert shift == pytest.approx(0.01 * protocol.gain, rel=1e-9)


def test_optimised_unary_at_one_percent_as_simulated_elsewhere():
    """β = .01, f = .1, ε = 1: the share moves by .0306."""
    protocol = local.OptimizedUnary(8, 1)
    assert 0.01 * (protocol.gain - 0.1) == pytest.approx(0.0306, abs=5e-5)


def test_some_fakes_promote_every_item_and_show_in_the_sum():
    before, after = poisoned(local.OptimizedUnary(8, 1), ones(1), fakes=3000)
    assert (after.frequencies - before.frequencies > 0.05).all()
    assert before.suspicions() == []
    assert "sum to" in after.suspicions()[0]


def test_a_kary_fake_promotes_one_item_only():
    _, after = poisoned(local.KaryResponse(8, 1), lambda n: (np.zeros(n, dtype=np.uint8),))
    assert after.frequencies.sum() == pytest.approx(1)


# -- hostile bytes ---------------------------------------------------------------------

PROTOCOLS = [
    local.KaryResponse(10, 1),
    local.OptimizedUnary(11, 1),
    local.LocalHashing(20, 1),
    local.SubsetSelection(10, 1),
    local.Rappor(bits=20, cohorts=5),
    local.LocalMean(1),
    local.HeavyHitters(16, 1, seeds=8),
]
FUZZ = settings(max_examples=150, derandomize=True, deadline=None)


@FUZZ
@given(st.sampled_from(PROTOCOLS), st.binary(max_size=200))
def test_no_bytes_can_break_an_aggregator(protocol, raw):
    aggregator = protocol.aggregator().update(raw)
    # eight bytes of identifier and four of checksum: random bytes never count
    assert aggregator.n == 0
    assert bool(raw) == bool(aggregator.refused)


@FUZZ
@given(st.sampled_from(PROTOCOLS), st.integers(0, 10**6), st.integers(1, 255))
def test_no_damaged_frame_counts(protocol, place, change):
    raw = bytearray(protocol.randomize([1, 1, 0]).to_bytes())
    raw[place % len(raw)] ^= change
    assert protocol.aggregator().update(bytes(raw)).n == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@FUZZ
@given(st.sampled_from(PROTOCOLS), JSON)
def test_no_json_can_break_an_aggregator(protocol, payload):
    name = protocol.spec_id.hex()
    lines = [
        json.dumps(payload),
        json.dumps({"d": 1, "s": name, "r": payload}),
        json.dumps({"d": payload, "s": name, "r": []}),
        json.dumps({"d": 1, "s": payload, "r": []}),
        json.dumps({"d": 1, "s": name, "r": [payload] * len(protocol.fields)}),
    ]
    aggregator = protocol.aggregator().update(lines)
    assert aggregator.n + sum(aggregator.refused.values()) == 5
    assert aggregator.n <= 1


@FUZZ
@given(JSON)
def test_no_spec_or_state_can_break_the_reader(payload):
    for read in (local.protocol_from_spec, local.Aggregator.from_dict):
        for document in (payload, {"spec": payload, "n": 1, "state": payload, "refused": {}}):
            with pytest.raises(DiscreetError):
                read(document)


def stretched(protocol, claimed, held=12_345):
    """Return an Arrow stream that claims more reports than it holds."""
    table = local.Reports(protocol, (np.full(held, 7, np.uint8),)).to_arrow()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    raw = bytearray(sink.getvalue().to_pybytes())
    length = struct.pack("<q", held)
    places = [i for i in range(len(raw)) if raw[i : i + 8] == length]
    for place in (places[0], places[-1]):
        raw[place : place + 8] = struct.pack("<q", claimed)
    return bytes(raw)


@pytest.mark.parametrize("claimed", [20_000, 2_000_000, 1 << 40])
def test_arrow_lengths_that_the_file_does_not_have_are_never_read(tmp_path, claimed):
    """What lies behind the buffer is the server's own memory."""
    protocol = local.KaryResponse(255, 1)
    path = tmp_path / "r.arrow"
    path.write_bytes(stretched(protocol, 12_345))
    assert protocol.aggregator().update(path).n == 12_345
    path.write_bytes(stretched(protocol, claimed))
    for source in (path, [path]):
        aggregator = protocol.aggregator().update(source)
        assert (aggregator.n, aggregator.refused) == (0, {"format": 1})


def test_arrow_tables_with_short_buffers_are_never_read():
    protocol = local.KaryResponse(255, 1)
    raw = stretched(protocol, 2_000_000)
    table = pa.ipc.open_stream(raw).read_all()
    for source in (table, table.to_batches()[0], [table], pa.ipc.open_stream(raw)):
        aggregator = protocol.aggregator().update(source)
        assert (aggregator.n, aggregator.refused) == (0, {"format": 1})


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
@pytest.mark.parametrize("raw", [b"", b"junk", b"PAR1junkPAR1", b"\xff\xff\xff\xff" * 9])
def test_files_that_arrow_cannot_read_are_one_malformed_report(tmp_path, suffix, raw):
    protocol = local.KaryResponse(10, 1)
    path = tmp_path / f"r{suffix}"
    path.write_bytes(raw)
    good = protocol.randomize(1)
    aggregator = protocol.aggregator().update([good, path, good])
    assert (aggregator.n, aggregator.refused) == (2, {"format": 1})
    with pytest.raises(FileNotFoundError):
        protocol.aggregator().update(tmp_path / f"missing{suffix}")


def test_a_row_with_a_missing_value_is_one_refused_report(tmp_path):
    protocol = local.LocalHashing(10, 1)
    table = protocol.randomize(np.arange(70_000) % 10).to_arrow()
    holes = pa.array([None, *table.column(1).to_pylist()[1:-1], None], table.schema.types[1])
    schema = pa.schema([f.with_nullable(True) for f in table.schema], table.schema.metadata)
    bad = pa.Table.from_arrays([table.column(0), holes], schema=schema)
    path = tmp_path / "r.parquet"
    pq.write_table(bad, path)
    for source in (bad, path):
        aggregator = protocol.aggregator().update(source)
        assert (aggregator.n, aggregator.refused) == (69_998, {"format": 2})


def test_a_bad_frame_takes_nothing_from_other_senders():
    """A joined body is one sender's; an iterable of frames judges each by itself."""
    protocol = local.KaryResponse(4, 1)
    frames = [protocol.randomize(1).to_bytes() for _ in range(100)]
    frames[3] = b"\xd1\x01evil####"
    each = protocol.aggregator().update(frames)
    assert (each.n, each.refused) == (99, {"foreign": 1})
    joined = protocol.aggregator().update(b"".join(frames))
    assert joined.n == 3
    assert joined.refused["foreign"] == 1


def test_a_foreign_frame_is_counted_by_what_it_can_hold():
    protocol = local.KaryResponse(4, 1)
    head = struct.pack("<BB8sI", 0xD2, 1, b"evil####", 2**32 - 1)
    assert protocol.aggregator().update(head).refused == {"foreign": 1}
    assert protocol.aggregator().update(head + b"\0" * 24).refused == {"foreign": 20}


def test_nested_lists_are_refused_before_the_stack_ends():
    protocol = local.KaryResponse(4, 1)
    nested = json.loads("[" * 900 + "]" * 900)
    aggregator = protocol.aggregator().update(
        [protocol.randomize(1), nested, protocol.randomize(2)]
    )
    assert (aggregator.n, aggregator.refused) == (2, {"format": 1})


def test_a_spec_cannot_ask_for_all_memory():
    for spec in (
        {"v": 1, "protocol": "kary", "domain": 2**31, "epsilon": "1"},
        local.Rappor().spec | {"bits": 65536, "cohorts": 65536},
    ):
        protocol = local.protocol_from_spec(spec)
        with pytest.raises(ParameterError, match="integers"):
            protocol.aggregator()
    with pytest.raises(ParameterError):
        local.protocol_from_spec({"v": 1, "protocol": "kary", "domain": 10**40, "epsilon": "1"})


# -- what reports and refusals say -----------------------------------------------------


def test_refusals_and_representations_never_name_a_value():
    secret = 987_654
    for protocol in (local.KaryResponse(10, 1), local.LocalHashing(10, 1), local.Hierarchy(10, 1)):
        with pytest.raises(ParameterError) as refusal:
            protocol.randomize([1, secret])
        assert str(secret) not in str(refusal.value)
        assert str(secret) not in repr(protocol.randomize(1))
    for bad in ({"secret-key": 1.0}, {3: "secret-value"}):
        with pytest.raises(ParameterError) as refusal:
            local.KeyValue(10, 1).randomize(bad)
        assert "secret" not in str(refusal.value)
    with pytest.raises(ParameterError) as refusal:
        local.LocalMean(1).randomize(["secret"])
    assert "secret" not in str(refusal.value)


def carried(error):
    """All that an error and the errors behind it say and hold."""
    while error is not None:
        yield f"{error} {error.args!r} {vars(error)!r} {getattr(error, 'object', '')!r}"
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize(
    ("protocol", "value"),
    [
        (local.LocalVector(2, 1), ["secret", "1"]),
        (local.LocalVector(2, 1), [[1, 2], ["secret"]]),
        (local.LocalVector(2, 1), [None, "secret"]),
        (local.LocalMean(1), "secret"),
        (local.LocalMean(1), [10**400, "secret"]),
        (local.LocalMean(1), [10**400, ["secret"]]),
        (local.KeyValue(3, 1), {0: "secret"}),
        (local.KeyValue(3, 1), {0: 10**400, 1: "secret"}),
        (local.KaryResponse(4, 1), ["secret"]),
        (local.KaryResponse(4, 1), [[1], ["secret", 2]]),
        (local.Rappor(), [["secret"], ["secret", "b"]]),
        (local.HeavyHitters(16, 1), ["secret \ud800"]),
        (local.HeavyHitters(16, 1), [["secret"], ["secret", "b"]]),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_no_error_says_or_carries_a_value(protocol, value):
    with pytest.raises(ParameterError) as refusal:
        protocol.randomize(value)
    assert not any("secret" in text or "0" * 20 in text for text in carried(refusal.value))


def test_every_text_and_every_number_can_be_randomised():
    """Refusing some would tell them apart; numbers beyond doubles lie beyond the range, too."""
    for protocol in (local.Rappor(), local.CountMeanSketch(1)):
        assert len(protocol.randomize("lone \ud800")) == 1
        assert len(protocol.randomize(["fine", "lone \ud800"])) == 2
    assert len(local.HeavyHitters(40, 1).randomize("a\ud800")) == 1
    mean = local.LocalMean(1)
    ends = [mean.parse(v)[0].tolist() for v in (10**300, 10**400, float("inf"), [10**400])]
    assert ends == [[1 << 32]] * 4
    assert mean.parse([-(10**400), 0.0, 10**400])[0].tolist() == [0, 1 << 31, 1 << 32]
    assert len(local.LocalVector(2, 1).randomize([10**400, 1])) == 1
    assert len(local.KeyValue(3, 1).randomize({0: 10**400})) == 1
    with pytest.raises(ParameterError):
        mean.randomize([10**400, float("nan")])


def test_a_bad_pair_is_refused_whichever_is_drawn():
    protocol = local.KeyValue(3, 1, pairs=2)
    for bad in ({0: float("nan"), 1: 0.5}, {0: [0.5, 0.2], 1: 0.5}, [{1: 1}, {2: None}], None, 5):
        # before: half of the tries passed
        for _ in range(40):
            with pytest.raises(ParameterError):
                protocol.randomize(bad)


@pytest.mark.parametrize("kind", ["i1", "<i2", ">i2", "<i4", ">i8"])
def test_negative_numbers_are_no_items_in_any_width_or_byte_order(kind):
    bad = np.array([-1], dtype=kind)
    for protocol in (
        local.KaryResponse(300, 32),
        local.KaryResponse(70_000, 32),
        local.Hierarchy(4096, 1),
        local.HeavyHitters(40, 1),
        local.Rappor(),
    ):
        with pytest.raises(ParameterError):
            protocol.randomize(bad)


@pytest.mark.parametrize("kind", ["u1", "i1", "<u2", ">u2", ">i2", ">u4", ">i8", bool])
def test_items_are_the_same_in_any_width_and_byte_order(kind):
    """ε = 32: a lie has probability below 1e-10."""
    items = np.array([0, 1, 1, 0]) if kind is bool else np.array([0, 1, 5, 100])
    protocol = local.KaryResponse(1000, 32)
    assert np.asarray(protocol.randomize(items.astype(kind))).tolist() == items.tolist()
    rappor = local.Rappor()
    assert (rappor.parse(items.astype(kind))[0] == rappor.parse(items)[0]).all()


def test_masked_values_are_missing_values():
    masked = np.ma.array([1, 2], mask=[True, False])
    for protocol in (local.KaryResponse(4, 1), local.LocalMean(1), local.Rappor()):
        with pytest.raises(ParameterError):
            protocol.randomize(masked)
        assert len(protocol.randomize(np.ma.array([1, 2]))) == 2


def test_seeds_are_fresh_for_each_report():
    protocol = local.LocalHashing(10, 1)
    seeds = protocol.randomize(np.zeros(50_000, dtype=int)).columns[0]
    # 64-bit seeds: a repetition among 50 000 has probability 7e-11
    assert len(np.unique(seeds)) == 50_000


def test_the_permanent_bits_of_a_device_are_never_sent():
    rappor = local.Rappor(bits=256, cohorts=1)
    device = rappor.client()
    reports = [device.randomize("x").columns[1].tobytes() for _ in range(30)]
    # a report equals the memo with probability (¾)^256 at most
    assert next(iter(device.permanent.values())) not in reports
    assert len(set(reports)) == 30


def test_a_fresh_memo_each_time_would_lose_more_than_a_kept_one():
    """ε(m) saturates with a memo; without one, m reports cost m·ε₁."""
    rappor = local.Rappor()
    assert rappor.epsilon_after(10) < rappor.epsilon_permanent < 10 * rappor.epsilon_instant
    assert 10 * rappor.epsilon_instant == pytest.approx(10.7, abs=0.05)


def at_once(act, threads=8):
    """Call from several threads at the same time; return what came back without a refusal."""
    out, start = [], threading.Barrier(threads)

    def run():
        start.wait()
        with contextlib.suppress(BudgetExceededError):
            out.append(act())

    running = [threading.Thread(target=run) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return out


@pytest.mark.races
def test_threads_get_no_report_beyond_the_agreed_number(monkeypatch):
    plain = local.KaryResponse.randomize
    monkeypatch.setattr(
        local.KaryResponse,
        "randomize",
        lambda self, value: (time.sleep(0.01), plain(self, value))[-1],
    )
    client = local.KaryResponse(4, 1).client(max_reports=1)
    assert len(at_once(lambda: client.randomize(2))) == client.sent == 1


@pytest.mark.races
def test_threads_share_one_memo(monkeypatch):
    drawn = []
    plain = local.RapporClient._permanent
    monkeypatch.setattr(
        local.RapporClient,
        "_permanent",
        lambda self, words: (time.sleep(0.01), drawn.append(1), plain(self, words))[-1],
    )
    device = local.Rappor(bits=16, cohorts=1).client()
    assert len(at_once(lambda: device.randomize("v"))) == device.sent == 8
    assert len(drawn) == len(device.permanent) == 1


# -- memory ----------------------------------------------------------------------------


def peak_of(batches, protocol):
    """Peak of Python and NumPy memory while aggregating a stream."""
    values = np.arange(20_000) % 64
    tracemalloc.start()
    stream = (
        (batch.to_bytes() if i % 2 else batch)
        for i in range(batches)
        for batch in [protocol.randomize(values)]
    )
    aggregator = protocol.aggregator().update(stream)
    aggregator.update(r for _ in range(batches) for r in protocol.randomize(values[:1000]))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert aggregator.n == 21_000 * batches
    return peak


def test_memory_does_not_grow_with_the_reports():
    protocol = local.OptimizedUnary(64, 1)
    few, many = peak_of(10, protocol), peak_of(60, protocol)
    assert many < 1.5 * few


def test_parquet_is_read_piece_by_piece(tmp_path, monkeypatch):
    import pyarrow.parquet as pq

    from discreet.local import _aggregator

    protocol = local.OptimizedUnary(64, 1)
    path = tmp_path / "r.parquet"
    table = protocol.randomize(np.arange(300_000) % 64).to_arrow()
    pq.write_table(table, path)
    seen = []
    plain = _aggregator.Aggregator._count
    monkeypatch.setattr(
        _aggregator.Aggregator,
        "_count",
        lambda self, columns: (seen.append(len(columns[0])), plain(self, columns)),
    )
    aggregator = protocol.aggregator().update(path)
    assert aggregator.n == 300_000
    assert max(seen) <= 1 << 16


# -- the doors stay light --------------------------------------------------------------


@pytest.mark.races
def test_clients_load_neither_scipy_nor_arrow():
    import subprocess

    code = (
        "from discreet import local\n"
        "local.OptimizedUnary(8, 1).client().randomize(3).to_bytes()\n"
        "local.LocalMean(1).randomize(0.3).to_json()\n"
        "local.Rappor().client().randomize('x')\n"
        "import sys; print(*sys.modules)"
    )
    source = str(Path(discreet.__file__).parents[1])
    loaded = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": source},
    ).stdout.split()
    assert not {"scipy", "scipy.special", "pyarrow", "duckdb", "pandas"} & set(loaded)


def test_large_epsilon_is_nearly_the_truth_and_small_nearly_a_coin():
    near = local.KaryResponse(4, 30).randomize(np.full(1000, 2))
    assert (np.asarray(near) == 2).all()  # a lie has probability 4e-13
    far = np.asarray(local.KaryResponse(4, "0.0001").randomize(np.full(40_000, 2)))
    assert abs(np.mean(far == 2) - 0.25) < 8 * math.sqrt(0.25 * 0.75 / 40_000)


def test_rows_with_more_ones_than_honest_clients_send_are_refused():
    """With 64 items an all-ones row has probability below 1e-30; with 8 it may be honest."""
    wide, narrow = local.OptimizedUnary(64, 1), local.OptimizedUnary(8, 1)
    fakes = wide.aggregator().update(local.Reports(wide, ones(8)(100)))
    assert fakes.n == 0
    assert fakes.refused == {"range": 100}
    assert narrow.aggregator().update(local.Reports(narrow, ones(1)(100))).n == 100
    honest = wide.randomize(np.arange(200_000) % 64)
    assert wide.aggregator().update(honest).refused == {}


@pytest.mark.parametrize("domain", [16, 64, 1024])
@pytest.mark.parametrize("epsilon", ["0.5", "1", "4"])
def test_the_bound_on_ones_is_passed_by_one_honest_row_in_a_trillion_at_most(domain, epsilon):
    from scipy import stats

    from discreet.local._categorical import most_ones

    q = float(local.OptimizedUnary(domain, epsilon).q)
    bound = most_ones(domain, q)
    assert stats.binom.sf(bound - 1, domain - 1, q) < 1e-12
    # and it is not so loose as to be useless
    assert bound == domain or stats.binom.sf(bound - 5, domain - 1, q) > 1e-20


def test_a_crowded_symbol_is_suspicious():
    protocol = local.HadamardResponse(8, 1, blocks=1)
    _, after = poisoned(protocol, lambda n: (np.zeros(n, dtype=np.uint8),), fakes=3000)
    assert any("supports every item" in s for s in after.suspicions())
    everybody_alike = protocol.aggregator().update(protocol.randomize(np.zeros(50_000, dtype=int)))
    assert everybody_alike.estimate().suspicions() == []
