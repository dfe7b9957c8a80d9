"""What tells Spark's data apart, and which sessions are understood: without a session."""

from __future__ import annotations

import pytest

from discreet.engines import SERVER, _lake, _spark
from discreet.errors import SchemaError


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("/data/visits", "/data/visits"),
        ("data/visits", "data/visits"),
        ("file:///data/visits", "/data/visits"),
        ("file:/data/vis%20its", "/data/vis its"),
        ("hdfs://name:8020/lake/./visits/", f"{SERVER}hdfs://name/lake/visits"),
        ("HDFS://Name/lake//visits", f"{SERVER}hdfs://name/lake/visits"),
        ("s3a://lake", f"{SERVER}s3a://lake/"),
        ("s3a://key@lake/", f"{SERVER}s3a://lake/"),
        ("s3a://lake/d?x=1#y", f"{SERVER}s3a://lake/d?x=1#y"),
        ("s3a://key:secret@lake/visits", f"{SERVER}s3a://lake/visits"),
        ("abfss://box@account.net/visits", f"{SERVER}abfs://box@account.net/visits"),
        ("wasbs://box@a.blob.core.windows.net/v", f"{SERVER}abfs://box@a.dfs.core.windows.net/v"),
        ("s3://lake/visits", f"{SERVER}s3a://lake/visits"),
    ],
)
def test_every_folder_has_a_place_by_which_its_budget_is_found(text, place):
    """A folder by its URL had none: under another policy's name its budget was a fresh one."""
    assert _lake.place_of(text) == place


@pytest.mark.parametrize("text", ["file:///data/vis%20its?#", "file:/data/vis%20its?#"])
def test_a_location_is_no_code(text):
    """A folder with a per cent sign was taken for another one, which may be somebody else's."""
    assert _lake.place_of(text, coded=False) == "/data/vis%20its?#"


class Session:
    """Answers what a session is asked when it is opened, and has some settings."""

    def __init__(self, row=(), **settings):
        self._row, self.settings = row, settings
        self.conf = self

    def get(self, name, default=None):
        return self.settings.get(name.rpartition(".")[2], default)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (("3.5.1 x", "\\", True), "too old"),
        (("4.0.0 x", "\\\\", True), "backslashes"),
        (("4.1.1 x", "\\", False), "SPARK-55453"),
    ],
)
def test_a_session_that_reads_otherwise_is_refused(monkeypatch, row, said):
    """Some versions take one letter for two in LIKE: integers were wrong without a word."""
    monkeypatch.setattr(_spark, "collected", lambda _session, _sql: [row])
    with pytest.raises(SchemaError, match=said):
        _spark._check_readings(Session())


def test_a_session_that_is_understood_is_taken(monkeypatch):
    monkeypatch.setattr(_spark, "collected", lambda _session, _sql: [("4.3.0 x", "\\", True)])
    _spark._check_readings(Session())


@pytest.mark.parametrize(
    ("settings", "bounded"),
    [
        ({}, False),
        ({"manageParserCaches": "true"}, False),  # by itself it forgets nothing
        ({"manageParserCaches": "true", "parserDfaCacheFlushRatio": "-1.0"}, False),
        ({"manageParserCaches": "TRUE", "parserDfaCacheFlushRatio": "50"}, True),
        ({"manageParserCaches": "true", "parserDfaCacheFlushThreshold": "9"}, True),
        ({"manageParserCaches": "false", "parserDfaCacheFlushRatio": "50"}, False),
    ],
)
def test_an_owner_has_said_how_much_a_parser_holds_or_not(settings, bounded):
    assert _spark._bounded(Session(**settings)) is bounded
