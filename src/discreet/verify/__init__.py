r"""A second opinion on every statement: proof that it cannot fail, and what it limits.

The planner promises that a statement neither raises nor wraps on any data, and
that a unit's contribution is bounded. This package checks both promises on the
SQL text that is about to run. It shares no code with planning or rendering and
is told nothing but the dialect and the physical types of the sources.

Guarantee
---------
If :func:`prove` returns, then on every content of the tables, in whatever order
the engine evaluates, no cast, sum, product, quotient, shift, lookup or date
function of the statement raises or wraps; and for every result column one unit
moves the integers by no more than :meth:`Reading.sensitivity` says. Placeholders
stand for every coefficient below 2³¹−1, so one proof covers all salts.

Assumptions
-----------
Sources hold fewer than 2⁶⁰ rows. Engines follow the rules in ``_rules``, which
``tests/conformance/test_engine_rules.py`` probes on the engines installed:
CASE is lazy, everything else may be evaluated on any row; ``OFFSET 0`` is a fence below
which nothing is moved, and a source that computes its rows stands behind one. In DuckDB statistics
of integer columns are true, or ``statistics_propagation`` is off (statistics
leave NaN out, so a comparison of a bare column does not exclude it here). Text is valid.
Fan-outs of public tables are those of the columns the statement joins on, and
private tables that are joined name units alike. Memory, time and bugs of the
engine are outside.

Proof sketch
------------
Abstract interpretation [1]_ over intervals. By induction on the expression, the
value of a node on any row lies in its :class:`~discreet.verify._domain.Value`:
each rule takes any values of the operands within theirs, shows that the engine's
operation is defined on all of them, and covers its results. The only
rule that restricts rows is CASE: a branch is evaluated on rows where its WHEN is
true and the earlier ones are not, so the facts these conditions tell hold there;
they are never applied to constants, which engines fold beforehand. WHERE, ON,
AND, OR and FILTER restrict nothing, since engines reorder them; a name bound in
a subquery has the value of its expression without any guard. What the rules do
not cover is refused. Limits: see ``_limits``.

References
----------
.. [1] P. Cousot and R. Cousot, "Abstract interpretation: a unified lattice model
   for static analysis of programs by construction or approximation of
   fixpoints", POPL 1977, doi:10.1145/512950.512973.

Examples
--------
>>> people = Table({"id": "BIGINT", "age": "INTEGER"}, unit=None)
>>> clamped = "CASE WHEN age > 99 THEN 99 WHEN age < 0 THEN 0 ELSE age END"
>>> sql = f"SELECT COALESCE(sum({clamped}), 0) FROM people"
>>> proof = prove(sql, dialect="duckdb", tables={"people": people})
>>> proof.columns[0].sensitivity("add-remove")
Reach(l1=99, l2_squared=9801, linf=99)
>>> prove("SELECT sum(id + 1) FROM people", dialect="duckdb", tables={"people": people})
Traceback (most recent call last):
    ...
discreet.errors.UnprovenStatementError: the statement is not proved safe on every ...
"""

from __future__ import annotations

from discreet.verify._limits import Table
from discreet.verify._prove import Proof, prove
from discreet.verify._read import fill
from discreet.verify._readings import Reach, Reading
from discreet.verify._spread import swells

__all__ = ["Proof", "Reach", "Reading", "Table", "fill", "prove", "swells"]
