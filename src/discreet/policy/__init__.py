"""Policies: what is public about the data, and how much privacy may be lost.

A policy is written once by the data owner, as a TOML file or in Python; both
give the same frozen model. Everything in it is public: domains, bounds, limits
and budget are what queries are priced by before any data is read.

>>> from discreet.policy import Budget, Category, Integer, Policy, Table
>>> policy = Policy(
...     tables=[
...         Table(
...             "people",
...             [Category("sex", ["F", "M", "X"]), Integer("age", 0, 115)],
...             unit="person_id",
...             max_rows_per_unit=3,
...         )
...     ],
...     budget=Budget(epsilon="2", delta="1e-6"),
... )
>>> print(policy.to_toml())
[budget]
epsilon = 2
delta = "1e-06"
accounting = "zcdp"
<BLANKLINE>
[tables.people]
unit = "person_id"
neighbours = "add-remove"
max_rows_per_unit = 3
<BLANKLINE>
[tables.people.columns]
sex = { type = "category", values = ["F", "M", "X"] }
age = { type = "integer", min = 0, max = 115 }
<BLANKLINE>
"""

from __future__ import annotations

from discreet.policy import _toml as toml
from discreet.policy._calendar import Date, Timestamp
from discreet.policy._columns import Column
from discreet.policy._labels import MAX_LENGTH, Boolean, Category, Text
from discreet.policy._load import dumps, load, loads
from discreet.policy._model import Budget, Policy, Table
from discreet.policy._numbers import Integer, Real
from discreet.policy._owner import Owner
from discreet.policy._service import Service

__all__ = [
    "MAX_LENGTH",
    "Boolean",
    "Budget",
    "Category",
    "Column",
    "Date",
    "Integer",
    "Owner",
    "Policy",
    "Real",
    "Service",
    "Table",
    "Text",
    "Timestamp",
    "dumps",
    "load",
    "loads",
    "toml",
]
