"""Strength of the tests, measured: small faults are planted one at a time, and the tests must see them."""
