"""Forms of an answer: JSON, CSV, Arrow, HTML."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping
from html import escape
from typing import Any, Final

from discreet._text import visible
from discreet.answer import Answer, as_data, cells, marks, scalar, unused
from discreet.curator import read_outcome
from discreet.errors import LedgerError
from discreet.service._errors import GoneError, RequestError
from discreet.service._http import to_json
from discreet.service._orders import Order
from discreet.service._sign import Signer

JSON: Final = "application/json"
CSV: Final = "text/csv"
ARROW: Final = "application/vnd.apache.arrow.stream"
HTML: Final = "text/html"
_ENDINGS: Final = {CSV: "csv", ARROW: "arrows", HTML: "html", JSON: "json"}
_RISKY: Final = re.compile(r"[\s\u200b-\u200f\u2060\ufeff]*[=+\-@＝＋－＠]|[\t\r\n]")
"""How a text begins that a spreadsheet would run; blanks before it may be dropped."""
_BEHIND: Final = re.compile(r"([;,|\t\r\n])(?=\s*(?:[=@＝＠]|[+\-＋－](?![\d\s.])))")
"""Where a text would begin to run if a spreadsheet took a sign in it for the end of a cell."""


def form_for(accept: str) -> str:
    """Choose the form that a caller accepts first; JSON where nothing is said."""
    offered = {f: f for f in (JSON, CSV, ARROW, HTML)}
    offered |= {"*/*": JSON, "application/*": JSON, "text/*": CSV, "": JSON}
    weighed = []
    for place, part in enumerate(accept.split(",")):
        media, *parameters = (piece.strip().lower() for piece in part.split(";"))
        stated = next((p[2:] for p in parameters if p.startswith("q=")), "1")
        try:
            weighed.append((-float(stated), place, media))
        except ValueError:
            continue
    for quality, _, media in sorted(weighed):
        if quality < 0 and media in offered:
            return offered[media]
    raise RequestError("answers are not made in any of these forms", hint=f"Accept: {JSON}")


def answers_of(order: Order) -> list[Answer]:
    """Read the answers of an order that is done."""
    text = order.outcome()
    if text is None:
        raise LedgerError("an outcome is missing")
    answers = read_outcome(text, left=order.left, cached=order.cached)
    return answers if order.union is None else order.union.shown(answers)


def result(order: Order, fingerprint: str, signer: Signer, confidence: str) -> dict[str, Any]:
    """Write an order that is done: what the command line prints, and who vouches for it.

    It is signed with the policy under which it was answered; `fingerprint` is today's.
    """
    answers, fingerprint = answers_of(order), order.fingerprint or fingerprint
    data = [as_data(answer, confidence) for answer in answers]
    about: dict[str, Any] = {"id": order.id, "state": order.state, "asked": order.asked,
                             "question": dict(order.body)}  # fmt: skip
    if order.dummy:  # never signed: nothing of it is about anybody
        about = {"dummy": True, **about}
    else:
        about |= {
            "tick": order.tick, "line": {"number": order.line, "hash": order.hash},
            "paid": payment(order), "policy": fingerprint, "left": order.left,
            "cached": order.cached,
        }  # fmt: skip
        content = {**about, "records": [answer["record"] for answer in data]}
        about["signature"] = signer.sign(content)
    return {**about, "answers": data} if "questions" in order.body else {**about, **data[0]}


def payment(order: Order) -> dict[str, Any]:
    """Say what an order has taken from the budget."""
    return {"epsilon": order.paid}


def write(order: Order, form: str, fingerprint: str, signer: Signer, confidence: str) -> bytes:
    """Write an order that is done in one of the forms."""
    if form == JSON:
        return to_json({"ok": True, "result": result(order, fingerprint, signer, confidence)})
    (answer,) = answers_of(order) if "sql" in order.body else (None,)
    if answer is None:
        raise GoneError("a batch has no table of its own", hint=f"Accept: {JSON}")
    return _TABLES[form](answer, confidence)


def headers(order: Order, form: str) -> dict[str, str]:
    """Say beside a form what it is; CSV has no place inside where it could say "made up"."""
    if not order.dummy:
        return {} if form == JSON else {"Content-Disposition": "attachment"}
    file = f'attachment; filename="made-up-{order.id}.{_ENDINGS[form]}"'
    return {"Discreet-Dummy": "true", **({} if form == JSON else {"Content-Disposition": file})}


def to_csv(answer: Answer, confidence: str) -> bytes:
    """Write rows and intervals as CSV that no spreadsheet takes for a formula."""
    rows, ends = answer.to_dicts(), answer.interval(confidence)
    noisy = [n for n in answer.columns if ends and isinstance(ends[0][n], tuple)]
    names = set(answer.columns)
    limited = [unused(f"{n} {end}", names) for n in noisy for end in ("from", "to")]
    header = [*answer.columns, *limited]
    out = io.StringIO()
    # where ; separates cells, only a text in quotes is one cell
    writer = csv.writer(out, lineterminator="\r\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow([safe(name) for name in header])
    for row, bounds in zip(rows, ends, strict=True):
        limits = [scalar(bounds[n][i]) for n in noisy for i in (0, 1)]
        writer.writerow([safe(value) for value in (*row.values(), *limits)])
    return out.getvalue().encode()


def safe(value: Any) -> Any:
    """Put a quote before a text that a spreadsheet would run; numbers stay numbers.

    >>> safe("=1+1"), safe("n;=2+2"), safe(-3), safe(None)
    ("'=1+1", "n;'=2+2", -3, '')
    """
    if not isinstance(value, str):
        return "" if value is None else value
    inside = _BEHIND.sub(r"\1'", value)
    return f"'{inside}" if _RISKY.match(value) else inside


def to_arrow(answer: Answer, confidence: str) -> bytes:
    """Write rows and intervals as an Arrow stream."""
    import pyarrow as pa  # noqa: PLC0415 - only for those who ask

    rows, ends = answer.to_dicts(), answer.interval(confidence)
    columns: dict[str, list[Any]] = {n: [r[n] for r in rows] for n in answer.columns}
    names = set(answer.columns)
    for name in answer.columns:
        if ends and isinstance(ends[0][name], tuple):
            columns[unused(f"{name} from", names)] = [_end(e[name][0]) for e in ends]
            columns[unused(f"{name} to", names)] = [_end(e[name][1]) for e in ends]
    table = pa.table(columns, metadata=marks(answer))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def _end(value: Any) -> Any:
    """One end of an interval: a number or a moment, and NULL where there is none."""
    return float(value) if isinstance(scalar(value), int | float) else scalar(value)


def to_html(answer: Answer, confidence: str) -> bytes:
    """Write rows and intervals as one HTML table, every text escaped."""
    head = "".join(f'<th scope="col">{escape(visible(name))}</th>' for name in answer.columns)
    lines = [
        "".join(f"<td>{escape(text)}</td>" for text in row)
        for row in cells(answer, answer.interval(confidence))
    ]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    about = escape("; ".join((*answer.cut, answer.covers)))
    return (
        f"<table><caption>{about}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    ).encode()


_TABLES: Final[Mapping[str, Callable[[Answer, str], bytes]]] = {
    CSV: to_csv,
    ARROW: to_arrow,
    HTML: to_html,
}
