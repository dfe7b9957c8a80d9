"""Faults: what a ledger survives. ``python -m chaos --help``; the table is printed at the end."""
