"""Regular expressions: one meaning here, in Python and in the engines."""

from __future__ import annotations

import random
import re
import string

import duckdb
import pytest

from discreet import sql
from discreet.errors import DiscreetError, QueryError
from discreet.plan import expr as ex
from discreet.plan._regex import read
from discreet.policy import Budget, Category, Policy, Table, Text
from discreet.verify._patterns import compiles

POLICY = Policy([Table("t", [Text("name"), Category("c", ["Bern", "Basel", "Chur"])])], Budget("1"))
TEXTS = [
    "a\0b",
    "\0",
    "",
    "a",
    "b",
    "ab",
    "aab",
    "abc",
    "c\n",
    "\n",
    "é",
    "a-b",
    "a.b",
    "[]",
    "A",
    "1",
    "12",
    "_ ",
]


def query(condition):
    return sql.parse(f"SELECT COUNT(*) FROM t WHERE {condition}", POLICY).query


def pattern(rng, depth=3):
    """A random pattern of the language."""
    kind = rng.randrange(9 if depth else 4)
    if kind < 2:
        return rng.choice("abcé1")
    if kind == 2:
        return rng.choice([".", r"\.", r"\d", r"\w", r"\s", r"\[", r"\-", "_"])
    if kind == 3:
        return rng.choice(["[a-c]", "[^a-c]", "[.-]", r"[\d_]", "[^b]", "[é1]", "[A-Z ]"])
    if kind == 4:
        return f"({pattern(rng, depth - 1)}|{pattern(rng, depth - 1)})"
    if kind == 5:
        inner = pattern(rng, depth - 1)
        return f"({inner}){rng.choice(['?', '*', '+', '{2}', '{1,3}', '{2,}', '{0,2}'])}"
    return pattern(rng, depth - 1) + pattern(rng, depth - 1)


def test_a_thousand_patterns_mean_what_python_and_duckdb_mean():
    """Seeded: no chance is involved. Python's own meaning, and RE2's by what is written."""
    rng, db = random.Random(7), duckdb.connect()
    db.execute("CREATE TABLE s (i INTEGER, t VARCHAR)")
    db.executemany("INSERT INTO s VALUES (?, ?)", list(enumerate(TEXTS)))
    for _ in range(1000):
        text = "^" * (rng.random() < 0.3) + pattern(rng) + "$" * (rng.random() < 0.3)
        found = read(text)
        ours = [found.matches(t) for t in TEXTS]
        # Python's $ matches before a last newline, \Z does not; its classes are made ASCII
        python = re.sub(r"(?<!\\)\$$", r"\\Z", text)
        assert ours == [re.search(python, t, re.DOTALL | re.ASCII) is not None for t in TEXTS], text
        assert compiles(found.text), (text, found.text)
        theirs = db.execute(
            "SELECT regexp_matches(t, ?, 's') FROM s ORDER BY i", [found.text]
        ).fetchall()
        assert ours == [t for (t,) in theirs], (text, found.text)


def test_matching_takes_time_in_proportion_to_the_text():
    assert not read("(a+)+$").matches("a" * 5_000 + "b")
    assert read("(a|aa)+$").matches("a" * 5_000)


REFUSED = [
    "", "a||b", "()", "(a", "a)", "*a", "a**", "a+?", r"\b", r"\1", "(?=a)", "(?i)a", "[[:alpha:]]",
    "[a&&b]", "a{101}", "(a{60}){60}", "[z-a]", "[]", "a{2,1}", "^a|b$", "x" * 201,
    "a\\", "[a", "{2}",
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_what_engines_read_in_different_ways_is_refused(text):
    with pytest.raises(QueryError, match="regular expression"):
        read(text)


UNSAFE = [
    "", "(a", "a)", "[a", "a{2", "a{101}", "(?:a{60}){60}", "(?=a)", r"\b", "a**", "[z-a]", "a||b",
    "(?:)", "[[:alpha:]]", r"[\d]", "(a)", "a\\", "^^", "a$b", "[a-]", "a{3,2}",
    "^", "$", "^$", "|a", "a|", "(?:|a)", "(?:a|)", "(?:a", "(?:a]", "(?:a|b", "a{2}{3}", "a?+",
    "*", "[b-a]", "[a-cz-y]", "a{1,101}", "a{100,101}", "(?:a{11}){100}", "(?:a{10}|b{11}){100}",
    "(?:b{11}|a{10}){100}", "(?:(?:a{2}){10}){51}", "x" * 4001, "(?:" * 41 + "a" + ")" * 41,
    "a" + "\\" * 3, "b\0", "[\0]",
]  # fmt: skip
SAFE = [
    "a", "^a", "a$", "^a$", r"\$", r"a\$", r"a\\$", r"a\\\$", "(?:a)", "(?:a|b)", "a|b", "a{100}",
    "a{1,100}", "a{3}", "a{3,}", "a{3,3}", "a{0}", "a*b+", "[a-z]", "[^a-z]", "[a-a]", "[abc]",
    ".", "x" * 4000, "(?:" * 40 + "a" + ")" * 40, "(?:a{10}){100}", "(?:a{9}|b{10}){100}",
    "(?:b{10}|a{9}){100}",
    "(?:a{0}){100}", "(?:(?:a{2}){10}){50}", "(?:a{10}){100}b", "a{50}b{50}", r"\.\*\[\]",
]  # fmt: skip


@pytest.mark.parametrize("text", UNSAFE)
def test_the_verifier_accepts_nothing_that_an_engine_may_refuse(text):
    assert not compiles(text)


def test_the_verifier_accepts_what_stays_just_inside():
    with duckdb.connect() as db:
        for text in SAFE:
            assert compiles(text), text
            assert db.execute("SELECT regexp_matches('ab', ?, 's')", [text]).fetchall()


def test_labels_are_matched_here_and_open_text_in_the_engine():
    assert query("c ~ '^B'") == query("c IN ('Bern', 'Basel')")
    assert query("REGEXP_LIKE(c, 'BAS', 'i')") == query("c IN ('Basel')")
    made = query("REGEXP_MATCHES(name, '^B.*n$')").relation
    assert any(isinstance(e, ex.Matches) for e in _nodes(made.condition))
    assert query("name RLIKE 'a'") == query("name REGEXP 'a'") == query("name ~ 'a'")
    assert query("name ~* 'a'") != query("name ~ 'a'")


def _nodes(e):
    return [e, *(n for c in e.children for n in _nodes(c))]


@pytest.mark.parametrize("condition", ["name ~ name", "name ~ '('", "REGEXP_LIKE(name, 'a', 'x')"])
def test_refusals_stand_before_any_price(condition):
    with pytest.raises(DiscreetError):
        query(condition)


def test_letters_of_either_case():
    for sign in string.ascii_letters:
        assert read(sign, fold=True).matches(sign.swapcase())
    assert read("[b-d]", fold=True).matches("C")
    assert not read("[^b-d]", fold=True).matches("C")


@pytest.mark.parametrize(
    "around", ["{}", "a{}", "{}a", "a{}b", "(?:{}b)", "(?:b{}|c)", "(?:c|{}b)"]
)
def test_a_pattern_is_copied_a_thousand_times_at_most_wherever_its_longest_part_stands(around):
    """What comes before or after it, or beside it, makes it no shorter."""
    assert compiles(around.format("(?:a{10}){100}"))
    assert compiles(around.format("(?:(?:a{10}b){10}c){10}"))
    for long in ("(?:a{11}){91}", "(?:(?:a{10}b){10}c){11}", "(?:a{2,50}){0,21}"):
        assert not compiles(around.format(long)), long
