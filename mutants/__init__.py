"""Strength of the tests, measured: faults are planted one at a time, and tests must see them."""
