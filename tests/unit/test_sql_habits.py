"""Questions in the habits of other databases, written before the grammar was read.

``habits.sql`` holds them, a line each, below a line with the dialect and the policy. A line
``-- hint piece`` says that the next question is refused, and works with the hint in the place of
that piece (``*``: of the whole question). ``-- refuse`` stands above what has no hint.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from discreet import policy as pol
from discreet import sql
from discreet.errors import QueryError

POLICIES = {
    "adult": pol.loads(
        """
[budget]
epsilon = "1000"
[tables.adult.columns]
age = { type = "integer", min = 0, max = 84 }
workclass = { type = "integer", min = 0, max = 8 }
sex = { type = "category", values = [0, 1] }
race = { type = "category", values = [0, 1, 2, 3, 4] }
hours-per-week = { type = "integer", min = 0, max = 99 }
"income>50K" = { type = "category", values = [0, 1] }
"""
    ),
    "hospital": pol.loads(
        """
[budget]
epsilon = "1000"
delta = "1e-3"
[tables.visits]
unit = "patient_id"
max_rows_per_unit = 4
[tables.visits.columns]
visit_date = { type = "date", min = 2023-01-01, max = 2024-12-31, outside = "null" }
sex = { type = "category", values = ["F", "M", "U"], other = "?" }
age = { type = "integer", min = 0, max = 120, outside = "null" }
diagnosis = { type = "text" }
ward = { type = "category", values = ["ER", "ICU", "General"], other = "elsewhere" }
length_of_stay = { type = "integer", min = 0, max = 60 }
cost = { type = "real", min = 0, max = 20_000, step = "0.01" }
readmitted = { type = "boolean" }
[tables.patients]
unit = "patient_id"
max_rows_per_unit = 1
[tables.patients.columns]
insurance = { type = "category", values = ["public", "private", "none"] }
"""
    ),
}


def listed():
    policy, piece = "", None
    for line in (Path(__file__).parent / "habits.sql").read_text(encoding="utf-8").splitlines():
        if line.startswith(("-- hint ", "-- refuse")):
            piece = line.removeprefix("-- hint ")
        elif line.startswith("--"):
            policy = line.split()[-1]
        else:
            yield policy, line, piece
            piece = None


QUESTIONS = list(listed())


@pytest.mark.parametrize(("policy", "text", "piece"), QUESTIONS)
def test_a_question_in_the_habits_of_another_database(policy, text, piece):
    if piece is None:
        sql.parse_any(text, POLICIES[policy])
        return
    with pytest.raises(QueryError) as refused:
        sql.parse_any(text, POLICIES[policy])
    hint = refused.value.hint
    if piece == "-- refuse":
        assert hint is None
        return
    sql.parse_any(hint if piece == "*" else text.replace(piece, hint), POLICIES[policy])


def test_most_of_them_work_at_the_first_try():
    refused = [text for _, text, piece in QUESTIONS if piece is not None]
    assert len(refused) * 7 <= len(QUESTIONS)
    assert sum(piece == "-- refuse" for _, _, piece in QUESTIONS) == 10
