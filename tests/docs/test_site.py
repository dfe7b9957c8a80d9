"""The site is whole: every page has a place, every name an entry, no table is stale."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import discreet
from discreet import errors, policy, sql
from discreet.cli import app
from discreet.cli._outcome import Exit
from discreet.errors import DiscreetError, QueryError
from discreet.plan import CALLS, FLUENT, FUNCTIONS, Statistic

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
FENCE = re.compile(r"^```sql([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _load():
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "_generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generate = _load()
PEOPLE = policy.loads(generate.PEOPLE)


def page(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


def missing(names, text: str) -> list[str]:
    """Names that no code span and no table of a text holds."""
    return [n for n in names if not re.search(rf"(?<![\w.]){re.escape(n)}(?![\w-])", text)]


# -- the site ------------------------------------------------------------------------


def test_every_page_is_in_the_table_of_contents():
    listed = re.findall(r"```{toctree}\n(.*?)```", page("index.md"), re.DOTALL)
    names = {line for block in listed for line in block.split("\n") if re.fullmatch(r"\w+", line)}
    assert names == {p.stem for p in PAGES} - {"index"}


def test_headings_that_links_name_are_there():
    for source in PAGES:
        text = source.read_text("utf-8")
        for file, anchor in re.findall(r"\]\(([\w]*\.md)?#([^)\s]+)\)", text):
            headings = re.findall(r"^#+ (.*)$", page(file or source.name), re.MULTILINE)
            assert anchor in {_anchor(h) for h in headings}, f"{source.name}: {file}#{anchor}"


def _anchor(heading: str) -> str:
    """Address of a heading, as GitHub and MyST make it."""
    plain = re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", r"\1", heading.lower())
    return re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-")


def test_no_page_loads_anything_from_elsewhere():
    for source in PAGES:
        loaded = re.findall(
            r"!\[[^]]*\]\((\w+://[^)]*)\)|<(?:script|img|link)[^>]*//", source.read_text("utf-8")
        )
        assert loaded == [], source.name


@pytest.mark.long
@pytest.mark.races
def test_the_site_is_built_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", DOCS, tmp_path / "site"]
    subprocess.run(command, check=True, cwd=tmp_path)
    index = (tmp_path / "site" / "index.html").read_text("utf-8")
    assert "searchindex" in index or (tmp_path / "site" / "searchindex.js").exists()
    assert not re.search(r"""(?:src|href)=["']https?://[^"']*\.(?:js|css|woff2?)""", index)


def test_pages_can_be_read_in_a_terminal():
    listed = CliRunner().invoke(app, ["docs", "--json"])
    assert set(json.loads(listed.stdout)["result"]["pages"]) == {p.stem for p in PAGES} - {"index"}
    assert "five_pages" in CliRunner().invoke(app, ["docs"]).stdout
    for name in ("faq", "faq.md"):
        assert CliRunner().invoke(app, ["docs", name]).stdout == page("faq.md")
    for name in ("nowhere", "../README"):
        assert CliRunner().invoke(app, ["docs", name]).exit_code == Exit.USAGE


# -- tables that the program writes -----------------------------------------------------


@pytest.mark.parametrize("source", PAGES, ids=lambda p: p.name)
def test_generated_tables_are_fresh(source):
    text = source.read_text("utf-8")
    assert generate.render(text) == text, "run: python docs/_generate.py"


def test_a_stale_table_is_seen():
    text = page("sql.md")
    assert generate.render(text.replace("| `AVG`, `MEAN` |", "| `AVG` |")) == text
    assert text.replace("| `AVG`, `MEAN` |", "| `AVG` |") != text


def test_each_example_of_a_function_or_statistic_can_be_asked():
    first = {f.names[0] for f in FUNCTIONS.values()}
    assert set(generate.EXAMPLES) == first
    for name, (example, _) in generate.EXAMPLES.items():
        assert name in example, name
        sql.parse(generate.question(example), PEOPLE)
    for example in generate.STATISTICS.values():
        sql.parse(generate.question(example), PEOPLE)


def _statements(*, refused: bool) -> list[str]:
    found = [body for info, body in FENCE.findall(page("sql.md")) if ("refused" in info) is refused]
    return [s.strip() for body in found for s in body.split(";\n") if s.strip()]


@pytest.mark.parametrize("statement", _statements(refused=False))
def test_what_the_page_shows_can_be_asked(statement):
    sql.parse_any(statement, PEOPLE)


@pytest.mark.parametrize("statement", _statements(refused=True))
def test_what_the_page_calls_refused_is_refused(statement):
    with pytest.raises(QueryError):
        sql.parse_any(statement, PEOPLE)


# -- nothing is left out -----------------------------------------------------------------


def test_every_sql_function_and_statistic_is_documented():
    text = page("sql.md")
    assert missing([*FUNCTIONS, *CALLS], text) == []
    assert missing([f"dc.{n}" for n in FLUENT], text) == []
    # asked in Python only; publications have a page of their own, once they are loaded
    shown = {k.__name__ for k in Statistic.kinds} - {"LinearImage", "Publish", "SplinesOf"}
    assert set(generate.STATISTICS) == shown
    assert missing(["NO_SUCH_FUNCTION"], text) == ["NO_SUCH_FUNCTION"]


def _tree(kind: type) -> list[type]:
    own = [c for c in kind.__subclasses__() if c.__module__ == errors.__name__]
    return [kind, *(d for c in own for d in _tree(c))]


def test_every_error_and_its_code_are_documented():
    kinds = _tree(DiscreetError)
    assert len(kinds) > 20
    assert missing([n for k in kinds for n in (k.__name__, k.code)], page("errors.md")) == []


def test_every_key_of_a_policy_is_documented():
    public = [getattr(policy, n) for n in policy.__all__]
    columns = [kind for kind in public if isinstance(getattr(kind, "type", None), str)]
    assert len(columns) > 6
    kinds = (policy.Policy, policy.Budget, policy.Table, type(PEOPLE.service), *columns)
    keys = {field.name for kind in kinds for field in dataclasses.fields(kind)}
    text = page("policy.md")  # a word in prose documents nothing
    assert [k for k in sorted(keys) if f"`{k}`" not in text and f"[{k}" not in text] == []


def test_every_public_name_is_documented():
    text = page("python.md")
    statistics = set(FLUENT)
    names = [n for n in discreet.__all__ if n not in statistics and not n.startswith("__")]
    assert [n for n in names if f"dc.{n}" not in text and f"discreet.{n}" not in text] == []


@pytest.mark.parametrize(
    "module",
    [
        "audit",
        "inference",
        "lab",
        "ledger",
        "local",
        "meaning",
        "mechanisms",
        "noise",
        "policy",
        "privacy",
        "release",
    ],
)
def test_every_name_of_a_package_has_a_docstring(module):
    """The Python page lists packages; Sphinx writes their names from these texts."""
    package = getattr(discreet, module)
    assert f"discreet.{module}" in page("python.md")
    bare = [
        n
        for n in package.__all__
        if (inspect.isclass(o := getattr(package, n)) or inspect.isfunction(o)) and not o.__doc__
    ]
    assert bare == []
