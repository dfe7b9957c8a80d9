"""Maps of earlier trees, taken over: which test reaches which line, after lines have moved.

A map is made by running every test, which takes as long as the tests do. Most modules are what they
were when an earlier map was made, and in the others most lines have only moved. So a line that
is still there is followed to where it is now, and one that is gone is forgotten. A map only says
which tests are asked about a fault; what counts is whether they fail with it. So a line that is
followed wrongly costs time, or leaves a test unasked: it never makes a fault seen that is not.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from pathlib import Path


def carried(
    homes: Sequence[Path], tree: Path, wanted: Collection[str]
) -> Iterator[tuple[str, float, dict[str, str]]]:
    """Test, seconds and lines as bits, of the wanted tests that earlier maps know."""
    rows: dict[str, tuple[Path, float, dict[str, str]]] = {}
    for home in homes:
        for line in (home / "map.jsonl").read_text("utf-8").splitlines():
            test, seconds, lines, _ = json.loads(line)
            rows[test] = home, seconds, lines
    for test, (home, seconds, lines) in rows.items():
        if test in wanted:
            yield test, seconds, {f: b for f, bits in lines.items()
                                  if (b := _moved(home / "tree", tree, f, bits))}  # fmt: skip


@cache
def _moved(before: Path, now: Path, file: str, bits: str) -> str:
    """Bits of the lines where the lines of other bits are now; nothing if none is left."""
    places, old = _places(before, now, file), int(bits, 16)
    if places is None:
        return bits
    new = sum(1 << b for a, b in places.items() if old >> a & 1)
    return f"{new:x}" if new else ""


@cache
def _places(before: Path, now: Path, file: str) -> dict[int, int] | None:
    """Where each line is now, by its number; None: everything is where it was."""
    paths = [tree / "src/discreet" / file for tree in (before, now)]
    if not all(path.exists() for path in paths):
        return {}
    old, new = (path.read_text("utf-8").splitlines() for path in paths)
    if old == new:
        return None
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    return {a + i + 1: b + i + 1 for a, b, size in blocks for i in range(size)}
