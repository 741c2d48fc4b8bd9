"""Rewrites of ops that make one value of many: sums, extrema, moments, norms, distances, losses."""
