"""The plan: a closed intermediate language with types, meaning and sensitivity."""

from __future__ import annotations

from discreet.plan import _build as build
from discreet.plan import _expr as expr
from discreet.plan import _functions as functions
from discreet.plan._assemble import Assembly, statistic
from discreet.plan._build import Null, Operand, Word
from discreet.plan._describe import describe
from discreet.plan._expr import Expr
from discreet.plan._formula import Box
from discreet.plan._lower import BRANCHING, Lowered, lower
from discreet.plan._price import Ask, Cost, Plan, Threshold, price
from discreet.plan._query import (
    Apply,
    KeyOf,
    Linear,
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
    JoinUnit,
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
from discreet.plan._scope import Range, Scope, Source, facts
from discreet.plan._stability import Sensitivity, sensitivity, size_is_public
from discreet.plan._types import Code, Kind, Type, of_column

__all__ = [
    "BRANCHING",
    "PRIME",
    "Aggregate",
    "Apply",
    "Ask",
    "Assembly",
    "Box",
    "Code",
    "Cost",
    "Expr",
    "Filter",
    "Groups",
    "JoinPublic",
    "JoinUnit",
    "Key",
    "KeyOf",
    "Kind",
    "Limits",
    "Linear",
    "Lowered",
    "Measure",
    "MeasureKind",
    "Null",
    "Number",
    "Of",
    "Operand",
    "Out",
    "Output",
    "Plan",
    "Query",
    "Range",
    "Relation",
    "Salt",
    "Scan",
    "Scope",
    "Sensitivity",
    "Source",
    "Stat",
    "Statistic",
    "Text",
    "Threshold",
    "Type",
    "Word",
    "base",
    "build",
    "describe",
    "digest",
    "expr",
    "facts",
    "functions",
    "ingest",
    "limits_of",
    "lower",
    "multiplicity",
    "of_column",
    "price",
    "run",
    "sensitivity",
    "size_is_public",
    "statistic",
    "used_columns",
]
