"""The folder of a release: tables, measurements, charts, made-up records."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np

from discreet import noise
from discreet._dataclass import dataclass
from discreet.errors import ParameterError
from discreet.mechanisms import Interval
from discreet.privacy import Neighbours
from discreet.release._declared import Declared
from discreet.release._marginals import Contrasts
from discreet.release._publication import Publication
from discreet.release._workload import Marginals

PYTHON: Final = """\
# Noisy measurements of one table, in records, with the margin at 95 % of each.
import sys, math, signal, pyarrow.parquet as pq
if len(sys.argv) != 2:
    sys.exit("usage: python read_measurements.py measurements/TABLE.parquet")
hasattr(signal, "SIGPIPE") and signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # | head is fine
for row in pq.read_table(sys.argv[1]).to_pylist():
    value, half = int(row["value"]) / row["scale"], (row["spread"] or 0) / row["scale"]
    half *= math.log(20) if row["law"] == "laplace" else 1.96
    margin = f"± {half:.4g}" if row["law"] else "exact or a choice"
    print(row["question"], row["label"], row["row"], f"{value:.6g}", margin)
"""

R_CODE: Final = """\
# Noisy measurements of one table, in records, with the margin at 95 % of each.
library(arrow)
given <- commandArgs(trailingOnly = TRUE)
if (length(given) != 1) stop("usage: Rscript read_measurements.R measurements/TABLE.parquet")
m <- read_parquet(given[1])
half <- m$spread * ifelse(m$law == "laplace", log(20), 1.96) / m$scale
m$records <- as.numeric(m$value) / m$scale
m$low <- m$records - half
m$high <- m$records + half
print(as.data.frame(m[, c("question", "label", "row", "records", "low", "high")]))
"""


@dataclass(frozen=True)
class Issue:
    """One table of a release, published."""

    declared: Declared
    publication: Publication
    band: Interval | None
    achieved: float | None
    """True root mean squared error, on made-up data only."""

    @property
    def width(self) -> float | None:
        """Median half-width of the intervals."""
        if self.band is None:
            return None
        gap = np.asarray(self.band.high, dtype=np.float64) - np.asarray(self.band.low)
        return float(np.median(gap)) / 2


def write(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    spare = path.with_name(f".{path.name}.part")
    spare.write_bytes(content.encode() if isinstance(content, str) else content)
    os.replace(spare, path)  # noqa: PTH105 - one step, on every system


def table_of(issue: Issue) -> Any:
    """Return the table as it is shown: rounded and suppressed after the noise."""
    import pyarrow as pa  # noqa: PLC0415 - an engine's library, loaded on use

    publication, declared = issue.publication, issue.declared
    assert publication.domain is not None
    columns: dict[str, Any] = dict(publication.domain.rows(publication.plan.workload))
    value = publication.answers
    ends = issue.band or [np.full(len(value), np.nan)] * 2
    low, high = (np.asarray(end, dtype=np.float64) for end in ends)
    mask = np.zeros(len(value), dtype=bool)
    if (least := declared.get("suppress_below")) is not None:
        mask = value < float(least)
    # outwards, so that the interval still covers; without a step, digits that are mere noise go
    step = float(declared.get("round_to", 10.0 ** -digits(publication.rmse)))
    steps = {
        "value": np.rint(value / step),
        "low": np.floor(low / step),
        "high": np.ceil(high / step),
    }
    for name, whole in steps.items():
        numbers = np.round(whole * step, 12)  # as decimals are written: 3 × 0.1 is 0.3
        columns[name] = pa.array(numbers, mask=mask | np.isnan(numbers))
    if mask.any() or declared.get("suppress_below") is not None:
        columns["suppressed"] = mask
    return pa.table(columns)


def digits(rmse: float | None) -> int:
    """Digits after the point that are worth writing: a hundredth of the error.

    >>> digits(12.8), digits(0.05), digits(None)
    (1, 4, 2)
    """
    return 2 if not rmse else max(0, 2 - math.floor(math.log10(rmse)))


def measurements_of(publication: Publication) -> Any:
    """Return every released integer with its law, one row each."""
    import pyarrow as pa  # noqa: PLC0415 - an engine's library, loaded on use

    questions: list[Any] = [[] for _ in range(7)]
    for i, (question, values) in enumerate(publication.released):
        n = len(np.ravel(values))
        name, spread, weight = _law(question, publication.plan.workload.shape, n)
        for column, content in zip(
            questions,
            ([i] * n, [question.get("label", "")] * n, range(n), np.ravel(values).tolist(),
             [name] * n, spread, weight),
            strict=True,
        ):  # fmt: skip
            column.extend(content)
    wide = any(abs(v) >= 1 << 63 for v in questions[3])
    return pa.table(
        {
            "question": pa.array(questions[0], pa.int32()),
            "label": pa.array(questions[1], pa.string()).dictionary_encode(),
            "row": pa.array(questions[2], pa.int64()),
            "value": pa.array(list(map(str, questions[3])) if wide else questions[3],
                              pa.string() if wide else pa.int64()),
            "law": pa.array(questions[4], pa.string()).dictionary_encode(),
            "spread": pa.array(questions[5], pa.float64()),
            "scale": pa.array(questions[6], pa.int64()),
        }
    )  # fmt: skip


def _law(
    question: Mapping[str, Any], shape: tuple[int, ...], n: int
) -> tuple[str, list[float | None], list[int]]:
    """Name of a law, its scale or standard deviation, and the largest weight of each row.

    Nothing for choices and exact numbers. What was measured is weight times a sum of records.
    """
    weights = np.ones(1, dtype=np.int64)
    for runs in question.get("scales", ()):
        weights = np.kron(weights, np.repeat(*np.array(runs).T))
    weight = weights.tolist() if len(weights) == n else [1] * n
    if question["kind"] == "contrasts":
        rows = Contrasts(tuple(question["axes"]), shape, Fraction(question["sigma2"]),
                         Neighbours.ADD_REMOVE)  # fmt: skip
        scales, octave = rows.scales()
        return "gaussian", np.exp2(octave).tolist(), scales.tolist()
    if question["kind"] == "refinement":
        return "laplace", [float(Fraction(question["scale"]))] * n, [1] * n
    if not (law := question.get("law")):
        return "", [None] * n, [1] * n
    distribution = noise.law_from_dict(law)
    if isinstance(distribution, noise.DiscreteLaplace):
        return "laplace", [float(distribution.scale)] * n, weight
    return "gaussian", [float(distribution.std)] * n, weight


def write_issue(folder: Path, issue: Issue) -> None:
    """Write all files of one table."""
    import pyarrow as pa  # noqa: PLC0415 - an engine's library, loaded on use
    import pyarrow.csv as pc  # noqa: PLC0415 - the same
    import pyarrow.parquet as pq  # noqa: PLC0415 - the same

    name, publication = issue.declared.name, issue.publication
    table = table_of(issue)
    for form, writer in (("parquet", pq.write_table), ("csv", pc.write_csv)):
        sink = pa.BufferOutputStream()
        writer(table, sink)
        write(folder / "tables" / f"{name}.{form}", sink.getvalue().to_pybytes())
    sink = pa.BufferOutputStream()
    pq.write_table(measurements_of(publication), sink)
    write(folder / "measurements" / f"{name}.parquet", sink.getvalue().to_pybytes())
    write(folder / "records" / f"{name}.json", json.dumps(publication.record(), ensure_ascii=False))
    numbers = {
        k: table.column(k).to_numpy().astype(np.float64)
        for k in ("value", "low", "high")
        if k == "value" or issue.band is not None
    }
    chart = publication.chart(table=numbers, title=f"{name}: {subject(publication)}")
    write(folder / "charts" / f"{name}.svg", renderer().vegalite_to_svg(chart))
    if (size := issue.declared.get("records")) is not None:
        write(folder / "microdata" / f"{name}.csv", _microdata(publication, int(size)))


def subject(publication: Publication) -> str:
    """Say what a table counts, in the words of its policy."""
    assert publication.domain is not None
    names = list(publication.domain.names)
    if isinstance(publication.plan.workload, Marginals) or names == ["size"]:
        return "groups by size" if names == ["size"] else f"tables of {', '.join(names)}"
    return f"records by {' and '.join(names)}"


def _microdata(publication: Publication, size: int) -> str:
    """Made-up records, as text."""
    assert publication.domain is not None
    codes = publication.synthesize(size)
    columns = [
        np.array(v, dtype=object)[codes[:, i]] for i, v in enumerate(publication.domain.values)
    ]
    lines = [publication.domain.names, *zip(*(c.tolist() for c in columns), strict=True)]
    return "".join(",".join(f'"{str(v).replace(chr(34), chr(34) * 2)}"' for v in line) + "\n"
                   for line in lines)  # fmt: skip


def renderer() -> Any:
    """Return the library that draws SVG."""
    try:
        import vl_convert  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 - an optional extra
    except ImportError:
        raise ParameterError(
            "charts of a release need the extra 'charts'", hint='pip install "discreet[charts]"'
        ) from None
    return vl_convert
