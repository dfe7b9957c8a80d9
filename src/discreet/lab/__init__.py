"""The laboratory: attacks and older methods, small, runnable and honest.

Attacks show why names, noise of a guessed size or small cells left out do not protect
people; older disclosure controls stand beside differential privacy as baselines; and
:func:`compare` sets the same attackers on the same table under each of them.

=============================  ===============================================
attack                         functions
=============================  ===============================================
all records but one known      :func:`difference`
the same question again        :func:`average`, :func:`repeats_needed`
many random counts             :func:`reconstruct_lp`,
                               :func:`reconstruct_least_squares`
published tables of a block    :func:`reconstruct_block`, :func:`cell_bounds`
records without names          :func:`link`, :func:`link_ratings`,
                               :func:`link_logs`
membership from averages       :func:`trace`, :func:`tracing`
a model's outputs              :func:`infer_attribute`, :func:`invert_model`
a graph without names          :func:`plant`, :func:`find_planted`
=============================  ===============================================

Methods, each a function on a :class:`Table`: :func:`as_it_is`, :func:`tables_only`,
:func:`swap`, :func:`top_code`, :func:`suppress_cells`, :func:`controlled_adjustment`,
:func:`ad_hoc_noise`, :func:`multiplicative_noise`, :func:`k_anonymity`,
:func:`partially_synthetic`, :func:`fully_synthetic`, and :func:`private`.

>>> from discreet import lab
>>> town = lab.town()
>>> lab.compare(town, [lab.LINKAGE], [lab.as_it_is], trials=50).rows[0]["linkage"] > 0.7
True
"""

from __future__ import annotations

from discreet.lab._attacks import (
    ATTACKS,
    AVERAGING,
    DIFFERENCING,
    INFERENCE,
    LINKAGE,
    RECONSTRUCTION,
    TRACING,
    Attack,
    Knowledge,
)
from discreet.lab._blocks import Reconstruction, block_tables, reconstruct_block
from discreet.lab._compare import METHODS, Comparison, compare
from discreet.lab._differencing import average, difference, repeats_needed
from discreet.lab._graph import Plan, anonymise, find_planted, plant, random_graph
from discreet.lab._linkage import Link, link, link_logs, link_ratings
from discreet.lab._methods import (
    ad_hoc_noise,
    as_it_is,
    k_anonymity,
    multiplicative_noise,
    swap,
    tables_only,
    top_code,
)
from discreet.lab._models import Classifier, infer_attribute, invert_model, train
from discreet.lab._private import private
from discreet.lab._reconstruction import (
    reconstruct_least_squares,
    reconstruct_lp,
    recovered,
    subset_queries,
)
from discreet.lab._release import Records, Release
from discreet.lab._synthetic import fully_synthetic, partially_synthetic
from discreet.lab._table import Table, table, town
from discreet.lab._tabular import cell_bounds, controlled_adjustment, suppress_cells
from discreet.lab._tracing import Tracing, trace, tracing

__all__ = [
    "ATTACKS",
    "AVERAGING",
    "DIFFERENCING",
    "INFERENCE",
    "LINKAGE",
    "METHODS",
    "RECONSTRUCTION",
    "TRACING",
    "Attack",
    "Classifier",
    "Comparison",
    "Knowledge",
    "Link",
    "Plan",
    "Reconstruction",
    "Records",
    "Release",
    "Table",
    "Tracing",
    "ad_hoc_noise",
    "anonymise",
    "as_it_is",
    "average",
    "block_tables",
    "cell_bounds",
    "compare",
    "controlled_adjustment",
    "difference",
    "find_planted",
    "fully_synthetic",
    "infer_attribute",
    "invert_model",
    "k_anonymity",
    "link",
    "link_logs",
    "link_ratings",
    "multiplicative_noise",
    "partially_synthetic",
    "plant",
    "private",
    "random_graph",
    "reconstruct_block",
    "reconstruct_least_squares",
    "reconstruct_lp",
    "recovered",
    "repeats_needed",
    "subset_queries",
    "suppress_cells",
    "swap",
    "table",
    "tables_only",
    "top_code",
    "town",
    "trace",
    "tracing",
    "train",
]
