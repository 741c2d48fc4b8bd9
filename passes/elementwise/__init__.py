"""Rewrites of ops that act on each element by itself."""
