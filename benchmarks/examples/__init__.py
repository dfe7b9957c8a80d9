"""Worked examples that are too large for the tests."""
