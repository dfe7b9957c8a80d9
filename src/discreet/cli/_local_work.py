"""What ``discreet local`` does: a demonstration, and streams of values and reports."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from discreet import _exact, local
from discreet._dataclass import dataclass
from discreet.cli._charts import check_chart, draw
from discreet.cli._console import facts, grid, heading, say, show_table, stderr
from discreet.cli._outcome import Reply, UsageError
from discreet.cli._session import check_writable, read_text, write

if TYPE_CHECKING:
    from rich.console import Console

_CHUNK: Final = 1 << 14
_WIDTH: Final = 36

_KINDS: Final[Mapping[str, type[local.LocalProtocol]]] = {
    "kary": local.KaryResponse,
    "symmetric-unary": local.SymmetricUnary,
    "optimized-unary": local.OptimizedUnary,
    "local-hashing": local.LocalHashing,
    "subset-selection": local.SubsetSelection,
    "hadamard-response": local.HadamardResponse,
    "square-wave": local.SquareWave,
    "hierarchy": local.Hierarchy,
}
_OPEN: Final[Mapping[str, type[local.LocalProtocol]]] = {
    "count-mean-sketch": local.CountMeanSketch,
    "hadamard-sketch": local.HadamardSketch,
}


# -- which protocol -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """A protocol, and the labels of its items if they have any."""

    protocol: local.LocalProtocol
    labels: tuple[str, ...] | None

    def to_text(self) -> str:
        """Write the specification that both sides share."""
        return json.dumps({"spec": self.protocol.spec, "values": self.labels}, ensure_ascii=False)


def plan(choices: Mapping[str, Any]) -> Plan:
    """Build the protocol from options, or from a saved specification."""
    if choices["spec"] is not None:
        others = [k for k, v in choices.items() if k != "spec" and v is not None]
        if others:
            raise UsageError(f"--spec says it all; leave out --{others[0]}")
        return _saved(choices["spec"])
    labels = None if choices["values"] is None else tuple(choices["values"].split(","))
    if labels and len(set(labels)) < max(len(labels), 2):
        raise UsageError("--values must be at least two, all different", hint="--values yes,no")
    name = choices["protocol"] or "best"
    if name == "rappor":
        return Plan(local.Rappor(), None)
    if choices["epsilon"] is None:
        raise UsageError("say what one report may cost", hint="--epsilon 1")
    return Plan(_build(name, choices, labels), labels)


def _build(
    name: str, choices: Mapping[str, Any], labels: tuple[str, ...] | None
) -> local.LocalProtocol:
    epsilon = choices["epsilon"]
    if name == "mean":
        if choices["low"] is None or choices["high"] is None:
            raise UsageError("a mean needs the public range", hint="--low 0 --high 100")
        return local.LocalMean(epsilon, choices["low"], choices["high"])
    if name == "randomized-response":
        return local.RandomizedResponse(epsilon=epsilon)
    if name in _OPEN:
        return _OPEN[name](epsilon)  # type: ignore[call-arg]  # protocols of this table take these
    size = len(labels) if labels else choices["domain"]
    if size is None:
        raise UsageError("say which values may occur", hint="--values yes,no, or --domain 16")
    if name == "best":
        return local.best(size, epsilon).protocol
    if name not in _KINDS:
        names = ["best", "randomized-response", *_KINDS, *_OPEN, "rappor", "mean"]
        raise UsageError(
            f"there is no protocol {name[:40]!r}", hint=f"--protocol {' | '.join(names)}"
        )
    return _KINDS[name](domain=size, epsilon=epsilon)  # type: ignore[call-arg]  # protocols of this table take these


def _saved(path: Path) -> Plan:
    try:
        content = json.loads(read_text(str(path), "the specification"))
        labels = content["values"]
        spec = content["spec"]
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"{str(path)!r} is not a specification of discreet local") from None
    return Plan(local.protocol_from_spec(spec), None if labels is None else tuple(map(str, labels)))


# -- values in ------------------------------------------------------------------------


def _rows(source: str) -> Iterator[Any]:
    """Yield rows of a CSV, JSONL or Parquet stream, one at a time."""
    if source.endswith(".parquet"):
        import pyarrow.parquet as pq  # noqa: PLC0415 - only for such files

        try:
            with pq.ParquetFile(source) as file:
                for batch in file.iter_batches(_CHUNK, use_threads=False):
                    yield from batch.to_pylist()
        except OSError:
            raise UsageError(f"cannot read {source!r}") from None
        return
    with _lines(source) as lines:
        first = next(lines, None)
        if first is None:
            return
        rest = chain([first], lines)
        if first.lstrip().startswith(("{", "[", '"')) and not source.endswith(".csv"):
            for line in rest:
                if line.strip():
                    yield _json(line)
        else:
            yield from csv.DictReader(rest)


def _json(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        raise UsageError("a line of the input is not JSON") from None


@contextmanager
def _lines(source: str) -> Iterator[Iterator[str]]:
    if source == "-":
        yield iter(sys.stdin)
        return
    try:
        file = Path(source).open(encoding="utf-8", newline="")  # noqa: SIM115 - closed below
    except OSError:
        raise UsageError(f"cannot read {source!r}") from None
    try:
        yield iter(file)
    except UnicodeDecodeError:
        raise UsageError(f"{source!r} is not UTF-8") from None
    finally:
        file.close()


def _values(source: str, column: str | None) -> Iterator[Any]:
    for row in _rows(source):
        if not isinstance(row, Mapping):
            yield row
            continue
        if column is None and len(row) != 1:
            raise UsageError("say which column holds the values", hint="--column NAME")
        name = next(iter(row)) if column is None else column
        if name not in row:
            raise UsageError(
                f"there is no column {name[:60]!r}", hint=f"--column {next(iter(row))}"
            )
        yield row[name]


def _encoded(scheme: Plan, chunk: list[Any]) -> Any:
    """Turn raw values into what the protocol takes; never say which one was wrong."""
    if None in chunk:
        raise UsageError("a value is missing", hint="leave such rows out")
    if scheme.labels is not None:
        place = {label: i for i, label in enumerate(scheme.labels)}
        codes = [place.get(str(v), -1) for v in chunk]
        if -1 in codes:
            raise UsageError("a value is not among --values", hint="--values with every value")
        return codes
    try:
        if isinstance(scheme.protocol, local.LocalMean):
            return [float(v) for v in chunk]
        if isinstance(scheme.protocol, local.Rappor | local.CountMeanSketch | local.HadamardSketch):
            return [str(v) for v in chunk]
        return [_whole(v) for v in chunk]
    except (TypeError, ValueError):
        raise UsageError("a value is not a number, or is missing") from None


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else int(str(value))


# -- reports out ------------------------------------------------------------------------


_FORMS: Final[Mapping[str, Callable[[local.Reports], Any]]] = {
    "jsonl": lambda reports: reports.to_json().encode(),
    "parquet": local.Reports.to_arrow,
    "csv": lambda reports: "".join(f"{r.to_bytes().hex()}\n" for r in reports).encode(),
    "bin": local.Reports.to_bytes,
}


@contextmanager
def _writer(protocol: local.LocalProtocol, output: str) -> Iterator[Callable[[Any], object]]:
    """Write batches as they come, in the form that the file's name asks for."""
    form = "jsonl" if output == "-" else Path(output).suffix.lower().lstrip(".")
    if form not in _FORMS:
        raise UsageError(
            "reports are written as .jsonl, .parquet, .csv or .bin", hint="-o reports.jsonl"
        )
    encode = _FORMS[form]
    if output == "-":
        yield lambda reports: sys.stdout.write(encode(reports).decode())
        sys.stdout.flush()
        return
    check_writable(Path(output), "the reports")
    if form == "parquet":
        import pyarrow.parquet as pq  # noqa: PLC0415 - only for such files

        with pq.ParquetWriter(output, protocol.empty().to_arrow().schema) as table:
            yield lambda reports: table.write_table(encode(reports))
        return
    with Path(output).open("wb") as file:
        file.write(b"report\n" if form == "csv" else b"")
        yield lambda reports: file.write(encode(reports))


def randomize(
    source: str,
    column: str | None,
    choices: Mapping[str, Any],
    save_spec: Path | None,
    output: str,
    *,
    as_json: bool,
) -> Reply:
    """Randomise a stream of values, one report per row."""
    if as_json and output == "-":
        raise UsageError(
            "with --json the reports need a file of their own", hint="-o reports.jsonl"
        )
    scheme = plan(choices)
    check_writable(save_spec, "the specification")
    if save_spec is not None:
        # before the first report: an aggregate at the other end of a pipe may read it then
        write(save_spec, scheme.to_text() + "\n")
    stream, count = _values(source, column), 0
    with _writer(scheme.protocol, output) as write_batch:
        while chunk := list(islice(stream, _CHUNK)):
            reports = scheme.protocol.randomize(_encoded(scheme, chunk))
            write_batch(reports)
            count += len(reports)
    data = {
        "reports": count,
        "spec": scheme.protocol.spec,
        "epsilon": scheme.protocol.epsilon,
        "output": output,
    }

    def show(_: Console) -> None:
        # standard output may be the reports themselves
        message = f"{count} reports of {scheme.protocol!r}: ε = {scheme.protocol.epsilon:.6g} each"
        say(stderr(), message, "dim")

    return Reply(data, show)


# -- reports in ------------------------------------------------------------------------


def aggregate(sources: list[str], choices: Mapping[str, Any], **settings: Any) -> Reply:
    """Read reports and estimate."""
    check_chart(settings["chart"])
    check_writable(settings["state"], "the totals")
    if "-" in sources and hasattr(sys.stdin.buffer, "peek"):
        sys.stdin.buffer.peek(1)  # whoever writes the reports writes the specification first
    scheme = plan(choices)
    total = _resumed(scheme, settings)
    for source in sources:
        _read_reports(total, source)
    if settings["state"] is not None:
        write(settings["state"], json.dumps(total.to_dict()) + "\n")
    options: dict[str, Any] = {}
    names = scheme.labels
    if settings["candidates"] is not None:
        listed = read_text(str(settings["candidates"]), "the candidates").splitlines()
        names = tuple(line for line in listed if line)
        options["candidates"] = names
    estimate = total.estimate(**options)
    rows = _table(estimate, names, settings)
    if settings["chart"] is not None:
        _draw(estimate, names, settings)
    data = {
        "n": total.n,
        "refused": dict(total.refused),
        "epsilon": total.loss.epsilon(),
        "unit": settings["unit"] or "report",
        "confidence": float(_exact.confidence(settings["confidence"])),
        "method": estimate.interval(settings["confidence"]).method,
        "rows": rows,
    }
    return Reply(data, lambda console: _show(console, total, data, estimate))


def _resumed(scheme: Plan, settings: Mapping[str, Any]) -> local.Aggregator:
    fresh = scheme.protocol.aggregator(
        unit=settings["unit"], reports_per_unit=settings["reports_per_unit"]
    )
    if settings["state"] is None or not settings["state"].exists():
        return fresh
    try:
        return fresh.merge(local.Aggregator.from_dict(read_text(str(settings["state"]), "totals")))
    except ValueError as error:
        raise UsageError(f"these totals cannot be resumed: {error}") from None


def _read_reports(total: local.Aggregator, source: str) -> None:
    form = "jsonl" if source == "-" else Path(source).suffix.lower().lstrip(".")
    if form in ("parquet", "bin", "arrow"):
        if not Path(source).is_file():
            raise UsageError(f"cannot read {source!r}")
        total.update(Path(source))
        return
    with _lines(source) as lines:
        rows = (line.strip() for line in lines)
        if form == "csv":
            total.update(_frames(rows))
        else:
            total.update(line for line in rows if line)


def _frames(lines: Iterable[str]) -> Iterator[bytes]:
    for i, line in enumerate(lines):
        if not line or (i == 0 and line == "report"):
            continue
        try:
            yield bytes.fromhex(line)
        except ValueError:
            yield b"\0"  # counted as malformed


def _table(
    estimate: Any, names: tuple[Any, ...] | None, settings: Mapping[str, Any]
) -> list[dict[str, Any]]:
    if isinstance(estimate, local.BitShares):
        raise UsageError("say which values to look for", hint="--candidates FILE")
    ends = estimate.interval(settings["confidence"], simultaneous=settings["simultaneous"])
    labels = ("mean",) if isinstance(estimate, local.MeanEstimate) else names or estimate.names
    numbers = (np.ravel(x) for x in (estimate.centre, ends.low, ends.high))
    return [
        {"item": name, "value": float(f), "low": float(a), "high": float(b)}
        for name, f, a, b in zip(labels, *numbers, strict=True)
    ]


def _draw(estimate: Any, names: tuple[Any, ...] | None, settings: Mapping[str, Any]) -> None:
    if isinstance(estimate, local.MeanEstimate):
        raise UsageError("charts are drawn for shares of items", hint="leave out --chart")
    draw(estimate.chart(settings["confidence"], names), settings["chart"])
    say(stderr(), f"wrote {settings['chart']}", "dim")


def _show(
    console: Console, total: local.Aggregator, data: Mapping[str, Any], estimate: Any
) -> None:
    rows = data["rows"]
    show_bars(console, rows)
    unit, level = data["unit"], 100 * data["confidence"]
    refusals = f", {sum(total.refused.values())} refused" if total.refused else ""
    say(
        console,
        f"{total.n} reports{refusals}; ε = {data['epsilon']:.6g} for one {unit}; "
        f"{level:.4g} % intervals, {data['method']}",
    )
    for sign in getattr(estimate, "suspicions", list)():
        say(console, f"suspicious: {sign}", "yellow")


def show_bars(console: Console, rows: list[dict[str, Any]]) -> None:
    """Print shares as bars with error bars; other numbers as numbers."""
    shares = rows[0]["item"] != "mean"
    header = [
        "",
        "share" if shares else "value",
        "interval",
        *(["0" + "1".rjust(_WIDTH - 1)] * shares),
    ]
    lines = []
    for r in rows:
        cells = [str(r["item"]), f"{r['value']:.4f}", f"{r['low']:.4f} … {r['high']:.4f}"]
        lines.append([*cells, error_bar(r["value"], r["low"], r["high"])] if shares else cells)
    show_table(console, grid(header, lines, right=(1, 2), keys=1))


def error_bar(value: float, low: float, high: float, width: int = _WIDTH) -> str:
    """Draw a share of one as a bar, and its interval as a line across it.

    >>> error_bar(0.5, 0.25, 0.75, 8)
    '██├──┤··'
    """

    def place(x: float) -> int:
        return min(width, max(0, round(x * width)))

    cells = ["█"] * place(value) + ["·"] * (width - place(value))
    start, end = place(low), max(place(high), place(low) + 1)
    for i in range(start, min(end, width)):
        cells[i] = "─"
    if end - start >= 2 and end <= width:
        cells[start], cells[end - 1] = "├", "┤"
    return "".join(cells)


# -- demonstration ------------------------------------------------------------------------

_EMOJI: Final = ("😂", "❤", "😭", "🔥")
_YES: Final = 0.18


def demo(people: int, epsilon: str) -> Reply:
    """Collect favourite emoji, then a sensitive answer, from people made up here."""
    rng = np.random.default_rng(20)
    counts = rng.integers(people // 20, people // 2, len(_EMOJI))
    favourites = np.repeat(np.arange(len(_EMOJI)), counts)
    protocol = local.KaryResponse(domain=len(_EMOJI), epsilon=epsilon)
    estimate = protocol.aggregator().update(protocol.randomize(favourites)).estimate()
    low, high = estimate.interval("0.95", simultaneous=True)
    emoji = [
        {"item": e, "truth": c / counts.sum(), "value": float(f), "low": float(a), "high": float(b)}
        for e, c, f, a, b in zip(_EMOJI, counts, estimate.frequencies, low, high, strict=True)
    ]
    survey = local.RandomizedResponse(p="0.5")
    answers = (rng.random(people) < _YES).astype(np.int64)
    yes = survey.aggregator().update(survey.randomize(answers)).estimate()
    ends = yes.interval("0.95")
    data = {
        "emoji": {
            "people": int(counts.sum()),
            "epsilon": protocol.epsilon,
            "cost": {
                "one donation": protocol.epsilon,
                "a person who donates once": protocol.epsilon,
                "a person who donates up to 3 times": protocol.aggregator(
                    unit="person", reports_per_unit=3
                ).loss.epsilon(),
            },
            "rows": emoji,
        },
        "survey": {
            "people": people,
            "epsilon": survey.epsilon,
            "truth": float(answers.mean()),
            "value": float(yes.frequencies[1]),
            "low": float(ends.low[1]),
            "high": float(ends.high[1]),
        },
    }
    return Reply(data, lambda console: _show_demo(console, data))


def _show_demo(console: Console, data: Mapping[str, Any]) -> None:
    emoji, survey = data["emoji"], data["survey"]
    heading(console, "1  Favourite emoji, without trusting the collector")
    say(
        console,
        f"{emoji['people']} made-up people each donate one emoji. Each device sends its emoji, or "
        "any of the four at random, so that no report is more than "
        f"e^{emoji['epsilon']:g} times as likely for one emoji as for another. The collector "
        "sees only reports:",
    )
    show_bars(console, emoji["rows"])
    truths = ", ".join(f"{r['item']} {r['truth']:.4f}" for r in emoji["rows"])
    say(console, f"The truth, which nobody but this demonstration knows: {truths}.")
    say(console, "What did it cost? That depends on the unit, not on the number of emoji:")
    facts(console, [(who, f"ε = {cost:g}") for who, cost in emoji["cost"].items()])
    say(
        console,
        "Adding ε up over the emoji (4 · ε) would be wrong: a person donates one of them, so the "
        "four counts share one ε. Whoever donates several times pays for each donation. And noise "
        "added to totals would not be local: somebody would have to see the totals first.",
    )
    heading(console, "2  A sensitive question")
    say(
        console,
        "“Did you ever falsify an expense report?” Toss a coin: heads, answer truthfully; tails, "
        "let a second coin answer. A yes is then three times as likely from those who did as from "
        f"those who did not: ε = ln 3 = {survey['epsilon']:.6f}, whatever the collector does.",
    )
    show_bars(console, [{"item": "yes", **{k: survey[k] for k in ("value", "low", "high")}}])
    say(
        console,
        f"{survey['people']} answers; the truth is {survey['truth']:.4f}. The interval (95 %) "
        "counts the coins and the luck of who was asked.",
    )
