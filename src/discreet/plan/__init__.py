"""The plan: a closed intermediate language with types, meaning and sensitivity."""

from __future__ import annotations

from discreet.plan import _build as build
from discreet.plan import _calendar as calendar
from discreet.plan import _curves as curves
from discreet.plan import _expr as expr
from discreet.plan import _functions as functions
from discreet.plan import _tails as tails
from discreet.plan import _words as words
from discreet.plan._assemble import Assembly, statistic
from discreet.plan._build import Null, Operand, Word
from discreet.plan._choices import Choice
from discreet.plan._describe import describe
from discreet.plan._disjoint import apart
from discreet.plan._expr import Expr
from discreet.plan._facts import Range, facts
from discreet.plan._fold import divisor, linear, ratio_margin
from discreet.plan._formula import (
    Combination,
    Formula,
    Mean,
    Powers,
    Quantile,
    Releases,
    Spread,
    Total,
    corners,
)
from discreet.plan._functions import FUNCTIONS
from discreet.plan._joins import JoinPublic, JoinUnit, names_rows_of
from discreet.plan._joint import Joint
from discreet.plan._lower import Lowering, lower
from discreet.plan._lowered import Lowered
from discreet.plan._means import Dispersion, Quotient, WeightedSum, ratio_box
from discreet.plan._merge import Merged, View, merge
from discreet.plan._moments import MOMENTS, Pairwise
from discreet.plan._parts import (
    Cells,
    Chosen,
    Cost,
    Draw,
    Drawn,
    Exact,
    Hidden,
    Law,
    Part,
    Priced,
    Question,
    Release,
    Rule,
    charge,
    distance,
    fits,
)
from discreet.plan._per_unit import Fold, FoldKind, PerUnit
from discreet.plan._picks import check_label, plain
from discreet.plan._price import Ask, Noise, Plan, price, rounded_up
from discreet.plan._query import (
    Apply,
    Grouping,
    KeyValue,
    Number,
    OutputColumn,
    OutputExpr,
    Query,
    StatisticValue,
    Text,
    Window,
    limits_of,
    parts_of,
    windows_of,
    with_null_groups,
)
from discreet.plan._reference import TURNS, Groups, Salt, ingest, run
from discreet.plan._relation import (
    LONGEST_NAME,
    PRIME,
    Aggregate,
    Filter,
    Key,
    LimitGroups,
    LimitRows,
    Limits,
    Measure,
    MeasureKind,
    Project,
    Relation,
    SameRows,
    Scan,
    aggregate,
    base,
    cells_of,
    digest,
    private_tables,
    weight,
)
from discreet.plan._rising import Curve, curve_of
from discreet.plan._rounding import ROUNDED, moved
from discreet.plan._same import about_same_rows, keeps_same_rows
from discreet.plan._scope import Scope, Source
from discreet.plan._splines import INTERVALS, Splines
from discreet.plan._stability import Sensitivity, sensitivity
from discreet.plan._statistic import Fluent, Statistic
from discreet.plan._statistics import (
    CALLS,
    FLUENT,
    Count,
    CountDistinct,
    CountUnits,
    LinearImage,
    SplinesOf,
)
from discreet.plan._target import (
    choosing,
    level_of_each,
    outside_windows,
    possible,
    shares_noise,
    statistics_of,
)
from discreet.plan._types import Code, Kind, Type, of_column
from discreet.plan._valid import damaged, integer, integers, rational
from discreet.plan._variances import PublicVariance, Squares, Variances
from discreet.plan._vectors import Box, Numbers, Threshold
from discreet.plan._weight import AT_ONCE, check_together, counted
from discreet.plan._widths import Level, Widths, few_digits, half_of_sum

__all__ = [
    "AT_ONCE",
    "CALLS",
    "FLUENT",
    "FUNCTIONS",
    "INTERVALS",
    "LONGEST_NAME",
    "MOMENTS",
    "PRIME",
    "ROUNDED",
    "TURNS",
    "Aggregate",
    "Apply",
    "Ask",
    "Assembly",
    "Box",
    "Cells",
    "Choice",
    "Chosen",
    "Code",
    "Combination",
    "Cost",
    "Count",
    "CountDistinct",
    "CountUnits",
    "Curve",
    "Dispersion",
    "Draw",
    "Drawn",
    "Exact",
    "Expr",
    "Filter",
    "Fluent",
    "Fold",
    "FoldKind",
    "Formula",
    "Grouping",
    "Groups",
    "Hidden",
    "JoinPublic",
    "JoinUnit",
    "Joint",
    "Key",
    "KeyValue",
    "Kind",
    "Law",
    "Level",
    "LimitGroups",
    "LimitRows",
    "Limits",
    "LinearImage",
    "Lowered",
    "Lowering",
    "Mean",
    "Measure",
    "MeasureKind",
    "Merged",
    "Noise",
    "Null",
    "Number",
    "Numbers",
    "Operand",
    "OutputColumn",
    "OutputExpr",
    "Pairwise",
    "Part",
    "PerUnit",
    "Plan",
    "Powers",
    "Priced",
    "Project",
    "PublicVariance",
    "Quantile",
    "Query",
    "Question",
    "Quotient",
    "Range",
    "Relation",
    "Release",
    "Releases",
    "Rule",
    "Salt",
    "SameRows",
    "Scan",
    "Scope",
    "Sensitivity",
    "Source",
    "Splines",
    "SplinesOf",
    "Spread",
    "Squares",
    "Statistic",
    "StatisticValue",
    "Text",
    "Threshold",
    "Total",
    "Type",
    "Variances",
    "View",
    "WeightedSum",
    "Widths",
    "Window",
    "Word",
    "about_same_rows",
    "aggregate",
    "apart",
    "base",
    "build",
    "calendar",
    "cells_of",
    "charge",
    "check_label",
    "check_together",
    "choosing",
    "corners",
    "counted",
    "curve_of",
    "curves",
    "damaged",
    "describe",
    "digest",
    "distance",
    "divisor",
    "expr",
    "facts",
    "few_digits",
    "fits",
    "functions",
    "half_of_sum",
    "ingest",
    "integer",
    "integers",
    "keeps_same_rows",
    "level_of_each",
    "limits_of",
    "linear",
    "lower",
    "merge",
    "moved",
    "names_rows_of",
    "of_column",
    "outside_windows",
    "parts_of",
    "plain",
    "possible",
    "price",
    "private_tables",
    "ratio_box",
    "ratio_margin",
    "rational",
    "rounded_up",
    "run",
    "sensitivity",
    "shares_noise",
    "statistic",
    "statistics_of",
    "tails",
    "weight",
    "windows_of",
    "with_null_groups",
    "words",
]
