"""What reaches the screen: rich on a terminal, plain text of 80 columns elsewhere.

Names, keys and notes may come from people who would like to move the cursor of
whoever reads them; :func:`clean` takes control and direction characters out.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Final, Literal

from rich import box
from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from discreet._text import OBEYED

PLAIN_WIDTH: Final = 80

_CONTROL: Final = re.compile(rf"[\x00-\x08\x0b-\x1f]|{OBEYED.pattern}")
_BARS: Final = "▁▂▃▄▅▆▇█"


def stdout() -> Console:
    """Console for results."""
    return _console(sys.stdout.isatty(), stderr=False)


def stderr() -> Console:
    """Console for everything that is not a result."""
    return _console(sys.stderr.isatty(), stderr=True)


def _console(terminal: bool, *, stderr: bool) -> Console:
    return Console(
        stderr=stderr,
        markup=False,
        highlight=False,
        emoji=False,
        soft_wrap=False,
        width=None if terminal else PLAIN_WIDTH,
        force_terminal=None if terminal else False,
    )


@contextmanager
def working(words: str) -> Iterator[None]:
    """Show a spinner on a terminal's standard error while something takes long."""
    console = stderr()
    with console.status(words, spinner="dots") if console.is_terminal else nullcontext():
        yield


@contextmanager
def telling(words: str, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show on standard error how far something is: beside a spinner, or line by line elsewhere."""
    console = stderr()
    if quiet:
        yield lambda _: None
    elif console.is_terminal:
        with console.status(words, spinner="dots") as status:
            yield lambda text: status.update(Text(f"{words}: {clean(text)}"))
    else:
        yield lambda text: console.print(clean(text), soft_wrap=True)


def clean(value: object, *, lines: bool = False) -> str:
    r"""Text without characters that steer a terminal.

    >>> clean("a\x1b[2Jb")
    'a�[2Jb'
    """
    text = _CONTROL.sub("�", str(value))
    return text if lines else text.replace("\n", " ").replace("\t", " ")


def refusal(message: str, hint: str | None, word: str = "refused") -> None:
    """Print a refusal on standard error, or what else ended a command."""
    console = stderr()
    console.print(Text.assemble((f"{word}: ", "bold red"), clean(message, lines=True)))
    if hint:
        # a line to paste stays one line
        console.print(Text.assemble(("    try: ", "bold"), clean(hint, lines=True)), soft_wrap=True)


def say(console: Console, text: str, style: str = "") -> None:
    """Print lines, each wrapped to the width under its own indentation."""
    wrapped = [
        part for line in clean(text, lines=True).split("\n") for part in _wrap(console, line)
    ]
    console.print(Text("\n".join(wrapped), style=style), soft_wrap=True)


def _wrap(console: Console, line: str) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()) + 2 * line.startswith(("$ ", "  ")))
    return textwrap.wrap(
        line, console.width, subsequent_indent=indent, break_on_hyphens=False,
        break_long_words=False,
    ) or [""]  # fmt: skip


def verbatim(console: Console, text: str, style: str = "") -> None:
    """Print text as it is, however long its lines are."""
    console.print(Text(clean(text, lines=True), style=style), soft_wrap=True)


def heading(console: Console, text: str) -> None:
    """Print a heading over a rule."""
    console.print()
    console.print(Text(clean(text), style="bold"))
    console.print(Rule(style="dim"))


def grid(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[int] = (),
    keys: int = 0,
) -> Table:
    """Build a table; columns in `right` are aligned to the right, the first `keys` are bold."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for i, name in enumerate(header):
        side: Literal["left", "right"] = "right" if i in right else "left"
        table.add_column(
            Text(clean(name)), justify=side, style="cyan" if i < keys else "", overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(clean(cell)) for cell in row))
    return table


def show_table(console: Console, table: Table, indent: int = 0) -> None:
    """Print a table; where nobody watches it is never folded, however wide."""
    width = console.width
    if not console.is_terminal:
        needed = Measurement.get(console, console.options.update(width=10_000), table).maximum
        width = max(width, needed + indent)
    _put(console, Padding(table, (0, 0, 0, indent)), width)


def _put(console: Console, content: RenderableType, width: int) -> None:
    """Print something made of cells; where nobody watches, without the blanks that fill them."""
    if console.is_terminal:
        console.print(content, width=width)
        return
    usual, console.width = console.width, width  # print() never goes beyond the console's own
    with console.capture() as capture:
        console.print(content)
    console.width = usual
    lines = (line.rstrip() for line in capture.get().rstrip("\n").split("\n"))
    console.print(Text("\n".join(lines)), soft_wrap=True)


def facts(console: Console, pairs: Sequence[tuple[str, str]]) -> None:
    """Print labels and values in two columns."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in pairs:
        table.add_row(Text(clean(label)), Text(clean(value, lines=True)))
    _put(console, table, console.width)


def bar(share: float, width: int = 30) -> str:
    """Draw a share of a whole.

    >>> bar(0.5, 8)
    '████····'
    """
    full = min(width, max(0, round(share * width)))
    return "█" * full + "·" * (width - full)


def sparkline(values: Sequence[float]) -> str:
    """Draw a series as a line of small bars; zero is a dot.

    >>> sparkline([0, 1, 4, 8])
    '·▁▄█'
    """
    top = max(values, default=0)
    if top <= 0:
        return "·" * len(values)
    steps = len(_BARS)
    return "".join(
        _BARS[max(0, min(steps, round(v / top * steps)) - 1)] if v > 0 else "·" for v in values
    )
