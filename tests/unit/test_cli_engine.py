"""``discreet engine check``: what is wrong with an engine, or with its name."""

from __future__ import annotations

import sys

import pytest
from typer.testing import CliRunner

from discreet import engines
from discreet.cli import app
from discreet.cli._outcome import Exit

RUN = CliRunner()
ENGINES = """
from discreet.engines import Reference

def right(sample, policy):
    return Reference(sample.rows)

class Generous(Reference):
    def execute(self, aggregate, salt):
        found = super().execute(aggregate, salt)
        return {key: tuple(n + 1 for n in numbers) for key, numbers in found.items()}

def wrong(sample, policy):
    return Generous(sample.rows)

def down(sample, policy):
    raise OSError("no server here")
"""


@pytest.fixture
def check(tmp_path, monkeypatch):
    """The command, in a folder with a module of engines that was just written."""
    name = f"own_engines_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(ENGINES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])

    def run(url):
        words = ["engine", "check", url.format(own=name), "--rows", "20", "--every", "400"]
        return RUN.invoke(app, words, catch_exceptions=False)

    yield run
    sys.modules.pop(name, None)


def test_an_engine_of_the_folder_is_found_and_checked(check):
    done = check("{own}:right")
    assert done.exit_code == 0, done.output
    assert "nothing found" in done.output


def test_wrong_integers_are_listed(check):
    done = check("{own}:wrong")
    assert done.exit_code == Exit.FOUND
    assert "FAIL" in done.output
    assert "number 1 is" in done.output


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("{own}:down", "OSError('no server here')"),
        ("{own}:nothing", "has no function 'nothing'"),
        ("{own}:ENGINES", "has no function 'ENGINES'"),
        ("no_such_module:right", "No module named 'no_such_module'"),
        ("duck", "neither an engine nor a function"),
        ("spark://lake.people", "takes neither a table nor a folder nor a cluster"),
    ],
)
def test_what_cannot_be_opened_is_refused_by_what_is_wrong(check, url, words):
    done = check(url)
    assert done.exit_code != 0
    assert words in " ".join(done.output.split())


def test_a_server_that_is_not_there_is_said_without_its_token(check, monkeypatch):
    class Client:
        @property
        def version(self):
            raise RuntimeError("no route to sc://far/;token=secret")

    monkeypatch.setattr(engines, "local_session", lambda **_: Client())
    done = check("sc://far/;token=secret")
    assert done.exit_code == Exit.POLICY
    assert "cannot be reached" in done.output
    assert "secret" not in done.output
