"""Columns and their public domains: what a value may be, and what any other value becomes.

The domain of a column is public and finite, so every expression over it has
bounds, and every aggregate a sensitivity, before any data is read. Whatever a
data source holds, cleaning maps it into the domain or to NULL:

=============  ==============  ===============  ================  ==================
type           NULL            NaN              ±inf              outside the domain
=============  ==============  ===============  ================  ==================
``category``   NULL            NULL             NULL, or `other`  NULL, or `other`
``integer``    NULL            NULL             as outside        clamped, or NULL
``real``       NULL            NULL             as outside        clamped, or NULL
``date``       NULL            (cannot occur)   as outside        clamped, or NULL
``timestamp``  NULL            (cannot occur)   as outside        clamped, or NULL
``boolean``    NULL            NULL             NULL              NULL
``text``       NULL            (cannot occur)   (cannot occur)    (cannot occur)
=============  ==============  ===============  ================  ==================

A value that cannot be read as the column's type is NULL. `outside` chooses
between ``"clamp"`` (the default: to the nearest bound) and ``"null"``. Last of
all, NULL stays NULL, with SQL's meaning (aggregates ignore it, ``WHERE`` does
not match it), unless the column states ``null = value``: then every NULL,
whatever it came from, becomes that value of the domain and the column is not
nullable. There is no promise that data holds no NULL, only a rule for it, so
``nullable = false`` needs ``null``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from discreet.policy._calendar import Date, Timestamp
from discreet.policy._labels import Boolean, Category, Text
from discreet.policy._numbers import Integer, Real

if TYPE_CHECKING:
    from collections.abc import Mapping

Column: TypeAlias = Category | Integer | Real | Date | Timestamp | Boolean | Text
"""Any declared column."""

KINDS: Final[Mapping[str, type[Column]]] = {
    kind.type: kind for kind in (Category, Integer, Real, Date, Timestamp, Boolean, Text)
}
