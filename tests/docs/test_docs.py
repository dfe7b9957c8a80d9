"""The documentation runs: every ```python and ```console block of the README and docs/, in order.

A block that ends in an expression shows its repr, as a notebook would. A ```text block right
after a ```python block is the expected output: words must agree, numbers must agree to the
digits shown, ``...`` stands for anything. In ```text noisy blocks numbers may differ (the
output contains real noise); words and the number of numbers may not. A refusal
(:class:`~discreet.errors.DiscreetError`) may be shown as output too.

Lines of a ```console block that begin with ``$`` are run by a shell; what follows each is its
output (```console noisy: numbers may differ). A block of any language with a file's name after it
(```toml people.toml) is that file: it is written, not run.

Noise of ```python blocks is a function of the page's name, as in every test. Programs of
```console blocks draw real noise; only the words that they show are compared.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from discreet import mechanisms
from discreet.errors import DiscreetError

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ ([^\n]*)\n((?:(?!\$ )[^\n]*\n)*)", re.MULTILINE)
# digits may be grouped by underscores or, as answers print them, by thin spaces
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d[\d_\u2009]*\.?\d*|\.\d+)(?:e[-+]?\d+)?", re.IGNORECASE)

_UNGROUP = str.maketrans("", "", "_\u2009")


@dataclass(frozen=True)
class Block:
    """Code, or a shell's line, with what it shows; or a file."""

    code: str
    line: int
    expected: str | None = None
    noisy: bool = False
    language: str = "python"
    file: str | None = None


def blocks(text: str) -> list[Block]:
    """Return what a page runs and writes, in order, each with the output that follows it."""
    found: list[Block] = []
    end = -1
    for match in FENCE.finditer(text):
        language, info, body = match.group(1), match.group(2).strip(), match.group(3)
        line = text.count("\n", 0, match.start()) + 2
        if re.fullmatch(r"[\w-]+\.\w+", info):
            found.append(Block(body, line, file=info))
            end = -1
        elif language == "python":
            found.append(Block(body, line))
            end = match.end()
        elif language == "console":
            for command, shown in COMMAND.findall(body):
                found.append(Block(command, line, shown, info == "noisy", "console"))
            end = -1
        elif language == "text" and end >= 0 and not text[end : match.start()].strip():
            last = found.pop()
            found.append(Block(last.code, last.line, body, info == "noisy"))
            end = -1
    return found


def shell(command: str, folder: Path) -> str:
    """Run a shell's line in a folder where `discreet` and `python` are ours."""
    ours = folder / ".bin"
    ours.mkdir(exist_ok=True)
    for name, start in (("discreet", "-m discreet"), ("python", "")):
        program = ours / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {start} "$@"\n', "utf-8")
        program.chmod(0o755)
    environment = os.environ | {"PATH": f"{ours}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        check=False,
    )
    return done.stdout


def run(block: Block, names: dict[str, object], page: str) -> str:
    """Execute a block and return what it shows."""
    tree = ast.parse("\n" * (block.line - 1) + block.code, page)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    shown = io.StringIO()
    try:
        with contextlib.redirect_stdout(shown):
            exec(compile(tree, page, "exec"), names)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), page, "eval"), names)
                if value is not None:
                    shown.write(f"{value!r}\n")
    except DiscreetError as refusal:
        if block.expected is None:
            raise
        shown.write(f"{type(refusal).__name__}: {refusal}\n")
    return shown.getvalue()


def disagreement(expected: str, shown: str, *, noisy: bool = False) -> str | None:
    """Say where output and expectation part, or None."""
    pattern = _pattern(expected)
    match = re.fullmatch(pattern, _squeeze(shown))
    if match is None:
        return f"expected\n{expected}\nbut saw\n{shown}"
    if noisy:
        return None
    for want, got in zip(_numbers(expected), match.groups(), strict=True):
        if abs(float(want.translate(_UNGROUP)) - float(got.translate(_UNGROUP))) > _last_digit(
            want
        ):
            return f"expected {want}, saw {got} in\n{shown}"
    return None


def _squeeze(text: str) -> str:
    # rules under headings are as wide as the noise makes the columns
    return re.sub("─+", "─", " ".join(re.split(r"[ \t\n]+", text.strip())))


def _numbers(text: str) -> list[str]:
    return NUMBER.findall(_squeeze(text))


def _pattern(expected: str) -> str:
    parts = NUMBER.split(_squeeze(expected))
    plain = [re.escape(part).replace(re.escape("..."), ".*?") for part in parts]
    return f"({NUMBER.pattern})".join(plain)


def _last_digit(number: str) -> float:
    mantissa, _, exponent = number.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 1.01 * 10.0 ** (int(exponent or 0) - decimals) if "." in mantissa or exponent else 0.0


def _starts_programs(page: Path) -> bool:
    return "```console" in page.read_text("utf-8")


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=[pytest.mark.races] * _starts_programs(p), id=p.name) for p in PAGES],
)
def test_every_code_block_runs_and_shows_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "docs"}
    for block in blocks(page.read_text("utf-8")):
        if block.file is not None:
            (tmp_path / block.file).write_text(block.code, "utf-8")
            continue
        if block.language == "console":
            shown = shell(block.code, tmp_path)
        else:
            shown = run(block, names, page.name)
        if block.expected is not None:
            wrong = disagreement(block.expected, shown, noisy=block.noisy)
            assert wrong is None, f"{page.name}, line {block.line}: {wrong}"


# -- the checker can fail -------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "shown", "agrees"),
    [
        ("0.11157", "0.111572", True),
        ("0.112", "0.111572", True),
        ("0.1134", "0.111572", False),
        ("5", "6", False),
        ("1e-6", "1.2e-6", True),
        ("1.0e-6", "2e-6", False),
        ("at most 3.", "at most 3.", True),
        ("at most 3", "at least 3", False),
        ("a ... z 1", "a b c z 1", True),
        ("1 2", "1", False),
    ],
)
def test_checker_compares_words_exactly_and_numbers_to_the_digits_shown(expected, shown, agrees):
    assert (disagreement(expected, shown) is None) is agrees


def test_noisy_blocks_still_compare_words():
    assert disagreement("value 10", "value 12", noisy=True) is None
    assert disagreement("value 10", "worth 12", noisy=True)
    assert disagreement("value 10", "value 12, 3", noisy=True)


def test_blocks_are_found_with_their_expectations():
    page = "a\n```python\n1 + 1\n```\n\n```text\n2\n```\nwords\n```text\nnot output\n```\n"
    (only,) = blocks(page)
    assert (only.line, only.expected) == (3, "2\n")
    assert run(only, {}, "page") == "2\n"
    noisy = blocks("```python\n1\n```\n```text noisy\n2\n```\n")
    assert noisy[0].noisy


@pytest.mark.races
def test_a_shells_lines_are_found_and_run(tmp_path):
    page = "```text a.txt\nhello\n```\n\n```console noisy\n$ cat a.txt\nhello\n$ discreet -h\n```\n"
    file, first, second = blocks(page)
    assert (file.file, file.code) == ("a.txt", "hello\n")
    assert (first.code, first.expected, first.noisy) == ("cat a.txt", "hello\n", True)
    assert (second.code, second.expected) == ("discreet -h", "")
    (tmp_path / "a.txt").write_text(file.code)
    assert shell(first.code, tmp_path) == "hello\n"
    assert "Usage" in shell(second.code, tmp_path)


def test_unexpected_refusals_fail():
    code = "from discreet import mechanisms as m\nm.laplace(1, 1, 0)\n"
    with pytest.raises(DiscreetError):
        run(Block(code, 1), {}, "page")
    assert run(Block(code, 1, "..."), {}, "page").startswith("ParameterError: epsilon")


# -- the pages are complete ---------------------------------------------------------


def test_every_mechanism_is_documented():
    text = (ROOT / "docs" / "mechanisms.md").read_text("utf-8")
    tools = {"recorded", "recording"}  # what an auditor uses; docs/audit.md
    functions = [n for n in mechanisms.__all__ if n.islower() and n not in tools]
    assert [n for n in functions if f"`{n}" not in text] == []


def test_every_erratum_names_a_test_that_exists():
    text = (ROOT / "docs" / "errata.md").read_text("utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    assert len(named) >= len(re.findall(r"^### ", text, re.MULTILINE)) > 8
    for file, test in named:
        tree = ast.parse((ROOT / file).read_text("utf-8"))
        defined = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
        assert test in defined, f"{file}::{test}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\((?!\w+://|#|mailto:)([^)#\s]+)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), target
