"""The catalogue: one idea a file, grouped by family."""
