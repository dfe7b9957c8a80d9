"""Where each key of a TOML text stands, so that an error can quote its line.

The standard library's parser keeps no positions. This scanner walks the same
text once, in linear time, and notes the line of every key and array element. It
decides nothing: where the text is not TOML it stops and leaves the verdict to
the parser. It does refuse absurd nesting first, because the parser's time grows
with the square of a dotted key's length and its stack with every bracket.
"""

from __future__ import annotations

import re
import tomllib
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Final

from discreet.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Path = tuple[str, ...]

MAX_DEPTH: Final = 32

_SPACE: Final = re.compile(r"[ \t]*")
_BLANK: Final = re.compile(r"(?:[ \t\n]+|#[^\n]*)*")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_LINE_STRING: Final = re.compile(r""""(?:\\.|[^"\\\n])*"|'[^'\n]*'""")
_LONG_STRING: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{1,2}(?!"))?' + r"|'''.*?'''(?:'{1,2}(?!'))?", re.DOTALL
)
_SCALAR: Final = re.compile(r"[^,\]}#\n]+")


class _NotTomlError(Exception):
    """The scanner lost its way; the parser will say why."""


def locate(text: str) -> Mapping[Path, int]:
    r"""Map every key path of `text` to its line, counted from 1.

    >>> locate('a = 1\n[t.u]\nb = { c = 2 }')[("t", "u", "b", "c")]
    3
    """
    scanner = _Scanner(text)
    with suppress(_NotTomlError):
        scanner.document()
    return scanner.lines


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[Path, int] = {}
        self._line = 1
        self._mark = 0

    def document(self) -> None:
        section: Path = ()
        self._skip(_BLANK)
        while self.at < len(self.text):
            if self._accept("["):
                double = self._accept("[")
                section = self._key(())
                self._expect("]]" if double else "]")
            else:
                self._pair(section, 1)
            self._skip(_BLANK)

    def _pair(self, base: Path, depth: int) -> None:
        path = self._key(base)
        self._expect("=")
        self._skip(_SPACE)
        self._value(path, depth)

    def _key(self, base: Path) -> Path:
        path = base
        while True:
            self._skip(_SPACE)
            path = (*path, self._key_part())
            self.lines.setdefault(path, self._here())
            if len(path) > MAX_DEPTH:
                raise self._too_deep()
            self._skip(_SPACE)
            if not self._accept("."):
                return path

    def _key_part(self) -> str:
        if self.text[self.at : self.at + 1] in {'"', "'"}:
            token = self._token(_LINE_STRING)
            try:
                return str(tomllib.loads(f"key = {token}")["key"])
            except ValueError:
                raise _NotTomlError from None
        return self._token(_BARE)

    def _value(self, path: Path, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise self._too_deep()
        if self._accept("["):
            self._array(path, depth)
        elif self._accept("{"):
            self._inline_table(path, depth)
        elif self.text.startswith(('"""', "'''"), self.at):
            self._token(_LONG_STRING)
        elif self.text.startswith(('"', "'"), self.at):
            self._token(_LINE_STRING)
        else:
            self._token(_SCALAR)

    def _array(self, path: Path, depth: int) -> None:
        for place in self._items("]", _BLANK):
            self.lines.setdefault((*path, str(place)), self._here())
            self._value((*path, str(place)), depth + 1)

    def _inline_table(self, path: Path, depth: int) -> None:
        for _ in self._items("}", _SPACE):
            self._pair(path, depth + 1)

    def _items(self, end: str, blank: re.Pattern[str]) -> Iterator[int]:
        """Stand at one item after another, up to the bracket that ends them."""
        self._skip(blank)
        for place in count():
            if self._accept(end):
                return
            yield place
            self._skip(blank)
            if not self._accept(","):
                self._expect(end)
                return
            self._skip(blank)

    def _here(self) -> int:
        self._line += self.text.count("\n", self._mark, self.at)
        self._mark = self.at
        return self._line

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.at)
        assert match is not None  # the patterns of blanks match nothing, too
        self.at = match.end()

    def _token(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise _NotTomlError
        self.at = match.end()
        return match[0]

    def _accept(self, symbol: str) -> bool:
        here = self.text.startswith(symbol, self.at)
        self.at += len(symbol) if here else 0
        return here

    def _expect(self, symbol: str) -> None:
        if not self._accept(symbol):
            raise _NotTomlError

    def _too_deep(self) -> PolicyError:
        message = f"nested more than {MAX_DEPTH} levels deep; a policy needs five"
        return PolicyError(message, line=self._here())
