"""Nothing that privacy rests on has moved unnoticed; what that proves, see ``tests/snapshots``."""

from __future__ import annotations

import pytest
from tests import snapshots

FAMILIES = [(net, family) for net in snapshots.NETS for family in snapshots.families(net)]


@pytest.mark.parametrize(("net", "family"), FAMILIES)
def test_nothing_has_moved_unnoticed(net, family):
    assert snapshots.changed(net, family) == []
