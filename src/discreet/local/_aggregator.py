"""The server half: reports in, integers kept, estimates out.

An aggregator keeps one integer vector, the number of reports and the number of
refused ones by reason. Its memory does not grow with the reports. Two aggregators
of one protocol merge by addition, in any order and grouping. Whether a report is
counted depends on the report alone.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from discreet import privacy as p_
from discreet._dataclass import dataclass
from discreet._lazy import arrow as pa
from discreet.errors import DiscreetError, ForeignReportError, Hint, ParameterError
from discreet.local import _wire
from discreet.local._bits import Counts
from discreet.local._protocol import LocalProtocol, protocol_from_spec, total_loss
from discreet.local._rationals import read_mark, read_whole
from discreet.local._wire import Columns, Refusal, Reports

_CHUNK = 1 << 13
_BATCH_ROWS = 1 << 16
_DEEPEST = 4
"""Iterables within iterables."""

_FILE_BYTES = 1 << 26
_LARGE = 1 << 22
_MOST = 1 << 27
_MOST_REPORTS = 1 << 44
"""Reports that saved totals may state: no sum of theirs passes 64 bits."""

_MOST_SUM = 1 << 62

REASONS = frozenset({"foreign", "version", "format", "checksum", "range"})
"""Why reports are refused."""


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """What an aggregator knows: report count, integer state, refusals, the loss per unit."""

    n: int
    state: Counts
    refused: Mapping[str, int]
    loss: p_.PrivacyLoss
    tainted: bool = False


class Aggregator:
    """Sum reports of one protocol.

    Attributes
    ----------
    n
        Reports counted.
    refused
        Reports not counted, by reason: ``foreign``, ``version``, ``format``,
        ``checksum``, ``range``.

    Examples
    --------
    >>> from discreet import local
    >>> protocol = local.KaryResponse(domain=4, epsilon=2)
    >>> left, right = protocol.aggregator(), protocol.aggregator()
    >>> left.update(protocol.randomize([0, 1, 2, 3] * 500)).n
    2000
    >>> right.update(protocol.randomize([0] * 1000).to_bytes()).n
    1000
    >>> left.merge(right).estimate().frequencies.shape
    (4,)
    """

    __slots__ = ("_state", "n", "protocol", "refused", "reports_per_unit", "tainted", "unit")

    def __init__(
        self, protocol: LocalProtocol, *, unit: str | None = None, reports_per_unit: int = 1
    ) -> None:
        if unit is not None and not isinstance(unit, str):
            raise ParameterError("a unit is named by a text", hint=Hint("unit", "person"))
        self.protocol = protocol
        self.unit = unit
        self.reports_per_unit = read_whole(reports_per_unit, "reports_per_unit")
        cells = math.prod(protocol.state_shape)
        if cells > _MOST:
            raise ParameterError(
                f"an aggregator of this protocol would keep {cells} integers, more than {_MOST}",
                hint="local.LocalHashing with 4096 seeds, read for candidates",
            )
        self.n = 0
        self.refused: Counter[str] = Counter()
        self.tainted = False
        self._state: Counts = np.zeros(protocol.state_shape, dtype=np.int64)

    @property
    def loss(self) -> p_.PrivacyLoss:
        """What all reports of one unit cost together, against everybody."""
        return total_loss(self.protocol, self.reports_per_unit, self.unit)

    # -- in ---------------------------------------------------------------------

    def update(self, reports: Any) -> Aggregator:
        """Count reports and return the aggregator itself.

        Parameters
        ----------
        reports
            Reports from :meth:`~discreet.local.LocalProtocol.randomize`; compact
            bytes; JSON lines (text, or a mapping for one report); an Arrow table, batch or
            reader; the :class:`~pathlib.Path` of a ``.parquet``, ``.arrow``, ``.jsonl`` or
            ``.bin`` file; or an iterable of any of these, which is read lazily. Text never
            names a file: it may come from anybody.

            One body of bytes is *one sender's*: behind a broken or foreign frame nothing
            can be read, and the rest is refused with it. Frames of many senders come
            as an iterable of bytes, each judged by itself.

        Raises
        ------
        ForeignReportError
            For a whole batch or file made by another protocol or with other
            parameters; nothing of it is counted, its size goes to ``refused``. Single foreign
            reports in a stream are left out and counted in ``refused``.
        """
        self._put(reports, 0)
        return self

    def _put(self, reports: Any, depth: int) -> None:
        if isinstance(reports, Reports):
            self._own(reports)
        elif isinstance(reports, bytes | bytearray | memoryview):
            self._take(_wire.read_bytes(self.protocol, bytes(reports)))
        elif isinstance(reports, str):
            self._take(
                _wire.read_lines(self.protocol, [s for s in reports.splitlines() if s.strip()])
            )
        elif isinstance(reports, Mapping):
            self._take(_wire.read_lines(self.protocol, [reports]))
        elif isinstance(reports, Path):
            self._file(reports)
        elif type(reports).__module__.partition(".")[0] == "pyarrow":
            self._arrow(reports)
        elif isinstance(reports, Iterable) and not isinstance(reports, np.ndarray):
            if depth > _DEEPEST:
                raise ParameterError("reports are nested too deeply", hint="a flat iterable")
            self._stream(iter(reports), depth + 1)
        else:
            raise ForeignReportError(
                f"{type(reports).__name__} does not say which protocol made it",
                hint="aggregator.update(protocol.randomize(values))",
            )

    def _own(self, reports: Reports) -> None:
        if reports.protocol.spec_id != self.protocol.spec_id:
            self.refused["foreign"] += len(reports)
            raise ForeignReportError(
                f"reports of {reports.protocol!r} were given to an aggregator of {self.protocol!r}",
                hint="reports.protocol.aggregator()",
            )
        self.tainted |= reports.tainted
        self._count(reports.columns)

    def _take(self, parts: Iterator[Columns | Refusal]) -> None:
        for part in parts:
            if isinstance(part, Refusal):
                self.refused[part.reason] += part.count
            else:
                self._count(part)

    def _count(self, columns: Columns) -> None:
        good = self.protocol.valid(columns)
        count = int(np.count_nonzero(good))
        if count < len(good):
            self.refused["range"] += len(good) - count
            columns = tuple(c[good] for c in columns)
        if count:
            self.protocol.tally(self._state, columns)
            self.n += count

    def _stream(self, parts: Iterator[Any], depth: int = 1) -> None:
        """Count elements as they come; single reports and lines are gathered in small runs."""
        kind, run = "", list[Any]()
        for part in parts:
            now = self._kind(part)
            if run and (now != kind or len(run) >= _CHUNK):
                self._run(kind, run)
                run = []
            kind = now
            if now == "whole":
                self._one(part, depth)
            else:
                run.append(part)
        if run:
            self._run(kind, run)

    def _kind(self, part: Any) -> str:
        """Tell single reports and lines, which are counted together, from all the rest."""
        if isinstance(part, Reports):
            alike = part.protocol.spec_id == self.protocol.spec_id and not part.tainted
            return "report" if alike and len(part) == 1 else "whole"
        return "line" if isinstance(part, str | Mapping) else "whole"

    def _run(self, kind: str, run: list[Any]) -> None:
        if kind == "line":
            self._take(_wire.read_lines(self.protocol, run))
        else:
            joined = zip(*(r.columns for r in run), strict=True)
            self._count(tuple(np.concatenate(c) for c in joined))

    def _one(self, part: Any, depth: int) -> None:
        """Count one element of a stream; a foreign or malformed one is only noted."""
        before = self.refused["foreign"]
        try:
            self._put(part, depth)
        except ForeignReportError:
            # batches have been counted by their size
            self.refused["foreign"] = max(self.refused["foreign"], before + 1)
        except ParameterError:
            self.refused["format"] += 1

    def _arrow(self, data: Any) -> None:
        if isinstance(data, pa.Table | pa.RecordBatch):
            try:
                self._take(_wire.read_arrow(self.protocol, data))
            except ForeignReportError:
                self.refused["foreign"] += data.num_rows
                raise
            return
        with self._unreadable():
            for batch in data:
                self._arrow(batch)

    @contextmanager
    def _unreadable(self) -> Iterator[None]:
        """Count what Arrow cannot read as one malformed report; failures of the disk go on."""
        try:
            yield
        except (pa.ArrowException, OSError) as error:
            # Arrow's own complaints about a file's contents have no number
            if isinstance(error, OSError) and error.errno is not None:
                raise
            self.refused["format"] += 1

    def _file(self, path: Path) -> None:
        """Read a file piece by piece."""
        form = path.suffix.lower()
        if form in (".parquet", ".arrow", ".arrows", ".ipc"):
            with pa.OSFile(str(path)) as source, self._unreadable():
                self._arrow(_parquet(source) if form == ".parquet" else pa.ipc.open_stream(source))
        elif form in (".jsonl", ".ndjson", ".json"):
            with path.open(encoding="utf-8", errors="replace") as lines:
                self._stream(line for line in lines if line.strip())
        elif form == ".bin":
            if path.stat().st_size > _FILE_BYTES:
                raise ParameterError(
                    "a file of compact frames is read whole and may hold at most 64 MiB",
                    hint="aggregator.update(frames), an iterable of frames",
                )
            self.update(path.read_bytes())
        else:
            raise ParameterError(
                "reports are read from .parquet, .arrow, .jsonl or .bin files",
                hint='aggregator.update(Path("reports.parquet"))',
            )

    # -- together ---------------------------------------------------------------

    def merge(self, other: Aggregator) -> Aggregator:
        """Add what another aggregator of the same protocol has counted."""
        if other is self:
            raise ParameterError(
                "an aggregator merged with itself would count every report twice",
                hint="protocol.aggregator().merge(other)",
            )
        if not isinstance(other, Aggregator) or other.protocol.spec_id != self.protocol.spec_id:
            raise ForeignReportError(
                "only aggregators of the same protocol and parameters can be merged",
                hint="protocol.aggregator().merge(other)",
            )
        if (other.unit, other.reports_per_unit) != (self.unit, self.reports_per_unit):
            raise ParameterError(
                "these aggregators were declared for different units",
                hint=Hint.call(
                    "protocol.aggregator", unit=self.unit, reports_per_unit=self.reports_per_unit
                ),
            )
        self._state += other._state
        self.n += other.n
        self.refused += other.refused
        self.tainted |= other.tainted
        return self

    # -- out --------------------------------------------------------------------

    def tally(self) -> Tally:
        """Return what was counted."""
        # large sketches are read once by their estimates and need no copy
        state = self._state.copy() if self._state.size < _LARGE else self._state
        return Tally(self.n, state, dict(self.refused), self.loss, self.tainted)

    def estimate(self, **options: Any) -> Any:
        """Estimate what the protocol estimates, with errors; raw and unbiased.

        Options depend on the protocol: sketches and RAPPOR take ``candidates``.
        """
        if not self.n:
            raise ParameterError(
                "no reports have been counted", hint="aggregator.update(protocol.randomize(values))"
            )
        return self.protocol.estimate(self.tally(), **options)

    def to_dict(self) -> dict[str, Any]:
        """Return the state for JSON: everything needed to resume or merge elsewhere."""
        return {
            "spec": self.protocol.spec,
            "n": self.n,
            "state": self._state.tolist(),
            "refused": dict(self.refused),
            "unit": self.unit,
            "reports_per_unit": self.reports_per_unit,
            "tainted": self.tainted,
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any] | str) -> Aggregator:
        """Resume from :meth:`to_dict`."""
        try:
            fields = json.loads(saved) if isinstance(saved, str) else saved
            aggregator = cls(
                protocol_from_spec(fields["spec"]),
                unit=fields["unit"],
                reports_per_unit=fields["reports_per_unit"],
            )
            cells = np.array(fields["state"], dtype=object)
            aggregator.tainted = read_mark(fields)
            aggregator.n = read_whole(fields["n"], "n", least=0, most=_MOST_REPORTS)
            refused = {
                k: read_whole(v, k, least=0, most=1 << 62) for k, v in fields["refused"].items()
            }
        except DiscreetError:
            raise
        except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError):
            raise ParameterError("this is not the state of an aggregator") from None
        if cells.shape != aggregator._state.shape or not refused.keys() <= REASONS:
            raise ParameterError("the state does not have the shape of its protocol")
        small = all(type(v) is int and abs(v) <= _MOST_SUM for v in cells.flat)
        state = cells.astype(np.int64) if small else aggregator._state
        if not small or not aggregator.protocol.possible(state, aggregator.n):
            raise ParameterError("no reports of this protocol add up to this state")
        aggregator._state, aggregator.refused = state, Counter(refused)
        return aggregator

    def __repr__(self) -> str:
        dropped = sum(self.refused.values())
        more = f", {dropped} refused" if dropped else ""
        return f"{self.n} reports of {self.protocol!r}{more}"


def _parquet(source: Any) -> Iterator[Any]:
    """Yield the batches of a Parquet file, with the metadata that its reader drops."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - only for such files

    with pq.ParquetFile(source) as file:
        for batch in file.iter_batches(_BATCH_ROWS, use_threads=False):
            yield batch.replace_schema_metadata(file.schema_arrow.metadata)
