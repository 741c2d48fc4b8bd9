"""Pooling: one number for each window."""
