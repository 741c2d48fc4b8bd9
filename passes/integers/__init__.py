"""Passes that make 64-bit integers fit backends without them."""
