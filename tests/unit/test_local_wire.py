"""Reports on the wire: every form comes back the same, foreign and broken ones are refused."""

from __future__ import annotations

import json
import struct
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet import local
from discreet.errors import (
    BudgetExceededError,
    ForeignReportError,
    ParameterError,
    TaintedNoiseError,
)
from discreet.local import _bits, _wire
from discreet.noise._deterministic import deterministic

PROTOCOLS = [
    local.RandomizedResponse(p="0.5"),
    local.RandomizedResponse(epsilon=1),
    local.KaryResponse(domain=10, epsilon=1),
    local.KaryResponse(domain=1000, epsilon=1),
    local.SymmetricUnary(domain=11, epsilon=1),
    local.OptimizedUnary(domain=16, epsilon=1),
    local.LocalHashing(domain=100, epsilon=1),
    local.LocalHashing(domain=100, epsilon=1, buckets=2),
    local.LocalHashing(domain=100, epsilon=1, seeds=300),
    local.SubsetSelection(domain=10, epsilon=1),
    local.SubsetSelection(domain=70, epsilon=1),
    local.HadamardResponse(domain=10, epsilon=1),
    local.HadamardResponse(domain=300, epsilon=4),
    local.Rappor(bits=20, hashes=2, cohorts=5),
    local.CountMeanSketch(2, width=50, hashes=7),
    local.HadamardSketch(2, width=64, hashes=7),
    local.LocalMean(1, low=0, high=9),
    local.LocalVector(dimensions=9, epsilon=4),
    local.SquareWave(domain=10, epsilon=1),
    local.Hierarchy(domain=10, epsilon=1),
    local.HeavyHitters(bits=16, epsilon=1),
    local.KeyValue(domain=10, epsilon=1, pairs=2),
]


def values_of(protocol, n):
    if isinstance(protocol, local.LocalVector):
        return np.linspace(-1, 1, n * 9).reshape(n, 9)
    if isinstance(protocol, local.KeyValue):
        return [{i % 10: 0.5} for i in range(n)]
    return np.arange(n) % (2 if protocol.name == "randomized-response" else 10)


def one_value(protocol):
    if isinstance(protocol, local.LocalVector):
        return [0.5] * 9
    return {1: 0.5} if isinstance(protocol, local.KeyValue) else 1


def same_state(a, b):
    return a.n == b.n and (a.tally().state == b.tally().state).all() and a.refused == b.refused


def ids(protocol):
    return f"{protocol.name}-{protocol.spec_id.hex()[:4]}"


@pytest.fixture(params=PROTOCOLS, ids=ids)
def protocol(request):
    return request.param


# -- round trips -----------------------------------------------------------------------


def test_all_forms_carry_the_same_reports(protocol, tmp_path):
    reports = protocol.randomize(values_of(protocol, 200))
    direct = protocol.aggregator().update(reports)
    assert direct.n == 200
    assert not direct.refused
    file = tmp_path / "reports.parquet"
    pq.write_table(reports.to_arrow(), file)
    lines = tmp_path / "reports.jsonl"
    lines.write_text(reports.to_json(), "utf-8")
    frames = tmp_path / "reports.bin"
    frames.write_bytes(reports[:50].to_bytes() + reports[50:].to_bytes())
    table = reports.to_arrow()
    forms = {
        "bytes": reports.to_bytes(),
        "json": reports.to_json(),
        "arrow": table,
        "batches": table.to_batches(max_chunksize=30),
        "reader": table.to_reader(max_chunksize=30),
        "slice": table.slice(0, 120),
        "one by one": list(reports),
        "frames": [r.to_bytes() for r in reports],
        "lines": reports.to_json().splitlines(),
        "mappings": [json.loads(line) for line in reports.to_json().splitlines()],
        "generator": (r for r in reports),
        "parquet": file,
        "jsonl": lines,
        "bin": frames,
    }
    for name, form in forms.items():
        other = protocol.aggregator().update(form)
        if name == "slice":
            other.update(table.slice(120))
        assert same_state(direct, other), name


def test_one_value_gives_one_report(protocol):
    report = protocol.randomize(one_value(protocol))
    assert report.scalar
    assert len(report) == 1
    assert len(report.to_bytes()) == 10 + protocol.report_bytes + 4
    twice = protocol.aggregator().update(report).update(report.to_bytes()).update(report.to_json())
    assert twice.n == 3
    assert "1 report" in repr(report)


def test_every_report_of_a_protocol_has_the_same_size(protocol):
    sizes = {len(r.to_bytes()) for r in protocol.randomize(values_of(protocol, 60))}
    assert len(sizes) == 1


def test_specs_rebuild_their_protocol(protocol):
    for spec in (protocol.spec, json.dumps(protocol.spec), json.dumps(protocol.spec).encode()):
        again = local.protocol_from_spec(spec)
        assert again == protocol
        assert hash(again) == hash(protocol)
        assert again.odds == protocol.odds
        assert type(again) is type(protocol)


def test_no_two_protocols_share_an_identifier():
    assert len({p.spec_id for p in PROTOCOLS}) == len(PROTOCOLS)


def test_reports_of_no_people(protocol):
    empty = protocol.randomize(values_of(protocol, 5))[:0]
    assert len(empty) == 0
    aggregator = (
        protocol.aggregator().update(empty).update(empty.to_bytes()).update(empty.to_arrow())
    )
    assert aggregator.n == 0
    with pytest.raises(ParameterError, match="no reports"):
        aggregator.estimate()


def test_golden_vectors():
    """Spec, identifier, hash and frame of version 1 never change."""
    protocol = local.LocalHashing(domain=1024, epsilon=1)
    canon = _wire.canonical(protocol.spec)
    assert canon == (
        '{"buckets":4,"domain":1024,"epsilon":"1","hash":"splitmix64-1",'
        '"protocol":"local-hashing","seeds":null,"v":1}'
    )
    assert protocol.spec_id.hex() == GOLDEN_ID
    seeds = np.array([0, 1, 0x1234567890ABCDEF], dtype=np.uint64)
    words = _bits.item_words(np.array([0, 1, 1023]))
    assert words.tolist() == GOLDEN_WORDS
    assert _bits.hash_words(words, seeds, 4).tolist() == GOLDEN_HASHES
    assert _bits.string_word("emoji", "campaign") == GOLDEN_STRING
    columns = (np.array([0x1234567890ABCDEF], np.uint64), np.array([3], np.uint8))
    report = local.Reports(protocol, columns, scalar=True)
    assert report.to_bytes().hex() == GOLDEN_FRAME
    assert report.to_json() == f'{{"d":1,"s":"{GOLDEN_ID}","r":["1234567890abcdef",3]}}'


GOLDEN_ID = "91b44b439b38839e"
GOLDEN_WORDS = [16294208416658607535, 7960286522194355700, 3233339365705528689]
GOLDEN_HASHES = [1, 0, 1]
GOLDEN_STRING = 4635125580956308752
GOLDEN_FRAME = "d10191b44b439b38839eefcdab907856341203450fc635"


# -- foreign and malformed -------------------------------------------------------------


def foreign():
    return local.KaryResponse(domain=10, epsilon=2).randomize(np.arange(10))


def test_a_foreign_batch_is_refused_whole_and_counted(protocol):
    aggregator = protocol.aggregator()
    for batch in (foreign(), foreign().to_arrow()):
        with pytest.raises(ForeignReportError):
            aggregator.update(batch)
    assert aggregator.n == 0
    assert aggregator.refused["foreign"] == 20
    aggregator.update(foreign().to_bytes())
    aggregator.update(foreign().to_json())
    assert aggregator.refused["foreign"] == 40
    assert aggregator.n == 0


def test_foreign_reports_in_a_stream_are_left_out(protocol):
    aggregator = protocol.aggregator()
    mine = protocol.randomize(values_of(protocol, 10))
    aggregator.update([mine[0], foreign()[3], mine[1], foreign()[4].to_bytes(), foreign()])
    aggregator.update([mine[2].to_json(), foreign()[0].to_json(), mine[3]])
    assert aggregator.n == 4
    assert aggregator.refused["foreign"] == 13


def test_same_protocol_with_another_epsilon_or_version_is_foreign():
    one, two = local.KaryResponse(8, 1), local.KaryResponse(8, "1.0000001")
    with pytest.raises(ForeignReportError):
        one.aggregator().update(two.randomize(3))
    raw = bytearray(one.randomize(3).to_bytes())
    raw[1] = 2
    aggregator = one.aggregator().update(bytes(raw))
    assert aggregator.refused == {"version": 1}
    line = json.loads(one.randomize(3).to_json()) | {"d": 2}
    assert one.aggregator().update(line).refused == {"version": 1}


def test_unlabelled_payloads_are_refused():
    aggregator = local.KaryResponse(8, 1).aggregator()
    for payload in (np.array([1, 2]), 3, 2.5, None):
        with pytest.raises(ForeignReportError, match="which protocol"):
            aggregator.update(payload)
    aggregator.update([1, None, np.array([1])])
    assert aggregator.n == 0
    assert aggregator.refused["foreign"] == 3


@pytest.mark.parametrize("flip", range(20))
def test_a_damaged_frame_never_counts(flip):
    protocol = local.LocalHashing(domain=100, epsilon=1)
    raw = bytearray(protocol.randomize(3).to_bytes())
    raw[flip % len(raw)] ^= 1 << (flip % 8)
    aggregator = protocol.aggregator().update(bytes(raw))
    assert aggregator.n == 0
    assert sum(aggregator.refused.values()) >= 1


@pytest.mark.parametrize("cut", [0, 1, 5, 10, 12, 22])
def test_truncated_frames(cut):
    protocol = local.LocalHashing(domain=100, epsilon=1)
    raw = protocol.randomize(3).to_bytes()
    aggregator = protocol.aggregator().update(raw + raw[:cut])
    assert aggregator.n == 1
    assert aggregator.refused == ({"format": 1} if cut else {})


def test_a_frame_that_claims_four_billion_reports_costs_nothing():
    protocol = local.KaryResponse(8, 1)
    body = struct.pack("<BB8sI", 0xD2, 1, protocol.spec_id, 0xFFFFFFFF) + b"\0" * 8
    raw = body + struct.pack("<I", zlib.crc32(body))
    aggregator = protocol.aggregator().update(raw)
    assert aggregator.n == 0
    assert aggregator.refused == {"format": 1}


def forged(protocol, *columns):
    return local.Reports(protocol, columns).to_bytes()


@pytest.mark.parametrize(
    ("protocol", "columns"),
    [
        (local.KaryResponse(10, 1), (np.array([10], np.uint8),)),
        (local.HadamardResponse(10, 1), (np.array([200], np.uint8),)),
        (local.OptimizedUnary(11, 1), (np.array([[0, 0b1000]], np.uint8),)),
        (local.SubsetSelection(10, 1), (np.array([[255, 0]], np.uint8),)),
        (local.SubsetSelection(10, 1), (np.array([[0, 0]], np.uint8),)),
        (local.LocalHashing(10, 1), (np.array([7], np.uint64), np.array([4], np.uint8))),
        (local.Rappor(bits=20, cohorts=5), (np.array([5], np.uint8), np.zeros((1, 3), np.uint8))),
        (local.LocalMean(1, method="duchi"), (np.array([1], np.uint8), np.array([0], np.uint8))),
        (local.LocalMean(1), (np.array([0], np.uint8), np.array([2], np.uint8))),
        (local.LocalMean(1), (np.array([1], np.uint8), np.array([113], np.uint8))),
        (
            local.HadamardSketch(1, hashes=7, width=64),
            tuple(np.array([v], np.uint8) for v in (7, 0, 0)),
        ),
        (local.Hierarchy(10, 1), (np.array([0], np.uint8), np.array([[0b1000, 0]], np.uint8))),
        (local.Hierarchy(10, 1), (np.array([2], np.uint8), np.array([[0, 0]], np.uint8))),
        (local.KeyValue(4, 1), (np.array([[1]], np.uint8), np.array([[2]], np.uint8))),
        (local.LocalVector(9, 4), tuple(np.array([v], np.uint8) for v in (3, 0, 0, 3, 0, 0))),
        (local.HeavyHitters(16, 1, seeds=4), tuple(np.array([v], np.uint8) for v in (2, 0, 0))),
    ],
    ids=lambda x: x.name if isinstance(x, local.LocalProtocol) else "",
)
def test_impossible_payloads_are_dropped_by_range(protocol, columns):
    aggregator = protocol.aggregator().update(forged(protocol, *columns))
    assert aggregator.n == 0
    assert aggregator.refused == {"range": 1}


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        "[]",
        "{}",
        '{"d":1,"s":"ID"}',
        '{"d":1,"s":"ID","r":1}',
        '{"d":1,"s":"ID","r":[]}',
        '{"d":1,"s":"ID","r":[true]}',
        '{"d":1,"s":"ID","r":[1.0]}',
        '{"d":1,"s":"ID","r":["1"]}',
        '{"d":1,"s":"ID","r":[-1]}',
        '{"d":1,"s":"ID","r":[10]}',
        '{"d":1,"s":"ID","r":[1,2]}',
        "[" * 100_000,
        "9" * 10_000,
    ],
)
def test_malformed_lines(line):
    protocol = local.KaryResponse(10, 1)
    aggregator = protocol.aggregator().update([line.replace("ID", protocol.spec_id.hex())])
    assert aggregator.n == 0
    assert aggregator.refused == {"format": 1}


def test_malformed_hexadecimal():
    protocol = local.OptimizedUnary(16, 1)
    name = protocol.spec_id.hex()
    lines = [
        f'{{"d":1,"s":"{name}","r":[{v}]}}' for v in ('"zz00"', '"0"', '"000000"', '" 0 0"', "7")
    ]
    assert protocol.aggregator().update(lines).refused == {"format": 5}


def test_arrow_with_wrong_columns_or_types():
    protocol = local.KaryResponse(10, 1)
    table = protocol.randomize(np.arange(10)).to_arrow()
    meta = table.schema.metadata
    wrong = [
        table.rename_columns(["other"]).replace_schema_metadata(meta),
        pa.table({"item": pa.array([1.0, 2.0])}).replace_schema_metadata(meta),
    ]
    for bad in wrong:
        with pytest.raises(ParameterError):
            protocol.aggregator().update(bad)
    with pytest.raises(ForeignReportError):
        protocol.aggregator().update(table.replace_schema_metadata({}))


def test_unknown_specs_are_refused():
    good = local.KaryResponse(10, 1).spec
    for bad in ("no", "[]", "3", {}, good | {"v": 2}, good | {"protocol": "x"}, good | {"more": 1}):
        with pytest.raises(ParameterError):
            local.protocol_from_spec(bad)
    with pytest.raises(ParameterError):
        local.protocol_from_spec(local.LocalHashing(10, 1).spec | {"hash": "md5"})


def test_reports_and_totals_of_the_first_heavy_hitters_are_foreign():
    """Version 2 hashes prefixes otherwise: what was counted before cannot be read."""
    protocol = local.HeavyHitters(16, 4, seeds=256)
    assert protocol.spec["v"] == 2
    old = protocol.spec | {"v": 1}
    for bad in (old, protocol.spec | {"v": True}):
        with pytest.raises(ParameterError, match="version"):
            local.protocol_from_spec(bad)
    with pytest.raises(ParameterError, match="version"):
        local.Aggregator.from_dict(protocol.aggregator().to_dict() | {"spec": old})
    body = struct.pack("<BB8s", 0xD1, 1, _wire.identifier(old)) + b"\0" * protocol.report_bytes
    frame = body + struct.pack("<I", zlib.crc32(body))
    assert protocol.aggregator().update(frame).refused == {"foreign": 1}


def test_files_of_other_kinds_are_refused(tmp_path):
    file = tmp_path / "reports.csv"
    file.write_text("1\n", "utf-8")
    with pytest.raises(ParameterError, match="parquet"):
        local.KaryResponse(10, 1).aggregator().update(file)


# -- aggregators -----------------------------------------------------------------------


def test_merging_is_addition_in_any_order(protocol):
    reports = protocol.randomize(values_of(protocol, 90))
    parts = [protocol.aggregator().update(reports[i::3]) for i in range(3)]
    whole = protocol.aggregator().update(reports)
    merged = protocol.aggregator().merge(parts[2]).merge(parts[0]).merge(parts[1])
    assert same_state(merged, whole)


def test_merge_refuses_other_parameters_and_units():
    one = local.KaryResponse(8, 1)
    with pytest.raises(ForeignReportError):
        one.aggregator().merge(local.KaryResponse(8, 2).aggregator())
    with pytest.raises(ForeignReportError):
        one.aggregator().merge(one.randomize(3))
    with pytest.raises(ParameterError, match="units"):
        one.aggregator().merge(one.aggregator(unit="person", reports_per_unit=3))


def test_state_survives_json(protocol):
    aggregator = protocol.aggregator(unit="person", reports_per_unit=2)
    aggregator.update(protocol.randomize(values_of(protocol, 50)))
    aggregator.update(b"broken")
    again = local.Aggregator.from_dict(json.dumps(aggregator.to_dict()))
    assert same_state(again, aggregator)
    assert again.merge(aggregator).n == 100
    assert again.loss.unit == "person"


def test_broken_state_is_refused():
    saved = local.KaryResponse(8, 1).aggregator().to_dict()
    for bad in ({}, saved | {"state": [1]}, saved | {"n": -1}, saved | {"refused": None}):
        with pytest.raises(ParameterError):
            local.Aggregator.from_dict(bad)


def test_states_that_no_reports_add_up_to_are_refused(protocol):
    saved = protocol.aggregator().update(protocol.randomize(values_of(protocol, 60))).to_dict()
    cells = np.array(saved["state"])

    def changed(value, n=60):
        state = cells.copy()
        state.flat[0] = value
        return saved | {"state": state.tolist(), "n": n}

    assert local.Aggregator.from_dict(saved).n == 60
    bad = [changed(61), changed(2**61), changed(1, n=0), changed(-61)]
    if protocol.name != "hadamard-sketch":  # sums of signs may be negative
        bad.append(changed(-1))
    for state in bad:
        with pytest.raises(ParameterError):
            local.Aggregator.from_dict(state)


@pytest.mark.parametrize(
    "change",
    [
        {"state": [True, 1, 0, 0]},
        {"state": [2**70, 0, 0, 0]},
        {"state": [2**63 + 1, 0, 0, 0]},
        {"state": [2**62] * 4, "n": 0},
        {"state": [1.0, 1, 0, 0]},
        {"state": [[2], [0], [0], [0]]},
        {"n": True},
        {"n": 1},
        {"n": 2**60},
        {"refused": {"format": -1}},
        {"refused": {"format": True}},
        {"refused": {"format": 1.5}},
        {"refused": {"because": 1}},
        {"unit": {"a": 1}},
        {"reports_per_unit": 0},
        {"reports_per_unit": True},
    ],
    ids=str,
)
def test_saved_totals_are_read_strictly(change):
    good = local.KaryResponse(4, 1).aggregator().to_dict() | {"n": 2, "state": [1, 1, 0, 0]}
    assert local.Aggregator.from_dict(json.dumps(good)).n == 2
    with pytest.raises(ParameterError):
        local.Aggregator.from_dict(json.dumps(good | change))


def test_an_aggregator_is_never_merged_with_itself():
    aggregator = local.KaryResponse(4, 1).aggregator()
    with pytest.raises(ParameterError, match="twice"):
        aggregator.merge(aggregator)


def test_the_unit_decides_the_loss():
    protocol = local.KaryResponse(8, "0.5")
    assert protocol.aggregator().loss.epsilon() == 0.5
    person = protocol.aggregator(unit="person", reports_per_unit=7)
    assert person.loss.epsilon() == 3.5
    assert person.loss.unit == "person"
    assert str(person.loss.neighbours) == "change-one"
    estimate = person.update(protocol.randomize(np.arange(8))).estimate()
    assert estimate.loss.epsilon() == 3.5


def test_refusals_reach_the_estimate():
    protocol = local.KaryResponse(8, 1)
    aggregator = protocol.aggregator().update(protocol.randomize(np.arange(8)))
    aggregator.update(b"broken")
    assert aggregator.estimate().refused == {"format": 1}
    assert "1 refused" in repr(aggregator)


# -- clients ---------------------------------------------------------------------------


def test_clients_keep_count_and_refuse():
    client = local.KaryResponse(8, "0.5").client(max_reports=2)
    assert client.loss is None
    client.randomize(3)
    client.randomize(3)
    assert client.loss.epsilon() == 1.0
    with pytest.raises(BudgetExceededError):
        client.randomize(3)
    with pytest.raises(ParameterError, match="one person"):
        local.KaryResponse(8, 1).client().randomize([1, 2])


def test_a_refused_value_costs_nothing_of_the_budget():
    client = local.KaryResponse(8, 1).client()
    with pytest.raises(ParameterError):
        client.randomize(99)
    assert client.sent == 0


def test_rappor_devices_remember():
    rappor = local.Rappor(bits=64, cohorts=4)
    device = rappor.client()
    for _ in range(20):
        device.randomize("a")
    assert len(device.permanent) == 1
    assert device.loss.epsilon() == rappor.epsilon_permanent
    again = rappor.client(memo=json.loads(json.dumps(device.to_dict())))
    assert (again.cohort, again.permanent, again.sent) == (device.cohort, device.permanent, 20)
    again.randomize("b")
    assert again.loss.epsilon() == pytest.approx(2 * rappor.epsilon_permanent)
    aggregator = rappor.aggregator().update(device.randomize("a") for _ in range(10))
    assert aggregator.n == 10
    with pytest.raises(ParameterError, match="memo"):
        local.Rappor(bits=65, cohorts=4).client(memo=device.to_dict())


def test_test_noise_is_marked_and_never_sent():
    protocol = local.KaryResponse(8, 1)
    with deterministic(1):
        first = protocol.randomize(np.arange(8))
    with deterministic(1):
        again = protocol.randomize(np.arange(8))
    assert first == again
    for leave in (first.to_bytes, first.to_json, first.to_arrow):
        with pytest.raises(TaintedNoiseError):
            leave()
    aggregator = protocol.aggregator().update(first)
    assert aggregator.tainted
    assert "NOT PRIVATE" in repr(aggregator.estimate())
    assert "NOT PRIVATE" in repr(first)


def test_the_mark_of_test_noise_survives_saving():
    """Totals and memos drawn by test noise stay marked when they are resumed without it."""
    protocol, rappor = local.KaryResponse(8, 1), local.Rappor(cohorts=2)
    with deterministic(1):
        reports = protocol.randomize(np.arange(8))
        device = rappor.client()
        device.randomize("x")
    saved = json.dumps(protocol.aggregator().update(reports).to_dict())
    assert local.Aggregator.from_dict(saved).tainted
    assert "NOT PRIVATE" in repr(local.Aggregator.from_dict(saved).estimate())
    assert device.randomize("x").tainted
    again = rappor.client(memo=json.loads(json.dumps(device.to_dict())))
    with pytest.raises(TaintedNoiseError):
        again.randomize("x").to_bytes()
    assert not rappor.client(memo=rappor.client().to_dict()).randomize("x").tainted
    for bad in (1, "false", None):
        with pytest.raises(ParameterError):
            local.Aggregator.from_dict(protocol.aggregator().to_dict() | {"tainted": bad})
        with pytest.raises(ParameterError):
            rappor.client(memo=device.to_dict() | {"tainted": bad})


# -- payloads as arrays ----------------------------------------------------------------


def test_payloads_read_as_arrays():
    assert np.asarray(local.KaryResponse(8, 20).randomize([1, 2, 3])).tolist() == [1, 2, 3]
    assert int(local.KaryResponse(8, 20).randomize(5)) == 5
    assert local.KaryResponse(8, 20).randomize(5) == 5
    assert np.asarray(local.OptimizedUnary(9, 1).randomize([1, 2])).shape == (2, 9)
    assert np.asarray(local.LocalHashing(9, 1).randomize([1, 2])).dtype.names == ("seed", "bucket")
    assert (local.RandomizedResponse(epsilon=20).randomize([True, False]) == [1, 0]).all()


@pytest.mark.parametrize(
    "values", [-1, 8, 1.5, "a", None, [1, 8], [[1]], [1.0], np.array([2**40]), float("nan"), [None]]
)
def test_values_outside_the_domain_are_refused_without_saying_which(values):
    with pytest.raises(ParameterError) as refusal:
        local.KaryResponse(8, 1).randomize(values)
    assert "0 to 7" in str(refusal.value) or "one-dimensional" in str(refusal.value)


# -- found in review ---------------------------------------------------------------------


def test_clients_of_vectors_and_pairs_take_one_persons_values():
    assert local.LocalVector(3, 1).client().randomize([0.1, 0.2, 0.3]).scalar
    assert local.KeyValue(3, 1).client().randomize({1: 0.5}).scalar
    client = local.LocalVector(3, 1).client()
    with pytest.raises(ParameterError, match="one person"):
        client.randomize([[0.1, 0.2, 0.3]] * 2)
    assert client.sent == 0


def test_text_never_opens_a_file(tmp_path):
    """A report may be text from anybody: only a path names a file of the server."""
    protocol = local.KaryResponse(8, 1)
    path = tmp_path / "r.parquet"
    pq.write_table(protocol.randomize(np.arange(8)).to_arrow(), path)
    assert protocol.aggregator().update(path).n == 8
    for text in (str(path), [str(path)], [[str(path)]], "missing.parquet"):
        assert protocol.aggregator().update(text).refused == {"format": 1}


def test_sketches_of_one_function_refuse_a_second():
    protocol = local.HadamardSketch(1, domain=4, width=8, hashes=1)
    forged_report = forged(protocol, *(np.array([v], np.uint8) for v in (1, 0, 0)))
    assert protocol.aggregator().update(forged_report).refused == {"range": 1}
    assert protocol.aggregator().update(protocol.randomize([0, 1, 2, 3])).n == 4


@pytest.mark.parametrize("seeds", [None, 64])
def test_hashing_reads_some_candidates(seeds):
    protocol = local.LocalHashing(1000, 2, seeds=seeds)
    aggregator = protocol.aggregator().update(protocol.randomize(np.arange(1000)))
    everything = aggregator.estimate()
    some = aggregator.estimate(candidates=[7])
    assert some.labels == (7,)
    assert some.frequencies == pytest.approx(everything.frequencies[[7]])
    low, high = some.interval(0.95)
    assert low[0] < some.frequencies[0] < high[0]
    with pytest.raises(ParameterError):
        aggregator.estimate(candidates=[1000])


def test_damaged_memos_and_lonely_cohorts_are_refused():
    rappor = local.Rappor(bits=8, cohorts=1)
    device = rappor.client()
    device.randomize("a")
    memo = device.to_dict()
    damaged = (
        {"permanent": {"1": "0000"}},
        {"cohort": 9},
        {"permanent": {"x": "zz"}},
        {"sent": -1},
    )
    for bad in (*(memo | change for change in damaged), {"spec": memo["spec"]}, [1], "memo"):
        with pytest.raises(ParameterError):
            rappor.client(memo=bad)
    aggregator = rappor.aggregator().update(rappor.randomize(["a"] * 100))
    with pytest.raises(ParameterError, match="cohort"):
        aggregator.estimate(candidates=range(50))


def test_foreign_batches_in_a_stream_are_counted_once():
    protocol = local.KaryResponse(8, 1)
    aggregator = protocol.aggregator().update([foreign().to_arrow(), foreign(), None])
    assert aggregator.refused == {"foreign": 21}
    assert protocol.aggregator().update([protocol.randomize(1)]).refused == {}
