"""Lines of a ledger, forged one way at a time: each check refuses, and passes what is honest."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import pytest

from discreet import errors, ledger
from discreet import policy as pol
from discreet.ledger import _chain, _state
from discreet.ledger._budget import admit, balance, check_total, decided, least_cost
from discreet.ledger._outcomes import check_store, debit_body, outcome_of
from discreet.plan import Cost

WHEN = "2026-01-01T00:00:00+00:00"


def cost(epsilon, delta=0, rho=None, rho_delta=None):
    e, d = Fraction(epsilon), Fraction(delta)
    return Cost(e, d, e * e / 2 if rho is None else Fraction(rho), Fraction(rho_delta or delta))


def entry(price="0.1", *, analyst=None, plan="q", delta=0, **more):
    price = price if isinstance(price, Cost) else cost(price, delta)
    return ledger.Entry("people", "f", analyst, plan, price, "laplace", "add-remove", None,
                        tables=("people",), **more)  # fmt: skip


def opening(epsilon="1", fmt=_state.FORMAT, **more):
    return {"policy": "people", "format": fmt, **decided(pol.Budget(epsilon, **more))}


def written(steps, start=None):
    """Lines and head of a ledger to which steps (kind, body) are written; `start` opens it."""
    head, lines = None, []
    for kind, body in [("open", start or opening()), *steps]:
        hashes = [_chain.GENESIS, *(line.hash for line in lines)]
        jump = hashes[_chain.jump_of(len(hashes))]
        made = body(head.content) if callable(body) else body
        line, head = _chain.next_line(head, WHEN, kind, made, jump=jump)
        lines.append(line)
    return lines, head


def debit(price="0.1", **more):
    return "debit", lambda state: debit_body(state, entry(price, **more))


HONEST = [
    debit(analyst="ann"), ("settle", {"debit": 2}), debit("0.2", plan="p"),
    ("budget", decided(pol.Budget("2"))), ("close", {"table": "people"}),
    ("close", {"table": "*"}), ("reopen", {"table": "people"}), ("reopen", {"table": "*"}),
    ("consent", {"policy": "guest", "units": {"people": ["add-remove", None]}}),
    ("vouch", {"source": "view"}), ("adopt", {}), ("key", {}),
    debit("0.3", plan="restore"), ("period", {}), debit("0.4", runs=False), debit("0.5"),
]  # fmt: skip
LINES, HEAD = written(HONEST)
FIELDS = ("number", "when", "kind", "body", "state", "previous", "hash", "jump")


def changed(line, field):
    old = getattr(line, field)
    new = old + 1 if field == "number" else "0" * 63 + "1" if len(old) == 64 else f"{old} "
    return replace(line, **{field: new})


def at(lines):
    return lambda number: next((x for x in lines if x.number == number), None)


def refused(check, *given):
    try:
        check(*given)
    except errors.LedgerIntegrityError:
        return True
    return False


def test_what_was_written_passes_every_check():
    assert _chain.check_links(LINES, HEAD) == len(LINES)
    _chain.check_replay(LINES, HEAD)
    _chain.check_head(HEAD, LINES[-1])
    for line in LINES:
        assert _chain.reached(at(LINES), HEAD, line.number) == line


@pytest.mark.parametrize("field", FIELDS)
def test_a_line_that_was_changed_is_seen(field):
    for k, line in enumerate(LINES):
        forged = [*LINES[:k], changed(line, field), *LINES[k + 1 :]]
        assert refused(_chain.check_links, forged, HEAD), (k, field)
        by_place = dict(zip(range(1, len(LINES) + 1), forged, strict=True)).get
        assert refused(_chain.reached, by_place, HEAD, line.number), (k, field)
    assert refused(_chain.check_head, HEAD, changed(LINES[-1], field))


@pytest.mark.parametrize("field", ["when", "body", "state", "number", "previous"])
def test_a_line_that_was_changed_and_sealed_anew_is_seen_by_its_neighbour(field):
    """Nothing but the number and the previous hash tells: lines of format 1 have no jumps."""
    plain, hashes = [], [_chain.GENESIS]
    for line in LINES:
        plain.append(sealed(replace(line, previous=hashes[-1], jump=None)))
        hashes.append(plain[-1].hash)
    head = replace(HEAD, hash=hashes[-1])
    assert _chain.check_links(plain, head) == len(plain)
    for k, line in enumerate(plain[:-1]):
        forged = [*plain[:k], sealed(changed(line, field)), *plain[k + 1 :]]
        assert refused(_chain.check_links, forged, head), (k, field)


def sealed(line):
    """A line with the hash of what it says."""
    parts = (line.number, line.when, line.kind, line.body, line.state, line.previous)
    return replace(line, hash=_chain.line_hash(*parts))


def test_lines_that_are_gone_doubled_or_in_another_order_are_seen():
    for k in range(len(LINES)):
        assert refused(_chain.check_links, [*LINES[:k], *LINES[k + 1 :]], HEAD)
        assert refused(_chain.check_links, [*LINES[: k + 1], *LINES[k:]], HEAD)
        if LINES[k].kind in ("open", "debit", "settle", "budget", "period"):
            assert refused(_chain.check_replay, [*LINES[:k], *LINES[k + 1 :]], HEAD)
        assert refused(_chain.reached, at([*LINES[:k], *LINES[k + 1 :]]), HEAD, k + 1)
    for j, k in itertools.pairwise(range(len(LINES))):
        swapped = [*LINES[:j], LINES[k], LINES[j], *LINES[k + 1 :]]
        assert refused(_chain.check_links, swapped, HEAD)
    assert refused(_chain.check_replay, [], HEAD)
    assert refused(_chain.check_head, HEAD, None)


def test_a_head_of_another_chain_is_seen():
    _, other = written(HONEST[:-1])
    for forged in (other, replace(HEAD, number=HEAD.number + 1), replace(HEAD, hash=other.hash)):
        assert refused(_chain.check_links, LINES, forged)
        assert refused(_chain.check_head, forged, LINES[-1])
    forged = replace(HEAD, state=other.state)
    assert refused(_chain.check_head, forged, LINES[-1])
    assert refused(_chain.check_replay, LINES, forged)


def test_a_state_that_was_not_earned_is_seen_though_every_hash_is_made_anew():
    lines, head = written(HONEST[:3])
    poorer = head.content
    for better in (
        replace(poorer, spent={}), replace(poorer, open={}), replace(poorer, period=2),
        replace(poorer, caps=decided(pol.Budget("9"))["caps"]), replace(poorer, vouched=("x",)),
        replace(poorer, guests={"x": None}), replace(poorer, closed=("x",)),
        replace(poorer, by_rho=True), replace(poorer, lost=1), replace(poorer, policy="x"),
    ):  # fmt: skip
        body = debit_body(poorer, entry("0.2", plan="p"))
        before = written(HONEST[:2])[1]
        line, forged = _chain.next_line(before, WHEN, "debit", body, better, jump=_chain.GENESIS)
        assert refused(_chain.check_replay, [*lines[:3], line], forged)


def test_a_chain_that_spent_more_than_the_budget_is_no_ledger():
    exact = written([debit("0.5"), debit("0.5", plan="p")])
    _chain.check_replay(*exact)
    beyond = written([debit("0.5"), debit("0.5", plan="p"), debit("1/1000000", plan="r")])
    assert refused(_chain.check_replay, *beyond)
    assert _chain.check_links(*beyond) == 4
    with pytest.raises(errors.BudgetExceededError, match="more was spent"):
        check_total(beyond[1].content)
    # what stands for lost lines may be more than the whole; what follows must not add to it
    restored = written([debit("0.5"), debit("7", plan="restore"), ("close", {"table": "*"})])
    _chain.check_replay(*restored)
    assert restored[1].content.lost == 1
    assert refused(_chain.check_replay, *written([debit("7", plan="restore"), debit("0.1")]))


@pytest.mark.parametrize("kind", ["debit", "settle", "close", "period"])
def test_only_an_opening_line_opens(kind):
    with pytest.raises(errors.LedgerIntegrityError, match="does not open it"):
        _state.after(None, kind, opening())
    with pytest.raises(errors.LedgerIntegrityError, match="unknown kind"):
        _state.after(HEAD.content, "refund", {})
    with pytest.raises(errors.LedgerIntegrityError, match="unknown kind"):
        _state.after(HEAD.content, "open", opening())


def states(*steps, **how):
    return written(steps, **how)[1].content


def test_every_kind_of_line_does_one_thing():
    first = states()
    own = _state.read_cost(_state.cost_body(cost("0.1")))
    spent = states(debit(analyst="ann"))
    assert spent.spent == {"ann": own}
    assert list(spent.open) == ["2"]
    assert states(debit(), ("settle", {"debit": 2})) == replace(first, spent={"": own})
    assert list(states(debit(), debit(), ("settle", {"debit": 2})).open) == ["3"]
    assert states(debit(runs=False)).open == {}
    assert states(("period", {}), ("period", {})).period == 3
    assert states(debit(), ("period", {})).spent == {}
    assert states(("close", {"table": "b"}), ("close", {"table": "a"})).closed == ("a", "b")
    assert states(("close", {"table": "b"}), ("close", {"table": "b"})).closed == ("b",)
    both = (("close", {"table": "b"}), ("close", {"table": "a"}))
    assert states(*both, ("reopen", {"table": "a"})).closed == ("b",)
    assert states(*both, ("reopen", {"table": "*"})).closed == ()
    raised = states(("budget", decided(pol.Budget("2"))))
    assert (raised.budget, raised.declared) == (decided(pol.Budget("2"))["budget"], first.declared)
    assert raised.caps == {"epsilon": "2/1"}
    assert states(("consent", {"policy": "g"})).guests == {"g": None}
    assert states(("vouch", {"source": "b"}), ("vouch", {"source": "a"})).vouched == ("a", "b")
    assert states(("adopt", {}), ("key", {})) == first
    assert states(debit(), debit(plan="restore"), debit(plan="restore")).lost == 2
    upgraded = states(("format", {"format": 5, "open": {"7": "h"}}), start=opening(fmt=1))
    assert (upgraded.format, upgraded.open, upgraded.by_rho) == (5, {"7": "h"}, False)


def test_what_earlier_formats_do_not_know_they_do_not_write():
    by_rho = Cost(*(Fraction(x) for x in ("0.1", "1e-6", "0.005", "0")))
    for fmt in range(1, 6):
        state = states(debit(by_rho, plan="restore"), start=opening(fmt=fmt))
        assert bool(state.open) == (fmt >= 2)
        assert (state.by_rho, state.lost) == (fmt >= 4, int(fmt >= 5))
        body = debit_body(state, entry(by_rho, plan="restore"))
        once = _state.after(states(start=opening(fmt=fmt)), "debit", body, 2)
        assert (once.by_rho, once.lost, bool(once.open)) == (fmt >= 4, fmt >= 5, fmt >= 2)
        assert _state.after(once, "debit", debit_body(state, entry()), 3).by_rho == (fmt >= 4)
        known = {"policy", "declared", "budget", "caps", "closed", "period", "spent"}
        known |= {"format", "open"} if fmt >= 2 else set()
        known |= {"guests"} if fmt >= 3 else set()
        known |= {"by_rho", "vouched"} if fmt >= 4 else set()
        known |= {"lost"} if fmt >= 5 else set()
        assert set(_state.json.loads(state.to_text())) == known
        assert _state._read_state(state.to_text()) == state  # what was written is remembered
        assert _state.State.from_text(state.to_text()) == state
    guests = states(("consent", {"policy": "g", "units": {}}), start=opening(fmt=3))
    assert _state.json.loads(guests.to_text())["guests"] == ["g"]
    with pytest.raises(errors.LedgerError, match="newer discreet"):
        _state.State.from_text(states(start=opening(fmt=6)).to_text())
    with pytest.raises(errors.LedgerIntegrityError, match="state is damaged"):
        _state.State.from_text("{}")


def test_late_names_share_one_account_and_shares_keep_theirs():
    price = cost("1/1000")
    names = {f"a{k}": price for k in range(_state.NAMES)}
    body = debit_body(states(), entry(price, analyst="late"))

    def spent(held, start=None):
        return _state.after(replace(states(start=start), spent=held), "debit", body).spent

    assert spent({k: v for k, v in names.items() if k != "a0"})["late"] == price
    assert spent(names) == names | {"": price}
    assert spent(names | {"": price})[""] == _state.add(price, price)
    assert spent(names | {"late": price})["late"] == _state.add(price, price)
    assert spent(names, opening(shares={"late": "0.5"}))["late"] == price
    assert spent(names, opening(fmt=2))["late"] == price


def test_amounts_are_rounded_up_to_the_grid_and_only_when_they_are_long():
    longest = Fraction(1, 2**512)
    assert _state.coarse(longest) == longest
    assert _state.coarse(Fraction(1, 2**512 + 1)) == Fraction(1, 2**256)
    third = Fraction(1, 3**400)
    assert _state.coarse(1 + third) == 1 + Fraction(1, 2**256)
    assert _state.coarse(Fraction(2**300, 3**400)) == Fraction(
        -(-(2**556) // 3**400), 2**256)  # fmt: skip
    assert _state.rational(Fraction(2**12_000 - 1)) == f"{2**12_000 - 1}/1"
    for long in (Fraction(2**12_000), Fraction(1, 2**12_000)):
        with pytest.raises(errors.ParameterError, match="too many digits"):
            _state.rational(long)
    total = _state.add(cost("0.1"), cost("0.2", "1e-9"))
    assert total == Cost(Fraction("0.3"), Fraction("1e-9"), Fraction("0.025"), Fraction("1e-9"))


def test_a_budget_is_read_as_it_was_written():
    for budget in (
        pol.Budget("1"), pol.Budget("1", minimum="1/777"), pol.Budget("3/7", "1e-6"),
        pol.Budget(rho="0.5", delta="1e-6", accounting="zcdp", shares={"ann": "1/3"}),
    ):  # fmt: skip
        body = _state.budget_body(budget)
        assert _state.read_budget(body) == budget
        assert ("minimum" in body) == (budget.minimum != pol.Budget("1").minimum)


def test_the_least_cost_is_one_part_of_every_currency():
    for budget, epsilon, rho in (
        (pol.Budget("2"), 2, 0), (pol.Budget(rho="3", delta="1e-6", accounting="zcdp"), 1, 3),
    ):  # fmt: skip
        part = budget.least_part
        assert least_cost(budget) == Cost(epsilon * part, Fraction(0), rho * part, Fraction(0))


BUDGETS = {
    "pure": {"epsilon": "1"},
    "approx": {"epsilon": "1", "delta": "1e-6", "accounting": "approx"},
    "zcdp": {"epsilon": "1", "delta": "1e-6", "accounting": "zcdp"},
    "rho": {"rho": "0.5", "delta": "1e-6", "accounting": "zcdp"},
}


def opened(name, **more):
    budget = pol.Budget(**BUDGETS[name], **more)
    start = {"policy": "people", "format": _state.FORMAT, **decided(budget)}
    return written([], start=start)[1].content


def admitted(state, given):
    return admit(state, given, debit_body(state, given), 2)


TINY = Fraction(1, 10**30)


@pytest.mark.parametrize("name", BUDGETS)
def test_the_last_bit_of_a_budget_can_be_spent_and_no_more(name):
    state = opened(name)
    totals = {c: Fraction(x) for c, x in state.caps.items()}
    rho, delta = totals.get("rho", Fraction(0)), totals.get("delta", Fraction(0))
    epsilon = totals.get("epsilon", Fraction(1))
    whole = Cost(epsilon, delta, rho, delta)
    assert balance(admitted(state, entry(whole))).fits
    beyond = [("epsilon", "rho"), ("delta", "rho_delta")] if name != "pure" else [("epsilon",)]
    for names in beyond:
        more = replace(whole, **{n: getattr(whole, n) + TINY for n in names})
        with pytest.raises(errors.BudgetExceededError, match=r"the budget has"):
            admitted(state, entry(more))
    # where one route is full the other one may still pay
    if name == "zcdp":
        assert admitted(state, entry(replace(whole, rho=rho + TINY)))
        assert admitted(state, entry(replace(whole, epsilon=epsilon + TINY)))
        noisy = replace(whole, rho=rho + TINY, delta=delta / 2)  # closes the way by epsilon
        with pytest.raises(errors.BudgetExceededError):
            admitted(state, entry(noisy))
        assert admitted(state, entry(replace(noisy, rho=rho)))
    if name == "pure":
        with pytest.raises(errors.BudgetExceededError, match="needs a delta"):
            admitted(state, entry(replace(whole, epsilon=Fraction(1, 10), delta=TINY)))
    for currency in _state.CURRENCIES:  # also one that this budget does not count in
        with pytest.raises(errors.ParameterError, match="not be negative"):
            admitted(state, entry(replace(whole, **{currency: -TINY})))


@pytest.mark.parametrize("name", BUDGETS)
def test_a_share_is_a_part_of_every_currency(name):
    state = opened(name, shares={"ann": "0.25", "bob": "0.5"})
    for who, part in (("ann", Fraction(1, 4)), ("bob", Fraction(1, 2)), ("eve", Fraction(1, 4))):
        totals = {c: Fraction(x) * part for c, x in state.caps.items()}
        delta, rho = totals.get("delta", Fraction(0)), totals.get("rho", Fraction(0))
        own = Cost(totals.get("epsilon", Fraction(0)), delta, rho, delta)
        spent = admitted(state, entry(own, analyst=who))
        assert balance(spent, who).fits
        more = replace(own, epsilon=own.epsilon + TINY, rho=own.rho + TINY)
        named = f"the share of {who}" if who != "eve" else "the share of other analysts"
        with pytest.raises(errors.BudgetExceededError, match=named):
            admitted(state, entry(more, analyst=who))
        small = Cost(Fraction(1, 1000), Fraction(0), Fraction(1, 10**6), Fraction(0))
        with pytest.raises(errors.BudgetExceededError, match=named):
            admitted(spent, entry(small, analyst=who))
        for other in {"ann", "bob"} - {who}:
            admitted(spent, entry(small, analyst=other))
        assert balance(spent, "zoe").fits
    with pytest.raises(errors.ParameterError, match="say who asks"):
        admitted(state, entry("0.01"))
    assert admitted(state, entry("0.01", external="elsewhere"))


@pytest.mark.parametrize(
    ("closed", "seen"), [((), True), (("people",), False), (("*",), False), (("others",), True)]
)
def test_a_closed_table_takes_no_questions(closed, seen):
    state = states(*(("close", {"table": t}) for t in closed))
    if seen:
        assert admitted(state, entry())
    else:
        with pytest.raises(errors.LedgerClosedError, match="this policy" if "*" in closed
                           else "table 'people'"):  # fmt: skip
            admitted(state, entry())


def test_balances_say_what_is_left_and_how_often():
    state = states(debit("0.25"))
    now = balance(state)
    assert (now.left("epsilon"), now.remaining, now.used) == (
        Fraction(3, 4), Fraction(3, 4), Fraction(1, 4))  # fmt: skip
    assert now.more(cost("0.25")) == 3
    assert now.more(cost("0.26")) == 2
    assert now.more(cost("0.76")) == 0
    assert now.more(cost("0")) is None
    assert not now.after(cost("0.76")).fits
    assert now.after(cost("0.75")).fits
    assert now.after(cost("0.8")).more(cost("0.1")) == 0
    assert balance(states(debit("1"))).used == 1
    both = balance(opened("zcdp"))
    assert [r[0] for r in both.routes] == ["epsilon", "rho"]
    gaussian = Cost(*(Fraction(x) for x in ("0.1", "1e-7", "0.001", "0")))
    assert [r[0] for r in both.after(gaussian).routes] == ["rho"]
    selected = Cost(*(Fraction(x) for x in ("0.1", "1e-7", "0.001", "1e-7")))
    assert [r[0] for r in both.after(selected).routes] == ["epsilon", "rho"]
    kept = admitted(opened("zcdp"), entry(gaussian))
    assert [r[0] for r in balance(kept).routes] == ["rho"]


# -- outcomes: what the store holds beside the lines --------------------------------------------


class Held:
    """A store that holds what it is given, right or wrong."""

    def __init__(self, lines, index, answers):
        self.lines, self.rows, self.stored = list(lines), list(index), dict(answers)

    def line(self, number):
        return next((x for x in self.lines if x.number == number), None)

    def check(self):
        """Nothing of its own is damaged."""

    def index(self):
        return iter(self.rows)

    def answers(self):
        return iter(sorted(self.stored.items()))

    def settled(self, number):
        return next((n for n, _, _, settles in self.rows if settles == number), None)

    def outcome(self, number):
        known = number in self.stored
        return (self.stored[number] is not None, self.stored[number]) if known else None


def kept():
    """Debits that are answered, failed, open and without a run; and a key for the first one."""
    policy = pol.Policy([pol.Table("people", [pol.Integer("age", 0, 9)])], pol.Budget("1"),
                        name="people")  # fmt: skip
    book = ledger.open_ledger(":memory:", policy)
    asked = [entry(plan=f"q{k}", runs=k != 3) for k in range(4)]
    paid = [book.debit(replace(e, policy=policy.identity)) for e in asked]
    book.settle(paid[0], "[1]")
    book.settle(paid[1], None)
    book.debit(replace(asked[0], policy=policy.identity, key="k"))
    with book.reading() as (tx, head):
        return Held(tx.lines(), tx.index(), tx.answers()), head


def rebuilt(held, head, number, **changes):
    """Change the body of one line, and make every later hash anew; None: leave the line out."""
    lines, last = [], None
    for line in held.lines:
        body = line.content | (changes if line.number == number else {})
        hashes = [_chain.GENESIS, *(x.hash for x in lines)]
        made, last = _chain.next_line(last, line.when, line.kind, body,
                                      jump=hashes[_chain.jump_of(len(hashes))])  # fmt: skip
        lines.append(made)
    assert last.number == head.number
    return Held(lines, held.rows, held.stored), last


def unsound(held, head):
    _chain.check_links(held.lines, head)
    return refused(check_store, held, held.lines, head)


def test_a_store_that_holds_what_its_lines_say_passes():
    held, head = kept()
    assert not unsound(held, head)
    assert [x.kind for x in held.lines] == ["open", *["debit"] * 4, "settle", "settle", "key"]
    same, last = rebuilt(held, head, 0)
    assert (same.lines, last) == (held.lines, head)
    assert outcome_of(held, head, held.line(2)) == (True, "[1]")
    assert outcome_of(held, head, held.line(3)) == (False, None)
    assert outcome_of(held, head, held.line(4)) is None


@pytest.mark.parametrize(
    ("number", "changes"),
    [
        (6, {"line": "0" * 64}), (6, {"question": "0" * 64}), (6, {"debit": 1}), (6, {"debit": 0}),
        (6, {"debit": 3}), (6, {"debit": 4}), (6, {"debit": 6}), (6, {"debit": 7}),
        (6, {"record": None}), (6, {"record": "0" * 64}), (7, {"record": "0" * 64}),
        (7, {"debit": 2}), (8, {"line": "0" * 64}), (8, {"question": "0" * 64}), (8, {"debit": 3}),
        (8, {"debit": 0}), (8, {"debit": 8}), (8, {"key": "other"}), (8, {"analyst": "eve"}),
        (2, {"question": "0" * 64}), (2, {"plan": "q7"}), (2, {"key": "k7"}),
    ],
)  # fmt: skip
def test_a_line_about_an_outcome_that_was_forged_with_its_hashes_is_seen(number, changes):
    assert unsound(*rebuilt(*kept(), number, **changes))


def test_answers_and_finding_aids_that_were_changed_are_seen():
    held, head = kept()
    for stored in ({2: "[2]", 3: None}, {2: None, 3: None}, {2: "[1]"}, {3: None},
                   {2: "[1]", 3: "[]"}, {2: "[1]", 3: None, 4: "[]"}, {2: "[1]", 3: None, 5: "[]"},
                   {}, {2: "[1]", 3: None, 1: "[]"}):  # fmt: skip
        assert unsound(Held(held.lines, held.rows, stored), head), stored
    for k, row in enumerate(held.rows):
        for place, other in ((1, "slot"), (2, "question"), (3, 4)):
            spoilt = (*row[:place], other, *row[place + 1 :])
            rows = [*held.rows[:k], spoilt, *held.rows[k + 1 :]]
            assert unsound(Held(held.lines, rows, held.stored), head)
    assert unsound(Held(held.lines, held.rows[:-1], held.stored), head)
    assert unsound(Held(held.lines, [*held.rows, (9, None, None, None)], held.stored), head)


def test_no_outcome_is_given_that_its_lines_do_not_seal():
    held, head = kept()
    answered, failed, waiting = (held.line(n) for n in (2, 3, 4))

    def bad(line=answered, question=None, rows=held.rows, stored=held.stored):
        return refused(outcome_of, Held(held.lines, rows, stored), head, line, question)

    asked = {line.number: line.content["question"] for line in (answered, failed, waiting)}
    for line in (answered, failed, waiting):
        assert not bad(line)
        assert not bad(line, asked[line.number])
        assert bad(line, "another")
        assert bad(replace(line, body=line.body + " "))
        assert bad(replace(line, when="later"))
    assert bad(stored={2: "[2]", 3: None})
    assert bad(stored={2: None, 3: None})
    assert bad(stored={3: None})
    assert bad(failed, stored={2: "[1]", 3: "[1]"})
    assert bad(waiting, stored={**held.stored, 4: "[1]"})
    for by in (2, 3, 4, 7, 8, 9, 90):  # none of these lines settles it
        rows = [(n, s, q, None) for n, s, q, _ in held.rows if n != by] + [(by, None, None, 2)]
        assert bad(rows=rows), by
    assert bad(rows=[(n, s, q, None) for n, s, q, _ in held.rows])
