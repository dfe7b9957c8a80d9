"""Names of what cannot be told from the data of another budget.

Engines name such sources, a refusal shows the name, and the owner's word in the ledger
repeats it. So the names have one place.
"""

from __future__ import annotations

from typing import Final

_FOREIGN: Final = "foreign table "
_VIEW: Final = "view "
SERVER: Final = "a server that hides its identity"
ATTACHED: Final = "an attached database that is no file here"
KINDS: Final = (f"{_VIEW}NAME", f"{_FOREIGN}NAME", SERVER, ATTACHED)


def view(name: str) -> str:
    """Name a view that reads what its database does not hold.

    Examples
    --------
    >>> view("visits")
    'view visits'
    """
    return f"{_VIEW}{name}"


def foreign_table(name: str) -> str:
    """Name a table of another server."""
    return f"{_FOREIGN}{name}"


def is_name(text: str) -> bool:
    """Whether an engine could have named a source so.

    Examples
    --------
    >>> is_name("view visits"), is_name("visits")
    (True, False)
    """
    kind = next((k for k in (_VIEW, _FOREIGN) if text.startswith(k)), None)
    return text in {SERVER, ATTACHED} or (kind is not None and len(text) > len(kind))
