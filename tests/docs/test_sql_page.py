"""docs/sql.md lists what the tables of operators and statistics hold, no more and no less.

Run as a program, this writes the lists anew.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from discreet.plan import CALLS, FUNCTIONS
from discreet.sql._over import WINDOWS

PAGE = Path(__file__).parents[2] / "docs/sql.md"
TABLES = {"functions": set(FUNCTIONS), "statistics": set(CALLS), "windows": set(WINDOWS)}


def _list(name):
    return re.compile(rf"(<!-- {name} -->\s)(.*?)(\s<!-- end -->)", re.DOTALL)


@pytest.mark.parametrize("name", TABLES)
def test_the_page_lists_every_name(name):
    listed = _list(name).search(PAGE.read_text("utf-8"))[2].split()
    assert sorted(listed) == sorted(TABLES[name])


def write():
    """Write the lists anew."""
    text = PAGE.read_text("utf-8")
    for name, names in TABLES.items():
        listed = "\n".join(textwrap.wrap(" ".join(sorted(names)), 98))
        text = _list(name).sub(lambda m, new=listed: m[1] + new + m[3], text)
    PAGE.write_text(text, "utf-8")


if __name__ == "__main__":
    write()
