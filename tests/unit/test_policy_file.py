"""Policy files: what they mean, and errors that quote the line with one fix that works."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from fractions import Fraction

import pytest

from discreet import policy as pol
from discreet.errors import PolicyError
from discreet.policy._lines import locate

GOOD = """\
# everything in this file is public
[budget]
epsilon = "2"
delta = 1e-6
accounting = "zcdp"            # pure | approx | zcdp

[budget.shares]
alice = "0.5"
bob = 0.25

[tables.people]
source = "people.parquet"
unit = "person_id"             # omit: one row = one person
neighbours = "add-remove"      # or "change-one"
max_rows_per_unit = 3

[tables.people.columns]
sex    = { type = "category", values = ["F", "M", "X"] }
age    = { type = "integer", min = 0, max = 115 }
income = { type = "real", min = 0, max = 200_000, step = "0.01" }
born   = { type = "date", min = 1900-01-01, max = "2030-12-31", outside = "null" }
seen   = { type = "timestamp", min = 2020-01-01T00:00:00Z, max = 2030-01-01, step = 60 }
works  = { type = "boolean", null = false }
"home town" = { type = "text" }

[tables.zips]
public = true
columns = { zip = { type = "text" }, area = { type = "real", min = 0.0, max = 0.3 } }
"""


def test_the_whole_file_gives_the_whole_model():
    policy = pol.loads(GOOD)
    assert policy.budget == pol.Budget("2", "1e-6", shares={"alice": "0.5", "bob": "0.25"})
    assert list(policy.tables) == ["people", "zips"]
    assert policy.table("people") == pol.Table(
        "people",
        [
            pol.Category("sex", ["F", "M", "X"]),
            pol.Integer("age", 0, 115),
            pol.Real("income", 0, 200_000, step="0.01"),
            pol.Date("born", dt.date(1900, 1, 1), dt.date(2030, 12, 31), outside="null"),
            pol.Timestamp("seen", "2020-01-01", "2030-01-01", step=60),
            pol.Boolean("works", null=False),
            pol.Text("home town"),
        ],
        source="people.parquet",
        unit="person_id",
        max_rows_per_unit=3,
    )
    assert policy.table("zips").column("area").max == Fraction(3, 10)


def test_floats_in_the_file_are_the_decimals_they_spell():
    text = GOOD.replace('epsilon = "2"', "epsilon = 0.1000000000000000055511151231257827")
    assert pol.loads(text).budget.epsilon == Fraction("0.1000000000000000055511151231257827")


def test_the_written_file_reads_back():
    policy = pol.loads(GOOD)
    assert pol.loads(pol.dumps(policy)) == policy
    assert list(pol.loads(pol.dumps(policy)).table("people").columns) == list(
        policy.table("people").columns
    )
    assert pol.load(policy.to_mapping()) == policy


def test_every_character_survives_the_written_file():
    name = "".join(map(chr, range(1, 256)))[:255]
    policy = pol.Policy(
        [pol.Table(name, [pol.Category(name, [name, "\u2028\U0001f600"])])], pol.Budget(1)
    )
    assert pol.loads(pol.dumps(policy)) == policy


def test_comments_spaces_and_section_style_do_not_matter():
    plain = pol.loads(GOOD)
    styled = GOOD.replace("[tables.people.columns]\nsex    =", "[tables.people.columns]\n\n'sex'=")
    assert pol.loads("\ufeff" + styled.replace("\n", "\r\n")) == plain
    assert pol.loads(styled).fingerprint == plain.fingerprint


def test_load_takes_paths_text_mappings_and_policies(tmp_path):
    path = tmp_path / "people.toml"
    path.write_text(GOOD, "utf-8")
    policy = pol.loads(GOOD)
    assert pol.load(path) == pol.load(str(path)) == pol.load(GOOD) == policy
    assert pol.load(policy) is policy


@pytest.mark.parametrize("path", ["missing.toml", "", "a\0b", ".", b"x", 5, None])
def test_unreadable_sources_are_policy_errors(path):
    with pytest.raises(PolicyError):
        pol.load(path)


def test_bytes_that_are_not_text_name_their_line(tmp_path):
    path = tmp_path / "p.toml"
    path.write_bytes(b"[budget]\nepsilon = '\xff'\n")
    with pytest.raises(PolicyError, match="line 2: not UTF-8") as caught:
        pol.load(path)
    assert caught.value.line == 2


# (text to replace, replacement, words of the message, text of the quoted line, hint)
MISTAKES = [
    # the newcomer's
    ("min = 0, max = 115", "max = 115", "public bounds", "age ",
     'age = { type = "integer", max = 115, min = 0 }'),
    ('type = "integer", ', "", "needs a type", "age ",
     'age = { type = "integer", min = 0, max = 115 }'),
    ('"integer"', '"int"', "no type", "age ", 'age = { type = "integer", min = 0, max = 115 }'),
    ('"integer"', "integer", "not TOML", "age ",
     'age    = { type = "integer", min = 0, max = 115 }'),
    ("age    =", "größe =", "not TOML", "größe",
     '"größe" = { type = "integer", min = 0, max = 115 }'),
    ("max_rows_per_unit = 3\n", "", "any number of rows", "unit =", "max_rows_per_unit = 1"),
    # misspelt keys
    ("max_rows_per_unit", "max_row_per_unit", "no key", "max_row_per_unit",
     "max_rows_per_unit = 3"),
    ("values =", "value =", "no key", "sex ",
     'sex = { type = "category", values = ["F", "M", "X"] }'),
    ("[budget]", "[polcy]\nname = 'x'\n[budget]", "no key", "[polcy]", "[policy]"),
    ("[tables.people.columns]", "[tables.people.column]", "no key", "[tables.people.column]",
     "[tables.people.columns]"),
    ("epsilon", "epsilom", "no key", "epsilom", 'epsilon = "2"'),
    ("public = true", "public = true\nqqq = 1", "no key", "qqq", "# qqq = 1"),
    # values
    ("min = 0, max = 115", "min = 115, max = 0", "above max", "age ",
     'age = { type = "integer", min = 0, max = 115 }'),
    ("min = 0, max = 115", "min = true, max = 115", "number, got bool", "age ",
     'age = { type = "integer", min = 0, max = 115 }'),
    ("200_000,", "nan,", "not a number", "income",
     'income = { type = "real", min = 0, max = 100, step = "0.01" }'),
    ("200_000,", "1e999999999,", "digits", "income",
     'income = { type = "real", min = 0, max = 100, step = "0.01" }'),
    ("200_000,", "0.005,", "multiple of step", "income",
     'income = { type = "real", min = 0, max = "0.01", step = "0.01" }'),
    ('"0.01"', "0.3", "one over a whole", "income",
     'income = { type = "real", min = 0, max = 200000, step = "0.25" }'),
    ('["F", "M", "X"]', '["F",\n "M",\n "F"]', "twice", '"F"] }',
     'sex = { type = "category", values = ["F", "M"] }'),
    ('["F", "M", "X"]', '["F", 1.5]', "one type", "sex ",
     'sex = { type = "category", values = ["a", "b"] }'),
    ("null = false", "nullable = false", "what a NULL becomes", "works",
     'works = { type = "boolean", nullable = false, null = false }'),
    ('"null" }', '"drop" }', "one of clamp, null", "born",
     'born = { type = "date", min = 1900-01-01, max = "2030-12-31", outside = "clamp" }'),
    ('{ type = "text" }\n', '"text"\n', "table with a type", '"home town"',
     '"home town" = { type = "text" }'),
    # tables
    ('"person_id"', "7", "text in quotes", "unit", None),
    ("max_rows_per_unit = 3", "max_rows_per_unit = 0", "from 1", "max_rows",
     "max_rows_per_unit = 1"),
    ('"add-remove"', '"add_remove"', "one of add-remove", "neighbours",
     'neighbours = "add-remove"'),
    ('unit = "person_id"', "", "without unit", "max_rows", "# max_rows_per_unit = 3"),
    ("public = true", 'public = true\nneighbours = "add-remove"', "is public", "neighbours",
     '# neighbours = "add-remove"'),
    ("public = true", "public = 1", "true or false", "public", "public = true"),
    # budget
    ("1e-6", "0", "needs delta", "[budget]", 'delta = "1e-6"'),
    ('"zcdp"', '"pure"', "no delta", "delta", 'accounting = "zcdp"'),
    ('"2"', '"two"', "not a number", "epsilon", 'epsilon = "1"'),
    ("0.25", "0.75", "is left", "bob", 'shares = { alice = "0.5", bob = "0.5" }'),
    ("[budget]", '[policy]\nname = ""\n[budget]', "empty", "name", 'name = "people"'),
    # TOML itself
    ("delta =", "epsilon = 3\ndelta =", "Cannot overwrite", "epsilon = 3", "# epsilon = 3"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "words", "row", "hint"), MISTAKES)
def test_mistakes_quote_their_line_and_one_fix(old, new, words, row, hint):
    text = GOOD.replace(old, new, 1)
    assert text != GOOD
    with pytest.raises(PolicyError, match=words) as caught:
        pol.loads(text, "people.toml")
    error = caught.value
    quoted = text.split("\n")[error.line - 1].strip()
    assert quoted.startswith(row)
    assert f"people.toml, line {error.line}: " in str(error)
    assert f"\n    {error.line} | {quoted}" in str(error)
    assert error.hint == hint


COLUMN_MISTAKES = [m[:2] for m in MISTAKES if m[3] in {"age ", "sex ", "income", "born", "works"}]


@pytest.mark.parametrize(("old", "new"), COLUMN_MISTAKES)
def test_the_fix_of_a_column_works_when_pasted(old, new):
    lines = GOOD.replace(old, new, 1).split("\n")
    with pytest.raises(PolicyError) as caught:
        pol.loads("\n".join(lines))
    lines[caught.value.line - 1] = caught.value.hint
    assert pol.loads("\n".join(lines))


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", 'budget = { epsilon = "1" }'),
        ("[budget]\nepsilon = 1", "[tables.people.columns]"),
        ("budget = 1", 'budget = { epsilon = "1" }'),
        ("[budget]\nepsilon = 1\n[tables]\nt = 1", "[tables.t]"),
        ("[budget]\nepsilon = 1\n[tables.t]\npublic = true",
         'columns = { id = { type = "text" } }'),
        ("[budget]\nepsilon = 1\n[tables.t]\npublic=true\ncolumns = {a = {type = 'text'}}",
         "public = false"),
    ],
)  # fmt: skip
def test_missing_parts(text, hint):
    with pytest.raises(PolicyError) as caught:
        pol.loads(text)
    assert caught.value.hint == hint


def test_mappings_name_the_keys_instead_of_a_line():
    mapping = {
        "budget": {"epsilon": 1},
        "tables": {"t": {"columns": {"age": {"type": "integer", "min": 5, "max": 1}}}},
    }
    with pytest.raises(PolicyError, match=r"^tables\.t\.columns\.age\.min: ") as caught:
        pol.load(mapping)
    assert caught.value.line is None
    assert caught.value.path == ("tables", "t", "columns", "age", "min")


@pytest.mark.parametrize(
    "noise",
    [
        'x = """\n[budget]\nepsilon = 5\n"""\n',
        "x = '''\n[budget]\n'''\n",
        'x = "[budget] # \\" = {"\n',
        "x = [ # [\n  '[', # ]\n  [1, 2],\n]\n",
        'x = {a = [1, {b = "}"}], "c.d" = 2}\n',
        "x = 2020-01-01 00:00:00\n",
        "x = [\n 1 # one\n ,\n 'two'\n]\n",
        'x = """a""""\n',
    ],
)
def test_lines_are_right_whatever_stands_above(noise):
    text = noise + "[budget]\nepsilon = 0\n"
    assert locate(text)["budget", "epsilon"] == text.split("\n").index("epsilon = 0") + 1


@pytest.mark.races
def test_importing_policy_needs_no_engine():
    code = "import discreet.policy, sys; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not {"duckdb", "pyarrow", "pandas", "sqlglot", "scipy.stats"} & set(ran.stdout.split())


def test_values_of_a_category_come_from_a_public_file(tmp_path):
    (tmp_path / "codes.txt").write_text("\ufeffA00\nB01\n\n A00 \nC02\n", "utf-8")
    policy = tmp_path / "p.toml"
    start = '[budget]\nepsilon = "1"\n[tables.t.columns]\n'
    policy.write_text(start + 'code = { type = "category", values = { file = "codes.txt" } }\n')
    from discreet.policy import load

    assert load(policy).table("t").column("code").values == ("A00", "B01", "C02")
    for wrong in ('{ file = "none.txt" }', '{ table = "x" }', "{ file = 3 }", "{}"):
        policy.write_text(start + f'code = {{ type = "category", values = {wrong} }}\n')
        with pytest.raises(PolicyError):
            load(policy)


def test_a_category_takes_the_list_of_a_public_table():
    text = """
[budget]
epsilon = 1
[tables.regions]
public = true
columns = { code = { type = "category", values = ["n", "s"] }, name = { type = "text" } }
[tables.t.columns]
region = { type = "category", values = { table = "regions", column = "code" } }
"""
    assert pol.loads(text).table("t").column("region").values == ("n", "s")
    for old, new in (('column = "code"', 'column = "name"'), ("public = true", "public = false"),
                     ('table = "regions"', 'table = "t"')):  # fmt: skip
        with pytest.raises(PolicyError, match="a column of a public table"):
            pol.loads(text.replace(old, new, 1))


def test_a_wrong_number_of_a_service_is_quoted_with_its_own_line():
    text = "[budget]\nepsilon = 1\n[service]\nowners = 2\nexpiry = 999\n[tables.t.columns]\n"
    with pytest.raises(PolicyError, match="expiry must be from 1 to 366") as refused:
        pol.loads(text + 'age = { type = "integer", min = 0, max = 9 }\n')
    assert (refused.value.line, refused.value.hint) == (5, "expiry = 366")
