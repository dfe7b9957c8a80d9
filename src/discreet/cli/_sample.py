"""A made-up clinic for the demonstration: people, and their visits.

The data come from a fixed public generator, so that everybody sees the same
clinic; the noise in the answers never does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SEED: Final = 2006
REGIONS: Final = ("north", "east", "south", "west")
REASONS: Final = ("check-up", "vaccination", "injury", "infection", "pregnancy", "other")

POLICY: Final = """\
[policy]
name = "clinic"

[budget]
epsilon = "2"                  # for everything ever asked
delta = "1e-6"
accounting = "approx"

[tables.visits]
source = "visits.parquet"
unit = "person_id"             # whom it protects: all visits of a person
max_rows_per_unit = 4          # visits of one person that are kept

[tables.visits.columns]
region = { type = "category", values = ["north", "east", "south", "west"] }
reason = { type = "category", values = ["check-up", "vaccination", "injury",
           "infection", "pregnancy", "other"] }
age    = { type = "integer", min = 0, max = 110 }
smoker = { type = "boolean" }
cost   = { type = "real", min = 0, max = 500, step = "0.01" }
"""


def visits(people: int) -> pa.Table:
    """Make up the visits of so many people, a few each."""
    made_up = np.random.default_rng(SEED)
    age = np.clip(made_up.gamma(4.5, 10, people), 0, 104).astype(np.int16)
    region = made_up.choice(REGIONS, people, p=[0.22, 0.31, 0.28, 0.19])
    smoker = made_up.random(people) < np.where(age < 16, 0.002, 0.23)
    often = 1 + made_up.poisson(0.8 + age / 45 + 0.7 * smoker)
    who = np.repeat(np.arange(people), often)
    reason = made_up.choice(REASONS, who.size, p=[0.31, 0.17, 0.13, 0.24, 0.04, 0.11])
    usual = np.array([80.0, 45.0, 190.0, 95.0, 160.0, 110.0])
    cost = made_up.gamma(3, usual[[REASONS.index(r) for r in reason]] / 3).round(2)
    order = made_up.permutation(who.size)
    columns = {
        "person_id": who + 100_000,
        "region": region[who],
        "reason": reason,
        "age": age[who],
        "smoker": smoker[who],
        "cost": cost,
    }
    return pa.table({name: column[order] for name, column in columns.items()})


def write_sample(folder: Path, people: int) -> tuple[Path, pa.Table]:
    """Write data and policy into a folder; return the policy's path and the data."""
    table = visits(people)
    pq.write_table(table, folder / "visits.parquet")
    policy = folder / "clinic.toml"
    policy.write_text(POLICY, encoding="utf-8")
    return policy, table
