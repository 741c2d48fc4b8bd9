"""Rewrites of convolutions."""
