"""CSV files: a reader that cannot fail, and in which no line decides about another.

Rule
----
1. The header, which is public, decides the separator and the columns. Nothing is guessed.
2. Every line (ended by LF, or CR LF) begins a row. It is the whole row, unless it opens
   a quoted cell that later lines close: if those lines together are well formed by RFC 4180
   and have as many cells as the header, they are one row.
3. Cells that are missing are NULL, cells too many are left out, an empty cell is NULL. A
   quoted cell that is not well formed is taken literally. A line longer than 16 MiB is
   a row of NULLs; so is an empty line. Bytes that are not UTF-8 become "?"; a unit with
   such bytes is NULL, for two people must not become one.

Guarantee
---------
*Whatever the cells of a table hold* (any bytes, line breaks and quotes included) its CSV
file, written with the usual quoting, is read as as many rows as were written, and row
i is a function of record i alone, if records are below 16 MiB: a written record is well
formed and has as many cells as the header, and its first lines alone are not, since a cell
is open at their end; so rule 2 reads exactly the written records, one after the other.
Hence the size of a CSV table is as public as that of any other table.

Somebody who writes *lines*, not cells, and leaves a quote open, gets a row of its own
as well, unless a cell of another row closes the quote: that takes a written cell which
begins with a separator or a line break, for a closing quote is followed by one
of these, and a cell count that happens to fit.

Work is linear: a line that leaves a cell open has an odd number of quotes, so no attempt to
close a cell reads beyond the next such line.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow

from discreet import policy as pol
from discreet.engines._dialect import DuckDB
from discreet.engines._frames import mended
from discreet.errors import SchemaError

_SQL: Final = DuckDB()
_SEPARATORS: Final = (",", ";", "\t", "|")
_LONGEST_HEADER: Final = 2**20
_LONGEST: Final = 2**24
_BLOCK: Final = 2**25
_INSIDE: Final = re.compile(rb'[^"]*+(?:""[^"]*+)*+')
"""What may follow within a quoted cell: up to its closing quote, or to the end."""


class Lines:
    """CSV files of one table, as batches of text columns.

    Parameters
    ----------
    table
        Says which columns are read, and as what.
    files
        Paths; all have the same header.

    Raises
    ------
    SchemaError
        When the header cannot be read, or files differ in it.
    """

    def __init__(self, table: pol.Table, files: Sequence[str]) -> None:
        separator, self._header = _header(table, files[0])
        for path in files[1:]:
            if _header(table, path) != (separator, self._header):
                raise SchemaError(f"the CSV files of table {table.name!r} differ in their header")
        self._files, self._units = files, table.ids
        names = {*table.columns, *table.ids}
        self._names = {i: name for i, name in enumerate(self._header) if name in names}
        reads = [
            f"{_read(table.columns.get(n), _SQL.quote(n), table.numbers)} AS {_SQL.quote(n)}"
            for n in self._names.values()
        ]
        self.columns = ", ".join(reads) or "1 AS nothing"
        """SQL of the columns in their types; what is not of its type is NULL."""
        self._separator = separator.encode()
        s = re.escape(separator)
        cell = rf'(?:"[^"\r\n\x00]*(?:""[^"\r\n\x00]*)*"|[^"{s}\r\n\x00]*)'
        self._simple = rf"^{cell}(?:{s}{cell})*\r?\n$"
        """One line, well formed, nothing odd in it: what Arrow reads as we do."""

    def batches(self) -> pa.RecordBatchReader:
        """Read the files block by block."""
        # without any column there is still a number of rows
        names = list(self._names.values()) or ["nothing"]
        schema = pa.schema([(name, pa.string()) for name in names])
        units = [name in self._units for name in names]

        def read() -> Iterator[pa.RecordBatch]:
            for path in self._files:
                for block in _blocks(path):
                    for columns in self._parts(block):
                        texts = [
                            mended(c.view(pa.string()), unit=unit)
                            for c, unit in zip(columns, units, strict=True)
                        ]
                        yield pa.RecordBatch.from_arrays(texts, schema=schema)

        return pa.RecordBatchReader.from_batches(schema, read())

    def _parts(self, block: _Block) -> Iterator[list[pa.Array]]:
        """Rows that begin in a block: those that Arrow reads, then the others."""
        simple = np.ones(block.count, bool)
        if any(mark in block.data for mark in (b'"', b"\r", b"\0")):
            simple = np.array(pc.match_substring_regex(block.lines, self._simple))
        simple &= np.diff(block.starts)[: len(simple)] <= _LONGEST
        rows, end = [], 0
        for i in np.flatnonzero(~simple[: block.count]).tolist():
            if i >= end:
                end, cells = self._row(block, i)
                simple[i:end] = False
                rows.append(cells)
        block.end = max(block.count, end)
        lines = np.flatnonzero(simple[: block.end])
        places = list(self._names) or [0]
        text = block.data[: block.starts[block.end]]
        if len(lines) < block.end:
            text = b"".join(block.lines.take(pa.array(lines)).to_pylist())
        columns, ragged = self._parsed(text, places)
        assert all(len(c) + len(ragged) == len(lines) for c in columns)
        yield columns
        rows += [self._scan(block.line(lines[i]))[0] for i in ragged]
        yield [
            pa.array([r[k] or None if k < len(r) else None for r in rows], pa.binary())
            for k in places
        ]

    def _parsed(self, text: bytes, places: list[int]) -> tuple[list[pa.Array], list[int]]:
        """Columns of simple lines, and which lines have another number of cells."""
        if not text:
            return [pa.array([], pa.binary()) for _ in places], []
        names, ragged = [str(i) for i in range(len(self._header))], []

        def skip(row: Any) -> str:
            ragged.append(row.number - 1)
            return "skip"

        table = arrow.read_csv(
            pa.BufferReader(text),
            arrow.ReadOptions(column_names=names, block_size=len(text) + 1, use_threads=False),
            arrow.ParseOptions(
                delimiter=self._separator.decode(),
                ignore_empty_lines=False,
                invalid_row_handler=skip,
            ),
            arrow.ConvertOptions(
                check_utf8=False,
                column_types=dict.fromkeys(names, pa.binary()),
                include_columns=[str(k) for k in places],
                null_values=[""],
                strings_can_be_null=True,
            ),
        )
        return [column.combine_chunks() for column in table.columns], ragged

    def _row(self, block: _Block, i: int) -> tuple[int, list[bytes]]:
        """End and cells of the row that begins in a line."""
        line = block.line(i)
        if len(line) > _LONGEST:
            return i + 1, []
        cells, opened, strict = self._scan(line)
        if opened is not None and strict:
            joined = self._joined(block, i, cells[: opened[0]], opened[1])
            if joined is not None:
                return joined
        return i + 1, cells

    def _scan(self, text: bytes) -> tuple[list[bytes], tuple[int, int] | None, bool]:
        """Cells of one line.

        With them: which cell is left open at the end, if any, and where its quote
        stands; and whether all cells before that are well formed.
        """
        cells: list[bytes] = []
        opened, strict, at = None, True, 0
        while True:
            end = text.find(self._separator, at)
            end = len(text) if end < 0 else end
            cell = text[at:end]
            if text.startswith(b'"', at):
                inside = _INSIDE.match(text, at + 1)
                assert inside is not None
                close = inside.end() + 1
                if close == len(text) or text.startswith(self._separator, close):
                    cell, end = inside[0].replace(b'""', b'"'), close
                elif close > len(text):
                    opened = opened or (len(cells), at)
                elif opened is None:
                    strict = False
            elif opened is None and b'"' in cell:
                strict = False
            cells.append(cell)
            if end >= len(text):
                return cells, opened, strict
            at = end + 1

    def _joined(
        self, block: _Block, i: int, cells: list[bytes], at: int
    ) -> tuple[int, list[bytes]] | None:
        """Row of several lines, the first of which leaves the cell at `at` open."""
        start = block.starts[i] + at
        for j in block.quoted_after(i):
            line, begin = block.line(j), block.starts[j]
            inside = _INSIDE.match(line)
            assert inside is not None
            close = inside.end()
            if begin + len(line) - block.starts[i] > _LONGEST:
                return None
            if close == len(line):
                continue
            cells = [*cells, block.data[start + 1 : begin + close].replace(b'""', b'"')]
            if close + 1 < len(line):
                if not line.startswith(self._separator, close + 1):
                    return None
                more, opened, strict = self._scan(line[close + 2 :])
                if not strict:
                    return None
                if opened is not None:
                    cells += more[: opened[0]]
                    start = begin + close + 2 + opened[1]
                    continue
                cells += more
            return (j + 1, cells) if len(cells) == len(self._header) else None
        return None


class _Block:
    """Whole lines of a file; rows that begin in the first `count` of them are its own.

    The lines after these are there so that a row may end in them. The reader
    of the block sets `end`, the first line that belongs to no row yet.
    """

    def __init__(self, data: bytes, *, last: bool) -> None:
        self.data = data
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
        self.starts = np.concatenate([[0], ends + 1])
        offsets = pa.py_buffer(self.starts.astype(np.int32))
        # each line with its end: the bytes are those of the file, not copied
        self.lines = pa.Array.from_buffers(
            pa.binary(), len(ends), [None, offsets, pa.py_buffer(data)]
        )
        self.count = len(ends)
        if not last:
            self.count = int(np.searchsorted(self.starts[:-1], len(data) - _LONGEST))
        self._quoted = np.flatnonzero(np.array(pc.match_substring(self.lines, '"')))
        self.end = 0

    def line(self, i: int) -> bytes:
        """Line without its end; a carriage return before it belongs to the end."""
        return self.data[self.starts[i] : self.starts[i + 1] - 1].removesuffix(b"\r")

    def quoted_after(self, i: int) -> Iterator[int]:
        """Later lines that hold a quote."""
        return iter(self._quoted[np.searchsorted(self._quoted, i, "right") :].tolist())


def _blocks(path: str) -> Iterator[_Block]:
    """Lines of a file after its header, in blocks that overlap by the longest row."""
    with pa.input_stream(path) as stream:
        data = stream.read(_BLOCK)
        data = data[data.find(b"\n") + 1 :] if b"\n" in data else b""
        while True:
            more = stream.read(_BLOCK)
            if not more:
                if data:
                    yield _Block(data if data.endswith(b"\n") else data + b"\n", last=True)
                return
            data += more
            whole = data.rfind(b"\n") + 1
            offset = 0
            if whole > _LONGEST:
                block = _Block(data[:whole], last=False)
                yield block
                offset = int(block.starts[block.end])
            # of a line that is too long, what shows that it is
            data = data[offset : whole + _LONGEST + 2]


def _header(table: pol.Table, path: str) -> tuple[str, tuple[str, ...]]:
    """Separator and column names, from the first line alone."""
    try:
        with pa.input_stream(path) as stream:
            line = stream.read(_LONGEST_HEADER).split(b"\n")[0].decode("utf-8-sig")
    except (OSError, UnicodeDecodeError, pa.ArrowException):
        raise SchemaError(f"the source of table {table.name!r} cannot be read") from None
    columns = {*table.columns, *table.ids}

    def matches(separator: str) -> int:
        return len(columns & set(_split(line, separator)))

    names: list[str] = []
    try:
        best = max(_SEPARATORS, key=matches)
        names = _split(line, best)
    except csv.Error:
        pass  # the message is not ours; the line may hold more than a header
    if not names and line:
        raise SchemaError(
            f"the first line of the source of table {table.name!r} is not a header: lines end "
            "with a line feed, or with a carriage return and a line feed",
            hint="tr '\\r' '\\n' < old.csv > new.csv",
        )
    return best, tuple(_distinct(names))


def _split(line: str, separator: str) -> list[str]:
    return next(csv.reader([line.rstrip("\r")], delimiter=separator), [])


def _distinct(names: list[str]) -> list[str]:
    """Column names without repetition: the engine takes each once, in any case."""
    names_so_far: set[str] = set()
    for i, cell in enumerate(names):
        name = cell or f"column{i}"
        if name.casefold() in names_so_far:
            candidates = (f"{name}_{n}" for n in itertools.count(1))
            name = next(t for t in candidates if t.casefold() not in names_so_far)
        names_so_far.add(name.casefold())
        names[i] = name
    return names


_LEFT_OUT: Final = "$€£¥₣ '’\u00a0\u2009\u202f"
"""Currency signs, spaces and apostrophes in numbers."""


def _plain(x: str, numbers: str) -> str:
    """Write a number of a spelling as a plain one; what is none stays none."""
    point, groups = (".", ",") if numbers == "1,234.50" else (",", ".")
    bare = f"translate({x}, {_SQL.text(_LEFT_OUT + groups)}, '')"
    return bare if point == "." else f"replace({bare}, ',', '.')"


def _moment(x: str, form: str, pattern: str | None) -> str:
    """Read a moment by a format; what the format does not write is NULL."""
    bare = f"trim({x})"
    moment = f"try_strptime({bare}, {_SQL.text(form)})"
    return f"CASE WHEN regexp_full_match({bare}, {_SQL.text(pattern or '')}) THEN {moment} END"


def _read(column: pol.Column | None, x: str, numbers: str | None = None) -> str:
    if numbers is not None and isinstance(column, pol.Integer | pol.Real):
        x = _plain(x, numbers)
    match column:
        case pol.Integer():
            return f"TRY_CAST({x} AS HUGEINT)"
        case pol.Real():
            return f"TRY_CAST({x} AS DOUBLE)"
        case pol.Boolean():
            return f"TRY_CAST({x} AS BOOLEAN)"
        case pol.Date(format=str() as form, pattern=pattern):
            return f"CAST({_moment(x, form, pattern)} AS DATE)"
        case pol.Date():
            return f"TRY_CAST({x} AS DATE)"
        case pol.Timestamp(format=str() as form, pattern=pattern):
            return _moment(x, form, pattern)
        case pol.Timestamp():
            # without an offset the session's zone counts, and that is UTC
            return f"TRY_CAST({x} AS TIMESTAMPTZ)"
        case pol.Category(values=(bool(), *_)):
            return f"TRY_CAST({x} AS BOOLEAN)"
        case pol.Category(values=(int(), *_)):
            return f"TRY_CAST({x} AS HUGEINT)"
    return x
