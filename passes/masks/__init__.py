"""Passes over masks whose result has a size that depends on data."""
