"""The program as a shell sees it: start-up, help, pipes, terminals, documentation."""

from __future__ import annotations

import importlib
import json
import os
import re
import select
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from typer.main import get_command

import discreet
from discreet.cli import app, main
from discreet.cli._console import bar, sparkline
from discreet.cli._outcome import MEANING

ROOT = Path(__file__).parents[2]
DOC = (ROOT / "docs" / "cli.md").read_text("utf-8")


def shell(*arguments, cwd, code=0, **env):
    """Run the program as a process of its own; its result."""
    done = subprocess.run(
        [sys.executable, "-m", "discreet", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=120,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "XDG_STATE_HOME": str(cwd / "state"), **env},
    )
    assert done.returncode == code, (done.stdout, done.stderr)
    return done


def commands(group=None, prefix="discreet"):
    """Every command with its full name."""
    group = group or get_command(app)
    yield prefix, group
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, f"{prefix} {name}")


@pytest.mark.races
def test_help_imports_nothing_heavy():
    code = (
        "import sys\n"
        "from discreet.cli import main\n"
        "try:\n    main(['ask', '--help'])\n"
        "except SystemExit as e:\n    assert e.code == 0\n"
        "sys.stderr.write(' '.join(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, encoding="utf-8"
    )
    loaded = set(done.stderr.split())
    heavy = {"numpy", "scipy", "duckdb", "pyarrow", "sqlglot", "cryptography", "pandas",
             "vl_convert", "sqlite3", "discreet.policy", "discreet.curator"}  # fmt: skip
    assert not heavy & loaded
    assert "--epsilon" in done.stdout


def test_the_entry_point_is_the_program():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    module, _, name = project["scripts"]["discreet"].partition(":")
    assert getattr(importlib.import_module(module), name) is main


def test_every_command_and_option_is_documented():
    pattern = re.compile(r"^(## (discreet \w+)\n.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
    sections = {title: body for body, title in pattern.findall(DOC)}
    for name, command in commands():
        words = name.split()
        text = DOC if len(words) == 1 else sections[" ".join(words[:2])]
        assert name in text
        assert command.help
        for parameter in command.params:
            if parameter.param_type_name == "option":
                assert parameter.help, (name, parameter.name)
                for option in [*parameter.opts, *parameter.secondary_opts]:
                    assert f"`{option}" in text, (name, option)


def test_exit_codes_are_documented():
    for code, words in MEANING.items():
        name, _, what = words.partition(": ")
        assert f"| {int(code)} | {name.split()[0]} |" in DOC
        assert what in DOC


def test_help_of_every_command_fits_and_leaves_with_zero(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for name, _ in commands():
        with pytest.raises(SystemExit) as left:
            main([*name.split()[1:], "--help"])
        assert left.value.code == 0
        assert f"Usage: {name}" in capsys.readouterr().out


def test_no_command_shows_help_and_version_shows_itself(capsys):
    for arguments, said in (([], "Usage: discreet"), (["--version"], discreet.__version__)):
        with pytest.raises(SystemExit) as left:
            main(arguments)
        assert left.value.code == 0
        assert said in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["nonsense"], ["ask", "--bogus"], ["explain"]])
def test_usage_errors_are_code_two_in_both_forms(capsys, arguments):
    for more in ([], ["--json"]):
        with pytest.raises(SystemExit) as left:
            main([*arguments, *more])
        assert left.value.code == 2
    out = capsys.readouterr().out
    assert json.loads(out)["error"] == "usage"


@pytest.mark.races
def test_the_demonstration_is_plain_in_a_pipe_and_leaves_nothing(tmp_path):
    out = shell("demo", "--people", "500", cwd=tmp_path, NO_COLOR="1").stdout
    assert "\x1b" not in out
    assert all(len(line) <= 80 for line in out.splitlines())
    for part in ("[budget]", "cost    ε 0.5", "± at 95 %", "chain, totals and anchors agree",
                 "refused: the budget has", "privacy unit", "The odds of anything"):  # fmt: skip
        assert part in out
    assert not list(tmp_path.iterdir())


@pytest.mark.races
def test_the_demonstration_as_data_and_kept(tmp_path):
    done = shell("demo", "--people", "400", "--keep", "clinic", "--json", cwd=tmp_path)
    told = json.loads(done.stdout)["result"]
    assert told["refusals"] == [
        {"error": "budget-exceeded", "exit": 3},
        {"error": told["refusals"][1]["error"], "exit": 1},
    ]
    assert told["budget"]["again"] is True
    kept = shell("ledger", "verify", "-p", "clinic/clinic.toml", cwd=tmp_path)
    assert "2 of them debits" in kept.stdout
    shell("demo", "--keep", "clinic", cwd=tmp_path, code=2)


@pytest.mark.races
def test_a_terminal_without_greek_still_gets_an_answer(tmp_path):
    done = shell("meaning", "-e", "0.5", cwd=tmp_path, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert "What ? = 0.5 means" in done.stdout


@pytest.mark.races
def test_a_reader_who_leaves_early_causes_no_noise(tmp_path):
    command = f"{sys.executable} -m discreet meaning -e 0.5 | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True,
                          cwd=tmp_path, encoding="utf-8")  # fmt: skip
    assert done.stdout.startswith("What ε")
    assert not done.stderr


def _talk(tmp_path, script):
    """Type lines at the prompt, each when it is asked for; return the screen."""
    import pty

    shell("demo", "--people", "300", "--keep", "clinic", "--json", cwd=tmp_path)
    screen, keyboard = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "discreet", "ask", "-e", "0.1"],
        cwd=tmp_path / "clinic",
        stdin=keyboard,
        stdout=keyboard,
        stderr=keyboard,
        start_new_session=True,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "TERM": "dumb",
             "COLUMNS": "200"},
    )  # fmt: skip
    os.close(keyboard)
    seen = ""
    try:
        for expected, typed in script:
            seen += _until(screen, expected)
            os.write(screen, typed.encode())
        seen += _until(screen, None)
        assert process.wait(60) == 0, seen
    finally:
        process.kill()
        process.wait()
        os.close(screen)
    return seen


@pytest.mark.races
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_the_prompt_completes_commands_words_tables_and_columns(tmp_path):
    """Tabs alone complete what is typed: the question is read only if all of them are right."""
    script = [
        ("discreet> ", "\\tab\t\n"),
        ("discreet> ", "SEL\t regi\t, AV\tag\t) AS a FROM vis\t GRO\t 1;\n"),
        ("[y/N] ", "n\n"),
        ("discreet> ", "SELECT visits.smo\t FROM visits;\n"),
        ("discreet> ", "\\q\t\n"),
    ]
    seen = re.sub(r"\x07", "", _talk(tmp_path, script))
    assert "region, reason, age, smoker, cost" in seen
    assert "a: ±" in seen or "a ±" in seen
    assert "visits.smoker" in seen


@pytest.mark.races
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_the_prompt_prices_first_and_never_spends_unasked(tmp_path):
    count = "SELECT COUNT(*) AS n FROM visits"
    script = [
        ("discreet> ", "\\tables\n"),
        ("discreet> ", f"{count}\n"),
        ("...> ", ";\n"),
        ("[y/N] ", "n\n"),
        ("discreet> ", f"{count};\n"),
        ("[y/N] ", "y\n"),
        ("discreet> ", "SELECT AVG(nothing) AS a FROM visits;\n"),
        ("discreet> ", "\\epsilon 9\n"),
        ("discreet> ", f"{count};\n"),
        ("[y/N] ", "y\n"),
        ("discreet> ", "\\quit\n"),
    ]
    seen = _talk(tmp_path, script)
    assert "region, reason, age, smoker, cost" in seen
    assert "cost ε 0.1" in seen
    assert "refused: there is no column" in seen
    assert "refused: the budget has" in seen
    told = shell("budget", "--json", "-p", "clinic/clinic.toml", cwd=tmp_path).stdout
    lines = json.loads(told)["result"]["entries"]
    assert [line["epsilon"] for line in lines if line["kind"] == "debit"][2:] == ["0.1"]
    history = tmp_path / "state" / "discreet" / "history"
    assert history.stat().st_mode & 0o777 == 0o600
    assert count in history.read_text("utf-8")


def _until(screen, expected, seconds=60.0):
    """Read a terminal until it shows something, or (None) until it closes."""
    seen, end = "", time.monotonic() + seconds
    while time.monotonic() < end:
        ready, _, _ = select.select([screen], [], [], 0.5)
        if not ready:
            continue
        try:
            chunk = os.read(screen, 4096)
        except OSError:
            return seen
        if not chunk:
            return seen
        seen += chunk.decode("utf-8", "replace")
        if expected is not None and seen.endswith(expected):
            return seen
    pytest.fail(f"waited for {expected!r}, saw {seen!r}")


@pytest.mark.races
def test_completion_scripts_are_there(tmp_path):
    done = shell(cwd=tmp_path, _DISCREET_COMPLETE="complete_bash", COMP_WORDS="discreet bud",
                 COMP_CWORD="1", _TYPER_COMPLETE_ARGS="discreet bud")  # fmt: skip
    assert "budget" in done.stdout


def test_small_pictures():
    assert bar(2.0, 4) == "████"
    assert bar(-1.0, 4) == "····"
    assert sparkline([]) == ""
    assert sparkline([0, 0]) == "··"
    assert sparkline([1e-9, 1]) == "▁█"
