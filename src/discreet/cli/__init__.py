"""The command line.

``discreet demo | init | check | preview | ask | budget | explain | meaning | local``.

Everything heavy is imported when a command runs, so that help and completion
are quick. Run ``discreet --help``, or read ``docs/cli.md``.
"""

from __future__ import annotations

from discreet.cli._app import app, main

__all__ = ["app", "main"]
