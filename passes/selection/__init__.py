"""Rewrites of ops that pick elements by their order."""
