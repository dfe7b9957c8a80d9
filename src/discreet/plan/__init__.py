"""The plan: a closed intermediate language with types, meaning and sensitivity."""

from __future__ import annotations

from discreet.plan import _expr as expr
from discreet.plan._query import (
    Apply,
    KeyOf,
    Number,
    Of,
    Out,
    Output,
    Query,
    Stat,
    Statistic,
    Text,
    limits_of,
)
from discreet.plan._reference import Groups, Salt, ingest, run
from discreet.plan._relation import (
    PRIME,
    Aggregate,
    Filter,
    JoinPublic,
    Key,
    Limits,
    Measure,
    MeasureKind,
    Relation,
    Scan,
    base,
    digest,
    multiplicity,
    used_columns,
)
from discreet.plan._stability import Sensitivity, sensitivity, size_is_public
from discreet.plan._types import Code, Kind, Type, of_column

__all__ = [
    "PRIME",
    "Aggregate",
    "Apply",
    "Code",
    "Filter",
    "Groups",
    "JoinPublic",
    "Key",
    "KeyOf",
    "Kind",
    "Limits",
    "Measure",
    "MeasureKind",
    "Number",
    "Of",
    "Out",
    "Output",
    "Query",
    "Relation",
    "Salt",
    "Scan",
    "Sensitivity",
    "Stat",
    "Statistic",
    "Text",
    "Type",
    "base",
    "digest",
    "expr",
    "ingest",
    "limits_of",
    "multiplicity",
    "of_column",
    "run",
    "sensitivity",
    "size_is_public",
    "used_columns",
]
